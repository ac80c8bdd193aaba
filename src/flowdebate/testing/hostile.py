"""What blocks and models do at their worst, as values that a failing test can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ("Returns", "Sabotage", "Unprintable", "Unreadable")


class Sabotage(Exception):  # noqa: N818 - errors are named for what happened
    """What the hostile objects of `flowdebate.testing` raise: it stands for an exception of the application's own."""


class Unprintable:
    """An object that cannot be turned into text.

    >>> str(Unprintable())
    Traceback (most recent call last):
    flowdebate.testing.hostile.Sabotage: __str__
    """

    def __str__(self) -> str:
        raise Sabotage("__str__")

    def __repr__(self) -> str:
        return "Unprintable()"


class Unreadable(Mapping[str, Any]):
    """A mapping with plausible keys whose values cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise Sabotage(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("text", "verdict", "winner", "reasoning", "next_speakers", "done"))

    def __len__(self) -> int:
        return 6

    def __repr__(self) -> str:
        return "Unreadable()"


@dataclass(frozen=True)
class Returns:
    """A block's function that returns `values`, one for each round and then from the first again.

    A value that is an exception is raised.

    >>> Returns("For.", "Still for.")
    Returns('For.', 'Still for.')
    """

    values: tuple[Any, ...]
    wait: bool = False
    """True: it is to be awaited."""

    def __init__(self, *values: Any, wait: bool = False) -> None:
        object.__setattr__(self, "values", values or (None,))
        object.__setattr__(self, "wait", wait)

    def __call__(self, _: object, ctx: Any) -> Any:
        return self._later(ctx) if self.wait else self._value(ctx)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.values))
        return f"Returns({shown}{', wait=True' if self.wait else ''})"

    async def _later(self, ctx: Any) -> Any:
        return self._value(ctx)

    def _value(self, ctx: Any) -> Any:
        value = self.values[(max(ctx.sequencer.state.round, 1) - 1) % len(self.values)]
        if isinstance(value, BaseException):
            raise value
        return value
