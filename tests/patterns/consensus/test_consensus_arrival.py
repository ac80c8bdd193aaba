"""Results do not depend on the order in which answers arrive, and the same seed gives the same debate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import NoProposals, ProviderFailed
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge
from flowdebate.resources.archive import Archive

from .debates import NAMES, TASK, THREE, Call, World, check_emitted, comparable, consensus_events, model, plan

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer

seeds = st.integers(0, 10**6)


def everything(names: tuple[str, ...], **options: Any) -> Sequencer[Any, Any]:
    """Build a debate that makes every kind of call.

    Circuits stay closed, because the order of calls would determine when they open.
    """
    return plan(
        names,
        max_rounds=2,
        judge=create_conclusive_judge(name="plan"),
        tie_break=create_tie_judge(name="plan", choices=names),
        breakers=Breakers(failures=10**6),
        **options,
    )


@given(
    size=st.integers(1, 7),
    seed=seeds,
    orders=st.tuples(st.none(), seeds, seeds),
    failing=st.sampled_from((0.0, 0.1, 0.4)),
    voting=st.sampled_from(("majority", "supermajority", "unanimous", "weighted")),
    topology=st.sampled_from(("all-to-all", "ring", "random-graph")),
)
def test_arrival_order_does_not_matter(
    size: int, seed: int, orders: tuple[int | None, int, int], failing: float, voting: str, topology: str
) -> None:
    names = NAMES[:size]
    results = []
    for order in orders:
        world = World(seed, names, failing, order)
        try:
            debate = everything(names, voting=voting, topology=topology, archive=Archive())
            result = debate.run_sync(TASK, model=world.model(), seed=seed)
        except NoProposals as error:
            results.append((str(error), world.prompts))
            check_emitted(error.run)
        else:
            results.append((repr(comparable(result.output)), world.prompts))
            check_emitted(result)
    assert results[0] == results[1] == results[2]


@given(size=st.integers(1, 5), seed=seeds, order=seeds, failing=st.sampled_from((0.0, 0.2)))
def test_same_seed_gives_the_same_debate(size: int, seed: int, order: int, failing: float) -> None:
    """Debates with the same seed may differ only if their answers arrive in a different order."""
    names = NAMES[:size]
    debate = everything(names)
    runs = []
    for _ in range(2):
        world = World(seed, names, failing, order)
        try:
            run: Any = debate.run_sync(TASK, model=world.model(), seed=seed)
        except NoProposals as error:
            run = error.run
        runs.append((world.prompts, comparable(run.raw), [repr(event) for event in consensus_events(run)]))
    assert runs[0] == runs[1]


@pytest.mark.anyio
@pytest.mark.parametrize("phase", ["proposal", "critique", "revision", "vote"])
async def test_answers_are_emitted_as_they_arrive(phase: str) -> None:
    gates = {name: asyncio.Event() for name in THREE}

    async def wait(call: Call) -> None:
        if call.phase == phase:
            await gates[call.agent].wait()

    handle = plan(topology="round-robin", max_rounds=1).start(TASK, model=model(wait))
    kinds = {"proposal": "agent_message", "critique": "critique", "revision": "agent_message", "vote": "vote"}
    agents: list[str] = []
    gates["cy"].set()
    async for event in handle:
        if getattr(event, "phase", phase) == phase and getattr(event, "kind", "") == kinds[phase]:
            agents.append(_agent_of(event))
            if len(agents) == 1:
                gates["ann"].set()
            else:
                gates["bob"].set()
    assert agents == ["cy", "ann", "bob"]
    output = (await handle).output
    assert [proposal.agent for proposal in output.proposals] == list(THREE)
    assert [critique.critic for critique in output.rounds[0].critiques] == list(THREE)
    assert [revised.agent for revised in output.rounds[0].revisions] == list(THREE)
    assert [ballot.voter for ballot in output.ballots] == list(THREE)


def _agent_of(event: Any) -> str:
    agent = getattr(event, "agent", None) or getattr(getattr(event, "critique", None), "critic", None)
    return str(agent or event.ballot.voter)


def test_failed_proposals_are_listed_in_declared_order() -> None:
    async def fail(call: Call) -> Any:
        for _ in range(5 - THREE.index(call.agent)):
            await asyncio.sleep(0)
        return ProviderFailed("down")

    with pytest.raises(NoProposals) as caught:
        plan().run_sync(TASK, model=model(fail))
    assert list(caught.value.failures) == list(THREE)


def test_judge_reads_critiques_in_edge_order() -> None:
    edges: list[list[tuple[str, str]]] = []

    async def late(call: Call) -> None:
        if call.phase == "critique":
            for _ in range(5 - THREE.index(call.agent)):
                await asyncio.sleep(0)

    def judge(request: Any) -> bool:
        edges.append([(critique.critic, critique.target) for critique in request.critiques])
        return False

    output = plan(max_rounds=2, convergence=None, judge=judge).run_sync(TASK, model=model(late)).output
    assert edges[0] == output.rounds[0].edges
