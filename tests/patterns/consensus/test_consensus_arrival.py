"""The order in which answers arrive changes nothing; the same seed gives the same debate."""

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
    """A debate with all that can end it and all that is asked; no circuit opens, since one counts calls in a row."""
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
def test_the_order_of_arrival_changes_nothing(
    size: int, seed: int, orders: tuple[int | None, int, int], failing: float, voting: str, topology: str
) -> None:
    """Neither the output nor any prompt, of proposals, critiques, revisions, votes, and whatever fails among them.

    All that the model answers depends on the whole of its prompt, so that what differs anywhere differs at the end.
    """
    names = NAMES[:size]
    found = []
    for order in orders:
        world = World(seed, names, failing, order)
        try:
            debate = everything(names, voting=voting, topology=topology, archive=Archive())
            result = debate.run_sync(TASK, model=world.model(), seed=seed)
        except NoProposals as error:
            found.append((str(error), world.prompts))
            check_emitted(error.run)
        else:
            found.append((repr(comparable(result.output)), world.prompts))
            check_emitted(result)
    assert found[0] == found[1] == found[2]


@given(size=st.integers(1, 5), seed=seeds, order=seeds, failing=st.sampled_from((0.0, 0.2)))
def test_the_same_seed_gives_the_same_debate(size: int, seed: int, order: int, failing: float) -> None:
    """Prompts, output and events, to the last one, wherever answers arrive in the same order."""
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
async def test_answers_are_kept_and_told_as_they_arrive(phase: str) -> None:
    """Each is in the events before the next one has arrived, in whatever order they come; the output has its own."""
    gates = {name: asyncio.Event() for name in THREE}

    async def wait(call: Call) -> None:
        if call.phase == phase:
            await gates[call.agent].wait()

    handle = plan(topology="round-robin", max_rounds=1).start(TASK, model=model(wait))
    kinds = {"proposal": "agent_message", "critique": "critique", "revision": "agent_message", "vote": "vote"}
    told: list[str] = []
    gates["cy"].set()
    async for event in handle:
        if getattr(event, "phase", phase) == phase and getattr(event, "kind", "") == kinds[phase]:
            told.append(_who(event))
            if len(told) == 1:
                gates["ann"].set()
            else:
                gates["bob"].set()
    assert told == ["cy", "ann", "bob"]
    output = (await handle).output
    assert [proposal.agent for proposal in output.proposals] == list(THREE)
    assert [critique.critic for critique in output.rounds[0].critiques] == list(THREE)
    assert [revised.agent for revised in output.rounds[0].revisions] == list(THREE)
    assert [ballot.voter for ballot in output.ballots] == list(THREE)


def _who(event: Any) -> str:
    found = getattr(event, "agent", None) or getattr(getattr(event, "critique", None), "critic", None)
    return str(found or event.ballot.voter)


def test_who_has_not_proposed_is_told_in_declared_order() -> None:
    """Whoever failed first."""

    async def fail(call: Call) -> Any:
        for _ in range(5 - THREE.index(call.agent)):
            await asyncio.sleep(0)
        return ProviderFailed("down")

    with pytest.raises(NoProposals) as caught:
        plan().run_sync(TASK, model=model(fail))
    assert list(caught.value.failures) == list(THREE)


def test_the_judge_reads_critiques_in_the_order_of_the_edges() -> None:
    """Whoever was first to criticise."""
    seen: list[list[tuple[str, str]]] = []

    async def late(call: Call) -> None:
        if call.phase == "critique":
            for _ in range(5 - THREE.index(call.agent)):
                await asyncio.sleep(0)

    def judge(asked: Any) -> bool:
        seen.append([(critique.critic, critique.target) for critique in asked.critiques])
        return False

    output = plan(max_rounds=2, convergence=None, judge=judge).run_sync(TASK, model=model(late)).output
    assert seen[0] == output.rounds[0].edges
