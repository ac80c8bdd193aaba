"""Seats of a run: which model has answered for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from flowdebate.runs.durable.suspend import role_in_name
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from collections.abc import Iterable


def models_by_seat(events: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """Return the names of the models that have answered, by seat: a name on the roster, a role, or a block."""
    seats: dict[str, dict[str, None]] = {}
    for event in events:
        if isinstance(event, ModelCalled) and event.error is None:
            answered = event.attempts[-1].model if event.attempts else event.model  # a fallback, perhaps
            seats.setdefault(_seat_of(event), {})[answered] = None
    return {seat: tuple(models) for seat, models in seats.items()}


def _seat_of(call: ModelCalled) -> str:
    """Return the seat of a call, whose block is "{pattern}-{role}-{member}" where it is that of a member."""
    if call.role in ("debater", "reviewer"):
        for pattern in call.path.split("/"):
            name = call.block.removeprefix(f"{unquote(pattern)}-").removeprefix("stand-in-")
            if name != call.block and role_in_name(call.block, pattern) is not None:
                return name.partition("-")[2] or call.role
    return call.role or call.block
