"""`flowdebate eval benefit`: compare debates with baselines, on questions with known answers."""

from __future__ import annotations

import asyncio
import json
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from flowdebate._text import counted, join_choices, missing_column, typed
from flowdebate._util.option_types import Text, number
from flowdebate.cli import options as opt
from flowdebate.cli.asking import Totals, store_for_asking
from flowdebate.cli.batch import Plans, hash_name, run_batch, show_summary
from flowdebate.cli.batch_files import Row, read_rows
from flowdebate.cli.terminal.process import open_page, print_message, write_json
from flowdebate.errors import BadFile
from flowdebate.patterns.debate.baseline_names import BASELINES, BUDGETED, BaselineName, Equal
from flowdebate.ui.options import COMMAND, FilePath, ModelName, Option, misuse

if TYPE_CHECKING:
    from flowdebate.evaluation import BenefitItem, BenefitReport
    from flowdebate.store.base import Store


_Gain = Annotated[float, Field(gt=0, lt=1), number(above=0, below=1)]


@opt.command("model", "base_url", "seed", "max_calls", "price", "attempts", "fallback", "on_failure", "quorum")
def benefit(  # noqa: PLR0913 - the options of the command
    questions: Annotated[
        str,
        Option(metavar="FILE", help='CSV or JSON Lines: "question", the right answer, and choices; "-" is stdin.'),
    ],
    *,
    truth: Annotated[
        Text,
        Option(
            metavar="COLUMN",
            help="Column with the right answer: a position, its letter or number from 0, or a debater.",
        ),
    ] = "answer",
    choices: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help='Column with a list of positions; or repeat, with one column for each. Default: "choices", if there '
            "is one.",
        ),
    ] = None,
    debaters: Annotated[
        list[str] | None,
        Option(flag="--debater", metavar="NAME=STANCE", help="A side for all questions that have no choices."),
    ] = None,
    baselines: Annotated[
        list[BaselineName] | None,
        Option(
            flag="--baseline",
            metavar="|".join(get_args(BaselineName)),
            help="A baseline to compare with; repeat for each. Default: single, self_consistency; drafts for three "
            "sides or more.",
        ),
    ] = None,
    equal: Annotated[
        Equal | None,
        Option(
            help="Resource of which self-consistency and a revision may use as much as the debate; cost needs --price."
        ),
    ] = None,
    min_gain: Annotated[
        _Gain, Option(metavar="SHARE", help="The smallest gain in accuracy that is worth the cost.")
    ] = 0.05,
    cluster: Annotated[
        Text | None,
        Option(
            metavar="COLUMN",
            help="Column with a property that questions share, such as a topic; questions in the same cluster are "
            "not independent.",
        ),
    ] = None,
    missing: Annotated[Literal["wrong", "left-out"], Option(help="How to count a debate without a verdict.")] = "wrong",
    schedule: Annotated[
        Text | None,
        Option(metavar="NAME", help="The judge views: single, swap, cyclic, full, sampled(N). Default: single."),
    ] = None,
    panel: Annotated[
        list[ModelName] | None, Option(metavar="SPEC", help="A model on a panel of judges; repeat for each.")
    ] = None,
    labels: Annotated[bool, Option(help="Show the sides to the judge as A, B, … instead of by their stances.")] = False,
    out: Annotated[
        FilePath | None,
        Option(metavar="FILE", help="Write each debate to this file as soon as it is done: .jsonl or .csv."),
    ] = None,
    max_concurrency: opt.Concurrency = 8,
    name: opt.BatchName = None,
    limit: opt.FirstOnly = None,
    file: opt.File = None,
    max_rounds: Annotated[int | None, Option(help="Maximum number of rounds.")] = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    **values: object,
) -> None:
    """Measure whether debates help on a data set, and at what cost.

    Each debate is compared with a single call, a vote among first drafts, and self-consistency with the same token
    budget. --max-calls applies to each question.
    """
    from flowdebate.evaluation.benefit import benefit_report
    from flowdebate.evaluation.documents import lay_out_benefit
    from flowdebate.patterns.debate.baselines import read_baselines

    opt.check(out != "-", "--out", "must be the path of a file: the report is printed anyway", "-")
    compared = read_baselines(list(dict.fromkeys(baselines)), location=COMMAND) if baselines else None
    needs_all = equal is None or compared is None or BUDGETED.intersection(compared)
    opt.check(needs_all, "--equal", f"requires --baseline {' or '.join(sorted(BUDGETED))}")
    if find_spec("scipy") is None:
        raise misuse("scipy", None, '`flowdebate eval benefit` needs scipy: pip install "flowdebate[audit]"')
    rows = read_rows(questions)[:limit]
    opt.check(
        cluster is None or all(cluster in row.columns for row in rows),
        "--cluster",
        "is not a column of every row",
        cluster,
    )
    with store_for_asking(store) as place:
        judging = {"schedule": schedule, "panel": panel or None, "labels": labels or None}
        options = {"debaters": debaters, "max_rounds": max_rounds, **judging, **values}
        plans = EvaluationPlans(
            options, file, rows, path=questions, truth=truth, choices=choices or (), baselines=compared, equal=equal
        )
        name = name or plans.name(rows)
        finished = asyncio.run(
            run_batch(
                plans,
                plans.questions,
                name=name,
                store=place.store,
                concurrency=max_concurrency,
                totals=Totals(calls=max_total_calls, tokens=max_total_tokens),
                out=out,
            )
        )
        outcome = asyncio.run(_read_outcome(place.store, name, plans.questions, cluster))
    report: BenefitReport | None = None
    if any(item.baselines for item in outcome.items):
        missing_rule: Literal["wrong", "left out"] = "wrong" if missing == "wrong" else "left out"
        report = benefit_report(outcome.items, min_gain=min_gain, missing=missing_rule)
    if as_json:
        write_json(outcome.to_data(name, report))
    else:
        page = open_page()
        show_summary(page, name, finished.summary, out=out)
        if report is not None:
            uncounted = {"without_verdict": outcome.without_verdict, "left_out": outcome.left_out}
            page.summary(lay_out_benefit(report, **uncounted, failed=outcome.failed))
    if report is None:
        print_message("Nothing to compare: no debate has both a verdict and a baseline answer")
    finished.ending(incomplete=report is None).leave()


