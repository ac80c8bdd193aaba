"""Critique topologies and the resulting critiques."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import TopologyOptions
from flowdebate.errors import ConnectionLost, OutputError
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.runs.events import ModelCalled
from tests.ids import case_id
from tests.patterns.debates import events

from .debates import NAMES, TASK, THREE, Call, check_emitted, model, plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from flowdebate.measures.topologies import Topology
    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.runs.context import Context

TOPOLOGIES: tuple[Topology, ...] = ("all-to-all", "round-robin", "ring", "star", "sparse", "random-graph")
sizes = st.integers(1, 10)


def edge_count(topology: str, count: int, sparsity: float) -> int:
    """Compute the number of critiques per round from the topology's formula, which gives 0 for a single agent."""
    if count == 1:
        return 0
    return {
        "all-to-all": count * (count - 1),
        "round-robin": count,
        "ring": 2 * count if count >= 3 else 2,
        "star": 2 * (count - 1),
        "sparse": count * max(1, math.floor((count - 1) * sparsity)),
        "random-graph": count * max(1, math.floor((count - 1) * sparsity)),
    }[topology]


def critique_edges(output: ConsensusOutput) -> list[list[tuple[str, str]]]:
    """Return the critiques as edges, grouped by round."""
    return [[(critique.critic, critique.target) for critique in one.critiques] for one in output.rounds]


def check_edges(output: ConsensusOutput, names: Sequence[str]) -> None:
    """Check that edges are unique, connect different agents, and give each proposal a critic if possible."""
    for one, edges in zip(output.rounds, critique_edges(output), strict=True):
        assert edges == one.edges
        assert all(critic != target for critic, target in edges)
        assert len(set(edges)) == len(edges)
        assert {target for _, target in edges} == (set(names) if len(names) > 1 else set())


@given(
    size=sizes,
    topology=st.sampled_from(TOPOLOGIES),
    # binary floats represent these shares exactly, so the formula's floor is unambiguous
    sparsity=st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0)),
    seed=st.integers(0, 99),
)
def test_topologies_produce_the_expected_number_of_critiques(
    size: int, topology: Topology, sparsity: float, seed: int
) -> None:
    names = NAMES[:size]
    calls: list[Call] = []
    debate = plan(names, topology=TopologyOptions(topology, sparsity=sparsity), max_rounds=2, convergence=None)
    result = debate.run_sync(TASK, model=model(calls=calls), seed=seed)
    check_edges(result.output, names)
    check_emitted(result)
    counted = Counter(call.round for call in calls if call.phase == "critique")
    expected = edge_count(topology, size, sparsity)
    assert [counted[1], counted[2]] == [expected, expected]
    assert [len(edges) for edges in critique_edges(result.output)] == [expected, expected]
    assert result.usage.calls == len(calls) == len(events(result, ModelCalled))


@given(size=st.integers(2, 10), topology=st.sampled_from(("all-to-all", "ring", "star", "sparse")))
def test_some_topologies_depend_on_neither_round_nor_seed(size: int, topology: str) -> None:
    debate = plan(NAMES[:size], topology=topology, max_rounds=2, convergence=None)
    rounds = [critique_edges(debate.run_sync(TASK, model=model(), seed=seed).output) for seed in (1, 2)]
    assert rounds[0][0] == rounds[0][1] == rounds[1][0] == rounds[1][1]


def test_round_robin_pairs_all_agents() -> None:
    output = (
        plan(NAMES[:5], topology="round-robin", max_rounds=4, convergence=None).run_sync(TASK, model=model()).output
    )
    edges = [edge for one in critique_edges(output) for edge in one]
    assert len(edges) == 20 == len(set(edges))
    for one in critique_edges(output):
        assert sorted(critic for critic, _ in one) == sorted(target for _, target in one) == sorted(NAMES[:5])


def test_random_graphs_are_drawn_from_the_seed_for_each_round() -> None:
    debate = plan(NAMES[:8], topology=TopologyOptions("random-graph", sparsity=0.3), max_rounds=3, convergence=None)
    one, repeated, other = (
        critique_edges(debate.run_sync(TASK, model=model(), seed=seed).output) for seed in (7, 7, 8)
    )
    assert one == repeated != other
    assert len({tuple(edges) for edges in one}) == 3


@pytest.mark.parametrize(("hub", "center"), [(None, "ann"), ("cy", "cy")])
def test_star_edges_all_include_the_hub(hub: str | None, center: str) -> None:
    """The hub critiques every other agent and is critiqued by it. By default, the hub is the first agent."""
    names = ("di", "cy", "bob", "ann")
    output = plan(names, topology=TopologyOptions("star", hub=hub), max_rounds=1).run_sync(TASK, model=model()).output
    rim = {*names} - {center}
    assert set(output.rounds[0].edges) == {(center, name) for name in rim} | {(name, center) for name in rim}


def test_functions_can_choose_the_edges() -> None:
    calls: list[tuple[tuple[str, ...], int, float]] = []

    def next_in_line(names: Any, number: int, random: Random) -> list[tuple[str, str]]:
        calls.append((names, number, random.random()))
        return [(name, names[(index + number) % len(names)]) for index, name in enumerate(names)]

    debate = plan(NAMES[:4], topology=next_in_line, max_rounds=2, convergence=None)
    output = debate.run_sync(TASK, model=model(), seed=5).output
    assert [(names, number) for names, number, _ in calls] == [(NAMES[:4], 1), (NAMES[:4], 2)]
    assert output.rounds[0].edges == [("ann", "bob"), ("bob", "cy"), ("cy", "di"), ("di", "ann")]
    assert output.rounds[1].edges == [("ann", "cy"), ("bob", "di"), ("cy", "ann"), ("di", "bob")]
    before = list(calls)
    calls.clear()
    debate.run_sync(TASK, model=model(), seed=5)
    assert calls == before


