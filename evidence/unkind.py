"""Simulated judges that violate the assumptions of schedules: all-or-nothing scores, unsteady bias, last words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evidence.estimates import mean_of, table
from evidence.simulate import SEED
from flowdebate.testing.simulated.draws import normals
from flowdebate.testing.simulated.judge import decide_all, is_right, shares_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("unkind",)

ITEMS = 200_000
HALF = 0.5**0.5
_QUALITY, _NOISE, _OTHER, _BLUNT = 201, 202, 203, 204
"""Seeds of the draws."""


class Drawn(NamedTuple):
    """Random draws for two sides and two ballots, the second of which has the reverse order."""

    quality: Any
    """Quality: [items, sides]."""
    noise: Any
    """Noise: [items, ballots, sides]."""
    other: Any
    """Draws for any other property of a judge: [items, ballots, sides]."""
    first: Any
    """1 for the side that is read first, otherwise 0: [ballots, sides]."""


class Row(NamedTuple):
    """A judge: what it adds to each side's quality in each ballot, and how often its scores are all-or-nothing."""

    name: str
    adds: Callable[[Drawn], Any]
    blunt: float = 0.0


def _slot(drawn: Drawn) -> Any:
    return drawn.first + drawn.noise


def _anew(drawn: Drawn) -> Any:
    return drawn.first * (1 + drawn.other[:, :, :1]) + drawn.noise


def _close(drawn: Drawn) -> Any:
    gap = np.abs(drawn.quality[:, 0] - drawn.quality[:, 1])
    return drawn.first * (2 * np.exp(-gap))[:, None, None] + drawn.noise


def _last_word(drawn: Drawn) -> Any:
    last = drawn.other[:, :1, :1] > 0
    return drawn.first + np.concatenate([last, ~last], axis=2) + drawn.noise


def _length_only(drawn: Drawn) -> Any:
    """Add what makes quality plus bias equal to length, which has a correlation of one half with quality."""
    quality = drawn.quality[:, None, :]
    return 0.5 * quality + 0.75**0.5 * HALF * drawn.other[:, :1] - quality + drawn.first + drawn.noise


ROWS = (
    Row("graded scores, as above", _slot),
    Row("half of all ballots are all-or-nothing", _slot, blunt=0.5),
    Row("nine in ten", _slot, blunt=0.9),
    Row("all ballots are all-or-nothing", _slot, blunt=1.0),
    Row("slot bias drawn afresh for each ballot, N(1, 1)", _anew),
    Row("slot bias that grows to 2 where sides are close", _close),
    Row("adds 1 for the side that spoke last, in all views", _last_word),
    Row("judges by length alone, which has a correlation of ½ with quality", _length_only),
)


def unkind(scale: float = 1.0) -> str:
    """Tabulate how often one order and both orders are right, with judges that violate the assumptions of schedules."""
    items = max(500, int(ITEMS * scale))
    numbers, ballots, sides = np.arange(items), np.arange(2), np.arange(2)
    grid = numbers[:, None, None], ballots[None, :, None], sides[None, None, :]
    drawn = Drawn(
        quality=HALF * normals(_QUALITY, numbers[:, None], np.zeros(1, dtype=int), sides[None, :]),
        noise=0.5 * HALF * normals(_NOISE, *grid),
        other=normals(_OTHER, *grid),
        first=np.eye(2),
    )
    dull = normals(_BLUNT, numbers[:, None], ballots[None, :], np.full(1, SEED))
    best, rows = drawn.quality.argmax(axis=1), []
    for row in ROWS:
        shares = shares_of(drawn.quality[:, None, :] + row.adds(drawn))
        blunt = dull < np.quantile(dull, row.blunt) if row.blunt < 1 else np.ones_like(dull, dtype=bool)
        shares = np.where(blunt[..., None], shares == shares.max(axis=-1, keepdims=True), shares)
        one, scheduled = (is_right(decide_all(cast), best) for cast in (shares[:, :1], shares))
        rows.append([row.name, f"{mean_of(one):3}", f"{mean_of(scheduled):3}", f"{mean_of(scheduled - one):+3}"])
    return table(["judge", "one order", "`swap`", "`swap` over one order"], rows)
