"""Notebook output for a run: first its live page, then its report."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Generic

from typing_extensions import TypeVar

from flowdebate._util.validation import check_library, check_number
from flowdebate.errors import ConfigurationError
from flowdebate.runs.result import RunHandle, RunResult
from flowdebate.service.lifetime import import_ahead
from flowdebate.ui.live import Live
from flowdebate.web.notebook import html_of, live_html, markdown_of

OutT = TypeVar("OutT")
RawT = TypeVar("RawT", default=Any)

_SLOWEST = 60
"""Maximum interval between updates, in seconds."""
_SHARE, _MAX_PAUSE = 10, 2.0
"""Limits on drawing: at most 1 / `_SHARE` of the time is spent on it, and pauses last at most `_MAX_PAUSE` seconds.

Pages grow with the debate, and drawing them blocks the debate's event loop.
"""


class _RunCancelledError(asyncio.CancelledError):
    """Raised if a cell is interrupted while awaiting a run; the cell then shows the run so far, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{self}"]


class DisplayedRun(Generic[OutT, RawT]):
    """Run displayed by a cell; await it to get the result."""

    def __init__(self, task: asyncio.Task[RunResult[OutT, RawT]]) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, RunResult[OutT, RawT]]:
        try:
            return (yield from self._task.__await__())
        except asyncio.CancelledError:
            line = "Interrupted: the output shows how far the run came. A run with a store can be resumed."
            raise _RunCancelledError(line) from None

    def _ipython_display_(self) -> None:
        """Display nothing, because `show` has already displayed the run."""


def show(handle: RunHandle[OutT, RawT], *, every: float = 0.25) -> DisplayedRun[OutT, RawT]:
    """Display a run in this cell's output, live until it ends and then as a report.

    Await the return value to get the run's result. The output is updated at most once every `every` seconds, and only
    if something has changed. If the run fails, awaiting it raises its error after the page has been updated. If the
    cell awaits the run, interrupting the cell cancels the run, as when awaiting a handle. If the cell does not await
    the run, the run continues after the cell has ended, while other cells are executed. Nothing is shown outside a
    notebook, for example in a terminal. Raises ConfigurationError if IPython is not installed.
    """
    check_library("show()", "IPython", library="IPython", extra="notebook")
    value: object = handle
    if not isinstance(value, RunHandle):
        hint = "Start the run in the background: handle = pattern.start(question)"
        raise ConfigurationError("show()", "handle", handle, "must be a run handle", hint=hint)
    check_number("show()", above=0, maximum=_SLOWEST, every=every)
    live, news = Live(), asyncio.Event()

    def take(event: object) -> None:
        live.take(event)
        news.set()

    handle.listen(take)
    task = asyncio.create_task(_follow(handle, live, news, _output(), every), name=f"show {handle.run_id}")
    # The page shows any error, so awaiting the run is optional.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return DisplayedRun(task)


async def _follow(
    handle: RunHandle[OutT, RawT],
    live: Live,
    news: asyncio.Event,
    update: Callable[[dict[str, str]], None],
    every: float,
) -> RunResult[OutT, RawT]:
    pause, is_first = every, True
    try:
        while not handle.done():
            if news.is_set():
                news.clear()
                started = time.perf_counter()
                try:
                    html = live_html(handle, live)
                except Exception:  # noqa: BLE001 - what a block of the application has left behind may not be shown
                    html = None
                update(_bundle(handle, html, None))
                # the first drawing is not measured, because it includes loading the templates
                drawing = 0 if is_first else time.perf_counter() - started
                pause, is_first = max(every, min(_SHARE * drawing, _MAX_PAUSE)), False
            await handle.wait(pause)
    except asyncio.CancelledError:
        handle.cancel()
        await handle.wait()
        raise
    finally:
        update(_bundle(handle, html_of(handle), markdown_of(handle)))
    return await handle


def _bundle(handle: RunHandle[Any], html: str | None, markdown: str | None) -> dict[str, str]:
    formats = {"text/plain": f"<run {handle.run_id} {handle.status}>", "text/html": html, "text/markdown": markdown}
    return {kind: text for kind, text in formats.items() if text is not None}


def _output() -> Callable[[dict[str, str]], None]:
    """Return a function that updates an output of the running cell; outside a notebook, the function does nothing."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    if shell is None or type(shell).__name__ == "TerminalInteractiveShell":
        return lambda _: None  # a terminal cannot update its output
    display_handle = display({"text/plain": "", "text/html": ""}, raw=True, display_id=True)
    return lambda bundle: display_handle.update(bundle, raw=True)


_shell = sys.modules.get("IPython")
if _shell is not None and _shell.get_ipython() is not None:
    # Start the imports in a notebook's first cell, before anyone is waiting for them.
    threading.Thread(target=import_ahead, name="flowdebate import").start()
