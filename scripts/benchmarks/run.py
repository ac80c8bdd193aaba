"""Run all benchmarks, one after another; those that need a real model report if there is none."""

from __future__ import annotations

import consensus
import deadlines
import durable
import fairness
import felt
import fleet
import http_runs
import import_time
import in_flight
import memory
import overhead
import pages
import policies
import prefix_reuse
import readers
import run_lists
import telemetry


def main() -> None:
    for benchmark in (
        felt,
        import_time,
        overhead,
        consensus,
        policies,
        durable,
        fairness,
        deadlines,
        memory,
        in_flight,
        readers,
        run_lists,
        http_runs,
        fleet,
        pages,
        telemetry,
        prefix_reuse,
    ):
        benchmark.main()


if __name__ == "__main__":
    main()
