"""Helpers for the policy tests: a scripted model, and an event loop with a simulated clock."""

from __future__ import annotations

import asyncio
import selectors
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate.errors import ProviderFailed
from flowdebate.models import ModelRequest, ModelResponse, ModelSettings, OutputSchema, Usage
from flowdebate.models.base import Attempts
from flowdebate.models.call import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from flowdebate.models import Attempt, Retry

T = TypeVar("T")

Outcome = Any
"""Text, a response, an error to raise, or a sync or async function that maps the request to one of these."""


@dataclass(eq=False)
class Leaf:
    """Model whose requests produce `outcomes` in order, repeating the last one."""

    outcomes: Sequence[Outcome] = ("fine",)
    name: str = "leaf"
    retry: Retry | None = None
    requests: list[ModelRequest] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    """Loop time at which each request arrived."""
    running: int = 0
    peak: int = 0

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return or raise the next outcome."""
        self.requests.append(request)
        self.at.append(asyncio.get_running_loop().time())
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            outcome = self.outcomes[min(len(self.requests), len(self.outcomes)) - 1]
            if callable(outcome):
                outcome = outcome(request)
                if asyncio.iscoroutine(outcome):
                    outcome = await outcome
            if isinstance(outcome, BaseException):
                raise outcome
            return ModelResponse(text=outcome) if isinstance(outcome, str) else outcome
        finally:
            self.running -= 1


@dataclass
class Naps:
    """Replacement for `asyncio.sleep` that returns at once and records the requested durations."""

    waits: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        """Record the duration."""
        self.waits.append(seconds)


def endpoint_error(_: object = None) -> ProviderFailed:
    """Return a new endpoint error."""
    return ProviderFailed("it is down", status=500)


def delayed(seconds: float, outcome: Outcome = "fine") -> Callable[[ModelRequest], Any]:
    """Return an outcome that takes `seconds`."""

    async def later(_: ModelRequest) -> Outcome:
        await asyncio.sleep(seconds)
        return outcome

    return later


async def hang(_: ModelRequest) -> Outcome:
    """Wait forever."""
    await asyncio.Event().wait()


def answer_with_usage(tokens: int, text: str = "fine") -> ModelResponse:
    """Return an answer that used the given number of tokens."""
    usage = Usage(calls=1, prompt_tokens=tokens, cached_tokens=0, completion_tokens=0)
    return ModelResponse(text=text, usage=usage)


def make_request(
    *, output: Any = None, timeout: float | None = None, events: list[Any] | None = None, **options: Any
) -> ModelRequest:
    """Return a request for text, or for `output`. Events of its attempts are appended to `events`."""
    options.setdefault("settings", ModelSettings(timeout=timeout))
    options.setdefault("messages", [{"role": "user", "content": "Who is right?"}])
    options.setdefault("attempts", Attempts(notify=None if events is None else events.append))
    return ModelRequest(block="judge", output=None if output is None else OutputSchema.of(output), **options)


def attempt_errors(attempts: Sequence[Attempt]) -> list[str | None]:
    """Return each attempt's error, or None if the attempt succeeded."""
    return [attempt.error for attempt in attempts]


async def call_at(model: Any, at: Sequence[float], **options: Any) -> list[Any]:
    """Make numbered calls at the given times, in seconds from now; return the answer or error of each call.

    The times must be in ascending order.
    """
    start, calls = now(), []
    for number, when in enumerate(at):
        await asyncio.sleep(start + when - now())
        request = make_request(messages=[{"role": "user", "content": str(number)}], **options)
        calls.append(asyncio.create_task(ask(model, request)))
    return await asyncio.gather(*calls, return_exceptions=True)


def received_order(leaf: Leaf) -> list[int]:
    """Return the numbers of the calls that `leaf` received."""
    return [int(request.messages[0]["content"]) for request in leaf.requests]


def since_start(leaf: Leaf) -> list[float]:
    """Return when the requests arrived, in seconds since the `WarpLoop` started."""
    return [when - START for when in leaf.at]


START = 1000.0
"""Initial time of a `WarpLoop`."""


class WarpLoop(asyncio.SelectorEventLoop):
    """Event loop that never actually waits: its clock jumps to the next timer."""

    def __init__(self) -> None:
        self.now = START
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: WarpLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self._loop.now += timeout
        return ready


def warped(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=WarpLoop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()
