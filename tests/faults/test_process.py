"""Faults in the process that executes a run: double cancellation, clock jumps, and exhausted descriptors."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, FailurePolicy, debate, generator, handler
from flowdebate.errors import OutputError
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.models.server import ChatServer

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

SKIP = FailurePolicy(on_failure="skip")

pytestmark = pytest.mark.anyio

SIDES = [Debater("tenant", "cap rents"), Debater("owner", "free rents")]


async def test_a_second_cancellation_changes_nothing() -> None:
    """The second cancellation arrives while the first one is still being handled.

    Neither may leave a task behind.
    """
    started, cleaning, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(_: ModelRequest) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await finished.wait()
        return "never"

    before = asyncio.all_tasks()
    handle = debate(name="rent", debaters=SIDES).start("Cap?", model=FunctionModel(answer))
    await started.wait()
    handle.cancel()
    await cleaning.wait()
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert handle.raw is not None
    assert (handle.status, handle.raw.status) == ("interrupted", "interrupted")
    assert [task.status for task in handle.tasks.list()] == ["cancelled"]
    assert asyncio.all_tasks() == before


async def test_a_timeout_in_the_caller_cancels_the_run() -> None:
    disconnected = asyncio.Event()

    async def answer(_: ModelRequest) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            disconnected.set()
        return "never"

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await debate(name="rent", debaters=SIDES, failures=SKIP).run("Cap?", model=FunctionModel(answer))
    assert disconnected.is_set()


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_exit_exceptions_are_not_swallowed(ending: type[BaseException]) -> None:
    """A block that calls `sys.exit()` ends the run, even if the debate is set to skip failed turns.

    The arguments recorded before the exit are kept.
    """
    handles: list[Any] = []

    def leave(_: object, ctx: Any) -> str:
        handles.append(ctx.run)
        raise ending

    sides = [SIDES[0], Debater("owner", "free rents", block=leave)]
    with pytest.raises(ending):
        debate(name="rent", debaters=sides, failures=SKIP).run_sync("Cap?", model=ScriptedModel("A"))
    assert handles[0].status == "failed"
    assert [entry.text for entry in handles[0].raw_output.transcript] == ["A"]


def test_a_function_that_blocks_the_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @handler(name="busy")
    def busy(_: object) -> None:
        end = time.perf_counter() + 1.01
        while time.perf_counter() < end:
            pass

    with caplog.at_level(logging.WARNING, logger="flowdebate"):
        busy.run_sync(0)
    assert re.search(r"block 'busy' blocked the event loop for 1\.\d s", caplog.text)
    assert "asyncio.to_thread" in caplog.text


def test_argument_length_is_limited() -> None:
    """An overlong argument is rejected, because every later prompt would repeat it.

    The error does not quote it.
    """
    sides = [Debater("tenant", "cap rents", block=lambda _: "x" * 1_000_001), SIDES[1]]
    with pytest.raises(OutputError, match="has 1,000,001 characters, but at most 1,000,000 are allowed") as caught:
        debate(name="rent", debaters=sides).run_sync("Cap?", model=ScriptedModel())
    assert len(str(caught.value)) < 300


SHORT_OF_DESCRIPTORS = """
import asyncio, logging, os, resource, sys
from flowdebate.errors import ModelUnavailable
from flowdebate.models import ModelRequest, OpenAIModel
from flowdebate.models.call import ask

async def main():
    model = OpenAIModel("m", base_url=sys.argv[1], api_key="k", retry=None)
    request = lambda: ModelRequest(messages=[{"role": "user", "content": "?"}], block="b")
    async with model:
        await ask(model, request())
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, used + 40))
        outcomes = await asyncio.gather(*(ask(model, request()) for _ in range(100)), return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert all(isinstance(outcome, ModelUnavailable) for outcome in failed), failed
    assert 0 < len(failed) < 100, len(failed)
    async with model:
        for _ in range(20):
            assert (await ask(model, request())).text == "fine"
    print("ok")

logging.getLogger("asyncio").setLevel(logging.CRITICAL)
asyncio.run(main())
"""


async def test_running_out_of_descriptors_causes_one_clear_error() -> None:
    """With 100 concurrent calls and 40 free descriptors, each call either succeeds or raises `ModelUnavailable`."""
    async with ChatServer() as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            SHORT_OF_DESCRIPTORS,
            server.base_url,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, complaints = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, output) == (0, b"ok\n"), complaints.decode()


async def test_a_hanging_generator_does_not_delay_others() -> None:
    """While one call hangs, a call from another generator is answered as usual."""

    async def answer(request: ModelRequest) -> str:
        if request.block == "slow":
            await asyncio.Event().wait()
        return "fast"

    model = FunctionModel(answer)
    slow = generator(name="slow").start("?", model=model)
    assert (await generator(name="fast").run("?", model=model)).output == "fast"
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
