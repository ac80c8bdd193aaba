"""How agents dealt with each other, and the moments of a debate, as the output of any debate shows them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import NoProposals
from flowdebate.patterns.consensus.relations import moments, relationships
from flowdebate.patterns.consensus.schemas import ConsensusOutput
from flowdebate.resources.archive import Archive

from .debates import NAMES, TASK, Call, World, answer_of, model, plan

if TYPE_CHECKING:
    from flowdebate.patterns.consensus.schemas import Moment

BOTH = ("ann", "bob")


def told(output: ConsensusOutput) -> list[tuple[str, int | None, list[str]]]:
    """The moments of a debate in short."""
    assert output.feedback is not None
    found: list[Moment] = output.feedback.moments
    return [(moment.kind, moment.round, moment.agents) for moment in found]


def held(severity: dict[str, float], votes: dict[str, str], archive: Archive | None = None, **options: Any) -> Any:
    """A debate of two: how severely each is criticised, and what each votes."""

    def answer(call: Call) -> Any:
        if call.phase == "critique":
            return {**answer_of(call), "severity": severity[call.target or ""]}
        return {**answer_of(call), "choice": votes[call.agent]} if call.phase == "vote" else None

    pattern = plan(BOTH, **{"max_rounds": 1, "convergence": None, "archive": archive, **options})
    return pattern.run_sync(TASK, model=model(answer), seed=1).output


def test_a_relationship_is_what_one_agent_did_to_another() -> None:
    """Critiques, how severe, how often a revision followed; the vote for the other, and the same vote."""
    output = held({"ann": 0.2, "bob": 0.9}, {"ann": "bob", "bob": "bob"}, max_rounds=2)
    assert output.analytics is not None
    ann, bob = output.analytics.relationships
    assert (ann.agent, ann.other, ann.critiques, ann.revised) == ("ann", "bob", 2, 2)
    assert (ann.severity, ann.endorsed, ann.agreed) == (pytest.approx(0.9), True, True)
    assert (bob.agent, bob.other, bob.severity) == ("bob", "ann", pytest.approx(0.2))
    assert (bob.endorsed, bob.agreed) == (False, True)
    assert (ann.weight, bob.weight) == (pytest.approx(0.55), pytest.approx(0.4))
    apart = held({"ann": 0.2, "bob": 0.5}, {"ann": "ann", "bob": "bob"})
    assert [each.weight for each in apart.analytics.relationships] == [pytest.approx(-0.75), pytest.approx(-0.6)]


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from((0.0, 0.3)))
def test_relationships_add_up_to_the_debate(seed: int, size: int, failing: float) -> None:
    """Every critique and every vote for another is in one of them; they follow from the stored output alone."""
    world = World(seed, NAMES[:size], failing=failing)
    try:
        raw = plan(NAMES[:size], max_rounds=2).run_sync(TASK, model=world.model(), seed=seed).output
    except NoProposals:
        return
    stored = ConsensusOutput.model_validate_json(raw.model_dump_json(by_alias=True))
    found = relationships(stored)
    assert raw.analytics is not None
    assert found == raw.analytics.relationships
    assert raw.feedback is not None
    assert moments(stored, raw.feedback.flips) == raw.feedback.moments
    made = [critique for one in raw.rounds for critique in one.critiques]
    assert sum(each.critiques for each in found) == len(made)
    valid = {proposal.agent for proposal in raw.final_proposals}
    others = [ballot for ballot in raw.ballots if ballot.choice in valid - {ballot.voter}]
    assert sum(each.endorsed for each in found) == len(others)
    assert all(-1 <= each.weight <= 1 and each.agent != each.other for each in found)
    agreed = {(each.agent, each.other): each.agreed for each in found}
    assert all(agreed.get((other, agent)) == value for (agent, other), value in agreed.items() if value is not None)


def test_two_who_criticise_each_other_severely_clash_and_may_convert() -> None:
    """Both proposals are called severe; bob votes for ann's all the same."""
    output = held({"ann": 0.7, "bob": 0.95}, {"ann": "ann", "bob": "ann"})
    assert told(output) == [("clash", 1, ["ann", "bob"]), ("conversion", None, ["bob", "ann"])]


def test_the_most_criticised_proposal_may_come_back() -> None:
    """Bob's was called severe in round 1, and wins."""
    output = held({"ann": 0.1, "bob": 0.8}, {"ann": "bob", "bob": "bob"})
    assert told(output) == [("conversion", None, ["ann", "bob"]), ("comeback", None, ["bob"])]


def test_a_weak_agent_may_win() -> None:
    """Its rating was 100 points or more behind; the ratings before the debate are in the output."""
    archive = Archive()
    asyncio.run(archive.ratings.apply("before", {"ann": 60.0, "bob": -40.0}))
    output = held({"ann": 0, "bob": 0}, {"ann": "bob", "bob": "bob"}, archive)
    assert output.feedback is not None
    assert output.feedback.ratings == {"ann": 1560.0, "bob": 1460.0}
    assert told(output) == [("upset", None, ["bob", "ann"])]
    assert told(held({"ann": 0, "bob": 0}, {"ann": "bob", "bob": "bob"}, archive)) == []


@pytest.mark.parametrize(
    ("texts", "positions", "expected"),
    [
        (["apples pears", "plums"], ["yes", "yes"], [("breakthrough", 2)]),
        (["same words", "same words"], ["yes", "no"], [("reversal", 1), ("deadlock", 2)]),
        (["other things", "no likeness"], ["yes", "yes"], []),
    ],
    ids=["together", "apart", "neither"],
)
def test_the_turns_of_the_rounds_are_moments(texts: list[str], positions: list[str], expected: list[Any]) -> None:
    """Proposals come together in round 2, or are repeated without agreement; bob changes his mind, or does not."""

    def answer(call: Call) -> Any:
        index = BOTH.index(call.agent) if call.agent in BOTH else 0
        if call.phase == "proposal":
            return f"{texts[index]} first\nPosition: yes"
        if call.phase != "revision":
            return {**answer_of(call), "severity": 0} if call.phase == "critique" else None
        text = "all the same" if expected == [("breakthrough", 2)] and call.round == 2 else texts[index]
        return {"proposal": text, "position": positions[index], "enough": False}

    output = plan(BOTH, max_rounds=2).run_sync(TASK, model=model(answer)).output
    assert [(kind, number) for kind, number, _ in told(output)] == expected
