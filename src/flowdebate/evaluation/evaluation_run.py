"""Evaluation of a debate against baselines on questions with known answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, Unpack

from flowdebate._text import join_choices
from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_count
from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.benefit import (
    BenefitItem,
    BenefitReport,
    MethodAnswer,
    Missing,
    benefit_item,
    benefit_report,
    check_report_options,
)
from flowdebate.evaluation.statistics import check_scipy
from flowdebate.runs.batch import Batch, BatchControls, BatchItem, BatchResult
from flowdebate.runs.execute import run_sync

_WHERE = "evaluate()"


@dataclass(frozen=True, kw_only=True)
class Evaluation(InNotebooks):
    """Result of an evaluation."""

    report: BenefitReport
    """Report on the benefit of the debates; use `print(evaluation.report.summary)` for an overview."""
    items: Sequence[BenefitItem]
    """Answers to each question in row order, including those of failed debates; a repeated question appears several
    times.
    """
    result: BatchResult[Any]
    """The evaluation's runs, both successful and failed, and their usage."""


class Row(Protocol):
    """A row of a data set, with values keyed by column."""

    def __getitem__(self, key: str, /) -> object: ...


class EvaluationBatch(BatchControls, total=False):
    """Batch options for an evaluation."""

    seed: int | None
    batch_id: str | None


class EvaluateOptions(EvaluationBatch, total=False):
    """All options of `evaluate()` except `truth`."""

    question: str | Callable[[Any], Any]
    choices: str | Callable[[Any], Sequence[str]] | None
    cluster: str | Callable[[Any], Any] | None
    repeats: int
    missing: Missing
    confidence: float
    min_gain: float


async def evaluate(  # noqa: PLR0913 - the options of an evaluation
    pattern: Block[Any, Any] | Callable[..., Block[Any, Any]],
    rows: Sequence[Any],
    *,
    truth: str | Callable[[Any], str],
    question: str | Callable[[Any], Any] = "question",
    choices: str | Callable[[Any], Sequence[str]] | None = None,
    cluster: str | Callable[[Any], Any] | None = None,
    repeats: int = 1,
    missing: Missing = "wrong",
    confidence: float = 0.95,
    min_gain: float = 0.05,
    **options: Unpack[EvaluationBatch],
) -> Evaluation:
    """Run `pattern`, a debate `with_baselines`, on each of `rows`, and report whether it helped.

    - `pattern` may be a function of a row, for questions with different positions.
    - `choices`: a row key, or a function of the row, for the debate's positions. `pattern` is then a function of the
      row and its positions, which are shuffled so the correct one does not always speak first.
    - `truth`, `question`: a row key, or a function of the row, for the correct position and the question.
    - `cluster`: a row key, or a function of the row, for the row's group, such as its topic. Rows in the same cluster
      are not independent; if None, rows with the same question and truth form a cluster.
    - `repeats`: number of debates per row; the row still counts as one question.
    - `missing`, `confidence`, `min_gain`: as for `benefit_report`. `options` are passed to `Block.batch`. If you pass
      `store` and `batch_id`, an interrupted evaluation continues where it stopped.

    Needs scipy. At the end of the first debate, raise ConfigurationError if the debate has no baselines or the truth is
    not one of its positions. Debates without a verdict (because of a failure or a limit) count as wrong, unless
    `missing` excludes them.
    """
    check_scipy(_WHERE)
    check_count(_WHERE, repeats=repeats)
    check_report_options(_WHERE, confidence=confidence, min_gain=min_gain, missing=missing)
    if not rows:
        raise ConfigurationError(_WHERE, "rows", None, "must not be empty")
    right, read_question = reader(truth), reader(question)
    shared = (lambda row: [read_question(row), right(row)]) if cluster is None else reader(cluster)
    factory: Block[Any, Any] | Callable[..., Block[Any, Any]] = pattern
    if choices is not None:
        positions, drawn_from = reader(choices), options.get("seed")
        if isinstance(pattern, Block):
            problem = "must be a function of (row, positions), not a block, if `choices` is set"
            raise ConfigurationError(_WHERE, "pattern", pattern.name, problem)

        def deal_positions(row: object) -> Block[Any, Any]:
            return pattern(row, deal(positions(row), question=read_question(row), seed=drawn_from))

        factory = deal_positions

    # A block built for a single row has no plan to store with its run.
    first, pattern_of_row = (
        (factory, None) if isinstance(factory, Block) else (factory(rows[0]), lambda row: (factory(row), None))
    )
    batch = Batch(first, [*rows] * repeats, question=read_question, plan_item=pattern_of_row, **options)
    async with batch:
        pairs = [(item, _benefit_item(item, right(item.row), str(shared(item.row)))) async for item in batch]
    pairs.sort(key=lambda pair: pair[0].index)
    items = [benefit_item for _, benefit_item in pairs]
    return Evaluation(
        report=benefit_report(items, confidence=confidence, min_gain=min_gain, missing=missing),
        items=items,
        result=BatchResult([item for item, _ in pairs], batch.summary),
    )


def deal(choices: Sequence[str], *, question: object, seed: int | None) -> list[str]:
    """Shuffle a row's positions; a given question and seed always produce the same order.

    Data sets often list the correct position first, but the correct position should not always speak first.

    >>> sorted(deal(["it is", "it is not"], question="Is it?", seed=1))
    ['it is', 'it is not']
    """
    source = Random(json.dumps([seed, question, list(choices)], default=str))  # noqa: S311 - repeatable on purpose
    return source.sample(list(choices), len(choices))


def evaluate_sync(
    pattern: Block[Any, Any] | Callable[..., Block[Any, Any]],
    rows: Sequence[Any],
    *,
    truth: str | Callable[[Any], str],
    **options: Unpack[EvaluateOptions],
) -> Evaluation:
    """Run `evaluate` synchronously, for scripts and notebooks."""
    return run_sync(lambda: evaluate(pattern, rows, truth=truth, **options))


def reader(of: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that reads a value from a row; `of` is a key or a function of the row."""
    if not isinstance(of, str):
        return of
    column = of

    def read(row: Row) -> object:
        try:
            return row[column]
        except (KeyError, TypeError, IndexError):
            raise ConfigurationError("rows", column, row, "is missing from a row") from None

    return read


def _benefit_item(item: BatchItem[Any], truth: str, cluster: str) -> BenefitItem:
    """Collect the answers to one question; a failed debate has no verdict."""
    raw = item.raw
    if raw is None or getattr(raw, "verdict", None) is None or item.run is None:
        return BenefitItem(truth=truth, debate=MethodAnswer(answer=[]), baselines={}, failed=True, cluster=cluster)
    baselines = getattr(raw, "baselines", None)
    if not baselines:
        raise ConfigurationError(
            _WHERE, "pattern", item.run_id, "must be a debate with baselines, such as with_baselines(debate(…), …)"
        )
    positions = list(baselines[0].votes)
    if truth not in positions:
        raise ConfigurationError(
            _WHERE, f"truth of row {item.index}", truth, f"must be one of the positions: {join_choices(positions)}"
        )
    usage = item.run.usage
    return benefit_item(
        raw,
        baselines=baselines,
        calls=usage.calls,
        tokens=usage.total_tokens,
        truth=truth,
        completion_tokens=usage.completion_tokens,
        cost=item.run.cost,
        cluster=cluster,
    )
