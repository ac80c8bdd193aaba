"""Template data for plots without scripts: rows of shares with intervals, and scatter plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from math import floor, log10
from string import ascii_lowercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdebate.evaluation.stored_audit import FigureRow

    Ticks = tuple[tuple[float, str], ...]

_LEFT, _WIDTH, _HEIGHT = 14.0, 300.0, 36.0
"""Layout of a share plot, in SVG units: the position of 0, the distance from 0 to 1, and the height of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """A share shown in its own row."""

    figure: FigureRow
    y: float
    x: float
    low: float | None
    """Lower end of the interval; None if there is no interval."""
    high: float | None
    even: float | None
    """Share expected from a fair judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Plot of shares on a scale from 0 to 1, one row per share."""

    rows: tuple[PlotRow, ...]
    ticks: Ticks
    height: float


def plot_of(figures: Sequence[FigureRow]) -> Plot | None:
    """Create a plot of the figures between 0 and 1, omitting all others; return None if no figures remain."""
    shares = [figure for figure in figures if 0 <= figure.value <= 1]
    rows = tuple(
        PlotRow(
            figure=entry,
            y=_HEIGHT * number,
            x=_at(entry.value),
            low=None if entry.low is None else _at(max(entry.low, 0.0)),
            high=None if entry.high is None else _at(min(entry.high, 1.0)),
            even=None if entry.even is None else _at(entry.even),
        )
        for number, entry in enumerate(shares)
    )
    ticks = tuple((_at(share / 4), f"{25 * share}%") for share in range(5))
    return Plot(rows=rows, ticks=ticks, height=_HEIGHT * len(rows)) if rows else None


def _at(share: float) -> float:
    return round(_LEFT + _WIDTH * share, 1)


_X, _Y = (40.0, 308.0), (200.0, 12.0)
"""Start and end of each axis in a scatter plot."""
_QUARTERS = [(quarter / 4, f"{25 * quarter}%") for quarter in range(5)]
_APART = 12.0
"""Minimum distance at which two letters remain legible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Point with a vertical interval, in the units of the plot."""

    name: str
    description: str
    """Description of the point in words."""
    x: float
    y: float
    low: float
    high: float
    letter: tuple[str, float, float] | None = None
    """Letter that marks the point, and its position; None for a point without a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Scatter plot with shares on the vertical axis."""

    points: tuple[Point, ...]
    x_ticks: Ticks
    y_ticks: Ticks
    line: tuple[tuple[float, float], ...]
    """Line drawn across the plot, as a list of its points."""
    name: str
    """Title of the horizontal axis."""
    across: tuple[float, float] = field(default=_X)
    up: tuple[float, float] = field(default=_Y)


def scatter_of_costs(points: Sequence[Point], *, line: Sequence[str], name: str) -> Scatter | None:
    """Plot points by cost on a logarithmic scale, with a `line` through the named points.

    Return None if there are no points.
    """
    lowest, highest = (end(point.x for point in points) if points else 0.0 for end in (min, max))
    if lowest <= 0:
        return None
    low, high = log10(lowest) - 0.1, log10(highest) + 0.1
    powers = range(floor(low), floor(high) + 1)
    steps = [part * 10.0**power for power in powers for part in (1, 2, 5)]

    def across(x: float) -> float:
        return (log10(x) - low) / (high - low)

    ticks = [(across(step), f"{step:,.0f}" if step >= 1 else f"{step:g}") for step in steps if 0 <= across(step) <= 1]
    placed = _placed(points, across)
    by_name = {point.name: (point.x, point.y) for point in placed}
    return _drawn(placed, ticks, [by_name[point_name] for point_name in line], name)


def scatter_of_shares(points: Sequence[Point], *, name: str) -> Scatter | None:
    """Plot one share against another, with a diagonal where both are equal; return None if there are no points."""
    if not points:
        return None
    ends = [(_on(_X, 0.0), _on(_Y, 0.0)), (_on(_X, 1.0), _on(_Y, 1.0))]
    return _drawn(_placed(points, lambda share: share), _QUARTERS, ends, name)


def _placed(points: Sequence[Point], across: Callable[[float], float]) -> list[Point]:
    """Convert points to the plot's units, and position their letters so that they do not overlap."""
    placed: list[Point] = []
    occupied: list[tuple[float, float]] = []
    for point, letter in zip(points, cycle(ascii_lowercase)):
        x, y = _on(_X, across(point.x)), _on(_Y, point.y)
        # Put the letter in the first free place: to the right of its marker, or else to the left, above or below.
        places = [(x + 10, y + 4), (x - 10, y + 4), *((x + 10, y + 4 + step * _APART) for step in (-1, 1, -2, 2))]
        free = (
            candidate
            for candidate in places
            if all(max(abs(candidate[0] - a), abs(candidate[1] - b)) >= _APART for a, b in occupied)
        )
        place = next(free, places[0])
        occupied += [place, (x, y + 4)]
        label = (letter, *place) if point.name else None
        ends = {"low": _on(_Y, point.low), "high": _on(_Y, point.high)}
        placed.append(Point(name=point.name, description=point.description, letter=label, x=x, y=y, **ends))
    return placed


def _drawn(
    points: Sequence[Point], ticks: Sequence[tuple[float, str]], line: Sequence[tuple[float, float]], name: str
) -> Scatter:
    return Scatter(
        points=tuple(points),
        x_ticks=tuple((_on(_X, at), text) for at, text in ticks),
        y_ticks=tuple((_on(_Y, at), text) for at, text in _QUARTERS),
        line=tuple(line),
        name=name,
    )


def _on(axis: tuple[float, float], share: float) -> float:
    return round(axis[0] + (axis[1] - axis[0]) * share, 1)
