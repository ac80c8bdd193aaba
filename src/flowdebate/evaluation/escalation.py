"""Comparison of an escalation with its most thorough step alone, on questions with known answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._text import counted
from flowdebate._util.validation import check_share
from flowdebate._util.wire import WireModel
from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.evaluation_run import EvaluationBatch, reader
from flowdebate.evaluation.paired import compare_credits
from flowdebate.evaluation.statistics import Resampling, check_scipy, effective_size, share_interval
from flowdebate.runs.batch import Batch, BatchItem

if TYPE_CHECKING:
    from collections.abc import Hashable

_CALLER = "compare_escalation()"
_RESAMPLES = 2_000


class EscalationArm(WireModel):
    """Results across all questions, for either the escalation or the alternative (the block `always`)."""

    accuracy: Figure
    """Share of correct answers, with a Wilson interval."""
    calls: float
    """Mean number of calls per question."""
    tokens: float | None
    """Mean number of tokens per question; None if the number is unknown for any question."""


class DecidedStep(WireModel):
    """Results for the questions decided by one step of the escalation."""

    name: str
    decided: Figure
    """Share of all questions that the step decided."""
    right: Figure | None
    """Share of the questions decided by this step that were answered correctly; None if the step decided none."""
    always_right: float | None
    """Share of the questions decided by this step that the alternative answered correctly."""


class EscalationReport(WireModel):
    """Comparison of an escalation with an alternative, the block `always`, on the same questions."""

    n: int
    """Number of questions; a failed run counts as wrong."""
    failed: int
    """Number of questions with at least one failed run."""
    confidence: float
    escalation: EscalationArm
    always: EscalationArm
    difference: Figure
    """The escalation's accuracy minus the alternative's, with a Newcombe interval for paired proportions."""
    better: int
    worse: int
    """Number of questions answered correctly only by the escalation (`better`) or only by the alternative (`worse`)."""
    p: float
    """P-value of the exact two-sided sign-flip test over clusters."""
    calls_ratio: Figure
    """The escalation's calls as a fraction of the alternative's, with a bootstrap interval over questions."""
    tokens_ratio: Figure | None
    """The escalation's tokens as a fraction of the alternative's; None if unknown."""
    steps: list[DecidedStep]
    """Results for the questions decided by each step, in step order."""

    @property
    def summary(self) -> str:
        """Two-sentence summary of the comparison."""
        cost, word = (self.calls_ratio, "calls") if self.tokens_ratio is None else (self.tokens_ratio, "tokens")
        shares = ", ".join(f"{step.name} {step.decided.value:.0%}" for step in self.steps)
        failed = f" {counted(self.failed, 'question')} failed in one of the two." if self.failed else ""
        return (
            f"The escalation is right on {self.escalation.accuracy.value:.1%} of {counted(self.n, 'question')}, the "
            f"alternative on {self.always.accuracy.value:.1%} ({_points(self.difference)}), with "
            f"{cost.value:.0%} of its {word} ({_range(cost)}). Decided by: {shares}.{failed}"
        )


def _points(figure: Figure) -> str:
    low, high = figure.low or 0.0, figure.high or 0.0
    return f"{100 * figure.value:+.1f} points, {100 * low:+.1f} to {100 * high:+.1f}"


def _range(figure: Figure) -> str:
    return f"{figure.low or 0.0:.0%} to {figure.high or 0.0:.0%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """Outcome of one question, for the escalation or for the alternative."""

    right: bool
    failed: bool
    calls: int
    tokens: int | None
    steps: tuple[str, ...]
    """Escalation steps that were run; the last one decided the question."""


async def compare_escalation(  # noqa: PLR0913 - the options of an evaluation
    escalation: Block[Any, Any],
    always: Block[Any, Any],
    rows: Sequence[Any],
    *,
    truth: str | Callable[[Any], str],
    question: str | Callable[[Any], Any] = "question",
    answer: Callable[[Any], object] | None = None,
    right: Callable[[object, str], bool] | None = None,
    cluster: str | Callable[[Any], Hashable] | None = None,
    confidence: float = 0.95,
    **options: Unpack[EvaluationBatch],
) -> EscalationReport:
    """Answer each of `rows` with both `escalation` and `always`, and compare accuracy and cost.

    - `truth`, `question`: a row key, or a function of the row, for the correct answer and the question.
    - `answer`: function that reads the answer from a raw output; None reads the winner of a debate, or the `answer` of
      any other output.
    - `right`: function that takes an answer and the truth, and returns whether the answer is correct; None compares the
      words of the two, ignoring case.
    - `cluster`: a row key, or a function of the row, for a group of dependent rows; None if rows are independent.

    `options` are passed to `Block.batch`. Both blocks run with the same seeds. A failed run counts as wrong. Needs
    scipy.
    """
    check_scipy(_CALLER)
    check_share(_CALLER, ends=False, confidence=confidence)
    if not rows:
        raise ConfigurationError(_CALLER, "rows", None, "must not be empty")
    truths = [reader(truth)(row) for row in rows]
    clusters = [*range(len(rows))] if cluster is None else [reader(cluster)(row) for row in rows]
    arms: list[list[_Outcome]] = []
    for name, block in (("escalation", escalation), ("always", always)):
        arm: EvaluationBatch = {**options}
        if (batch_id := options.get("batch_id")) is not None:
            arm["batch_id"] = f"{batch_id}-{name}"
        async with Batch(block, rows, question=reader(question), **arm) as batch:
            items = sorted([item async for item in batch], key=lambda item: item.index)
        arms.append([_outcome(item, truths[item.index], answer or answer_of, right or _equal_words) for item in items])
    return _report(*arms, clusters=clusters, confidence=confidence)


def answer_of(output: object) -> object:
    """Return the answer in a raw output: a debate's winner, or the `answer` of any other output."""
    inner = getattr(output, "output", output)
    verdict = getattr(inner, "verdict", None)
    return getattr(output, "answer", output) if verdict is None else getattr(verdict, "winner", None)


