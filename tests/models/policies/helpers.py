"""What the tests of the policies share: a model that does as it is told, and a loop whose time is not real."""

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
"""Text, a response, or an error to raise; or a function of the request that gives or is awaited for one."""


@dataclass(eq=False)
class Leaf:
    """A model whose requests end in `outcomes`, in their order, the last one again and again."""

    outcomes: Sequence[Outcome] = ("fine",)
    name: str = "leaf"
    retry: Retry | None = None
    requests: list[ModelRequest] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    """The loop's time when each came."""
    running: int = 0
    peak: int = 0

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Do what is said."""
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
    """Stands in for `asyncio.sleep`: returns at once, and remembers for how long it was asked."""

    waits: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        """Sleep."""
        self.waits.append(seconds)


def down(_: object = None) -> ProviderFailed:
    """An error of the endpoint, a new one each time."""
    return ProviderFailed("it is down", status=500)


def lasting(seconds: float, outcome: Outcome = "fine") -> Callable[[ModelRequest], Any]:
    """An outcome that takes so long."""

    async def later(_: ModelRequest) -> Outcome:
        await asyncio.sleep(seconds)
        return outcome

    return later


async def hang(_: ModelRequest) -> Outcome:
    """An outcome that never comes."""
    await asyncio.Event().wait()


def used(tokens: int, text: str = "fine") -> ModelResponse:
    """An answer that took so many tokens."""
    usage = Usage(calls=1, prompt_tokens=tokens, cached_tokens=0, completion_tokens=0)
    return ModelResponse(text=text, usage=usage)


def question(
    *, output: Any = None, timeout: float | None = None, events: list[Any] | None = None, **options: Any
) -> ModelRequest:
    """Make a request for text, or for `output`; events of its attempts are appended to `events`."""
    options.setdefault("settings", ModelSettings(timeout=timeout))
    options.setdefault("messages", [{"role": "user", "content": "Who is right?"}])
    options.setdefault("attempts", Attempts(tell=None if events is None else events.append))
    return ModelRequest(block="judge", output=None if output is None else OutputSchema.of(output), **options)


def errors_of(attempts: Sequence[Attempt]) -> list[str | None]:
    """How the attempts ended."""
    return [attempt.error for attempt in attempts]


async def arriving(model: Any, at: Sequence[float], **options: Any) -> list[Any]:
    """Numbered calls that come at these times from now, in this order; each one's answer or error."""
    start, calls = now(), []
    for number, when in enumerate(at):
        await asyncio.sleep(start + when - now())
        request = question(messages=[{"role": "user", "content": str(number)}], **options)
        calls.append(asyncio.create_task(ask(model, request)))
    return await asyncio.gather(*calls, return_exceptions=True)


def order_of(leaf: Leaf) -> list[int]:
    """The numbers of the calls that `leaf` saw."""
    return [int(request.messages[0]["content"]) for request in leaf.requests]


def since_start(leaf: Leaf) -> list[float]:
    """When they came, in seconds of a `WarpLoop`."""
    return [when - START for when in leaf.at]


START = 1000.0
"""The time at which a `WarpLoop` begins."""


class WarpLoop(asyncio.SelectorEventLoop):
    """An event loop that never really waits: its clock jumps to the next timer."""

    def __init__(self) -> None:
        self.now = START
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Seconds, as far as this loop is concerned."""
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
    """Run `work` in a `WarpLoop`."""
    with asyncio.Runner(loop_factory=WarpLoop) as runner:
        return runner.run(work)


def now() -> float:
    """The running loop's time."""
    return asyncio.get_running_loop().time()
