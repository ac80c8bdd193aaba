"""Simulated part that uses the library itself: debates, panels and audits of judges with known properties."""

from __future__ import annotations

import asyncio
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from evidence.estimates import mean_of, table, wilson
from evidence.simulate import SEED
from flowdebate import Debater, debate
from flowdebate.evaluation import full_audit
from flowdebate.patterns.debate.judging.ballots import PUBLISHED_CORRELATION, JudgeBallot, effective_n
from flowdebate.testing.cases import Returns
from flowdebate.testing.simulated.draws import normal, normals
from flowdebate.testing.simulated.judge import SimJudge

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("audits", "debates", "panels")

HALF = 0.5**0.5
SIDES = ("yes", "no")


def debates(count: int = 400) -> str:
    """Hold whole debates, judged through the prompts that the library renders."""
    rows = []
    for name, schedule in (("`sampled(1)`, one order", "sampled(1)"), ("`swap`", "swap")):
        rights = asyncio.run(_debated(schedule, count))
        rows.append([name, f"{mean_of(rights):3}", f"{count:,}"])
    return table(["`debate(judge=…)`", "right", "debates"], rows)


async def _debated(schedule: str, count: int) -> list[float]:
    rights = []
    for item in range(count):
        quality = {side: HALF * normal(SEED, item, 0, at) for at, side in enumerate(SIDES)}
        judge = SimJudge(slot=1.0, noise=HALF / 2, quality=quality, seed=SEED)
        sides = [Debater(side, side, block=Returns(f"{side}, in item {item}")) for side in SIDES]
        pattern = debate(name="item", debaters=sides, max_rounds=1, judge=schedule, synthesizer=False)
        verdict = (await pattern.run(f"Item {item}?", model=judge, seed=item)).raw.verdict
        winner = None if verdict is None else verdict.winner
        rights.append(0.5 if winner is None else float(winner == max(SIDES, key=quality.__getitem__)))
    return rights


def panels(items: int = 400_000) -> str:
    """Measure how many independent judges a panel with correlated errors is worth."""
    rows = []
    grid = np.arange(items)[:, None], np.zeros(1, dtype=int)
    gap = normals(SEED + 1, *grid, np.zeros(1, dtype=int))
    for judges, rho in ((1, 0.0), (2, 0.0), (9, 0.0), (9, 0.2), (9, PUBLISHED_CORRELATION)):
        individual = normals(SEED + 2, *grid, np.arange(judges)[None, :])
        shared = normals(SEED + 3, *grid, np.zeros(1, dtype=int))
        errors = (rho**0.5 * shared + (1 - rho) ** 0.5 * individual).mean(axis=1, keepdims=True)
        rights = ((gap + errors) > 0) == (gap > 0)
        worth = 1 / float(errors.var())
        half = 1.959964 * worth * (2 / items) ** 0.5
        rows.append(
            [
                str(judges),
                f"{rho:.4g}",
                f"{effective_n(judges, rho):.2f}",
                f"{worth:.2f} [{worth - half:.2f}, {worth + half:.2f}]",
                f"{mean_of(rights[:, 0]):3}",
            ]
        )
    return table(["judges", "correlation of errors", "effective n by the formula", "measured", "right"], rows)


def audits(count: int = 1_000) -> str:
    """Measure how often the audit detects a judge's slot preference, and how often it reports a nonexistent one."""
    rows = []
    for rate, items in ((0.5, 54), (0.6, 210), (0.7, 54), (0.8, 23)):
        detected = sum(_finds(seed, rate, items) for seed in range(count))
        rows.append([f"{rate:.0%}", str(items), f"{wilson(detected, count):3}", f"{count:,}"])
    return table(["the first slot wins", "items in an audit", "bias found (p ≤ .05)", "audits"], rows)


def _finds(seed: int, rate: float, items: int) -> bool:
    """Audit a judge that favors the first slot at this rate, and return whether the audit reports it."""
    spread = (1 + 0.25) ** 0.5
    judge = SimJudge(slot=NormalDist().inv_cdf(rate) * spread, noise=HALF / 2, seed=seed)
    audit = full_audit([[ballot] for ballot in _ballots(judge, seed, items)], resamples=0)
    p = audit.slots[0].p
    return p is not None and p <= 0.05


def _ballots(judge: SimJudge, seed: int, items: int) -> Iterator[JudgeBallot]:
    grid: Any = np.arange(items)[:, None], np.zeros(1, dtype=int), np.arange(2)[None, :]
    quality = HALF * normals(seed + 7_000, *grid)
    first = normals(seed + 9_000, np.arange(items), 0, 0) > 0
    orders = np.where(first[:, None], [[0, 1]], [[1, 0]])[:, None, :]
    odds = judge.log_odds_of(quality, orders=orders)[:, 0]
    for order, (yes, no) in zip(orders[:, 0], odds, strict=True):
        presented, winner = [SIDES[side] for side in order], SIDES[0] if yes > no else SIDES[1]
        # unvalidated, since there are half a million of them
        yield JudgeBallot.model_construct(order=presented, winner=winner)
