"""Observers of runs, for tracing, and the default one of this process."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from flowdebate.models.base import ModelRequest, ModelResponse, ToolCall
    from flowdebate.runs.events import CallStarted
    from flowdebate.runs.result import RunView


_NOTHING = nullcontext()


class Observer:
    """Observes runs while they last: `run(…, observe=…)`. Derive from it: by default each method does nothing.

    Contexts are entered around what they are about, in the task that does it, so that context variables hold inside;
    exceptions pass through them. What is replayed from a store, or reused in a fork, is neither a call nor a tool.
    """

    def run(self, run: RunView, labels: dict[str, str], /) -> AbstractContextManager[Observer]:
        """Return a context around the run, which gives the observer of the run's parts.

        `labels` are those of the stored run; labels that are added to a new run are stored with it.
        """
        del run, labels
        return nullcontext(self)

    def agent(self, block: str, path: str, /) -> AbstractContextManager[object]:
        """Return a context around all calls and tools of one answer of a generator."""
        del block, path
        return _NOTHING

    def call(
        self, started: CallStarted, request: ModelRequest, /
    ) -> AbstractContextManager[Callable[[ModelResponse], object] | None]:
        """Return a context around a model call with all its attempts; a function that it gives gets the response."""
        del started, request
        return _NOTHING

    def tool(self, call: ToolCall, path: str, /) -> AbstractContextManager[Callable[[str], object] | None]:
        """Return a context around the execution of a tool; a function that it gives gets the result."""
        del call, path
        return _NOTHING

    def submit(self, block: str, run_id: str, labels: dict[str, str], /) -> AbstractContextManager[object]:
        """Return a context around putting a run on the queue of workers; may add `labels`, which are stored with it."""
        del block, run_id, labels
        return _NOTHING

    def event(self, event: object, /) -> None:
        """React to an event of the run, other than its first one and those that are live only."""


NOBODY = Observer()
"""Observes nothing."""


class _Default:
    """The observer of runs that are started without one."""

    observer = NOBODY


def set_default_observer(observer: Observer | None) -> None:
    """Observe all further runs of this process that are started without `observe`; None ends that."""
    _Default.observer = NOBODY if observer is None else observer


def observer_of(observe: object) -> Observer:
    """Return the observer of a run that was started with `observe`; ConfigurationError if it is none."""
    if observe is None:
        return _Default.observer
    if not isinstance(observe, Observer):
        raise ConfigurationError("run", "observe", observe, "an Observer, such as OpenTelemetry(), or None")
    return observe
