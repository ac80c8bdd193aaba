"""`run(..., if_exists="resume")`, which lets a restarted script start its run or resume it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, Limits, debate, handler
from flowdebate.errors import ConfigurationError, RunChanged, RunConflict, RunExists
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.context import Context
    from flowdebate.store.base import StoredRun

pytestmark = pytest.mark.anyio

SIDES = [Debater("train", "take the train"), Debater("bike", "take the bike")]
VERDICT = {"reasoning": "It is dry.", "winner": "take the bike", "verdict": "Take the bike."}
QUESTION = "How should we get to work?"


class Counted:
    """A model that counts its answers and fails at a chosen call."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.answers = 0
        self.fail_at = fail_at
        self.model = FunctionModel(self._answer)

    def _answer(self, request: ModelRequest) -> Any:
        if self.answers == self.fail_at:
            message = "the process dies here"
            raise KeyboardInterrupt(message)
        self.answers += 1
        return "The road is free." if request.output is None else VERDICT


def rent_debate(rounds: int = 1) -> Any:
    """Return a debate with two turns per round and a judge."""
    return debate(name="city", debaters=SIDES, max_rounds=rounds, synthesizer=False)


async def test_restarted_script_pays_only_for_missing_calls() -> None:
    """The same call starts the run, resumes it after a crash, and returns the result once it is complete."""
    store, dying, living = MemoryStore(), Counted(fail_at=2), Counted()
    with pytest.raises(KeyboardInterrupt):
        await rent_debate().run(QUESTION, model=dying.model, store=store, run_id="city-1", if_exists="resume")
    resumed = await rent_debate().run(QUESTION, model=living.model, store=store, run_id="city-1", if_exists="resume")
    rerun = await rent_debate().run(QUESTION, model=living.model, store=store, run_id="city-1", if_exists="resume")
    assert (dying.answers, living.answers) == (2, 1)
    assert resumed.output == rerun.output
    assert resumed.output.verdict.winner == "take the bike"
    assert resumed.seed == rerun.seed


@pytest.mark.parametrize(
    ("question", "rounds", "seed", "part"),
    [("Where do we meet?", 1, 7, "question"), (QUESTION, 2, 7, "outline"), (QUESTION, 1, 8, "seed")],
)
async def test_different_run_is_not_resumed_by_accident(question: str, rounds: int, seed: int, part: str) -> None:
    store, counted = MemoryStore(), Counted()
    await rent_debate().run(QUESTION, model=counted.model, store=store, run_id="city-1", seed=7)
    with pytest.raises(RunChanged) as caught:
        await rent_debate(rounds).run(
            question, model=counted.model, store=store, run_id="city-1", seed=seed, if_exists="resume"
        )
    assert part in caught.value.differences
    assert counted.answers == 3


async def test_using_an_existing_id_without_the_option_is_an_error() -> None:
    store, counted = MemoryStore(), Counted()
    await rent_debate().run(QUESTION, model=counted.model, store=store, run_id="city-1")
    with pytest.raises(RunExists):
        await rent_debate().run(QUESTION, model=counted.model, store=store, run_id="city-1")
    assert counted.answers == 3


async def test_run_in_progress_is_not_started_twice() -> None:
    store, going, done = MemoryStore(), asyncio.Event(), asyncio.Event()

    async def wait(value: str) -> str:
        going.set()
        await done.wait()
        return value

    block = handler(wait, name="wait")
    first = asyncio.ensure_future(block.run("x", store=store, run_id="one", if_exists="resume"))
    await going.wait()
    with pytest.raises(RunConflict):
        await block.run("x", store=store, run_id="one", if_exists="resume")
    done.set()
    assert (await first).output == "x"


async def test_one_of_two_simultaneous_starts_fails_with_a_conflict() -> None:
    """Both processes look for a run with the given id before either of them has created one."""
    done = asyncio.Event()

    @handler(name="slow")
    async def slow(value: str) -> str:
        await done.wait()
        return value

    class Meeting(MemoryStore):
        async def run(self, run_id: str) -> StoredRun:
            try:
                return await super().run(run_id)
            finally:
                await asyncio.sleep(0)  # let the other call look for the run as well

    store = Meeting()
    calls = [asyncio.ensure_future(slow.run("x", store=store, run_id="one", if_exists="resume")) for _ in range(2)]
    ended, going = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    assert [type(call.exception()) for call in ended] == [RunConflict]
    done.set()
    assert [(await call).output for call in going] == ["x"]


async def test_run_in_another_process_is_awaited() -> None:
    """Both calls return the same result.

    If the process that executes the run ends early, the waiting process continues it.
    """
    store, going, done, calls = MemoryStore(), asyncio.Event(), asyncio.Event(), 0

    @handler(name="slow")
    async def slow(value: str, ctx: Context) -> str:
        async def call() -> str:
            nonlocal calls
            calls += 1
            going.set()
            await done.wait()
            return f"{value} {calls}"

        return str(await ctx.step(call))

    for run_id, gives_up in (("one", False), ("two", True)):
        going.clear()
        done.clear()
        first = asyncio.ensure_future(slow.run("x", store=store, run_id=run_id, if_exists="wait"))
        await going.wait()
        second = asyncio.ensure_future(slow.run("x", store=store, run_id=run_id, if_exists="wait"))
        await asyncio.sleep(0)
        if gives_up:
            first.cancel()
            await asyncio.wait({first})
        done.set()
        assert (await second).output == f"x {calls}"
    assert calls == 3


async def test_limits_may_be_raised_when_the_call_is_repeated() -> None:
    store, counted = MemoryStore(), Counted()
    kwargs: dict[str, Any] = {"model": counted.model, "store": store, "run_id": "city-1", "if_exists": "resume"}
    ended = await rent_debate().run(QUESTION, limits=Limits(calls=2), **kwargs)
    assert ended.status == "limit"
    result = await rent_debate().run(QUESTION, limits=Limits(calls=3), **kwargs)
    assert (result.status, counted.answers) == ("complete", 3)


@pytest.mark.parametrize(
    "options",
    [
        {"store": False, "run_id": "one", "if_exists": "resume"},
        {"store": MemoryStore(), "if_exists": "resume"},
        {"store": MemoryStore(), "run_id": "one", "if_exists": "replace"},
    ],
    ids=["no store", "no id", "unknown"],
)
async def test_values_that_cannot_be_resumed_are_rejected_before_the_run(options: dict[str, Any]) -> None:
    counted = Counted()
    with pytest.raises(ConfigurationError, match="if_exists"):
        await rent_debate().run(QUESTION, model=counted.model, **options)
    assert counted.answers == 0