# Results of the debates

_NOT_ENDED = ("queued", "running", "left_behind", "interrupted", "awaiting", "rejected")
"""Statuses of runs that may still reach a verdict."""


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """The stored results of an evaluation."""

    items: Sequence[BenefitItem]
    """Answers to each question whose debate has finished."""
    without_verdict: Mapping[str, int]
    """Counts of questions without a verdict, keyed by run status."""
    left_out: Mapping[str, int]
    """Counts of questions omitted for reasons other than a missing verdict, keyed by run status."""
    failed: int
    """Number of failed baseline answers."""

    def to_data(self, batch: str, report: BenefitReport | None) -> dict[str, Any]:
        """Return the results and the report as JSON data."""
        return {
            "batch": batch,
            "report": None if report is None else report.model_dump(mode="json", by_alias=True),
            "leftOut": dict(sorted(self.left_out.items())),
            "withoutVerdict": dict(sorted(self.without_verdict.items())),
            "lostAnswers": self.failed,
        }


async def _read_outcome(store: Store, name: str, questions: Sequence[LabeledQuestion], cluster: str | None) -> _Outcome:
    from flowdebate.errors import RunNotFound
    from flowdebate.models.base import Usage
    from flowdebate.patterns.debate.benefit import BenefitItem, MethodAnswer, benefit_item
    from flowdebate.patterns.debate.schemas import DebateRawOutput
    from flowdebate.service.runs import state_of
    from flowdebate.ui.statuses import status_text

    # Read from the store, because interrupted runs are not items in the batch but must still be counted.
    items: list[BenefitItem] = []
    left_out, without_verdict = Counter[str](), Counter[str]()
    failed = 0
    for index, question in enumerate(questions):
        # A repeated question counts as one observation, not as several independent ones.
        shared = str([question.question, question.truth] if cluster is None else question.columns.get(cluster))
        try:
            stored = await store.run(f"{name}-{index}")
        except RunNotFound:
            left_out["not started"] += 1
            continue
        outcome: dict[str, Any] = dict(stored.outcome or {})
        raw = outcome.get("raw") or {}
        if raw.get("verdict") is None or "baselines" not in raw:
            state = state_of(stored)
            (left_out if state in _NOT_ENDED else without_verdict)[status_text(state)] += 1
            if state not in _NOT_ENDED:
                lost = MethodAnswer(answer=[])
                items.append(BenefitItem(truth=question.truth, debate=lost, baselines={}, failed=True, cluster=shared))
            continue
        debate, usage = DebateRawOutput.model_validate(raw), Usage(**outcome["usage"])
        baselines = debate.baselines or []
        failed += sum(answer.lost for answer in baselines)
        items.append(
            benefit_item(
                debate,
                baselines=baselines,
                calls=usage.calls,
                tokens=usage.total_tokens,
                truth=question.truth,
                completion_tokens=usage.completion_tokens,
                cluster=shared,
            )
        )
    return _Outcome(items=items, left_out=left_out, without_verdict=without_verdict, failed=failed)


