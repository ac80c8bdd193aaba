"""`flowdebate compare`: which of several texts is better, or which system over many questions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.batch_files import read_rows
from flowdebate.cli.terminal.process import ExitCode, open_page, tell, write_json
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.service.plans.files import read_text
from flowdebate.service.plans.options import COMMAND, FilePath, ModelName, Option, Text

if TYPE_CHECKING:
    from flowdebate.evaluation import ComparisonTable

_ROWS = (".csv", ".tsv", ".jsonl", ".ndjson")
_FLAGS = {"judges": "--judge", "criteria": "--criterion", "orders": "--orders", "question": "--question"}


@opt.command("base_url")
def compare(  # noqa: PLR0913 - the options of the command
    files: Annotated[
        list[str], Option(metavar="FILE", help="The texts, a file each; or one file of rows: .csv, .tsv, .jsonl.")
    ],
    *,
    question: Annotated[Text | None, Option(metavar="TEXT", help="What the texts answer.")] = None,
    reference: Annotated[
        FilePath | None, Option(metavar="FILE", help="An answer that is known to be right; rows have a column for it.")
    ] = None,
    judge: Annotated[
        list[ModelName] | None, Option(metavar="SPEC", help="Model that judges; repeat for several.")
    ] = None,
    criterion: Annotated[
        list[str] | None, Option(metavar="NAME[=WEIGHT]", help="Score each text by this; repeat for a rubric.")
    ] = None,
    orders: Annotated[
        Text, Option(metavar="NAME", help="Orders that are judged: all, cyclic, swap, single, sampled(N).")
    ] = "all",
    side: Annotated[
        list[Text] | None, Option(metavar="COLUMN", help="Column of a system; repeat. Default: all other columns.")
    ] = None,
    limit: opt.FirstOnly = None,
    seed: Annotated[int, Option(help="Another number asks anew.")] = 0,
    max_concurrency: opt.Concurrency = 8,
    store: opt.StoreName = None,
    form: Annotated[
        Literal["text", "markdown", "json"], Option(panel="Output", flag="--format", help="Form of what is printed.")
    ] = "text",
    **given: object,
) -> None:
    """Compare texts that answer a question: judges read them blind, in all orders.

    With one file of rows, each has a question and a text of each system. The same command again goes on where it was
    interrupted, and pays for nothing twice.
    """
    from flowdebate.service.documents.evaluations import lay_out
    from flowdebate.service.plans.models import Models
    from flowdebate.service.runs import opened
    from flowdebate.web.notebook import summary_markdown

    many = len(files) == 1 and Path(files[0]).suffix.lower() in _ROWS
    if many:
        for flag, value in (("--question", question), ("--reference", reference)):
            opt.check(value is None, flag, value, "left out for a file of rows, which has a column for it")
        read = read_rows(files[0])[:limit]  # an empty cell is no text
        rows = [
            {"question": each.question, **{k: cell for k, cell in each.others.items() if cell != ""}} for each in read
        ]
    else:
        opt.check(question is not None, "--question", question, "what the texts answer")
        opt.check(not side, "--side", side, "left out for files of texts")
        texts = _read_files(files)
        known = {} if reference is None else {"reference": read_text(reference, megabytes=1)}
        rows, side = [{"question": question, **known, **texts}], [*texts]
    make = Models(given["base_url"])  # type: ignore[arg-type] # a text or None, as its option says
    with opened(store) as place:
        table = asyncio.run(
            _compare(
                rows, path=files[0] if many else None, sides=side or None, criteria=_read_criteria(criterion),
                judges=[make(spec, COMMAND, "--judge") for spec in judge or ()] or None,
                orders=orders, store=place.store, seed=seed, max_concurrency=max_concurrency,
            )
        )  # fmt: skip
    for index, problem in table.failed.items():
        tell(f"Row {index + 1} could not be compared: {problem}" if many else f"Error: {problem}")
    if not table.comparisons:
        raise typer.Exit(ExitCode.FAILED)
    found = table if many else table.comparisons[0]
    if form == "json":
        write_json(found.model_dump(mode="json", by_alias=True))
    elif (summary := lay_out(found)) is not None:
        if form == "markdown":
            write_json(summary_markdown(summary).rstrip())
        else:
            open_page().summary(summary)
    if table.failed:
        raise typer.Exit(ExitCode.FAILED)


async def _compare(rows: Sequence[Mapping[str, Any]], *, path: str | None, **options: Any) -> ComparisonTable:  # noqa: ANN401 - those of compare_all
    """The table; errors name the option, or the row of the file at `path`."""
    from flowdebate.evaluation import compare_all

    try:
        return await compare_all(rows, **options)
    except ConfigurationError as error:
        row = error.where.rpartition("row ")[2]
        if path is not None and row.isdecimal():
            raise BadFile(path, f"row {int(row) + 1}: `{error.field}` must be {error.allowed}") from None
        if error.field not in _FLAGS:
            raise
        raise ConfigurationError(COMMAND, _FLAGS[error.field], error.got, error.allowed) from None


def _read_files(files: Sequence[str]) -> dict[str, str]:
    """The texts by the names of their files, without what is the same in all where that tells them apart."""
    stems = [Path(file).stem for file in files]
    names = stems if len(set(stems)) == len(files) else files
    opt.check(len(set(names)) == len(files) > 1, "FILE", files, "different files, two or more; or one of rows")
    return {name: read_text(file, megabytes=1) for name, file in zip(names, files, strict=True)}


def _read_criteria(given: Sequence[str] | None) -> Mapping[str, float] | None:
    criteria: dict[str, float] = {}
    for each in given or ():
        name, _, weight = each.rpartition("=") if "=" in each else (each, "", "1")
        try:
            criteria[name.strip()] = float(weight)
        except ValueError:
            name = ""
        opt.check(name.strip(), "--criterion", each, "NAME or NAME=WEIGHT")
    return criteria or None
