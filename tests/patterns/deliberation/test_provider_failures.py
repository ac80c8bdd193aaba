"""Provider failures in a deliberation: missing reports, and parallel turns that fail or are cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Persona
from flowdebate.chassis.state import RoleFailed
from flowdebate.errors import ProviderFailed
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import events

from .deliberations import PERSONAS, TOPIC, deal, entries_of, losses_of, report

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

DOWN = ProviderFailed("the endpoint answered 503", status=503)


def test_missing_reports_do_not_settle_a_deliberation() -> None:
    model = ScriptedModel("A1", "B1", report(decision="Wait."), "A2", "B2", DOWN)
    result = deal(max_rounds=2, on_failure="skip").run_sync(TOPIC, model=model)
    output = result.output
    assert losses_of(result) == [(2, "moderator", "deal-moderator", "no_report")]
    assert (output.summaries, output.reports[1]) == (["They differ.", ""], None)
    assert (output.is_settled, output.stop_reason, output.status) == (False, "max_rounds", "degraded")
    assert output.final_decision == "Wait."
    assert "no_report" in [event.instead for event in events(result, RoleFailed)]
    model.assert_complete()
    with pytest.raises(ProviderFailed):
        deal().run_sync(TOPIC, model=ScriptedModel("A1", "B1", DOWN))


def test_deliberations_complete_without_reports() -> None:
    output = deal(max_rounds=1, on_failure="skip").run_sync(TOPIC, model=ScriptedModel("A1", "B1", DOWN)).output
    assert (output.final_decision, output.is_settled, output.reports) == (None, False, [None])


async def test_parallel_turns_finish_after_a_failure() -> None:
    """The remaining answers have been paid for, so they are recorded."""
    failed, waits = asyncio.Event(), asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-owl"):
            waits.set()
            await failed.wait()
        if request.block.endswith("-bear"):
            await waits.wait()
            failed.set()
            raise DOWN
        return "said"

    handle = deal(debaters=[Persona("owl"), *PERSONAS]).start(TOPIC, model=FunctionModel(answer))
    with pytest.raises(ProviderFailed):
        await handle
    assert entries_of(handle.raw) == [(1, "owl", "said"), (1, "bull", "said")]
    assert {task.assignee: task.status for task in handle.tasks.list()} == {
        "owl": "completed",
        "bull": "completed",
        "bear": "errored",
    }


@given(st.integers(0, 8), st.permutations(range(3)))
def test_cancelled_deliberations_keep_their_entries(stop_at: int, order: list[int]) -> None:
    names = ["ann", "bea", "cid"]

    async def run() -> None:
        answered: list[tuple[int, str]] = []
        stopped = asyncio.Event()
        rounds = [0]
        after = [asyncio.Event() for _ in range(16)]
        after[0].set()

        async def answer(request: ModelRequest) -> Any:
            if request.block.endswith("-moderator"):
                if len(answered) >= stop_at:
                    stopped.set()
                    await asyncio.Event().wait()
                rounds[0] += 1
                return report()
            name = request.block.removeprefix("deal-debater-")
            place = order.index(names.index(name)) + 3 * rounds[0]
            await after[min(place, stop_at)].wait()
            if len(answered) >= stop_at:
                stopped.set()
                await asyncio.Event().wait()
            answered.append((rounds[0] + 1, name))
            after[len(answered)].set()
            return f"{name} in round {rounds[0] + 1}"

        pattern = deal(debaters=[Persona(name) for name in names], max_rounds=4)
        handle = pattern.start(TOPIC, model=FunctionModel(answer))
        await stopped.wait()
        await asyncio.sleep(0)
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        raw = handle.raw
        assert (handle.status, raw.status, raw.stop_reason) == ("interrupted", "interrupted", None)
        turns = [(number, name) for number, name, _ in entries_of(raw)]
        assert sorted(turns) == sorted(answered)
        assert turns == sorted(turns, key=lambda item: (item[0], names.index(item[1])))
        assert all(text == f"{name} in round {number}" for number, name, text in entries_of(raw))
        assert all(task.finished for task in handle.tasks.list())
        assert handle.tasks.count("completed") == len(answered)

    asyncio.run(run())
