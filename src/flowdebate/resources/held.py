"""A resource that holds an object of the application's or of a pattern's: made anew each time that it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.resources.resource import ResourceScope

__all__ = ("HeldResource",)

HeldT = TypeVar("HeldT")


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldResource(Generic[HeldT]):
    """What `make` makes, under `key`; return the same object for one that all runs share.

    >>> HeldResource(key="notes", make=list).open(None)
    []
    """

    key: str
    make: Callable[[], HeldT]

    def open(self, scope: ResourceScope, /) -> HeldT:
        """The object."""
        del scope
        return self.make()
