"""Time limits for runs during a check, and functions for observing and cancelling runs while they wait."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import sysconfig
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import CodeType, FrameType, coroutine
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_OURS = str(Path(__file__).parents[1])
_STANDARD = sysconfig.get_path("stdlib")
# Seconds allowed for a cancelled run to end, and for a thread to notice that its run has exceeded the time limit.
_GRACE = 1.0


class Wait(NamedTuple):
    """Location in the application's code where a run is waiting."""

    code: CodeType
    line: int

    def __str__(self) -> str:
        return f"{Path(self.code.co_filename).name}:{self.line}, in {self.code.co_name}"


class RunHangs(Exception):
    """Error raised for a run that blocks its thread beyond the time limit."""

    def __init__(self, place: Wait | None) -> None:
        self.place = place
        super().__init__(place)


@dataclass
class Clock:
    """Clock that times each run."""

    seconds: float
    _end: float | None = field(default=None, init=False)

    def start(self) -> None:
        """Start timing a run."""
        self._end = monotonic() + self.seconds

    def stop(self) -> None:
        """Pause the clock until the next run starts."""
        self._end = None

    @property
    def seconds_left(self) -> float:
        """Return the seconds left for the run."""
        return self.seconds if self._end is None else max(self._end - monotonic(), 0.0)

    @property
    def blocked(self) -> bool:
        """Return whether a run has exceeded its time limit while blocking its event loop."""
        return self._end is not None and monotonic() > self._end + 2 * _GRACE


def run_in_time(make: Callable[[], Coroutine[Any, Any, T]], clock: Clock) -> T:
    """Run the coroutine in a new thread and return its result.

    If a run blocks the thread, abandon the thread and raise RunHangs.
    """
    outcome: Future[T] = Future()

    async def main() -> None:  # does not wait for the remaining tasks, because they may resist cancellation
        try:
            outcome.set_result(await make())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome.set_exception(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: context.run(asyncio.run, main()), daemon=True, name="flowdebate-check")
    thread.start()
    while not wait([outcome], timeout=clock.seconds_left + _GRACE).done:
        if clock.blocked:
            raise RunHangs(_application_frame(_outwards(sys._current_frames().get(thread.ident or 0))))  # noqa: SLF001
    thread.join(_GRACE)
    return outcome.result()


@contextmanager
def watching(notice: Callable[[Wait | None], object]) -> Iterator[None]:
    """Call `notice` whenever a task started in this context waits.

    `notice` receives the location of the wait in application code, or None if the wait is in library code.
    """
    loop = asyncio.get_running_loop()
    outside = loop.get_task_factory()

    def start(loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:  # noqa: ANN401 - asyncio's
        return asyncio.Task(_watch(call, notice), loop=loop, **options)

    loop.set_task_factory(start)  # type: ignore[arg-type] # asyncio's protocol names each option
    try:
        yield
    finally:
        loop.set_task_factory(outside)


async def _watch(call: Coroutine[Any, Any, T], notice: Callable[[Wait | None], object]) -> T:
    result: T = await _drive(call, notice)
    return result


@coroutine
def _drive(call: Coroutine[Any, Any, Any], notice: Callable[[Wait | None], object]) -> Generator[object, Any, Any]:
    # Equivalent to `await`, but records where the call waits.
    error: BaseException | None = None
    while True:
        try:
            waits = call.send(None) if error is None else call.throw(error)
        except StopIteration as done:
            return done.value
        notice(_application_frame(_inwards(call)))
        try:
            yield waits
            error = None
        except BaseException as raised:  # noqa: BLE001 - such as a cancellation: the call's to see
            error = raised


def location_of_task(task: asyncio.Task[Any]) -> Wait | None:
    """Return the location in the application's code where a task is waiting."""
    return _application_frame(_inwards(task.get_coro()))


def _inwards(call: object) -> Iterator[FrameType]:
    """Yield the frames of a waiting coroutine, from the outermost to the innermost."""
    while call is not None:
        frame = getattr(call, "cr_frame", None) or getattr(call, "gi_frame", None) or getattr(call, "ag_frame", None)
        if frame is None:
            return
        yield frame
        awaited = getattr(call, "cr_await", None) or getattr(call, "gi_yieldfrom", None)
        # Python does not report manually driven calls, such as those with a deadline, as awaited.
        call = awaited or getattr(call, "ag_await", None) or frame.f_locals.get("call")


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a thread, from the outermost to the innermost."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return reversed(frames)


def _application_frame(frames: Iterator[FrameType]) -> Wait | None:
    """Return the innermost location outside both this library and Python itself."""
    place = None
    for frame in frames:
        path = frame.f_code.co_filename
        if not path.startswith((_OURS, "<frozen")) and not (path.startswith(_STANDARD) and "site-packages" not in path):
            place = Wait(frame.f_code, frame.f_lineno)
    return place
