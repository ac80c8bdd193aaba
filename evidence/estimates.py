"""Means and proportions with 95% intervals, and their format."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

__all__ = ("Estimate", "bootstrapped", "mean_of", "table", "wilson")

Z = 1.959964
"""Normal quantile for a 95% interval."""
RESAMPLES = 10_000


class Estimate(NamedTuple):
    """A value with its interval and the number of items behind it."""

    value: float
    low: float
    high: float
    n: int

    def __format__(self, spec: str) -> str:
        """Format as ".681 [.680, .683]", or "-" if there are no items.

        The spec is the number of decimals, such as "3", or "+3" for a difference, which is shown with its sign.
        """
        if not self.n:
            return "-"
        return f"{_short(self.value, spec)} [{_short(self.low, spec)}, {_short(self.high, spec)}]"


def mean_of(values: Any) -> Estimate:
    """Estimate the mean of many independent items, using the normal approximation."""
    samples = np.asarray(values, dtype=float)
    half = Z * float(samples.std(ddof=1)) / math.sqrt(samples.size)
    middle = float(samples.mean())
    return Estimate(middle, middle - half, middle + half, samples.size)


def bootstrapped(values: Any, *, seed: int = 1) -> Estimate:
    """Estimate the mean of a few independent items, using 10,000 bootstrap samples."""
    samples = np.asarray(values, dtype=float)
    if not samples.size:
        return Estimate(math.nan, math.nan, math.nan, 0)
    drawn = np.random.default_rng(seed).integers(0, samples.size, (RESAMPLES, samples.size))
    low, high = np.quantile(samples[drawn].mean(axis=1), [0.025, 0.975])
    return Estimate(float(samples.mean()), float(low), float(high), samples.size)


def wilson(wins: int, n: int) -> Estimate:
    """Compute Wilson's score interval for a proportion (JASA 22, 1927)."""
    share, square = wins / n, Z * Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = Z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return Estimate(share, max(0.0, middle - half), min(1.0, middle + half), n)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Format rows as a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _short(value: float, spec: str) -> str:
    decimals = int(spec.lstrip("+") or 3)
    if round(value, decimals) == 0:
        value = 0.0  # avoids "-.000"
    text = f"{value:{'+' if spec.startswith('+') else ''}.{decimals}f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 and text.lstrip("+-").startswith("0.") else text