# The data set

_CHOICES = "choices"
_YES, _NO = ("yes", "true"), ("no", "false")
_LETTERS = string.ascii_lowercase


@dataclass(frozen=True, kw_only=True)
class LabeledQuestion(Row):
    """Question with a known answer."""

    sides: tuple[Mapping[str, Any], ...]
    """The sides, as debaters in the plan file format."""
    truth: str
    """The stance known to be correct."""


def read_choices(row: Row, columns: Sequence[str], *, path: str, number: int) -> list[str]:
    """Read a row's positions from `columns`, or from the default column if none were specified.

    Return [] if the default column does not exist. Raise BadFile if the positions are invalid.
    """
    if not columns and _CHOICES not in row.columns:
        return []
    cells = [read_cell_of(row, column, path=path, number=number) for column in columns or [_CHOICES]]
    values = [cell for cell in cells if cell not in (None, "")]
    if len(cells) == 1:  # CSV has no list type, so lists are written as JSON
        value = cells[0]
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = [value]
        values = value if isinstance(value, list) else [value]
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
    # Data sets label the correct choice with a letter, so each choice needs one. Identical choices could not be told
    # apart.
    if len(set(texts)) != len(values) or not 2 <= len(texts) <= len(_LETTERS):  # noqa: PLR2004 - two sides
        field = ", ".join(f"`{column}`" for column in columns or [_CHOICES])
        allowed = f"2 to {len(_LETTERS)} different strings"
        raise BadFile(path, f"question {number}: {field} must be {allowed} (got {typed(values)})")
    return texts


def read_cell_of(row: Row, column: str, *, path: str, number: int) -> object:
    """Return a row's value in a column; if the column does not exist, raise BadFile listing the available columns."""
    if column not in row.columns:
        raise BadFile(path, f"question {number}: {missing_column(column, ['question', *row.columns])}")
    return row.columns[column]


def read_truth(row: Row, column: str, stances: Sequence[str], names: Sequence[str], *, path: str, number: int) -> str:
    """Return the correct stance of a row; raise BadFile if it is not one of the stances."""
    value = read_cell_of(row, column, path=path, number=number)
    right = match_stance(value, stances, names)
    if right is None:
        raise BadFile(path, f"question {number}: `{column}` must be {join_choices(stances)} (got {typed(value)})")
    return right


def match_stance(value: object, stances: Sequence[str], names: Sequence[str]) -> str | None:
    """Find the stance that `value` identifies by its text, its debater's name, its letter, or its zero-based index.

    Return None if there is no match.

    >>> [match_stance(value, ["tea", "coffee"], ["a", "b"]) for value in ("Coffee", "B", 1, "1", True, "milk")]
    ['coffee', 'coffee', 'coffee', 'coffee', None, None]
    >>> [match_stance(value, ["it is so", "it is not"], ["pro", "con"]) for value in (True, "no", "PRO")]
    ['it is so', 'it is not', 'it is so']
    """
    if isinstance(value, bool):
        value = "true" if value else "false"
    text = str(value).strip().casefold()
    # Later entries win: if a position's own text is "b" or "1", that value selects it rather than the second position.
    stances_by_key = {str(index): stance for index, stance in enumerate(stances)}
    stances_by_key |= dict(zip(_LETTERS, stances, strict=False))
    if list(names) == ["pro", "con"]:
        stances_by_key |= dict.fromkeys(_YES, stances[0]) | dict.fromkeys(_NO, stances[1])
    stances_by_key |= {name.casefold(): stance for name, stance in zip(names, stances, strict=True)}
    stances_by_key |= {stance.strip().casefold(): stance for stance in stances}
    return stances_by_key.get(text)


