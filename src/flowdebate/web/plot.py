"""Plots of shares with their intervals, as a page draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.service.audit import FigureRow


_LEFT, _WIDTH, _HEIGHT = 14.0, 300.0, 36.0
"""Of the drawing, in its own units: where 0 is, how far it is to 1, and the height of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """A share on its line."""

    figure: FigureRow
    y: float
    x: float
    low: float | None
    """The ends of the interval; None without one."""
    high: float | None
    even: float | None
    """Where a fair judge would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Shares from 0 to 1, one below the other."""

    rows: tuple[PlotRow, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float


def plot_of(figures: Sequence[FigureRow]) -> Plot | None:
    """The plot of these figures; None without any. Those outside of 0 to 1 are left out."""
    shares = [each for each in figures if 0 <= each.value <= 1]
    rows = tuple(
        PlotRow(
            figure=each,
            y=_HEIGHT * number,
            x=_at(each.value),
            low=None if each.low is None else _at(max(each.low, 0.0)),
            high=None if each.high is None else _at(min(each.high, 1.0)),
            even=None if each.even is None else _at(each.even),
        )
        for number, each in enumerate(shares)
    )
    ticks = tuple((_at(share / 4), f"{25 * share}%") for share in range(5))
    return Plot(rows=rows, ticks=ticks, height=_HEIGHT * len(rows)) if rows else None


def _at(share: float) -> float:
    return round(_LEFT + _WIDTH * share, 1)
