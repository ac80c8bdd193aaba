"""Observers of runs, for tracing, and the log records of failures that runs survive."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError
from flowdebate.runs.events import ModelCalled
from flowdebate.runs.result import RunView
from flowdebate.runs.run import RUN_LOGGER, Observing, Run, RunObserver

if TYPE_CHECKING:
    from flowdebate.runs.queue_state import DeliveredRun, QueueState


_NOTHING = nullcontext()


class Observer(RunObserver):
    """Observes runs while they last: `run(…, observe=…)`. Derive from it: by default each method does nothing.

    Contexts are entered around what they are about, in the task that does it, so that context variables hold inside;
    exceptions pass through them. What is replayed from a store, or reused in a fork, is neither a call nor a tool.
    """

    def run(self, run: RunView, labels: dict[str, str], /) -> AbstractContextManager[RunObserver]:
        """Return a context around the run, which gives the observer of the run's parts.

        `labels` are those of the stored run; labels that are added to a new run are stored with it.
        """
        del run, labels
        return nullcontext(self)

    def submit(self, block: str, run_id: str, labels: dict[str, str], /) -> AbstractContextManager[object]:
        """Return a context around putting a run on the queue of workers; may add `labels`, which are stored with it."""
        del block, run_id, labels
        return _NOTHING

    def deliver(
        self, block: str, run_id: str, labels: dict[str, str], delivered: DeliveredRun, /
    ) -> AbstractContextManager[object]:
        """Return a context around what a worker does with a run that it has taken from its queue."""
        del block, run_id, labels, delivered
        return _NOTHING

    def queue(self, state: QueueState, /) -> None:
        """React to the state of a queue, which each of its workers reads every few seconds."""


NOBODY = Observer()


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


def observing(observe: object) -> Observing | None:
    """Return how a run that was started with `observe` is observed; None for not at all."""
    observer = observer_of(observe)
    return None if observer is NOBODY else lambda run, labels: observer.run(RunView(run), labels)


def is_new(events: Sequence[object], place: str = "") -> bool:
    """Whether what happens now follows from a call of this process, not from a replayed one.

    What counts is the last call at or below `place`; if there is none, the last one at all. A resumed run must neither
    log nor count again what it goes through a second time.
    """
    calls = [event for event in events if isinstance(event, ModelCalled)]
    within = [call for call in calls if call.path == place or call.path.startswith((f"{place}/", f"{place}#"))]
    last = (within or calls)[-1:]
    return not last or not last[0].replayed


def log_failure(run: Run, path: str, **fields: object) -> None:
    """Log a failure at `path` that `run` goes on without, unless it is replayed; `fields` have no content."""
    if RUN_LOGGER.isEnabledFor(logging.WARNING) and not run.is_replay and is_new(run.records.events, path):
        field_text = ", ".join(f"{name} {value}" for name, value in fields.items())
        RUN_LOGGER.warning("run %s goes on: %s", run.run_id, field_text, extra={"run_id": run.run_id, **fields})
