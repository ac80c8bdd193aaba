"""Schedules of judge views: orders and labels of the sides.

A judge that favours a slot or a label favours a side if it sees one view. If every side has every slot once, it favours
all sides equally, and the average of its scores is free of that bias.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ScheduleKind = Literal["single", "swap", "cyclic", "full", "sampled"]
ScheduleLike: TypeAlias = "Schedule | str"
"""A schedule, or its name: "single", "swap", "cyclic", "full", "sampled(5)"."""

NAMES = '"single", "swap", "cyclic", "full" or "sampled(n)"'
"""The names of schedules, for error messages."""
FULL_AT_MOST = 4
"""The most sides for `full`: five would need 120 calls."""
_SAMPLED = r"sampled\(([0-9]{1,6})\)"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeView:
    """One order of the sides, with or without labels, in which a judge reads a transcript."""

    order: tuple[str, ...]
    """The sides by slot: in each round the arguments of the first come first."""
    labels: Mapping[str, str] | None = None
    """The label of each side; None: sides are called by their stances."""

    def named(self, side: str) -> str:
        """The label of `side`, or its stance."""
        return side if self.labels is None else self.labels[side]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The set of views that a judge is asked about, one call each.

    - "single": one random order.
    - "swap": one order and its reverse; enough for two sides.
    - "cyclic": as many orders as sides, a Latin square: each side is in each slot once, so that a slot's bonus goes to
      all of them.
    - "full": every order, for at most four sides.
    - "sampled(n)": n random orders; reduces noise, and bias only on average.
    """

    kind: ScheduleKind = "single"
    size: int | None = None
    """The number of orders of a sampled schedule."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ScheduleKind):
            raise ConfigurationError("schedule", "kind", self.kind, f"one of {', '.join(get_args(ScheduleKind))}")
        drawn = self.size
        if self.kind != "sampled":
            if drawn is not None:
                raise ConfigurationError(
                    f"schedule {self.kind!r}", "size", drawn, "None: only a sampled schedule has a size"
                )
        elif isinstance(drawn, bool) or not isinstance(drawn, int) or drawn < 1:
            raise ConfigurationError("schedule 'sampled'", "size", drawn, "an int >= 1")

    def __str__(self) -> str:
        return self.kind if self.size is None else f"{self.kind}({self.size})"

    def calls(self, sides: int) -> int:
        """The number of views for a number of sides; ConfigurationError if there are too many."""
        if self.kind == "full" and sides > FULL_AT_MOST:
            raise ConfigurationError(
                "schedule 'full'", "sides", sides, f"at most {FULL_AT_MOST}; use 'cyclic' for more"
            )
        sizes = {"single": 1, "swap": min(2, sides), "cyclic": sides, "full": math.factorial(min(sides, FULL_AT_MOST))}
        return self.size if self.size is not None else sizes[self.kind]

    def views(
        self,
        sides: Sequence[str],
        *,
        random: Random | None = None,
        shuffle: bool = True,
        labels: Sequence[str] | None = None,
    ) -> tuple[JudgeView, ...]:
        """The views of `sides`, drawn from `random` (None: `Random(0)`).

        Without `shuffle` the first view has the order of `sides`. `labels`, one for each side, rotate from view to view
        against the slots: in as many views as sides, each side has each label once.

        >>> [view.order for view in Schedule(kind="cyclic").views(["a", "b", "c"], shuffle=False)]
        [('a', 'b', 'c'), ('b', 'c', 'a'), ('c', 'a', 'b')]
        """
        if len(set(sides)) != len(sides) or not sides:
            raise ConfigurationError(f"schedule {str(self)!r}", "sides", sides, "at least one side, without duplicates")
        if labels is not None and len(set(labels)) < max(len(sides), len(labels)):
            raise ConfigurationError(
                f"schedule {str(self)!r}", "labels", labels, f"{len(sides)} different labels, one for each side"
            )
        self.calls(len(sides))
        source = Random(0) if random is None else random  # noqa: S311 - repeatable on purpose
        orders = self._orders(list(sides), source, shuffle=shuffle)
        if labels is None:
            return tuple(JudgeView(order=order) for order in orders)
        called = list(sides)
        if shuffle:
            source.shuffle(called)
        return tuple(
            JudgeView(order=order, labels={side: labels[(at + view) % len(called)] for at, side in enumerate(called)})
            for view, order in enumerate(orders)
        )

    def _orders(self, sides: list[str], source: Random, *, shuffle: bool) -> list[tuple[str, ...]]:
        if self.kind == "sampled":
            return [tuple(source.sample(sides, len(sides))) for _ in range(self.calls(len(sides)))]
        if shuffle:
            source.shuffle(sides)
        if self.kind == "full":
            return list(permutations(sides))
        if self.kind == "swap":
            return [tuple(sides), tuple(reversed(sides))][: self.calls(len(sides))]
        return [tuple(sides[view:] + sides[:view]) for view in range(self.calls(len(sides)))]


def sampled(n: int) -> Schedule:
    """The schedule of `n` random orders; ConfigurationError below one."""
    return Schedule(kind="sampled", size=n)


def as_schedule(value: Any, *, where: str, field: str = "schedule", allowed: str = NAMES) -> Schedule:  # noqa: ANN401 - what an application or a person gave
    """Read `value`, a schedule or its name; ConfigurationError with the allowed names.

    >>> as_schedule("sampled(5)", where="debate").size
    5
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        if drawn := re.fullmatch(_SAMPLED, value):
            return sampled(int(drawn[1]))
        if value in get_args(ScheduleKind) and value != "sampled":
            return Schedule(kind=value)  # type: ignore[arg-type] # it is one of them
    raise ConfigurationError(where, field, value, allowed)
