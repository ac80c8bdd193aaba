"""Warm-up of front ends: imports before the first run, and connections that stay open from run to run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from flowdebate.models.openai.clients import keep_connections, warm_up


@asynccontextmanager
async def keep_warm() -> AsyncIterator[None]:
    """Import in a thread what a first run needs, and keep connections to models open until the block ends."""
    async with keep_connections():
        importing = asyncio.get_running_loop().run_in_executor(None, import_ahead)
        try:
            yield
        finally:
            await importing


def import_ahead() -> None:
    """Import what a debate and its first call need: half a second in which nobody waits yet."""
    import flowdebate.models.wrapper
    import flowdebate.patterns.debate.factory  # noqa: F401

    warm_up()
