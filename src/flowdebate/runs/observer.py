"""Run tracing through observers, and logging of non-fatal failures."""

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
    """Base class for observers of runs, passed as `run(…, observe=…)`.

    By default, the methods do nothing. The context managers they return wrap the observed work within the same task, so
    the work can see their context variables, and its exceptions pass through them. Steps replayed from a store, or
    reused in a fork, are not observed.
    """

    def run(self, run: RunView, labels: dict[str, str], /) -> AbstractContextManager[RunObserver]:
        """Return a context manager that wraps the run and yields an observer for its agents, calls, tools and events.

        `labels` are the run's labels in the store; any labels added to a new run are stored with it.
        """
        del run, labels
        return nullcontext(self)

    def submit(self, block: str, run_id: str, labels: dict[str, str], /) -> AbstractContextManager[object]:
        """Return a context manager that wraps the submission of a run to the workers' queue.

        The context manager may add `labels` to the run.
        """
        del block, run_id, labels
        return _NOTHING

    def deliver(
        self, block: str, run_id: str, labels: dict[str, str], delivered: DeliveredRun, /
    ) -> AbstractContextManager[object]:
        """Return a context manager that wraps a worker's processing of a run taken from its queue."""
        del block, run_id, labels, delivered
        return _NOTHING

    def queue(self, state: QueueState, /) -> None:
        """Handle a queue's current state, which each of the queue's workers reads every few seconds."""


NOBODY = Observer()


class _Default:
    """Container for the default observer, used by runs started without an observer of their own."""

    observer = NOBODY


def set_default_observer(observer: Observer | None) -> None:
    """Set the observer for all future runs in this process that are started without `observe`; None removes it."""
    _Default.observer = NOBODY if observer is None else observer


def observer_of(observe: object) -> Observer:
    """Return the observer passed as a run's `observe` option; raise ConfigurationError if it is not an observer."""
    if observe is None:
        return _Default.observer
    if not isinstance(observe, Observer):
        raise ConfigurationError("run", "observe", observe, "must be an Observer, such as OpenTelemetry()")
    return observe


def observing(observe: object) -> Observing | None:
    """Return the observer factory for a run's `observe` option; return None if the run is not observed."""
    observer = observer_of(observe)
    return None if observer is NOBODY else lambda run, labels: observer.run(RunView(run), labels)


def is_new(events: Sequence[object], place: str = "") -> bool:
    """Return whether the current events result from a new call in this process rather than from a replayed one.

    The result depends on the latest call at or below `place` or, if there is none, on the run's latest call. A resumed
    run must not log or count the replayed part again.
    """
    calls = [event for event in events if isinstance(event, ModelCalled)]
    within = [call for call in calls if call.path == place or call.path.startswith((f"{place}/", f"{place}#"))]
    last = (within or calls)[-1:]
    return not last or not last[0].replayed


def log_failure(run: Run, path: str, **fields: object) -> None:
    """Log a non-fatal failure of `run` unless it is being replayed; `fields` must not contain text from the run."""
    if RUN_LOGGER.isEnabledFor(logging.WARNING) and not run.is_replay and is_new(run.records.events, path):
        field_text = ", ".join(f"{name} {value}" for name, value in fields.items())
        RUN_LOGGER.warning("run %s continues: %s", run.run_id, field_text, extra={"run_id": run.run_id, **fields})
