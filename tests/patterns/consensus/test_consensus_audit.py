"""A consensus debate's audit trail, and the events for its calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConnectionLost, NoProposals
from flowdebate.measures import Ballot
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.patterns.consensus.schemas import Critique
from flowdebate.runs.events import ModelCalled
from tests.patterns.debates import events

from .debates import NAMES, TASK, THREE, Call, World, check_emitted, model, plan


def test_each_call_has_a_task_with_its_result() -> None:
    """The audit trail is built from these tasks, so each must state who was called, when, and with what result."""
    result = plan(("ann", "bob"), max_rounds=1).run_sync(TASK, model=model())
    trail = result.tasks
    assert trail.collection_id == "plan"
    tasks = [(task.goal, task.assignee, dict(task.metadata)) for task in trail.list()]
    assert tasks == [
        ("proposal", "ann", {"round": 0}),
        ("proposal", "bob", {"round": 0}),
        ("critique", "ann", {"round": 1, "target": "bob"}),
        ("critique", "bob", {"round": 1, "target": "ann"}),
        ("revision", "ann", {"round": 1}),
        ("revision", "bob", {"round": 1}),
        ("vote", "ann", {"round": 1}),
        ("vote", "bob", {"round": 1}),
    ]
    outputs = [task.output for task in trail.list()]
    output = result.output
    assert outputs[:2] == [proposal.text for proposal in output.proposals]
    assert outputs[2:4] == output.rounds[0].critiques
    assert outputs[4:6] == [revised.text for revised in output.rounds[0].revisions]
    assert outputs[6:] == output.ballots
    assert isinstance(outputs[2], Critique)
    assert isinstance(outputs[6], Ballot)
    assert len(events(result, ModelCalled)) == len(tasks)


@given(
    size=st.integers(1, 5),
    seed=st.integers(0, 999),
    order=st.none() | st.integers(0, 99),
    failing=st.sampled_from((0.0, 0.1, 0.5)),
)
def test_each_call_has_exactly_one_finished_task(size: int, seed: int, order: int | None, failing: float) -> None:
    names = NAMES[:size]
    world = World(seed, names, failing, order)
    try:
        run: Any = plan(names, max_rounds=2).run_sync(TASK, model=world.model(), seed=seed)
    except NoProposals as error:
        run = error.run
    check_emitted(run)
    tasks = run.tasks.list()
    calls = {(call.phase, call.agent, call.target, call.round): call in world.answers for call in world.prompts}
    statuses = {
        (
            task.goal,
            task.assignee,
            task.metadata.get("target"),
            0 if task.goal in ("proposal", "vote") else task.metadata["round"],
        ): task.status
        for task in tasks
    }
    assert len(statuses) == len(tasks)
    assert statuses == {key: "completed" if answered else "errored" for key, answered in calls.items()}
    losses = [loss for loss in run.raw.losses if loss.error_type != "CircuitOpen" and loss.instead == "skipped"]
    assert run.tasks.count("errored") == len(losses)


def test_failed_tasks_record_the_error() -> None:
    def answer(call: Call) -> Any:
        return ConnectionLost("gone") if call == Call("vote", "bob") else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer))
    (task,) = result.tasks.list(status="errored")
    assert (task.goal, task.assignee) == ("vote", "bob")
    assert "ConnectionLost: gone" in str(task.error)


def test_uncalled_agents_have_no_task() -> None:
    breakers = Breakers()
    for _ in range(3):
        breakers.record_failure("bob")
    result = plan(max_rounds=1, breakers=breakers).run_sync(TASK, model=model())
    assert {task.assignee for task in result.tasks.list()} == {"ann", "cy"}


@pytest.mark.anyio
async def test_cancelling_a_debate_cancels_its_pending_tasks() -> None:
    """If a call was answered before the cancellation, its task remains completed."""
    reached = asyncio.Event()

    async def hang(call: Call) -> None:
        if call.phase == "critique" and call.agent == "cy":
            if call.target == "bob":  # this is the last critique
                reached.set()
            await asyncio.Event().wait()

    handle = plan().start(TASK, model=model(hang))
    await reached.wait()
    assert (handle.tasks.count("completed"), handle.tasks.count("in_progress")) == (3 + 4, 2)
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert [(task.assignee, task.status) for task in handle.tasks.list() if task.goal == "critique"] == [
        *[("ann", "completed")] * 2,
        *[("bob", "completed")] * 2,
        *[("cy", "cancelled")] * 2,
    ]


def test_collection_id_identifies_the_audit_trail() -> None:
    result = plan(THREE, max_rounds=1, collection_id="minutes").run_sync(TASK, model=model())
    assert result.tasks.collection_id == "minutes"
