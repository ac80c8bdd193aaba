"""Relationships between agents and notable moments in a debate, computed from any output."""

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


def moments_of(output: ConsensusOutput) -> list[tuple[str, int | None, list[str]]]:
    """Return the moments in a debate as short tuples."""
    assert output.feedback is not None
    debate_moments: list[Moment] = output.feedback.moments
    return [(moment.kind, moment.round, moment.agents) for moment in debate_moments]


def run_debate(
    severity: dict[str, float], votes: dict[str, str], archive: Archive | None = None, **options: Any
) -> Any:
    """Run a debate between two agents with these critique severities and votes."""

    def answer(call: Call) -> Any:
        if call.phase == "critique":
            return {**answer_of(call), "severity": severity[call.target or ""]}
        return {**answer_of(call), "choice": votes[call.agent]} if call.phase == "vote" else None

    pattern = plan(BOTH, **{"max_rounds": 1, "convergence": None, "archive": archive, **options})
    return pattern.run_sync(TASK, model=model(answer), seed=1).output


def test_relationships_count_critiques_and_votes() -> None:
    output = run_debate({"ann": 0.2, "bob": 0.9}, {"ann": "bob", "bob": "bob"}, max_rounds=2)
    assert output.analytics is not None
    ann, bob = output.analytics.relationships
    assert (ann.agent, ann.other, ann.critiques, ann.revised) == ("ann", "bob", 2, 2)
    assert (ann.severity, ann.endorsed, ann.agreed) == (pytest.approx(0.9), True, True)
    assert (bob.agent, bob.other, bob.severity) == ("bob", "ann", pytest.approx(0.2))
    assert (bob.endorsed, bob.agreed) == (False, True)
    assert (ann.weight, bob.weight) == (pytest.approx(0.55), pytest.approx(0.4))
    apart = run_debate({"ann": 0.2, "bob": 0.5}, {"ann": "ann", "bob": "bob"})
    assert [relationship.weight for relationship in apart.analytics.relationships] == [
        pytest.approx(-0.75),
        pytest.approx(-0.6),
    ]


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from((0.0, 0.3)))
def test_relationships_add_up_to_all_critiques_and_endorsements(seed: int, size: int, failing: float) -> None:
    world = World(seed, NAMES[:size], failing=failing)
    try:
        raw = plan(NAMES[:size], max_rounds=2).run_sync(TASK, model=world.model(), seed=seed).output
    except NoProposals:
        return
    stored = ConsensusOutput.model_validate_json(raw.model_dump_json(by_alias=True))
    relations = relationships(stored)
    assert raw.analytics is not None
    assert relations == raw.analytics.relationships
    assert raw.feedback is not None
    assert moments(stored, raw.feedback.flips) == raw.feedback.moments
    critiques = [critique for one in raw.rounds for critique in one.critiques]
    assert sum(relation.critiques for relation in relations) == len(critiques)
    valid = {proposal.agent for proposal in raw.final_proposals}
    endorsements = [ballot for ballot in raw.ballots if ballot.choice in valid - {ballot.voter}]
    assert sum(relation.endorsed for relation in relations) == len(endorsements)
    assert all(-1 <= relation.weight <= 1 and relation.agent != relation.other for relation in relations)
    agreed = {(relation.agent, relation.other): relation.agreed for relation in relations}
    assert all(agreed.get((other, agent)) == value for (agent, other), value in agreed.items() if value is not None)


def test_severe_mutual_critiques_count_as_a_clash() -> None:
    output = run_debate({"ann": 0.7, "bob": 0.95}, {"ann": "ann", "bob": "ann"})
    assert moments_of(output) == [("clash", 1, ["ann", "bob"]), ("conversion", None, ["bob", "ann"])]


def test_win_despite_severe_criticism_counts_as_a_comeback() -> None:
    output = run_debate({"ann": 0.1, "bob": 0.8}, {"ann": "bob", "bob": "bob"})
    assert moments_of(output) == [("conversion", None, ["ann", "bob"]), ("comeback", None, ["bob"])]


def test_win_by_a_low_rated_agent_counts_as_an_upset() -> None:
    """Before the debate, the winner's rating was at least 100 points below the loser's."""
    archive = Archive()
    asyncio.run(archive.ratings.apply("before", {"ann": 60.0, "bob": -40.0}))
    output = run_debate({"ann": 0, "bob": 0}, {"ann": "bob", "bob": "bob"}, archive)
    assert output.feedback is not None
    assert output.feedback.ratings == {"ann": 1560.0, "bob": 1460.0}
    assert moments_of(output) == [("upset", None, ["bob", "ann"])]
    assert moments_of(run_debate({"ann": 0, "bob": 0}, {"ann": "bob", "bob": "bob"}, archive)) == []


@pytest.mark.parametrize(
    ("texts", "positions", "expected"),
    [
        (["apples pears", "plums"], ["yes", "yes"], [("breakthrough", 2)]),
        (["same words", "same words"], ["yes", "no"], [("reversal", 1), ("deadlock", 2)]),
        (["other things", "no likeness"], ["yes", "yes"], []),
    ],
    ids=["together", "apart", "neither"],
)
def test_changes_between_rounds_are_listed_as_moments(
    texts: list[str], positions: list[str], expected: list[Any]
) -> None:
    def answer(call: Call) -> Any:
        index = BOTH.index(call.agent) if call.agent in BOTH else 0
        if call.phase == "proposal":
            return f"{texts[index]} first\nPosition: yes"
        if call.phase != "revision":
            return {**answer_of(call), "severity": 0} if call.phase == "critique" else None
        text = "all the same" if expected == [("breakthrough", 2)] and call.round == 2 else texts[index]
        return {"proposal": text, "position": positions[index], "enough": False}

    output = plan(BOTH, max_rounds=2).run_sync(TASK, model=model(answer)).output
    assert [(kind, number) for kind, number, _ in moments_of(output)] == expected
