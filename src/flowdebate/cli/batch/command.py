"""`flowdebate batch`: one pattern on many questions, several at once."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.terminal.process import ExitCode, killed_by, tell, writing
from flowdebate.patterns import PATTERNS
from flowdebate.service.plans.options import FilePath, Option

if TYPE_CHECKING:
    from flowdebate.cli.batch.run import FinishedBatch


@opt.command(
    "model", "judge_model", "base_url", "seed", "max_calls", "max_tokens", "max_seconds", "price", "attempts",
    "fallback", "on_failure",
)  # fmt: skip
def batch(  # noqa: PLR0913 - the options of the command
    questions: Annotated[
        str,
        Option(help='CSV or JSON Lines with a "question" column, or text with a question on each line; "-" is stdin.'),
    ],
    *,
    pattern: Annotated[str, Option(metavar="PATTERN", help=f"{', '.join(PATTERNS)}.")] = "debate",
    out: Annotated[
        FilePath | None,
        Option(
            metavar="FILE", help='Write each result to this .jsonl or .csv file as soon as it is there; "-" is stdout.'
        ),
    ] = None,
    max_concurrency: opt.Concurrency = 8,
    name: opt.BatchName = None,
    limit: opt.FirstOnly = None,
    form: Annotated[
        Literal["csv", "jsonl", "text"] | None,
        Option(flag="--format", help="Format of the questions. Default: by the file's name."),
    ] = None,
    file: opt.File = None,
    rounds: Annotated[int | None, Option(help="Maximum number of rounds; of a handoff, turns.")] = None,
    synthesizer: Annotated[bool | None, Option(help="A synthesizer writes each output.")] = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    store: opt.StoreName = None,
    **given: object,
) -> None:
    """Run a pattern on each question of a file, several at once.

    Put other options of the pattern in --file, as for its own command. Limits hold for each question; those of
    --max-total-calls and --max-total-tokens for all.
    """
    from flowdebate.cli.batch.rows import read_rows
    from flowdebate.cli.batch.run import Plans, Totals, run_batch, warned_once
    from flowdebate.service.runs import opened

    rows = read_rows(questions, form)
    with warned_once(), opened(store) as place:
        options = {"rounds": rounds, "synthesizer": synthesizer, **given}
        plans = Plans(pattern, options, file, first=rows[0].question)
        name = name or plans.name(rows)
        finished = asyncio.run(
            run_batch(
                plans,
                rows[:limit],
                name=name,
                store=place.store,
                concurrency=max_concurrency,
                totals=Totals(calls=max_total_calls, tokens=max_total_tokens),
                out=out,
            )
        )
    _finish(finished, name, models=plans.models, out=out)
    raise typer.Exit(_exit_code(finished))


def _finish(finished: FinishedBatch, name: str, *, models: str, out: str | None) -> None:
    """Write the summary, and how to continue."""
    from flowdebate.cli.batch.view import show_summary
    from flowdebate.cli.terminal.page import Page

    with writing():
        page = Page(sys.stderr if out == "-" else sys.stdout, [])
        show_summary(page, name, finished.summary, models=models, out=None if out == "-" else out)
    summary = finished.summary
    if finished.signal is not None:
        tell(f"Interrupted. To continue: the same command, or any with --batch {name}")
    elif summary.total is not None and summary.done < summary.total:
        tell("The total is used up. To continue: the same command with a higher --max-total-calls (or -tokens)")
    elif summary.failed:
        tell("To try again what failed: the same command")


def _exit_code(finished: FinishedBatch) -> int:
    if finished.signal is not None:
        return killed_by(finished.signal)
    summary = finished.summary
    if summary.failed:
        return ExitCode.FAILED
    return ExitCode.NO_RESULT if finished.missing or summary.done != summary.total else 0
