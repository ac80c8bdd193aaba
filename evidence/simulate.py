"""Simulated judgements by the hundred thousand: share of wins of the best side, by schedule and by kind of bias."""

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
"""Items at once: what a cache holds."""
SEED = 1
_QUALITY, _CONTENT, _ORDER = 101, 102, 103
"""Seeds of what is no noise of a judge."""


@dataclass(frozen=True, kw_only=True)
class World:
    """How good sides are, and how a judge errs: all in units of log-odds."""

    sides: int
    quality: float = 1.0
    """The standard deviation of the quality of one side."""
    noise: float = 0.5
    """The same of the noise of one side in one ballot."""
    slot: float | tuple[float, ...] = 0.0
    label: float = 0.0
    content: float = 0.0
    """The standard deviation of what something in the text adds that has nothing to do with quality."""

    def judge(self, seed: int = SEED) -> SimJudge:
        """The judge of this world."""
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
"""`gap` and `content` are said by the difference of two sides: N(0, 1), noise 0.5."""


@dataclass(frozen=True, kw_only=True)
class Ballots:
    """Which ballots are cast of each item."""

    schedule: str = "single"
    """As `as_schedule` takes it; orders that are drawn are drawn for each item anew."""
    times: int = 1
    """How often each view is judged."""
    shuffle: bool = False
    """Whether the first order is drawn too."""
    labels: str = "none"
    """ "none"; "kept": each side has one label in all views; "moved": as `Schedule.views` moves them."""
    biased: bool = True
    """False: the same judge without a preference for slots and labels."""


def ballots(world: World, cast: Ballots, items: int) -> Iterator[tuple[Any, Any]]:
    """For each chunk of items the log-odds [items, ballots, sides], and which side is best."""
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
    """For each way to decide, which makes a `Decided` of log-odds: for each item whether the best side has won."""
    chunks = [[is_right(way(odds), best) for way in measures] for odds, best in ballots(world, cast, items)]
    return [np.concatenate(values) for values in zip(*chunks, strict=True)]


def _orders(world: World, cast: Ballots, items: Any) -> Any:
    """[views, sides], or [items, views, sides] where they are drawn."""
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
    """The number of each side's label in each view; the first side has the first label in the first view."""
    if cast.labels == "none":
        return None
    views, sides = np.arange(orders.shape[-2])[:, None], np.arange(world.sides)[None, :]
    return (sides + (views if cast.labels == "moved" else 0 * views)) % world.sides