class EvaluationPlans(Plans):
    """Plans for debates and baselines on the questions in a data set; `rows` are the rows read from the data set.

    The positions are the row's choices or, if it has none, those of the specified debaters; the default is yes and no.
    Choices are shuffled among the debaters because data sets often list the correct one first. If `baselines` is None,
    all baselines are used, except for a vote between only two drafts. Raises BadFile for a row whose correct answer is
    not among its positions, or whose number of choices differs from the number of debaters.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        file: str | None,
        rows: Sequence[Row],
        *,
        path: str,
        truth: str,
        choices: Sequence[str],
        baselines: Sequence[BaselineName] | None,
        equal: Equal | None,
    ) -> None:
        super().__init__("debate", options, file, first=rows[0].question)
        if "output_schema" not in self.stored["options"]:
            # no synthesis is needed, because only the verdicts are compared
            self.stored["options"].setdefault("synthesizer", False)
        self._baselines = baselines
        self._equal = {} if equal is None else {"equal": equal}
        self.questions: list[LabeledQuestion] = [
            self._label(row, path=path, number=number, truth=truth, columns=choices)
            for number, row in enumerate(rows, 1)
        ]
        for question in self.questions:
            self.of(question)  # rejects invalid options before any model is called

    def name(self, rows: Sequence[Row]) -> str:
        """Default name of the batch, derived from its rows, baselines and positions."""
        positions = [list(map(dict, question.sides)) for question in self.questions]
        identity = [super().name(rows), self._baselines and list(self._baselines), positions]
        return hash_name("evaluation", [*identity, *self._equal.values()])

    def options_of(self, row: Row) -> dict[str, Any]:
        """Return the options for one question, including its sides and its baselines."""
        from flowdebate.evaluation.benefit import DRAFTS

        question = row if isinstance(row, LabeledQuestion) else self.questions[0]
        sides = [dict(side) for side in question.sides]
        # A vote between two first drafts is a coin toss, so on average it cannot differ from a single call.
        compared = [name for name in BASELINES if name != "drafts" or len(sides) >= DRAFTS]
        settings = {"baselines": list(self._baselines or compared), **self._equal}
        return {**super().options_of(row), "debaters": sides, **settings}

    def _label(self, row: Row, *, path: str, number: int, truth: str, columns: Sequence[str]) -> LabeledQuestion:
        from flowdebate.evaluation.evaluation_run import deal
        from flowdebate.patterns.debate.sides import yes_no_sides

        declared: Sequence[Mapping[str, Any]] | None = self.stored["options"].get("debaters")
        if choices := read_choices(row, columns, path=path, number=number):
            debaters = [{"name": letter} for letter in _LETTERS] if declared is None else list(map(dict, declared))
            if declared is not None and len(debaters) != len(choices):
                numbers = f"{counted(len(choices), 'choice')} and {counted(len(debaters), 'debater')}"
                raise BadFile(path, f"question {number} must have one choice per debater (got {numbers})")
            positions = deal(choices, question=row.question, seed=self.base.seed)
            sides = [{**who, "stance": stance} for who, stance in zip(debaters, positions, strict=False)]
            stances, names = choices, [""] * len(choices)
        else:
            default = ({"name": side.name, "stance": side.stance} for side in yes_no_sides(row.question))
            sides = [dict(side) for side in declared or default]
            stances, names = [side["stance"] for side in sides], [side["name"] for side in sides]
        right = read_truth(row, truth, stances, names, path=path, number=number)
        return LabeledQuestion(question=row.question, columns=row.columns, sides=tuple(sides), truth=right)
