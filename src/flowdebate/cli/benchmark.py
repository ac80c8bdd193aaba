"""`flowdebate review --benchmark`: review changes with planted faults, and count how many faults are found."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowdebate.cli.asking import Totals, store_for_asking
from flowdebate.cli.batch import Plans, run_batch, show_summary
from flowdebate.cli.batch_files import Row
from flowdebate.cli.terminal.process import open_page, print_message, write_json
from flowdebate.errors import RunNotFound
from flowdebate.store.base import COMPLETE
from flowdebate.ui.options import misuse

if TYPE_CHECKING:
    from flowdebate.evaluation import ReviewBenchmark, ReviewCase
    from flowdebate.patterns import PatternInfo
    from flowdebate.store.base import Store


CHANGES = "evidence/review_faults.jsonl"
"""Benchmark file in the repository; two thirds of its changes contain planted faults."""


def benchmark_reviews(
    info: PatternInfo, options: Mapping[str, Any], *, file: str | None, store: str | None, as_json: bool
) -> None:
    """Review all changes in a file as one batch, and print how many planted faults were found.

    The options' subject is the path of that file. Stored reviews are not repeated, so running the same command again
    continues where it stopped.
    """
    from flowdebate.evaluation import read_review_cases
    from flowdebate.evaluation.documents import lay_out_review_benchmark

    page = info.load_page()
    for name in ("sources", "diff"):
        if options.get(name):
            raise misuse(
                f"--{name}",
                options[name],
                f"--benchmark cannot be combined with --{name}: the benchmark supplies its own changes.",
            )
    cases = read_review_cases(options.get(info.subject) or CHANGES)
    rows = [Row(question=str(page.question_about_sources), columns={"sources": case.sources}) for case in cases]
    values = {name: value for name, value in options.items() if name != info.subject}
    with store_for_asking(store) as place:
        plans = Plans(info.name, values, file, first=rows[0].question)
        batch_id = plans.name(rows)
        totals = Totals()
        finished = asyncio.run(
            run_batch(plans, rows, name=batch_id, store=place.store, concurrency=1, totals=totals, out=None)
        )
        result = asyncio.run(_read_benchmark(place.store, batch_id, cases))
    if result is not None and as_json:
        write_json({"batch": batch_id, "benchmark": result.model_dump(mode="json", by_alias=True)})
    elif not as_json:
        output = open_page()
        show_summary(output, batch_id, finished.summary, models=plans.models)
        if result is not None:
            output.summary(lay_out_review_benchmark(result))
    if result is None:
        print_message("Nothing to count: no review was completed")
    finished.ending(incomplete=result is None or result.left_out > 0).leave()


async def _read_benchmark(store: Store, batch_id: str, cases: Sequence[ReviewCase]) -> ReviewBenchmark | None:
    """Read the stored reviews, including those completed by earlier invocations."""
    from flowdebate.evaluation import review_benchmark
    from flowdebate.patterns.review.schemas import ReviewRawOutput

    outcomes = []
    for index, case in enumerate(cases):
        try:
            stored = await store.run(f"{batch_id}-{index}")
        except RunNotFound:
            continue
        outcome: dict[str, Any] = dict(stored.outcome or {})
        if stored.status in COMPLETE and outcome.get("raw"):
            outcomes.append((case, ReviewRawOutput.model_validate(outcome["raw"]).findings))
    return review_benchmark(outcomes, left_out=len(cases) - len(outcomes)) if outcomes else None
