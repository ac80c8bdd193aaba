"""Advice of the command: how to resume a run, and what an error asks of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import DeadLetter, RunChanged, RunNotFound, RunUncertain, StoreError

if TYPE_CHECKING:
    from flowdebate.service.runs import Ended

__all__ = ("how_to_go_on", "said", "short")

_ENDED = ("interrupted", "failed", "limit")
_SHORT, _WHOLE = 8, 32
_ANEW = {"calls": " --max-calls N", "tokens": " --max-tokens N"}
"""What has to be given again where a limit was reached that counts what the run has had before."""
_LINES = 6
"""Lines of what has changed that are shown."""


def short(run_id: str) -> str:
    """As much of a run's id as tells it from others: of those that are made for runs, the beginning.

    >>> short("0123456789abcdef0123456789abcdef"), short("rents-2")
    ('01234567', 'rents-2')
    """
    made = len(run_id) == _WHOLE and set(run_id) <= set("0123456789abcdef")
    return run_id[:_SHORT] if made else run_id


def how_to_go_on(held: Ended) -> str | None:
    """The command that resumes a run; None where there is nothing to resume."""
    document = held.document
    if document.run_id is not None and document.status == "awaiting":
        return f"flowdebate answer {short(document.run_id)}"
    if document.run_id is None or document.status not in _ENDED:
        return None
    if isinstance(held.failure, StoreError) and type(held.failure) is not StoreError:
        return None  # it would end in the same way again
    return f"flowdebate resume {short(document.run_id)}{_ANEW.get(held.limit or '', '')}"


def said(error: Exception) -> str:
    """`error` as one paragraph, in the words of the command line."""
    match error:
        case RunChanged():
            return _changed(error)
        case RunUncertain():
            return str(error).replace('on_uncertain="retry"', "--on-uncertain retry")
        case DeadLetter():
            return f"{error} (--retry-dead-letter)"
        case RunNotFound():
            return f"{error}: flowdebate runs lists those that there are"
        case _:
            return str(error)


def _changed(error: RunChanged) -> str:
    lines = [f"{name} {line.strip()}" for name, changes in error.differences.items() for line in changes]
    more = f" and {len(lines) - _LINES} more lines" if len(lines) > _LINES else ""
    return (
        f"store {error.store}: run {error.run_id} was started with other options (- then, + now): "
        f"{'; '.join(lines[:_LINES])}{more}. --allow-changes resumes it all the same."
    )