def _equal_words(answer: object, truth: str) -> bool:
    return str(answer).casefold().split() == truth.casefold().split()


def _outcome(
    item: BatchItem[Any, Any], truth: str, answer: Callable[[Any], object], right: Callable[[object, str], bool]
) -> _Outcome:
    raw = item.output if item.raw is None else item.raw
    usage = None if item.run is None else item.run.usage
    steps: Sequence[Any] = getattr(raw, "escalation", None) or getattr(raw, "steps", None) or ()
    failed = item.result is None or raw is None
    return _Outcome(
        right=not failed and right(answer(raw), truth),
        failed=failed,
        calls=0 if usage is None else usage.calls,
        tokens=0 if usage is None else usage.total_tokens,
        steps=() if failed else tuple(step.name for step in steps),
    )


def _report(
    ones: Sequence[_Outcome], baselines: Sequence[_Outcome], *, clusters: Sequence[Hashable], confidence: float
) -> EscalationReport:
    right, right_always = ([float(outcome.right) for outcome in arm] for arm in (ones, baselines))
    paired = compare_credits(right, right_always, clusters, confidence=confidence)
    size = effective_size([one - other for one, other in zip(right, right_always, strict=True)], clusters)
    return EscalationReport(
        n=len(ones),
        failed=sum(one.failed or other.failed for one, other in zip(ones, baselines, strict=True)),
        confidence=confidence,
        escalation=_arm(ones, confidence),
        always=_arm(baselines, confidence),
        difference=Figure(value=paired.difference, n=max(1, round(size)), low=paired.low, high=paired.high),
        better=paired.better,
        worse=paired.worse,
        p=paired.p,
        calls_ratio=_ratio([(one.calls, other.calls) for one, other in zip(ones, baselines, strict=True)]),
        tokens_ratio=_tokens_ratio(ones, baselines),
        steps=[_step(name, ones, baselines, confidence) for name in max((one.steps for one in ones), key=len)],
    )


def _arm(outcomes: Sequence[_Outcome], confidence: float) -> EscalationArm:
    tokens = [outcome.tokens for outcome in outcomes]
    token_counts = [count for count in tokens if count is not None]
    return EscalationArm(
        accuracy=_share([outcome.right for outcome in outcomes], confidence),
        calls=fmean(outcome.calls for outcome in outcomes),
        tokens=fmean(token_counts) if len(token_counts) == len(tokens) else None,
    )


def _share(values: Sequence[bool], confidence: float) -> Figure:
    low, high = share_interval(fmean(values), len(values), confidence=confidence)
    return Figure(value=fmean(values), n=len(values), low=low, high=high)


def _tokens_ratio(ones: Sequence[_Outcome], baselines: Sequence[_Outcome]) -> Figure | None:
    pairs = [
        (one.tokens, other.tokens)
        for one, other in zip(ones, baselines, strict=True)
        if one.tokens is not None and other.tokens is not None
    ]
    return _ratio(pairs) if len(pairs) == len(ones) and any(other for _, other in pairs) else None


def _ratio(pairs: Sequence[tuple[int, int]]) -> Figure:
    """Compute the ratio of two sums over questions, with a bootstrap interval."""
    columns = list(zip(*pairs, strict=True))
    spent, alternative = map(sum, columns)
    value = spent / alternative if alternative else 0.0
    if len(pairs) < 2 or not alternative or len({*pairs}) == 1:  # noqa: PLR2004 - nothing varies
        return Figure(value=value, n=len(pairs), low=value, high=value)
    low, high = Resampling(seed=0, resamples=_RESAMPLES).interval(*columns, minimum=None)
    return Figure(value=value, n=len(pairs), low=low, high=high)


def _step(name: str, ones: Sequence[_Outcome], baselines: Sequence[_Outcome], confidence: float) -> DecidedStep:
    decided = [one.steps[-1:] == (name,) for one in ones]
    pairs = [(one.right, other.right) for one, other in zip(ones, baselines, strict=True) if one.steps[-1:] == (name,)]
    return DecidedStep(
        name=name,
        decided=_share(decided, confidence),
        right=_share([one for one, _ in pairs], confidence) if pairs else None,
        always_right=fmean(other for _, other in pairs) if pairs else None,
    )
