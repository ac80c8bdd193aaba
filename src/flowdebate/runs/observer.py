"""Observers of runs, for tracing, and log records of tolerated failures."""

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
    """Base class of observers of runs, passed as `run(…, observe=…)`.

    The methods do nothing by default. Their contexts are entered around the observed work in the same task, so context
    variables are visible inside, and exceptions pass through. Steps replayed from a store, or reused in a fork, are not
    observed.
    """

    def run(self, run: RunView, labels: dict[str, str], /) -> AbstractContextManager[RunObserver]:
        """Return a context around the run, which yields the observer of the run's parts.

        `labels` are the labels of the stored run; labels added to a new run are stored with it.
        """
        del run, labels
        return nullcontext(self)

    def submit(self, block: str, run_id: str, labels: dict[str, str], /) -> AbstractContextManager[object]:
        """Return a context around submitting a run to the workers' queue; it may add `labels` to the stored run."""
        del block, run_id, labels
        return _NOTHING

    def deliver(
        self, block: str, run_id: str, labels: dict[str, str], delivered: DeliveredRun, /
    ) -> AbstractContextManager[object]:
        """Return a context around a worker's processing of a run taken from its queue."""
        del block, run_id, labels, delivered
        return _NOTHING

    def queue(self, state: QueueState, /) -> None:
        """Handle the state of a queue, which each of its workers reads every few seconds."""


NOBODY = Observer()


class _Default:
    """Holder of the observer for runs that are started without one."""

    observer = NOBODY


def set_default_observer(observer: Observer | None) -> None:
    """Set the observer for all further runs of this process that are started without `observe`; None removes it."""
    _Default.observer = NOBODY if observer is None else observer


def observer_of(observe: object) -> Observer:
    """Return the observer of a run from its `observe` option; raise ConfigurationError if it is not an observer."""
    if observe is None:
        return _Default.observer
    if not isinstance(observe, Observer):
        raise ConfigurationError("run", "observe", observe, "an Observer, such as OpenTelemetry(), or None")
    return observe


def observing(observe: object) -> Observing | None:
    """Return the observer factory for the `observe` option of a run; None if the run is not observed."""
    observer = observer_of(observe)
    return None if observer is NOBODY else lambda run, labels: observer.run(RunView(run), labels)


def is_new(events: Sequence[object], place: str = "") -> bool:
    """Return whether current events result from a call that this process made, rather than from a replayed call.

    The last call at or below `place` decides, or the last call anywhere if there is none there. A resumed run must not
    log or count its replayed part again.
    """
    calls = [event for event in events if isinstance(event, ModelCalled)]
    within = [call for call in calls if call.path == place or call.path.startswith((f"{place}/", f"{place}#"))]
    last = (within or calls)[-1:]
    return not last or not last[0].replayed


def log_failure(run: Run, path: str, **fields: object) -> None:
    """Log a tolerated failure of `run` at `path`, unless it is replayed; `fields` must not contain any content."""
    if RUN_LOGGER.isEnabledFor(logging.WARNING) and not run.is_replay and is_new(run.records.events, path):
        field_text = ", ".join(f"{name} {value}" for name, value in fields.items())
        RUN_LOGGER.warning("run %s goes on: %s", run.run_id, field_text, extra={"run_id": run.run_id, **fields})
