"""Measuring and printing for benchmarks: CPU time, medians, and comparisons within the same run."""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ("alternating", "print_table")


def alternating(work: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of each piece of work, alternating so that all see the same conditions."""
    for one in work.values():
        one()  # warm up
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, one in work.items():
            gc.collect()
            started = time.process_time()
            one()
            seconds[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, note: str = "") -> None:
    """Print a table with an explanation below it."""
    table = Table(title=title, title_justify="left", caption=note or None, caption_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*map(str, row))
    Console(width=110).print(table)
