"""Hostile blocks, predicates and values, with a `repr` for readable failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from flowdebate.runs.context import Context


class Sabotage(Exception):
    """Exception of hostile functions and values, like an exception of the application."""


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


Measure = Literal["round", "entries", "calls", "raises"]
"""The input of a predicate: the round, the arguments so far, the model calls so far; or it raises Sabotage."""


@dataclass(frozen=True, init=False, repr=False)
class Returns:
    """A block's function that returns `values` in turn, one for each round, and then from the start.

    Exceptions among them are raised. With `wait` the result is awaitable.

    >>> Returns("For.", "Still for.")
    Returns('For.', 'Still for.')
    """

    values: tuple[Any, ...]
    wait: bool

    def __init__(self, *values: object, wait: bool = False) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "wait", wait)

    def __call__(self, _: object, ctx: Context) -> object:
        return _later(self._value, ctx) if self.wait else self._value(ctx)

    def __repr__(self) -> str:
        return f"Returns({', '.join(map(repr, self.values))}{', wait=True' if self.wait else ''})"

    def _value(self, ctx: Context) -> object:
        value = self.values[(max(ctx.sequencer.state.round, 1) - 1) % len(self.values)]
        if isinstance(value, BaseException):
            raise value
        return value


@dataclass(frozen=True)
class StopWhen:
    """A `terminate_when` that is true once `measure` reaches `at_least`; with `wait` the result is awaitable.

    >>> StopWhen("round", 2)
    StopWhen(measure='round', at_least=2, wait=False)
    """

    measure: Measure
    at_least: int = 0
    wait: bool = False

    def __call__(self, ctx: Context) -> bool | Awaitable[bool]:
        return _later(self._holds, ctx) if self.wait else self._holds(ctx)

    def _holds(self, ctx: Context) -> bool:
        if self.measure == "raises":
            raise Sabotage("terminate_when")
        if self.measure == "round":
            reached = ctx.sequencer.state.round
        elif self.measure == "entries":
            reached = sum(map(len, ctx.scope.handle.state.texts_by_speaker(ctx).values()))
        else:
            reached = ctx.usage.calls
        return bool(reached >= self.at_least)


async def _later(function: Any, ctx: Context) -> Any:  # noqa: ANN401 - either of the two above
    return function(ctx)
