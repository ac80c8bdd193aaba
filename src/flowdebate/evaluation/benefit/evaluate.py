"""Evaluation of a debate with baselines over questions with known answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.benefit.comparison import benefit_item, benefit_report
from flowdebate.evaluation.statistics import check_scipy
from flowdebate.runs.batch.batch import Batch
from flowdebate.runs.batch.result import BatchResult
from flowdebate.runs.execute import run_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.evaluation.benefit.comparison import BenefitItem, BenefitReport
    from flowdebate.runs.batch.result import BatchItem

__all__ = (
    "Evaluation",
    "evaluate",
    "evaluate_sync",
)

_WHERE = "evaluate()"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of an evaluation."""

    report: BenefitReport
    """The benefit of the debates: `print(evaluation.report.summary)`."""
    items: Sequence[BenefitItem]
    """The answers to each question whose debate has a verdict, in the order of the rows."""
    result: BatchResult[Any]
    """All runs, including failed ones, and their usage."""


async def evaluate(
    pattern: Block[Any, Any] | Callable[[Any], Block[Any, Any]],
    rows: Sequence[Any],
    *,
    truth: str | Callable[[Any], str],
    question: str | Callable[[Any], Any] = "question",
    confidence: float = 0.95,
    min_gain: float = 0.1,
    **options: Any,  # noqa: ANN401 - those of Block.batch
) -> Evaluation:
    """Run `pattern`, a debate `with_baselines`, for each of `rows`, and report whether it helped.

    - `pattern` may be a function of a row, for questions with different positions.
    - `truth`, `question`: the key of a row, or a function of it, for the right position and for the question.
    - `confidence`, `min_gain`: as for `benefit_report`. `options` are those of `Block.batch`: with `store` and
      `batch_id` an interrupted evaluation continues where it stopped.

    Needs scipy. ConfigurationError, at the end of the first debate, for a debate without baselines and for a truth that
    is none of its positions. Debates without a verdict (a failure, a limit) are not compared.
    """
    check_scipy(_WHERE)
    if not rows:
        raise ConfigurationError(_WHERE, "rows", rows, "at least one")
    right = _reader(truth)
    first, each = (pattern, None) if isinstance(pattern, Block) else (pattern(rows[0]), _made_by(pattern))
    batch = Batch(first, rows, question=_reader(question), each=each, **options)
    async with batch:
        pairs = [(item, _benefit_item(item, right(item.row))) async for item in batch]
    pairs.sort(key=lambda pair: pair[0].index)
    items = [each for _, each in pairs if each is not None]
    return Evaluation(
        report=benefit_report(items, confidence=confidence, min_gain=min_gain),
        items=items,
        result=BatchResult([item for item, _ in pairs], batch.summary),
    )


def evaluate_sync(
    pattern: Block[Any, Any] | Callable[[Any], Block[Any, Any]],
    rows: Sequence[Any],
    *,
    truth: str | Callable[[Any], str],
    **options: Any,  # noqa: ANN401 - those of evaluate
) -> Evaluation:
    """`evaluate`, for scripts and notebooks."""
    return run_sync(lambda: evaluate(pattern, rows, truth=truth, **options))


def _made_by(pattern: Callable[[Any], Block[Any, Any]]) -> Callable[[Any], tuple[Block[Any, Any], None]]:
    """The block of a row, which has no stored plan."""
    return lambda row: (pattern(row), None)


def _reader(of: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    return (lambda row: row[of]) if isinstance(of, str) else of


def _benefit_item(item: BatchItem[Any], truth: str) -> BenefitItem | None:
    """The answers to one question; None without a verdict."""
    raw = item.raw
    if raw is None or getattr(raw, "verdict", None) is None or item.run is None:
        return None
    baselines = getattr(raw, "baselines", None)
    if not baselines:
        raise ConfigurationError(
            _WHERE, "pattern", item.run_id, "a debate with baselines: with_baselines(debate(…), …)"
        )
    positions = list(baselines[0].votes)
    if truth not in positions:
        raise ConfigurationError(_WHERE, f"truth of row {item.index}", truth, f"one of the positions {positions}")
    usage = item.run.usage
    return benefit_item(raw, baselines=baselines, calls=usage.calls, tokens=usage.total_tokens, truth=truth)