@given(edges=st.sets(st.tuples(st.sampled_from(THREE), st.sampled_from(THREE)).filter(lambda edge: edge[0] != edge[1])))
def test_proposals_without_a_critic_get_one(edges: set[tuple[str, str]]) -> None:
    def some(names: object, number: object, random: object) -> set[tuple[str, str]]:
        return edges

    output = plan(THREE, topology=some, max_rounds=1).run_sync(TASK, model=model()).output
    check_edges(output, THREE)
    added = set(output.rounds[0].edges) - edges
    assert edges <= set(output.rounds[0].edges)
    assert {target for _, target in added} == set(THREE) - {target for _, target in edges}
    assert len(added) == len({target for _, target in added})


@pytest.mark.parametrize(
    "bad",
    [
        [("ann", "ann")],
        [("ann", "zoe")],
        [("ann", "bob"), ("ann", "bob")],
        ["ann", "bob"],
        None,
        7,
        [("ann", "bob", "cy")],
        "ann",
    ],
    ids=case_id,
)
def test_invalid_edges_from_a_function_raise_an_error(bad: Any) -> None:
    def wrong(names: object, number: object, random: object) -> Any:
        return bad

    with pytest.raises(OutputError, match="must return a list of") as caught:
        plan(THREE, topology=wrong).run_sync(TASK, model=model())
    assert caught.value.block == "wrong"
    assert [proposal.agent for proposal in caught.value.run.raw.proposals] == list(THREE)
    assert caught.value.run.raw.status == "failed"
    check_emitted(caught.value.run)


@given(
    size=st.integers(2, 8),
    away=st.sets(st.integers(0, 7), min_size=1),
    topology=st.sampled_from(TOPOLOGIES),
)
def test_open_circuits_leave_no_proposal_without_a_critic(size: int, away: set[int], topology: str) -> None:
    names = NAMES[:size]
    absent = {names[index] for index in away if index < size}
    breakers = Breakers()
    calls: list[Call] = []

    def open_circuits(ctx: Context) -> bool:
        for name in absent if ctx.sequencer.state.round == 1 else ():
            for _ in range(3):
                breakers.record_failure(name)
        return False

    debate = plan(
        names, topology=topology, max_rounds=2, convergence=None, breakers=breakers, terminate_when=open_circuits
    )
    result = debate.run_sync(TASK, model=model(calls=calls))
    check_emitted(result)
    able = set(names) - absent
    later = result.output.rounds[1]
    assert {call.agent for call in calls if call.round == 2 or call.phase == "vote"} <= able
    assert {critique.critic for critique in later.critiques} <= able
    for name in names:
        criticized = any(critique.target == name for critique in later.critiques)
        assert criticized is bool(able - {name})
    assert {failure.error_type for failure in result.output.losses} <= {"CircuitOpen"}
    assert {failure.name for failure in result.output.losses} == absent
    assert all(failure.phase != "critique" for failure in result.output.losses)
    assert result.output.tally is not None
    assert result.output.tally.failed == len(absent)


def test_agents_with_an_open_circuit_do_not_take_part() -> None:
    breakers = Breakers()
    for _ in range(3):
        breakers.record_failure("bob")
    calls: list[Call] = []
    result = plan(NAMES[:4], max_rounds=1, breakers=breakers).run_sync(TASK, model=model(calls=calls))
    assert "bob" not in {call.agent for call in calls}
    assert len(result.output.rounds[0].edges) == 3 * 2
    assert [(failure.phase, failure.error_type) for failure in result.output.losses] == [
        ("proposal", "CircuitOpen"),
        ("vote", "CircuitOpen"),
    ]
    assert result.status == result.output.status == "degraded"
    assert all("bob" not in call.prompt for call in calls)


def test_star_replaces_a_hub_that_cannot_criticize() -> None:
    breakers = Breakers()
    for _ in range(3):
        breakers.record_failure("cy")
    debate = plan(NAMES[:4], topology=TopologyOptions("star", hub="cy"), max_rounds=1, breakers=breakers)
    output = debate.run_sync(TASK, model=model()).output
    assert set(output.rounds[0].edges) == {("ann", "bob"), ("bob", "ann"), ("ann", "di"), ("di", "ann")}


def test_agents_without_a_proposal_still_criticize_and_vote() -> None:
    """An agent whose proposal failed cannot be criticized or voted for, but still takes part."""

    def lost(call: Call) -> Any:
        return ConnectionLost("gone") if call == Call("proposal", "bob") else None

    output = plan(THREE, max_rounds=1).run_sync(TASK, model=model(lost)).output
    assert output.rounds[0].edges == [("ann", "cy"), ("bob", "ann"), ("bob", "cy"), ("cy", "ann")]
    assert [revised.agent for revised in output.rounds[0].revisions] == ["ann", "cy"]
    assert [ballot.voter for ballot in output.ballots] == list(THREE)
    assert output.tally is not None
    assert list(output.tally.counts) == ["ann", "cy"]
