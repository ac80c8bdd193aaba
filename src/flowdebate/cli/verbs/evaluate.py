"""`flowdebate evaluate`: debates over questions with known answers, next to what takes no debate."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import problems_told, write_json
from flowdebate.cli.keys import COMMAND, Key, choice, count, number, path, text
from flowdebate.cli.streams import tell, warnings_told, writing
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.cli.batch.hold import HeldBatch
    from flowdebate.cli.evaluated import Evaluated
    from flowdebate.evaluation.benefit.schemas import BenefitReport

__all__ = ("ENDS_EVALUATE", "evaluate")

_FAILED, _NO_RESULT, _KILLED = 1, 3, 128
_NAMES = ("single", "drafts", "self_consistency")
_KEYS: Mapping[str, Key] = {
    "truth": text("--truth"),
    "worth": number("--worth", "a number between 0 and 1", lambda share: 0 < share < 1),
    "concurrency": count("--concurrency"),
    "out": path("--out"),
    "name": text("--batch"),
    "limit": count("--limit"),
    "max_total_calls": count("--max-total-calls"),
    "max_total_tokens": count("--max-total-tokens"),
}

ENDS_EVALUATE = (
    "The same command again goes on where it was cut short. Exit codes: 0 done, 1 some failed, 2 misused, "
    "3 nothing to compare or not all done, 130 interrupted, 143 terminated."
)
"""What the help of the command ends with."""


def evaluate(  # noqa: PLR0913 - the options of the command
    file_: Annotated[
        str,
        typer.Argument(metavar="FILE", help='CSV or JSON Lines: "question", what is right, and choices; "-" is stdin.'),
    ],
    *,
    truth: Annotated[
        str, typer.Option(metavar="COLUMN", help="What is right: a position, its letter or place from 0, a debater.")
    ] = "answer",
    choices: Annotated[
        list[str] | None,
        typer.Option(
            "--choices",
            metavar="COLUMN",
            help='The positions: a column with a list, or once for each. Default: "choices", if there is one.',
        ),
    ] = None,
    debaters: Annotated[
        list[str] | None,
        typer.Option("--debater", metavar="NAME=STANCE", help="A side of all questions that have no choices."),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option("--baseline", metavar="|".join(_NAMES), help="Compare with it; once for each. Default: all."),
    ] = None,
    worth: Annotated[float, typer.Option(metavar="SHARE", help="The gain in accuracy that would be worth it.")] = 0.1,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write each debate there as it comes: .jsonl or .csv.")
    ] = None,
    concurrency: opt.Concurrency = 8,
    name: opt.KeptAs = None,
    limit: opt.FirstOnly = None,
    file: opt.File = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most.")] = None,
    model: opt.ModelSpec = None,
    judge_model: opt.JudgeModel = None,
    base_url: opt.BaseUrl = None,
    seed: opt.Seed = None,
    max_calls: opt.CallsOfEach = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    attempts: opt.Attempts = None,
    fallback: opt.Fallback = None,
    on_failure: opt.OnFailure = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Hold a debate on each question of a data set, and say in plain words whether it helped, and at which cost.

    Each debate is compared with one call, with the vote of first drafts, and with self-consistency at equal tokens.
    """
    _carry_out(dict(locals()))


def _carry_out(options: dict[str, Any]) -> None:
    """Hold the debates, and report; ends in Exit."""
    with problems_told(), warnings_told():
        own = _checked(options)
        from flowdebate.cli.batch.hold import Totals, hold_batch, warned_once
        from flowdebate.cli.batch.rows import read_rows
        from flowdebate.cli.evaluated import read_evaluated
        from flowdebate.cli.keeping import opened
        from flowdebate.cli.trials import Trials

        rows = read_rows(own["file_"])[: own["limit"]]
        with warned_once(), opened(own["store"]) as place:
            trials = Trials(
                options,
                own["file"],
                rows,
                path=own["file_"],
                truth=own["truth"],
                choices=own["choices"] or (),
                baselines=own["baselines"],
            )
            name = own["name"] or trials.name(rows)
            totals = Totals(calls=own["max_total_calls"], tokens=own["max_total_tokens"])
            held = asyncio.run(
                hold_batch(
                    trials,
                    trials.rows,
                    name=name,
                    store=place.store,
                    concurrency=own["concurrency"],
                    totals=totals,
                    out=own["out"],
                )
            )
            found = asyncio.run(read_evaluated(place.store, name, trials.rows))
        report = _report(found, own["worth"])
        with writing():
            _show(report, found, held, name, as_json=own["as_json"], out=own["out"])
    raise typer.Exit(_exit_code(held, report))


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """What is the command's own, taken out of `options`; ConfigurationError for what cannot be."""
    from flowdebate.evaluation.judges.power import check_installed
    from flowdebate.patterns.debate.baselines import baselines_asked

    own = {key: options.pop(key) for key in (*_KEYS, "file_", "choices", "baselines", "file", "store", "as_json")}
    for key, allowed in _KEYS.items():
        if own[key] is not None and not allowed.fits(own[key]):
            raise ConfigurationError(COMMAND, str(allowed.option), own[key], allowed.allowed)
    if own["out"] == "-":
        raise ConfigurationError(COMMAND, "--out", "-", "the path of a file: the report is written on stdout")
    asked: Any = list(dict.fromkeys(own["baselines"] or _NAMES))
    for given in asked:
        if given not in _NAMES:
            raise ConfigurationError(COMMAND, "--baseline", given, choice("", _NAMES).allowed)
    own["baselines"] = baselines_asked(asked, where=COMMAND)
    check_installed(COMMAND)
    return own


def _report(found: Evaluated, worth: float) -> BenefitReport | None:
    """The report; None where there is nothing to compare."""
    from flowdebate.evaluation.benefit.comparison import helped

    return helped(found.items, worth=worth) if any(item.baselines for item in found.items) else None


def _show(
    report: BenefitReport | None, found: Evaluated, held: HeldBatch, name: str, *, as_json: bool, out: str | None
) -> None:
    from flowdebate.cli.document import as_json as told
    from flowdebate.cli.page import Page
    from flowdebate.cli.pages.batch import show_summary
    from flowdebate.cli.pages.evaluate import report_data, show_report

    if as_json:
        write_json(told(report_data(report, name=name, left_out=found.left_out, lost=found.lost)))
    else:
        page = Page(sys.stdout, ())
        show_summary(page, name, held.summary, out=out)
        if report is not None:
            show_report(report, page, left_out=found.left_out, lost=found.lost)
    if report is None:
        tell("There is nothing to compare: no debate has a verdict and an answer of a baseline")
    if _unfinished(held):
        tell(f"To go on: the same command, or any with --batch {name}")


def _unfinished(held: HeldBatch) -> bool:
    return held.signal is not None or bool(held.summary.failed) or held.summary.done != held.summary.total


def _exit_code(held: HeldBatch, report: BenefitReport | None) -> int:
    if held.signal is not None:
        return _KILLED + held.signal
    if held.summary.failed:
        return _FAILED
    return _NO_RESULT if report is None or _unfinished(held) else 0
