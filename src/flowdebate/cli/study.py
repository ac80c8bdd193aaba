"""`flowdebate eval study` and `flowdebate compare`: find the best of several designs, systems or texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flowdebate._util.option_types import Count, Text
from flowdebate.cli import options as opt
from flowdebate.cli.asking import Ending, ProgressLines, Totals, ask, store_for_asking
from flowdebate.cli.batch_files import Row, read_rows
from flowdebate.cli.benefit import read_cell_of, read_choices, read_truth
from flowdebate.cli.terminal.process import (
    check_target,
    open_page,
    print_message,
    write_json,
    write_whole,
)
from flowdebate.errors import BadFile, ConfigurationError, RunChanged
from flowdebate.ui.files import parse_toml, problem_of, read_text
from flowdebate.ui.options import COMMAND, Criterion, FilePath, ModelName, Option, misuse, unknown_key
from flowdebate.ui.tables import csv_line

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.evaluation import ComparisonTable, Registration, Study
    from flowdebate.ui.plan import Plan

_ROWS = (".csv", ".tsv", ".jsonl", ".ndjson")
_FLAGS = {"judges": "--model", "sides": "--side", "criteria": "--criterion", "texts": "FILE"}
"""Command-line flags whose names differ from those of the corresponding `compare_all` options."""


@opt.command("base_url")
def compare(  # noqa: PLR0913 - the options of the command
    files: Annotated[
        list[str], Option(metavar="FILE", help="The texts, one per file, or one file of rows: .csv, .tsv, .jsonl.")
    ],
    *,
    question: Annotated[Text | None, Option(metavar="TEXT", help="The question that the texts answer.")] = None,
    reference: Annotated[
        FilePath | None,
        Option(metavar="FILE", help="File with a reference answer; a file of rows has a column for it."),
    ] = None,
    model: Annotated[
        list[ModelName] | None, Option(metavar="SPEC", help="Model that judges; repeat for several.")
    ] = None,
    criterion: Annotated[
        list[Criterion] | None,
        Option(metavar="NAME[=WEIGHT]", help="Criterion for scoring each text; repeat for a rubric."),
    ] = None,
    orders: Annotated[
        Text, Option(metavar="NAME", help="Orders to judge: all, cyclic, swap, single, sampled(N).")
    ] = "all",
    side: Annotated[
        list[Text] | None,
        Option(metavar="COLUMN", help="Column with a system's texts; repeat for each. Default: all other columns."),
    ] = None,
    truth: Annotated[
        Text | None,
        Option(
            metavar="COLUMN", help="Column with the name of the right system, to report how often judges are right."
        ),
    ] = None,
    limit: opt.FirstOnly = None,
    seed: Annotated[int, Option(help="Seed for the orders; a different seed calls the judges again.")] = 0,
    max_concurrency: opt.Concurrency = 8,
    store: opt.StoreName = None,
    form: Annotated[
        Literal["text", "markdown", "json"], Option(panel="Output", flag="--format", help="Output format.")
    ] = "text",
    base_url: str | None = None,
) -> None:
    """Compare texts that answer a question: judges read them blind, in every order.

    Alternatively, pass one file of rows, each with a question and one text per system. After an interruption, repeating
    the command continues without paying for recorded answers again.
    """
    from flowdebate.evaluation import compare_all
    from flowdebate.evaluation.documents import lay_out
    from flowdebate.patterns.debate.page import weights_of
    from flowdebate.ui.models import Models
    from flowdebate.web.notebook import summary_markdown

    many = len(files) == 1 and Path(files[0]).suffix.lower() in _ROWS
    if many:
        for flag, value in (("--question", question), ("--reference", reference)):
            opt.check(value is None, flag, "cannot be set for a file of rows, which has a column for it")
        source_rows = read_rows(files[0])[:limit]  # an empty cell means that the text is missing
        rows = [
            {"question": row.question, **{key: cell for key, cell in row.columns.items() if cell != ""}}
            | ({} if truth is None or row.columns.get(truth) != "" else {truth: None})
            for row in source_rows
        ]
        blanks = [[key for key, cell in row.columns.items() if cell == ""] for row in source_rows]
    else:
        opt.check(question is not None, "--question", "is required: it is the question that the texts answer")
        opt.check(not side, "--side", "requires a file of rows")
        opt.check(truth is None, "--truth", "requires a file of rows")
        texts = _read_files(files)
        references = {} if reference is None else {"reference": read_text(reference, megabytes=1)}
        rows, side = [{"question": question, **references, **texts}], [*texts]
        blanks = []
    make = Models(base_url)

    async def work(progress: ProgressLines) -> ComparisonTable:
        return await compare_all(
            rows,
            sides=side or None,
            criteria=weights_of(criterion),
            judges=[make(spec, COMMAND, "--model") for spec in model or ()] or None,
            orders=orders,
            truth=truth,
            store=place.store,
            seed=seed,
            max_concurrency=max_concurrency,
            progress=progress.show,
        )

    with store_for_asking(store) as place, _options_named(files[0] if many else None, blanks):
        table = asyncio.run(ask(work))
    if isinstance(table, Signals):
        Ending(signal=table).leave()
    for index, problem in table.failed.items():
        print_message(f"Row {index + 1} could not be compared: {problem}" if many else f"Error: {problem}")
    if not table.rows:
        Ending(failed=len(table.failed)).leave()
    result = table if many else table.comparisons[0] or table
    if form == "json":
        write_json(result.model_dump(mode="json", by_alias=True))
    elif (summary := lay_out(result)) is not None:
        if form == "markdown":
            write_json(summary_markdown(summary).rstrip())
        else:
            open_page().summary(summary)
    Ending(failed=len(table.failed)).leave()


@contextmanager
def _options_named(path: str | None, blanks: Sequence[Sequence[str]]) -> Iterator[None]:
    """Make errors from `compare_all` refer to a flag, or to a row of the file at `path`, instead of an option.

    `blanks` lists the empty columns of each row.
    """
    try:
        yield
    except ConfigurationError as error:
        row = error.location.rpartition("row ")[2]
        if path is not None and row.isdecimal():
            if error.field == "texts" and (empty := blanks[int(row)]):
                names = " and ".join(f"`{name}`" for name in empty)
                are = "is" if len(empty) == 1 else "are"
                raise BadFile(
                    path, f"row {int(row) + 1}: {names} {are} empty: fill in the text, or delete the row"
                ) from None
            received = "" if error.given is None else f" (got {error.given})"
            raise BadFile(path, f"row {int(row) + 1}: `{error.field}` {error.problem}{received}") from None
        flag = _FLAGS.get(error.field, f"--{error.field.replace('_', '-')}")
        raise error.moved(COMMAND, flag) from None


def _read_files(files: Sequence[str]) -> dict[str, str]:
    """Return the files' texts, keyed by file name; folders and extensions are dropped if the names stay unique."""
    stems = [Path(file).stem for file in files]
    names = stems if len(set(stems)) == len(files) else files
    opt.check(
        len(set(names)) == len(files) > 1, "FILE", "must be two or more different files, or one file of rows", files
    )
    texts = {name: read_text(file, megabytes=1) for name, file in zip(names, files, strict=True)}
    for file, text in zip(files, texts.values(), strict=True):
        opt.check(text.strip(), "FILE", "must contain text", file)
    return texts


