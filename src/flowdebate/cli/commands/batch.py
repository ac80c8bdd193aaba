"""`flowdebate batch`: one pattern on many questions, several at once."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import problems_told
from flowdebate.cli.streams import tell, warnings_told, writing
from flowdebate.patterns import PATTERNS
from flowdebate.service.options import Count, FilePath, Text, check_option, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.cli.batch.run import HeldBatch

__all__ = ("BATCH_EXIT_CODES", "batch")

_FAILED, _NO_RESULT, _KILLED = 1, 3, 128
_OWN: Mapping[str, tuple[str, Any]] = {
    "max_concurrency": ("--max-concurrency", Count),
    "out": ("--out", FilePath),
    "name": ("--batch", Text),
    "limit": ("--limit", Count),
    "max_total_calls": ("--max-total-calls", Count),
    "max_total_tokens": ("--max-total-tokens", Count),
    "form": ("--format", one_of("csv", "jsonl", "text")),
}

BATCH_EXIT_CODES = (
    "After Ctrl-C, a crash or a failure, the same command continues: no recorded answer is paid for twice. Exit "
    "codes: 0 done, 1 some failed, 2 misused, 3 some have no result, 130 interrupted, 143 terminated."
)
"""Last words of the help."""


def batch(  # noqa: PLR0913 - the options of the command
    questions: Annotated[
        str,
        typer.Argument(
            metavar="QUESTIONS",
            help='CSV or JSON Lines with a "question" column, or text with a question on each line; "-" is stdin.',
        ),
    ],
    *,
    pattern: Annotated[str, typer.Option(metavar="NAME", help=f"{', '.join(PATTERNS)}.")] = "debate",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help='Write each result to this .jsonl or .csv file as soon as it is there; "-" is stdout.'
        ),
    ] = None,
    max_concurrency: opt.Concurrency = 8,
    name: opt.KeptAs = None,
    limit: opt.FirstOnly = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="csv|jsonl|text", help="Format of the questions. Default: by the file's name."
        ),
    ] = None,
    file: opt.File = None,
    rounds: Annotated[int | None, typer.Option(help="Maximum number of rounds; of a handoff, turns.")] = None,
    synthesizer: Annotated[
        bool | None, typer.Option("--synthesizer/--no-synthesizer", help="A synthesizer writes each output.")
    ] = None,
    model: opt.ModelSpec = None,
    judge_model: opt.JudgeModel = None,
    base_url: opt.BaseUrl = None,
    seed: opt.Seed = None,
    max_calls: opt.CallsOfEach = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of tokens for each question.", rich_help_panel="Limits"),
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Maximum time for each question.", rich_help_panel="Limits")
    ] = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    attempts: opt.Attempts = None,
    fallback: opt.Fallback = None,
    on_failure: opt.OnFailure = None,
    store: opt.StoreName = None,
) -> None:
    """Run a pattern on each question of a file, several at once.

    Put other options of the pattern in --file, as for its own command.
    """
    _carry_out(dict(locals()))


def _carry_out(options: dict[str, Any]) -> None:
    """Run the batch; ends in Exit."""
    own = {key: options.pop(key) for key in (*_OWN, "questions", "pattern", "file", "store")}
    with problems_told(), warnings_told():
        for key, (option, kind) in _OWN.items():
            check_option(kind, option, own[key])
        from flowdebate.cli.batch.rows import read_rows
        from flowdebate.cli.batch.run import Plans, Totals, hold_batch, warned_once
        from flowdebate.service.runs import opened

        rows = read_rows(own["questions"], own["form"])
        totals = Totals(calls=own["max_total_calls"], tokens=own["max_total_tokens"])
        with warned_once(), opened(own["store"]) as place:
            plans = Plans(own["pattern"], options, own["file"], first=rows[0].question)
            name = own["name"] or plans.name(rows)
            held = asyncio.run(
                hold_batch(
                    plans,
                    rows[: own["limit"]],
                    name=name,
                    store=place.store,
                    concurrency=own["max_concurrency"],
                    totals=totals,
                    out=own["out"],
                )
            )
        _finish(held, name, out=own["out"])
    raise typer.Exit(_exit_code(held))


def _finish(held: HeldBatch, name: str, *, out: str | None) -> None:
    """Write the summary, and how to continue."""
    from flowdebate.cli.batch.view import show_summary
    from flowdebate.cli.page import Page

    with writing():
        page = Page(sys.stderr if out == "-" else sys.stdout, [])
        show_summary(page, name, held.summary, out=None if out == "-" else out)
    summary = held.summary
    if held.signal is not None:
        tell(f"Interrupted. To continue: the same command, or any with --batch {name}")
    elif summary.total is not None and summary.done < summary.total:
        tell("The total is used up. To continue: the same command with a higher --max-total-calls (or -tokens)")
    elif summary.failed:
        tell("To try again what failed: the same command")


def _exit_code(held: HeldBatch) -> int:
    if held.signal is not None:
        return _KILLED + held.signal
    summary = held.summary
    if summary.failed:
        return _FAILED
    return _NO_RESULT if held.missing or summary.done != summary.total else 0
