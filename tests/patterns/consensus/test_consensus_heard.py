"""Honest results: what was lost shows in the status, and strength and confidence claim no more than was heard."""

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


def held(size: int, lost: Collection[str], *, confidence: float = 1.0) -> RunResult[ConsensusOutput]:
    """A debate in which the proposals of `lost` fail, and all vote for the first proposal that did not."""
    names = NAMES[:size]
    choice = next(name for name in names if name not in lost)

    def answer(call: Call) -> Any:
        if call.phase == "proposal" and call.agent in lost:
            return ConnectionLost("gone")
        return {**answer_of(call), "choice": choice, "confidence": confidence} if call.phase == "vote" else None

    result = plan(names, max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    check_emitted(result)
    return result


def test_an_agreement_on_the_only_proposal_left_is_weak() -> None:
    """Two of three proposals are lost: all vote for the third, which is one third of what could have been heard."""
    result = held(3, ("bob", "cy"))
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
def test_no_vote_claims_more_than_was_heard(size: int, lost: set[str], confidence: float) -> None:
    """The confidence is at most the share of proposals heard; no agreement is unanimous while one is missing."""
    missing = lost.intersection(NAMES[:size])
    output = held(size, missing, confidence=confidence).output
    heard = (size - len(missing)) / size
    assert output.confidence == pytest.approx(min(confidence, heard))
    assert GRADES.index(output.strength or "") == {True: 5}.get(heard == 1, min(2 + (heard >= 0.6) + (heard > 0.8), 4))
    assert (output.status == "complete") is (not missing)


@pytest.mark.parametrize("choice", [None, "nobody"])
def test_a_vote_without_a_valid_ballot_is_no_verdict(choice: str | None) -> None:
    """All votes are lost, or for nobody: there is nothing to say whether the agents agree."""

    def answer(call: Call) -> Any:
        if call.phase != "vote":
            return None
        return ConnectionLost("gone") if choice is None else {**answer_of(call), "choice": choice}

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    check_emitted(result)
    assert result.status == result.output.status == "no_verdict"
    assert (result.output.winner, result.output.confidence) == (None, 0)


def test_a_vote_that_is_a_tie_is_a_verdict() -> None:
    """Everybody was heard, and they disagree."""

    def answer(call: Call) -> Any:
        return {**answer_of(call), "choice": call.agent} if call.phase == "vote" else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    assert (result.status, result.output.outcome, result.output.strength) == ("complete", "no_consensus", "contested")


def test_a_vote_that_does_not_count_is_a_loss() -> None:
    """Cy votes for nobody: two of three votes are counted, and the output says which is not."""

    def answer(call: Call) -> Any:
        return {**answer_of(call), "choice": "nobody"} if call.phase == "vote" and call.agent == "cy" else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer), seed=1)
    check_emitted(result)
    (loss,) = result.output.losses
    assert (loss.name, loss.instead) == ("cy", "not_counted")
    assert "chose 'nobody'" in loss.error
    assert result.status == result.output.status == "degraded"
    assert result.output.confidence == pytest.approx(0.75 * 2 / 3)


def test_a_proposal_that_is_cut_off_is_marked() -> None:
    """In the output, in the losses, in the status, and for those who criticise it and vote."""
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        if call == Call("proposal", "bob"):
            return ModelResponse(text="Cap rents. And then we sho", finish="length")
        return None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer, calls=calls), seed=1)
    check_emitted(result)
    output = result.output
    assert [(each.agent, each.flag) for each in output.proposals] == [("ann", None), ("bob", "cut_off"), ("cy", None)]
    assert output.proposals[1].text == "Cap rents."
    (loss,) = output.losses
    assert (loss.name, loss.instead, loss.round) == ("bob", "cut_off", 0)
    assert result.status == output.status == "degraded"
    assert output.tally is not None
    assert output.tally.failed == 0
    shown = {call.agent for call in calls if "(cut off" in call.prompt}
    assert shown == {"ann", "bob", "cy"}
    assert output.confidence == 0.75