_OF_ROWS = ("question", "debaters", "pattern", "seed")
"""Options that a design cannot set, because they come from the rows or from the study."""
_LIMITS = ("max_calls", "max_tokens", "max_seconds", "max_cost", "price")
"""Names of the debate limits shared by all designs."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class StudyFile(BaseModel):
    """Contents of a study file; `questions` is a path relative to the file's folder."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, defer_build=True)

    name: Text
    questions: Text
    truth: Text = "answer"
    choices: Text | list[Text] = "choices"
    id: Text | None = None
    cluster: Text | None = None
    designs: dict[str, dict[str, Any]] = Field(min_length=1)
    """Debate options of each design, keyed by the design's name and written as in a plan file."""
    debate: dict[str, Any] = {}
    """Debate options shared by all designs."""
    noise: bool = False
    control: Text | None = None
    control_gain: float = 0.1
    primary: tuple[Text, Text] | None = Field(default=None, strict=False)
    compare: list[Annotated[tuple[Text, Text], Field(strict=False)]] | None = None
    repeats: int = 1
    seed: int = 0
    missing: Literal["wrong", "left out"] = "wrong"
    confidence: float = 0.95
    min_gain: float = 0.05
    prediction: str = ""


@opt.command("model", "base_url", "max_calls", "max_tokens", "price", "attempts")
def study(  # noqa: PLR0913 - the options of the command
    action: Annotated[
        str, Option(metavar="[register|report] STUDY", help="A TOML file, with an optional action before it.")
    ],
    file: Annotated[FilePath | None, Option(metavar="", help="The file, after register or report.")] = None,
    *,
    answers: Annotated[
        FilePath | None,
        Option(metavar="FILE", help="File with the answers so far. Default: STUDY.answers.jsonl next to the study."),
    ] = None,
    registration: Annotated[
        FilePath | None,
        Option(
            metavar="FILE",
            help="File with the registration. Default: STUDY.registration.json next to the study, if it exists.",
        ),
    ] = None,
    limit: Annotated[Count | None, Option(metavar="N", help="Ask N more questions, then report.")] = None,
    seconds: Annotated[
        Count | None, Option(metavar="N", help="Start no more questions after N seconds, then report.")
    ] = None,
    latex: Annotated[
        FilePath | None, Option(panel="Output", metavar="FILE", help="Also write the tables for LaTeX.")
    ] = None,
    html: Annotated[
        FilePath | None,
        Option(panel="Output", metavar="FILE", help="Also write the report as one HTML file; it needs no JavaScript."),
    ] = None,
    frame: Annotated[
        FilePath | None, Option(panel="Output", metavar="FILE", help="Also write one row per answer, as CSV.")
    ] = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    max_concurrency: opt.Concurrency = 4,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    **values: object,
) -> None:
    """Compare debate designs with baselines and with each other, on questions with known answers.

    Ask all unanswered questions, even after an interruption, and report the results. `register STUDY` records the
    questions and comparisons beforehand; `report STUDY` calls no model. --max-calls and --max-tokens apply to each
    debate.
    """
    doing = action if action in ("register", "report") else "ask"
    path = file if doing != "ask" else action
    if path is None or (doing == "ask" and file is not None):
        raise misuse("STUDY", file, "Specify one study file: flowdebate eval study [register|report] STUDY.toml")
    from flowdebate.evaluation import AnswersFile, ask_study, study_report
    from flowdebate.evaluation import frame as frame_of
    from flowdebate.evaluation.documents import lay_out_study
    from flowdebate.evaluation.study import Registration

    for target in (html, latex, frame):
        check_target(None if target is None else Path(target))
    base = Path(path)
    study_read, plan, questions = read_study(path, values)
    answers_path = Path(answers or base.with_suffix(".answers.jsonl"))
    fixed = Path(registration or base.with_suffix(".registration.json"))
    if doing == "register":
        opt.check(not fixed.exists(), "--registration", "already exists and cannot be replaced", str(fixed))
        _show_registration(study_read.register(fixed, model=plan.models), fixed, as_json=as_json)
        return
    registration_read = Registration.read(fixed) if fixed.exists() else None
    opt.check(registration_read or registration is None, "--registration", "does not exist", registration)
    totals = Totals(calls=max_total_calls, tokens=max_total_tokens)

    async def work(progress: ProgressLines) -> None:
        await ask_study(
            study_read,
            answers_path,
            model=plan.models,
            store=place.store,
            limits=plan.limits,
            max_concurrency=max_concurrency,
            maximum=limit,
            seconds=seconds,
            until=totals.reached,
            progress=progress.show,
        )

    signal = None
    if doing == "ask":
        with store_for_asking(store) as place, _in_files(path, questions):
            signal = asyncio.run(ask(work))
    ending = Ending(signal=signal, used_up=totals.used_up, incomplete=True)
    ending.advise()
    with _in_files(path, str(answers_path)):
        answers_found = study_read.answered(AnswersFile(answers_path).answers.values())
    if not answers_found:
        print_message("There is no answer yet")
        raise typer.Exit(ending.exit_code)
    report = study_report(study_read, answers_found, registration=registration_read, model=plan.models)
    for target, text in (
        (html, report.to_html()),
        (latex, report.to_latex()),
        (frame, _as_csv(frame_of(study_read, answers_found))),
    ):
        if target is not None:
            write_whole(Path(target), f"{text.rstrip()}\n")
    if as_json:
        write_json(report.model_dump(mode="json", by_alias=True))
    else:
        open_page().summary(lay_out_study(report))
    raise typer.Exit(replace(ending, incomplete=bool(report.unfinished)).exit_code)


