"""One of something for each event loop, such as a lock."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("PerLoop",)

T = TypeVar("T")


class PerLoop(Generic[T]):
    """What `make` made in each loop; forgotten when another loop comes and the old one is closed.

    >>> locks = PerLoop(asyncio.Lock)
    >>> async def same():
    ...     return locks.here() is locks.here()
    >>> asyncio.run(same())
    True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # not by weak references: what waits in a loop holds the loop
        self._made: dict[asyncio.AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def here(self) -> T:
        """The running loop's."""
        loop = asyncio.get_running_loop()
        found = self._made.get(loop)
        if found is None:
            with self._lock:
                self._made = {known: made for known, made in self._made.items() if not known.is_closed()}
                found = self._made[loop] = self._make()
        return found
