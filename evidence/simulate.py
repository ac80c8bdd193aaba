"""Hundreds of thousands of simulated judgments: how often the best side wins, by schedule and kind of bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flowdebate.testing.simulated.draws import normals
from flowdebate.testing.simulated.judge import SimJudge, is_right, orders_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ("CHUNK", "WORLDS", "Ballots", "World", "ballots", "right")

CHUNK = 20_000
"""Number of items per chunk; this many fit into a cache."""
SEED = 1
_QUALITY, _CONTENT, _ORDER = 101, 102, 103
"""Seeds of all draws except a judge's noise."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Quality of the sides, and errors of the judge, both in units of log-odds."""

    sides: int
    quality: float = 1.0
    """Standard deviation of one side's quality."""
    noise: float = 0.5
    """Standard deviation of the noise for one side in one ballot."""
    slot: float | tuple[float, ...] = 0.0
    label: float = 0.0
    content: float = 0.0
    """Standard deviation of what features of the text add, regardless of its quality."""

    def judge(self, seed: int = SEED) -> SimJudge:
        """Create the judge of this world."""
        return SimJudge(slot=self.slot, label=self.label, noise=self.noise, seed=seed)


_HALF = 0.5**0.5
WORLDS = {
    "gap": World(sides=2, quality=_HALF, noise=0.5 * _HALF, slot=1.0),
    "sides": World(sides=2, slot=1.0),
    "four": World(sides=4, slot=1.0),
    "ends": World(sides=4, slot=(1.0, 0.0, 0.0, 1.0)),
    "labels": World(sides=4, slot=1.0, label=1.0),
    "content": World(sides=2, quality=_HALF, noise=0.5 * _HALF, content=_HALF),
    "both": World(sides=2, quality=_HALF, noise=0.5 * _HALF, slot=1.0, content=_HALF),
}
"""Simulated worlds by name.

In `gap` and `content`, the difference between the two sides has distribution N(0, 1), with noise of 0.5.
"""


@dataclass(frozen=True, kw_only=True)
class Ballots:
    """Ballots to cast on each item."""

    schedule: str = "single"
    """Schedule in a form accepted by `as_schedule`; random orders are drawn separately for each item."""
    times: int = 1
    """Number of times that each view is judged."""
    shuffle: bool = False
    """True if the first order is random as well."""
    labels: str = "none"
    """Labels of the sides: "none", "kept" (each side has the same label in all views) or "moved" (as in
    `Schedule.views`).
    """
    biased: bool = True
    """False to remove the judge's preferences for slots and labels."""


def ballots(world: World, cast: Ballots, items: int) -> Iterator[tuple[Any, Any]]:
    """Yield for each chunk of items the log-odds [items, ballots, sides] and the index of each item's best side."""
    judge = world.judge() if cast.biased else World(sides=world.sides, noise=world.noise).judge()
    for start in range(0, items, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, items))
        grid = numbers[:, None], np.zeros(1, dtype=int), np.arange(world.sides)[None, :]
        quality = world.quality * normals(_QUALITY, *grid)
        content = world.content * normals(_CONTENT, *grid) if world.content else None
        orders = _orders(world, cast, numbers)
        odds = judge.log_odds_of(
            quality, orders=orders, called=_called(world, cast, orders), content=content, items=numbers
        )
        yield odds, quality.argmax(axis=1)


def right(world: World, cast: Ballots, items: int, *measures: Callable[[Any], Any]) -> list[Any]:
    """Return for each measure, which turns log-odds into a `Decided`, whether the best side won each item."""
    chunks = [[is_right(way(odds), best) for way in measures] for odds, best in ballots(world, cast, items)]
    return [np.concatenate(values) for values in zip(*chunks, strict=True)]


def _orders(world: World, cast: Ballots, items: Any) -> Any:
    """Return the orders as [views, sides], or as [items, views, sides] if they are random."""
    if cast.schedule.startswith("sampled"):
        drawn = int(cast.schedule[8:-1])
        keys = normals(_ORDER, items[:, None, None], np.arange(drawn)[None, :, None], np.arange(world.sides))
        return np.argsort(keys, axis=-1)
    orders = orders_of(cast.schedule, world.sides)
    if cast.shuffle:
        keys = normals(_ORDER, items[:, None], np.zeros(1, dtype=int), np.arange(world.sides)[None, :])
        orders = np.argsort(keys, axis=-1)[:, orders]
    return np.repeat(orders, cast.times, axis=-2)


def _called(world: World, cast: Ballots, orders: Any) -> Any:
    """Return the number of each side's label in each view; in the first view, the first side has the first label."""
    if cast.labels == "none":
        return None
    views, sides = np.arange(orders.shape[-2])[:, None], np.arange(world.sides)[None, :]
    return (sides + (views if cast.labels == "moved" else 0 * views)) % world.sides