def read_study(path: str, values: Mapping[str, Any]) -> tuple[Study, Plan, str]:
    """Read a study file; return the study, the plan of its first design (models and limits), and its questions file.

    The BadFile raised for an invalid file names either the key at fault, or the question and the column.
    """
    from flowdebate.evaluation.study import Study

    table = parse_toml(read_text(path, megabytes=1), path=path)
    for key in table.keys() - StudyFile.model_fields.keys():
        raise unknown_key(path, key, table[key], list(StudyFile.model_fields))
    try:
        study_file = StudyFile.model_validate(table)
    except ValidationError as error:
        raise BadFile(path, problem_of(error)) from None
    _check_designs(study_file, path)
    rows = _read_rows(study_file, path)

    def planned(design: str, row: Mapping[str, Any], positions: Sequence[str]) -> Plan:
        from flowdebate.patterns import PATTERNS
        from flowdebate.ui.models import with_policies
        from flowdebate.ui.plan import make_plan

        sides = [{"name": letter, "stance": stance} for letter, stance in zip(_LETTERS, positions, strict=False)]
        row_options = Row(question=row["question"], columns=row).options
        options = {"synthesizer": False, **study_file.debate, **study_file.designs[design], **row_options}
        of_row = {"question": row["question"], "debaters": sides}
        return with_policies(make_plan(PATTERNS["debate"], values, file={**options, **of_row}, location=path))

    first = planned(next(iter(study_file.designs)), rows[0], rows[0]["choices"])
    shared = first.models

    def design(name: str) -> Callable[[Mapping[str, Any], Sequence[str]], Block[Any, Any]]:
        def build(row: Mapping[str, Any], positions: Sequence[str]) -> Block[Any, Any]:
            from flowdebate.blocks.sequencer import sequencer

            plan = planned(name, row, positions)
            pattern = plan.pattern()
            # If a design has its own models, its pattern already contains them.
            return pattern if plan.models == shared else sequencer(name=pattern.name, model=plan.models).then(pattern)

        return build

    options = study_file.model_dump(exclude={"questions", "debate", "designs", "choices", "truth"})
    options["fixed"] = {
        f"options of {name}": {**study_file.debate, **design_options}
        for name, design_options in study_file.designs.items()
    }
    with _in_files(path, study_file.questions):
        return (
            Study(rows=rows, designs={name: design(name) for name in study_file.designs}, **options),
            first,
            study_file.questions,
        )


