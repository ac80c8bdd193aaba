"""Log records of runs: one for the end of each, one for each failure that it went on without; never any content."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.run import Run


LOGGER = logging.getLogger("flowdebate.runs")
"""The logger of these records; their fields are attributes of the record."""


def is_new(events: Sequence[object], place: str = "") -> bool:
    """Whether what happens now follows from a call of this process, not from a replayed one.

    What counts is the last call at or below `place`; if there is none, the last one at all.
    """
    calls = [event for event in events if isinstance(event, ModelCalled)]
    within = [call for call in calls if call.path == place or call.path.startswith((f"{place}/", f"{place}#"))]
    last = (within or calls)[-1:]
    return not last or not last[0].replayed


def log_end(run: Run, block: str, error: str | None) -> None:
    """Log that `run` has ended; of `error`, which may quote models, only the class."""
    if not LOGGER.isEnabledFor(logging.INFO) or run.is_replay:
        return
    usage, kind = run.usage, None if error is None else error.partition(":")[0]
    fields: dict[str, Any] = {
        "run_id": run.run_id,
        "block": block,
        "status": run.status,
        "error": kind,
        "seconds": round(run.seconds, 3),
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    ended = run.status if kind is None else f"{run.status} ({kind})"
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    LOGGER.info("run %s of %s: %s, %s in %.1f s", run.run_id, block, ended, calls, run.seconds, extra=fields)


def log_failure(run: Run, path: str, **fields: Any) -> None:  # noqa: ANN401 - attributes of a log record
    """Log a failure at `path` that `run` goes on without, unless it is replayed; `fields` have no content."""
    if LOGGER.isEnabledFor(logging.WARNING) and not run.is_replay and is_new(run.records.events, path):
        about = ", ".join(f"{name} {value}" for name, value in fields.items())
        LOGGER.warning("run %s goes on: %s", run.run_id, about, extra={"run_id": run.run_id, **fields})
