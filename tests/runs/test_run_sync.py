"""`run_sync` for scripts, and for notebooks, where a loop is already running."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import handler
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("WORD")


async def thread_block(value: str, ctx: Context) -> tuple[str, str, str]:
    """Report the thread that the block runs in, and the value of the caller's context variable inside the block."""
    await asyncio.sleep(0)
    return value, threading.current_thread().name, WORD.get("unset")


async def boom(_: object) -> None:
    raise RuntimeError("boom")


def test_run_sync_uses_the_calling_thread_if_no_loop_is_running() -> None:
    assert handler(thread_block).run_sync("x").output[:2] == ("x", threading.current_thread().name)
    with pytest.raises(RuntimeError, match="boom") as caught:
        handler(boom).run_sync("x")
    assert caught.value.__context__ is None


async def test_run_sync_uses_another_thread_inside_a_running_loop() -> None:
    WORD.set("hello")
    assert handler(thread_block).run_sync("x").output == ("x", "flowdebate-run-sync", "hello")
    with pytest.raises(RuntimeError, match="boom"):
        handler(boom).run_sync("x")


async def test_invalid_arguments_are_rejected_with_and_without_a_loop() -> None:
    block: Any = handler(thread_block)
    with pytest.raises(ConfigurationError, match="`session` must be"):
        block.run_sync("x", session=5)
    with pytest.raises(ConfigurationError, match="`session` must be"):
        await asyncio.to_thread(block.run_sync, "x", session=5)
    with pytest.raises(ConfigurationError, match="`session` must be"):
        await block.run("x", session=5)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_exit_exceptions_in_the_thread_reach_the_caller(kind: type[BaseException]) -> None:
    async def end(_: object) -> None:
        raise kind

    with pytest.raises(kind):
        handler(end).run_sync("x")


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals for one thread are POSIX's")
def test_interrupting_the_caller_ends_the_run() -> None:
    """Model calls must not continue unnoticed in a notebook."""
    ended = threading.Event()
    caller = threading.get_ident()

    async def hang(_: object) -> None:
        signal.pthread_kill(caller, signal.SIGINT)  # simulate Ctrl-C while the main thread waits
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def notebook() -> None:
        handler(hang).run_sync("x")

    loop = asyncio.new_event_loop()  # unlike asyncio.run, this leaves the signal to Python, as notebooks do
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(notebook())
    finally:
        loop.close()
    assert ended.is_set()


def test_repr_of_the_output_is_not_computed() -> None:
    """Computing the `repr` is unnecessary and could take up a large part of the run's time."""
    formatted: list[object] = []

    class Long:
        def __repr__(self) -> str:
            formatted.append(self)
            return "long"

    long = Long()
    assert handler(name="long")(lambda _: long).run_sync("x").output is long
    assert formatted == []
