"""Exact part: laws checked for all cases, without a judge."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from evidence.estimates import table
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, decide, effective_n, is_settled
from flowdebate.patterns.debate.judging.views import Schedule
from flowdebate.testing.simulated.judge import SimJudge, orders_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.patterns.debate.judging.ballots import DecidedBy

__all__ = ("exact",)

MAX_SIDES = 8


def exact() -> str:
    """Return a table of the laws, with the number of cases checked and the number of exceptions."""
    rows = [_latin(), _cancelled(), *(_curtailed(by) for by in ("mean", "vote")), _nine()]
    return table(["law", "cases", "exceptions"], [list(row) for row in rows])


def _latin() -> tuple[str, str, str]:
    squares = [
        Schedule(kind="cyclic").views([str(side) for side in range(sides)], labels=[f"L{n}" for n in range(sides)])
        for sides in range(2, MAX_SIDES + 1)
    ]
    wrong = 0
    for views in squares:
        sides = set(views[0].order)
        slots = [{view.order[slot] for view in views} for slot in range(len(sides))]
        labels = [{view.named(side) for view in views} for side in sides]
        wrong += any(occupants != sides for occupants in slots) or any(
            len(occupants) != len(sides) for occupants in labels
        )
    claim = f"`cyclic` puts each side in each slot once, and under each label once (2 to {MAX_SIDES} sides)"
    return claim, str(len(squares)), str(wrong)


def _cancelled() -> tuple[str, str, str]:
    """Compare the mean log-odds of a biased and an unbiased judge, ignoring what is added to all sides alike."""
    furthest, cases = 0.0, 0
    for schedule, sides in (("swap", 2), *(("cyclic", sides) for sides in range(2, MAX_SIDES + 1))):
        orders = orders_of(schedule, sides)
        quality = np.random.default_rng(sides).normal(size=(1_000, sides))
        bias = np.random.default_rng(-sides % 97).normal(size=sides).tolist()
        log_odds = [SimJudge(slot=slot).log_odds_of(quality, orders=orders).mean(axis=1) for slot in (bias, 0.0)]
        apart = log_odds[0] - log_odds[1]
        furthest = max(furthest, float(np.abs(apart - apart.mean(axis=1, keepdims=True)).max()))
        cases += len(quality)
    claim = "The mean of log-odds cancels an additive slot bias (`swap` for two sides, `cyclic` for any number)"
    return claim, f"{cases:,}", "0" if furthest < 1e-12 else f"off by {furthest:.2g}"


def _curtailed(by: DecidedBy) -> tuple[str, str, str]:
    """Try all possible ballots for 3 sides and, wherever curtailing stops, all ballots that could still follow."""
    sides, planned = ("a", "b", "c"), 4
    kinds = [
        JudgeBallot(order=list(sides), scores=dict(zip(sides, shares, strict=True)))
        for shares in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0.75, 0.25, 0))
    ]
    cases = wrong = 0
    for cast, remaining in _stops(kinds, sides, planned, by):
        winner = decide(cast, sides=sides, by=by).winner
        for rest in product(kinds, repeat=remaining):
            cases += 1
            wrong += winner is None or decide([*cast, *rest], sides=sides, by=by).winner != winner
    return f'After curtailing stops, no remaining ballot can change the winner (by "{by}")', f"{cases:,}", str(wrong)


def _stops(
    kinds: Sequence[JudgeBallot], sides: Sequence[str], planned: int, by: DecidedBy
) -> Iterator[tuple[tuple[JudgeBallot, ...], int]]:
    for size in range(planned):
        for cast in product(kinds, repeat=size):
            if is_settled(cast, remaining=planned - size, sides=sides, by=by):
                yield cast, planned - size


def _nine() -> tuple[str, str, str]:
    claim = "Nine judges whose errors correlate by 0.4375 are worth two (n / (1 + (n - 1) rho))"
    return claim, "1", str(int(effective_n(9) != 2))