def _read_rows(study_file: StudyFile, path: str) -> list[dict[str, Any]]:
    columns = [study_file.choices] if isinstance(study_file.choices, str) else study_file.choices
    rows = []
    for number, row in enumerate(read_rows(str(Path(path).parent / study_file.questions)), 1):
        choices = read_choices(row, columns, path=study_file.questions, number=number)
        truth = read_truth(
            row, study_file.truth, choices, [""] * len(choices), path=study_file.questions, number=number
        )
        for column in (study_file.id, study_file.cluster, study_file.control):
            if column not in (None, "question"):
                read_cell_of(row, column, path=study_file.questions, number=number)
        rows.append({**row.columns, "question": row.question, "choices": choices, "truth": truth})
    return rows


def _check_designs(study_file: StudyFile, path: str) -> None:
    tables = {
        "debate": study_file.debate,
        **{f"designs.{name}": options for name, options in study_file.designs.items()},
    }
    for name, options in tables.items():
        for key in options:
            if key in _OF_ROWS:
                raise BadFile(path, f"`{name}.{key}` cannot be set, because the rows or the study define it")
            if key in _LIMITS and name != "debate":
                raise BadFile(path, f"`{name}.{key}` must be in [debate]: limits apply to all designs")


@contextmanager
def _in_files(path: str, questions: str) -> Iterator[None]:
    """Add the study file's name to errors about the study, and the questions file's name to errors about a row."""
    try:
        yield
    except RunChanged as error:
        changed = f"`{error.run_id}` was started with a different {' and a different '.join(error.differences)}"
        raise BadFile(
            path, f"{changed}: restore the original, or start a new study with a different `name` or `seed`"
        ) from None
    except ConfigurationError as error:
        field, _, row = error.field.rpartition(" of row ")
        if row.isdecimal() and field:
            problem = f"`{field}` {error.problem}{'' if error.given is None else f' (got {error.given})'}"
            raise BadFile(questions, f"question {int(row) + 1}: {problem}") from None
        if not error.location.startswith("study "):
            raise
        raise error.moved(path, error.field) from None


def _show_registration(registration: Registration, path: Path, *, as_json: bool) -> None:
    if as_json:
        write_json(registration.model_dump(mode="json", by_alias=True))
        return
    page = open_page()
    page.labeled("Registered", str(path), "bold", indent="")
    page.labeled("Hash", registration.hash, "dim", indent="")
    for name, value in registration.fixed.items():
        # The value contains either hashes keyed by design, or names.
        parts = [f"{key} {part[:12]}" for key, part in value.items()] if isinstance(value, dict) else value
        text = "; ".join(parts) if isinstance(parts, list) else str(value)
        page.labeled(name.replace("_", " ").capitalize(), text, "plain")


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
    return "".join(map(csv_line, [list(rows[0]), *cells] if rows else []))
