"""Status, strength and confidence of debates in which proposals or votes are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConnectionLost
from flowdebate.models import ModelResponse
from flowdebate.patterns.consensus.events import ConsensusDecided

from .debates import NAMES, TASK, Call, answer_of, check_emitted, model, plan

if TYPE_CHECKING:
    from collections.abc import Collection

    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.runs.result import RunResult

GRADES = ("contested", "split", "weak", "moderate", "strong", "unanimous")


def run_debate(size: int, lost: Collection[str], *, confidence: float = 1.0) -> RunResult[ConsensusOutput]:
    """Run a debate in which the proposals by `lost` fail, and all agents vote for the first remaining proposal."""
    names = NAMES[:size]
    choice = next(name for name in names if name not in lost)

    def answer(call: Call) -> Any:
        if call.phase == "proposal" and call.agent in lost:
            return ConnectionLost("gone")
        return {**answer_of(call), "choice": choice, "confidence": confidence} if call.phase == "vote" else None

    result = plan(names, max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    check_emitted(result)
    return result


def test_agreement_on_the_only_remaining_proposal_is_weak() -> None:
    """Two of three proposals are missing, so even unanimous votes cover only a third of the possible choices."""
    result = run_debate(3, ("bob", "cy"))
    output = result.output
    assert output.tally is not None
    assert (output.tally.counts, output.tally.confidence) == ({"ann": 3}, 1.0)
    assert (output.outcome, output.strength) == ("consensus", "weak")
    assert output.confidence == pytest.approx(1 / 3)
    assert result.status == output.status == "degraded"
    assert [(loss.name, loss.instead) for loss in output.losses] == [("bob", "skipped"), ("cy", "skipped")]
    (decided,) = [event for event in result.events if isinstance(event, ConsensusDecided)]
    assert decided.strength == "weak"


@given(size=st.integers(2, 7), lost=st.sets(st.sampled_from(NAMES[1:7])), confidence=st.floats(0, 1))
def test_confidence_is_bounded_by_the_share_of_proposals(size: int, lost: set[str], confidence: float) -> None:
    """Agents cannot be considered unanimous while a proposal is missing."""
    missing = lost.intersection(NAMES[:size])
    output = run_debate(size, missing, confidence=confidence).output
    heard = (size - len(missing)) / size
    assert output.confidence == pytest.approx(min(confidence, heard))
    assert GRADES.index(output.strength or "") == {True: 5}.get(heard == 1, min(2 + (heard >= 0.6) + (heard > 0.8), 4))
    assert (output.status == "complete") is (not missing)


@pytest.mark.parametrize("choice", [None, "nobody"])
def test_debates_without_valid_ballots_have_no_verdict(choice: str | None) -> None:
    """If every vote fails or is for a nonexistent proposal, it is unknown whether the agents agree."""

    def answer(call: Call) -> Any:
        if call.phase != "vote":
            return None
        return ConnectionLost("gone") if choice is None else {**answer_of(call), "choice": choice}

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    check_emitted(result)
    assert result.status == result.output.status == "no_verdict"
    assert (result.output.winner, result.output.confidence) == (None, 0)


def test_ties_count_as_verdicts() -> None:
    """A tie is a valid result: all agents have voted, and they disagree."""

    def answer(call: Call) -> Any:
        return {**answer_of(call), "choice": call.agent} if call.phase == "vote" else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    assert (result.status, result.output.outcome, result.output.strength) == ("complete", "no_consensus", "contested")


def test_invalid_votes_are_recorded_as_losses() -> None:
    def answer(call: Call) -> Any:
        return {**answer_of(call), "choice": "nobody"} if call.phase == "vote" and call.agent == "cy" else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    check_emitted(result)
    (loss,) = result.output.losses
    assert (loss.name, loss.instead) == ("cy", "not_counted")
    assert "(got nobody)" in loss.error
    assert result.status == result.output.status == "degraded"
    assert result.output.confidence == pytest.approx(0.75 * 2 / 3)


def test_truncated_proposals_are_marked() -> None:
    """Critics, voters and readers of the output must know that a proposal is incomplete."""
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        if call == Call("proposal", "bob"):
            return ModelResponse(text="Cap rents. And then we sho", finish="length")
        return None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer, calls=calls), seed=1)
    check_emitted(result)
    output = result.output
    assert [(proposal.agent, proposal.flag) for proposal in output.proposals] == [
        ("ann", None),
        ("bob", "cut_off"),
        ("cy", None),
    ]
    assert output.proposals[1].text == "Cap rents."
    (loss,) = output.losses
    assert (loss.name, loss.instead, loss.round) == ("bob", "cut_off", 0)
    assert result.status == output.status == "degraded"
    assert output.tally is not None
    assert output.tally.failed == 0
    readers = {call.agent for call in calls if "(cut off" in call.prompt}
    assert readers == {"ann", "bob", "cy"}
    assert output.confidence == 0.75
