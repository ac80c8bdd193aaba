"""How the archive is asked and told: in the time that it may take."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from flowdebate.resources.archive import Archive
    from flowdebate.runs.context import Context

__all__ = ("answer_of",)

T = TypeVar("T")


async def answer_of(
    archive: Archive,
    call: Callable[[], Awaitable[T]],
    ctx: Context,
    *,
    key: str,
    returns: Any,  # noqa: ANN401 - any type form
) -> T:
    """What a store of `archive` gives; TimeoutError where it takes longer than the archive's patience."""

    async def in_patience() -> T:
        time_limit = asyncio.timeout(archive.patience)
        try:
            async with time_limit:
                return await call()
        except Exception as error:
            if time_limit.expired():
                raise TimeoutError(f"no answer within {archive.patience:g} s") from error
            raise

    found: T = await ctx.step(in_patience, key=key, returns=returns, failures=True)
    return found
