"""Service that every front end shares: plans, runs, documents and pages. It prints nothing and knows no terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.service.channel import Update
    from flowdebate.service.fork import Fork
    from flowdebate.service.service import Service
    from flowdebate.service.state import PendingInput, RunDetails, RunPage, RunState

__all__ = ("Fork", "PendingInput", "RunDetails", "RunPage", "RunState", "Service", "Update")

_LAZY = {
    "Fork": "fork",
    "PendingInput": "state",
    "RunDetails": "state",
    "RunPage": "state",
    "RunState": "state",
    "Service": "service",
    "Update": "channel",
}
"""Imported at first use: most commands need only a part of it."""

__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
