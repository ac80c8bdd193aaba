"""Uninterruptible waiting, for calls that must finish even if their caller is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any


async def wait_uncancelled(task: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until `task` is done even if the caller is cancelled; return the cancellation for the caller to raise.

    Use this for calls that decide who owns a run; otherwise, a cancelled caller would not know whether to release it.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():  # `asyncio.shield` protects against only one cancellation, and a timeout causes a second
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
