"""Run random cases on all processors until one breaks a promise.

Run `python -m tests.soak answers --count 1000000`. The summary goes to stdout and progress to stderr. A case that
breaks a promise is written to a file, and the exit code is 1. To run that case again, pass `--seed`, `--first` and
`--count 1`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from .shares import PARTS, Share

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHARE = 500
"""Number of cases per process and batch."""


def run_cases(part: str, *, count: int, seed: int, first: int, processes: int) -> Share:
    """Run `count` cases, stopping at the first that breaks a promise."""
    shares = [range(begin, min(begin + _SHARE, first + count)) for begin in range(first, first + count, _SHARE)]
    total, start, reported = Share(), time.monotonic(), 0.0
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for share in pool.map(partial(PARTS[part], seed), shares):
            total.add(share)
            now = time.monotonic()
            if now - reported > 10 or share.failed:
                reported = now
                sys.stderr.write(f"{part}: {total.cases:,} of {count:,} in {now - start:,.0f} s\n")
            if share.failed:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--count", type=int, default=1_000_000, help="cases")
    parser.add_argument("--seed", type=int, default=1, help="another one draws other cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failed", type=Path, default=Path("soak-failed.json"), help="where a failing case is put")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    total = run_cases(
        options.part, count=options.count, seed=options.seed, first=options.first, processes=options.processes
    )
    lines = [(total.cases, f"cases of {options.part} with seed {options.seed}")]
    lines += [(number, name) for name, number in total.outcomes.most_common()]
    summary = "".join(f"{number:>12,}  {name}\n" for number, name in lines)
    sys.stdout.write(f"{summary}slowest case: {total.slowest:.3f} s; all: {time.monotonic() - start:,.0f} s\n")
    if total.failed is None:
        return 0
    failed = {"part": options.part, "seed": options.seed, **total.failed}
    options.failed.write_text(json.dumps(failed, indent=1), "utf-8")
    sys.stderr.write(f"{failed['problem']}\nThe case is in {options.failed}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
