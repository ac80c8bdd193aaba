"""Batches of cases, each run by one process."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("PARTS", "Share", "make_random", "run_answer_cases", "run_view_cases")


@dataclass(slots=True)
class Share:
    """Results of a batch of cases."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    failed: dict[str, Any] | None = None

    def add(self, share: Share) -> None:
        """Merge in the results of other batches."""
        self.cases += share.cases
        self.outcomes += share.outcomes
        self.slowest = max(self.slowest, share.slowest)
        self.failed = self.failed or share.failed

    def count(self, seconds: float) -> None:
        """Count one finished case."""
        self.cases += 1
        self.slowest = max(self.slowest, seconds)


def make_random(seed: int, index: int) -> Random:
    """Return the random generator for case `index`."""
    return Random(f"{seed}:{index}")


def run_answer_cases(seed: int, indices: range) -> Share:
    """Run mutated answers through the real client and the boundary."""
    return asyncio.run(_answers(seed, indices))


async def _answers(seed: int, indices: range) -> Share:
    from .endpoint import Fuzzed, draw_case

    share = Share()
    async with Fuzzed() as fuzzed:
        for index in indices:
            case = draw_case(make_random(seed, index))
            start = time.perf_counter()
            try:
                share.outcomes[await fuzzed.outcome(case)] += 1
            except Exception:  # noqa: BLE001 - it is what is looked for
                share.failed = {"index": index, **case.told(), "problem": traceback.format_exc()}
                return share
            share.count(time.perf_counter() - start)
    return share


def run_view_cases(seed: int, indices: range) -> Share:
    """Render random debates in every view and count the texts in them."""
    from .views import check_views

    share = Share()
    for index in indices:
        start = time.perf_counter()
        try:
            share.outcomes["texts"] += check_views(make_random(seed, index))
        except Exception:  # noqa: BLE001 - see _answers
            share.failed = {"index": index, "problem": traceback.format_exc()}
            return share
        share.count(time.perf_counter() - start)
    return share


PARTS: dict[str, Callable[[int, range], Share]] = {"answers": run_answer_cases, "views": run_view_cases}
