"""The deadline of one call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from flowdebate.errors import ModelTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ("within",)

T = TypeVar("T")


async def within(seconds: float | None, call: Awaitable[T]) -> T:
    """Await `call`; ModelTimeout once `seconds` have passed, None for no deadline."""
    if seconds is None:
        return await call
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await call
    except Exception as error:
        # A call may turn its cancellation into an error of its own, and one that raises TimeoutError by itself may
        # not pass for the deadline.
        if deadline.expired():
            raise ModelTimeout(seconds) from error
        raise
