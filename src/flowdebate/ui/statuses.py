"""Run statuses as shown in front ends: their wording, and the actions allowed by each one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from flowdebate.store.base import COMPLETE

State: TypeAlias = Literal[
    "queued",
    "running",
    "left_behind",
    "complete",
    "degraded",
    "no_verdict",
    "interrupted",
    "limit",
    "failed",
    "awaiting",
    "rejected",
    "dead_letter",
]
"""A stored run's status as shown to users: `StoredStatus`, or "left_behind" if an unfinished run's process died."""


@dataclass(frozen=True, slots=True)
class Status:
    """Wording and appearance of a status."""

    words: str
    """Description of the status, suitable for use in a sentence or a list."""
    form: Literal["live", "done", "missing", "none", "failed", "waiting"]
    """Display style of the status on a page."""
    mark: str = ""
    """Label for the status on a page; if it is empty, `words` is used."""
    ending: str = ""
    """Description of an unexpected ending, to be completed by a phrase such as "after 2 complete arguments." """


STATUSES: Mapping[str, Status] = {
    "queued": Status("queued", "live"),
    "running": Status("running", "live", mark="Live"),
    "left_behind": Status("left behind", "missing"),
    "complete": Status("complete", "done"),
    "degraded": Status("complete, with gaps", "missing", mark="Degraded", ending="Ended with gaps,"),
    "no_verdict": Status("no verdict", "none", ending="Ended without a verdict,"),
    "interrupted": Status("interrupted", "missing", ending="Interrupted"),
    "limit": Status("limit reached", "missing", mark="Limit", ending="Ended by a limit"),
    "failed": Status("failed", "failed", ending="Failed"),
    "awaiting": Status("waiting for an answer", "waiting", mark="Your turn"),
    "rejected": Status("rejected by its workers", "missing", mark="Rejected"),
    "dead_letter": Status("given up", "failed"),
}

RESUMABLE = ("interrupted", "failed", "limit", "left_behind", "rejected", "no_verdict")
"""Statuses in which a run can continue without user input; a run without a verdict resumes by calling its judge."""
OVER = (*COMPLETE, "failed", "limit", "dead_letter")
"""Statuses in which a run is no longer waiting for anyone."""


def status_text(status: str) -> str:
    """Describe a status in words; a status unknown to this version is returned unchanged.

    >>> status_text("left_behind"), status_text("paused")
    ('left behind', 'paused')
    """
    return STATUSES[status].words if status in STATUSES else status  # a newer version may be using the same store


def status_mark(status: str) -> str:
    """Return the label for a status on a page.

    >>> status_mark("no_verdict"), status_mark("limit")
    ('No verdict', 'Limit')
    """
    words = (STATUSES[status].mark if status in STATUSES else "") or status_text(status)
    return words[:1].upper() + words[1:]
