"""Values that blocks and models give at their worst, and that a failing test can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ("Sabotage", "Unprintable", "Unreadable")


class Sabotage(Exception):
    """What hostile functions and values raise; it stands for an exception of the application's own."""


class Unprintable:
    """An object that cannot be turned into text, except for its `repr`.

    >>> str(Unprintable())
    Traceback (most recent call last):
    flowdebate.testing.hostile.Sabotage: __str__
    """

    def __str__(self) -> str:
        raise Sabotage("__str__")

    def __repr__(self) -> str:
        return "Unprintable()"


class Unreadable(Mapping[str, object]):
    """A mapping with plausible keys, whose values cannot be read.

    >>> "winner" in list(Unreadable())
    True
    """

    def __getitem__(self, key: str) -> object:
        raise Sabotage(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("text", "verdict", "winner", "reasoning", "next_speakers", "done"))

    def __len__(self) -> int:
        return 6

    def __repr__(self) -> str:
        return "Unreadable()"
