"""Paired comparison of debates with their baselines: accuracy, intervals, exact tests and cost."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from flowdebate._util.validation import check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.benefit.report import comparison_summary, report_summary
from flowdebate.evaluation.sample_sizes import required_n
from flowdebate.evaluation.statistics import holm, newcombe, sign_test, wilson
from flowdebate.patterns.debate.schemas import BASELINES, BaselineName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.debate.schemas import BaselineAnswer, DebateRawOutput

__all__ = (
    "BenefitItem",
    "BenefitReport",
    "Finding",
    "Method",
    "MethodAnswer",
    "MethodResult",
    "PairedComparison",
    "benefit_item",
    "benefit_report",
)

_WHERE = "benefit_report()"
_SURE = 1e-9
"""Credits that differ by less are the same."""
Method = Literal["debate", BaselineName]
Finding = Literal["helped", "harmed", "no_gain", "too_few"]
"""Better than the baseline; worse; a gain of `min_gain` or more is ruled out; inconclusive."""


class MethodAnswer(WireModel):
    """The answer of a debate or a baseline to one question, and its cost."""

    answer: list[str]
    """The position it named; several for a tie; empty for none."""
    calls: Annotated[int, Field(ge=0)] = 0
    tokens: Annotated[int, Field(ge=0)] | None = None
    """None where the server did not report them."""

    def credit(self, truth: str) -> float:
        """1 for the right answer, 0 for a wrong one or none; of a tie the chance that a lot between them is right."""
        return (truth in self.answer) / len(self.answer) if self.answer else 0.0


class BenefitItem(WireModel):
    """One question, answered with and without a debate."""

    truth: str | None = None
    """The right position; None where it is not known."""
    debate: MethodAnswer
    baselines: dict[BaselineName, MethodAnswer]
    """The baselines that have an answer."""


class MethodResult(WireModel):
    """Accuracy and cost of one method over all questions that it answered."""

    method: Method
    n: int
    """The number of these questions."""
    right: float
    """Right answers; a tie counts as its chance to be right."""
    accuracy: float
    low: float
    high: float
    """The ends of Wilson's interval."""
    undecided: int
    """Answers with several positions, or none."""
    calls: float
    tokens: float | None
    """Means over the questions; tokens are None unless they are known for each."""


class PairedComparison(WireModel):
    """The debate against one baseline, on the questions that both answered."""

    baseline: BaselineName
    n: int
    debate_right: float
    baseline_right: float
    """Right answers of each."""
    better: int
    worse: int
    """Discordant pairs: questions on which the debate scored higher than the baseline, and lower."""
    difference: float
    low: float
    high: float
    """The debate's accuracy less the baseline's, and the ends of Newcombe's interval for paired shares."""
    p: float
    """Of McNemar's exact test of `better` against `worse`, two-sided."""
    p_holm: float
    """The same, adjusted by Holm's method for the number of baselines."""
    calls_ratio: float | None
    tokens_ratio: float | None
    """The debate's calls and tokens as multiples of the baseline's; None where they are not known."""
    required_n: int
    """The number of questions that show a gain of `min_gain` with a power of 80%."""
    finding: Finding
    summary: str


class BenefitReport(WireModel):
    """The benefit of debates over their baselines."""

    n: int
    """Questions with a known answer."""
    without_truth: int = 0
    """Questions left out because their answer is not known."""
    confidence: float
    min_gain: float
    """The smallest gain in accuracy that would be worth the cost."""
    methods: list[MethodResult]
    """The debate's, then those of the baselines."""
    comparisons: list[PairedComparison]
    finding: Finding
    """"helped" where the debate beat every baseline; "harmed" or "no_gain" where one did better, or as well."""
    summary: str
    """The same in a sentence or two."""


def benefit_item(
    raw: DebateRawOutput,
    *,
    baselines: Sequence[BaselineAnswer],
    calls: int,
    tokens: int | None,
    truth: str | None = None,
) -> BenefitItem:
    """Pair a debate's answer with those of its `baselines`; `calls` and `tokens` are the whole run's (`result.usage`).

    The debate's own cost is the run's without that of the baselines. A baseline without a single vote is left out.
    """
    winner = None if raw.verdict is None else raw.verdict.winner
    known = [answer.tokens for answer in baselines]
    apart = None if None in known else sum(filter(None, known))
    return BenefitItem(
        truth=truth,
        debate=MethodAnswer(
            answer=[] if winner is None else [winner],
            calls=calls - sum(answer.calls for answer in baselines),
            tokens=None if tokens is None or apart is None else tokens - apart,
        ),
        baselines={
            answer.name: MethodAnswer(answer=answer.leaders, calls=answer.calls, tokens=answer.tokens)
            for answer in baselines
            if answer.leaders
        },
    )


def benefit_report(items: Sequence[BenefitItem], *, confidence: float = 0.95, min_gain: float = 0.1) -> BenefitReport:
    """Compare debates with their baselines on the `items` whose truth is known. Needs scipy.

    An answer is right or wrong; a tie counts as the chance that one of its positions, drawn at random, is right; no
    answer counts as wrong. Each baseline is compared on the items that it answered, by McNemar's exact test on the
    discordant pairs, adjusted by Holm's method for the number of baselines:

    - "helped", "harmed": the debate was right significantly more often, or less often, at `confidence`;
    - "no_gain": neither, and the interval excludes a gain in accuracy of `min_gain` or more;
    - "too_few": none of these.

    `report.finding` is "helped" where that holds against every baseline; "harmed" or "no_gain" where it holds against
    one, since that one is as good without a debate; else "too_few". ConfigurationError without an item that can be
    compared.
    """
    check_share(_WHERE, ends=False, confidence=confidence, min_gain=min_gain)
    known = [item for item in items if item.truth is not None]
    names = [name for name in BASELINES if any(name in item.baselines for item in known)]
    if not names:
        raise ConfigurationError(_WHERE, "items", len(known), "at least one with a truth and an answer of a baseline")
    methods: list[Method] = ["debate", *names]
    comparisons = _compared(names, known, confidence=confidence, min_gain=min_gain)
    finding = _finding(comparisons)
    return BenefitReport(
        n=len(known),
        without_truth=len(items) - len(known),
        confidence=confidence,
        min_gain=min_gain,
        methods=[_method_result(method, known, confidence) for method in methods],
        comparisons=comparisons,
        finding=finding,
        summary=report_summary(finding, comparisons, min_gain=min_gain),
    )


def _method_result(method: Method, items: Sequence[BenefitItem], confidence: float) -> MethodResult:
    answered = [item for item in items if method == "debate" or method in item.baselines]
    answers = [item.debate if method == "debate" else item.baselines[method] for item in answered]
    credits_ = [answer.credit(str(item.truth)) for answer, item in zip(answers, answered, strict=True)]
    low, high = wilson(fmean(credits_), len(answers), confidence=confidence)
    tokens = [answer.tokens for answer in answers if answer.tokens is not None]
    return MethodResult(
        method=method,
        n=len(answers),
        right=sum(credits_),
        accuracy=fmean(credits_),
        low=low,
        high=high,
        undecided=sum(len(answer.answer) != 1 for answer in answers),
        calls=fmean(answer.calls for answer in answers),
        tokens=fmean(tokens) if len(tokens) == len(answers) else None,
    )


def _compared(
    names: Sequence[BaselineName], items: Sequence[BenefitItem], *, confidence: float, min_gain: float
) -> list[PairedComparison]:
    """The debate against each baseline, with p-values adjusted for their number."""
    counts = [_unadjusted(name, items, confidence) for name in names]
    adjusted = holm([each.p for each in counts])
    compared = []
    for each, p in zip(counts, adjusted, strict=True):
        finding = _finding_of(each, p < 1 - confidence, min_gain)
        differing = (each.better + each.worse + 1) / (each.n + 2)  # above 0 where no pair differs
        n = required_n(min_gain, differing=differing, tests=len(names), alpha=1 - confidence)
        full = each.model_copy(update={"p_holm": p, "finding": finding, "required_n": n})
        summary = comparison_summary(full, confidence=confidence, min_gain=min_gain)
        compared.append(full.model_copy(update={"summary": summary}))
    return compared


def _unadjusted(name: BaselineName, items: Sequence[BenefitItem], confidence: float) -> PairedComparison:
    """Counts, interval and test of one comparison, not yet adjusted for others."""
    pairs = [(item.debate, item.baselines[name], str(item.truth)) for item in items if name in item.baselines]
    ones = [debate.credit(truth) for debate, _, truth in pairs]
    others = [other.credit(truth) for _, other, truth in pairs]
    better = sum(one > other + _SURE for one, other in zip(ones, others, strict=True))
    worse = sum(one < other - _SURE for one, other in zip(ones, others, strict=True))
    low, high = newcombe(ones, others, confidence=confidence)
    p = sign_test(better, worse)
    return PairedComparison(
        baseline=name,
        n=len(pairs),
        debate_right=sum(ones),
        baseline_right=sum(others),
        better=better,
        worse=worse,
        difference=fmean(ones) - fmean(others),
        low=low,
        high=high,
        p=p,
        p_holm=p,
        calls_ratio=_ratio([(debate.calls, other.calls) for debate, other, _ in pairs]),
        tokens_ratio=_ratio([(debate.tokens, other.tokens) for debate, other, _ in pairs]),
        required_n=0,
        finding="too_few",
        summary="",
    )


def _ratio(pairs: Sequence[tuple[int | None, int | None]]) -> float | None:
    ones, others = zip(*pairs, strict=True)
    if None in ones or None in others or not sum(others):
        return None
    return float(sum(ones) / sum(others))


def _finding_of(counts: PairedComparison, shown: bool, min_gain: float) -> Finding:  # noqa: FBT001 - significance
    if shown and counts.better != counts.worse:
        return "helped" if counts.better > counts.worse else "harmed"
    return "no_gain" if counts.high < min_gain else "too_few"


def _finding(comparisons: Sequence[PairedComparison]) -> Finding:
    """The finding of all comparisons together."""
    findings = {each.finding for each in comparisons}
    order: tuple[Literal["harmed", "no_gain", "too_few"], ...] = ("harmed", "no_gain", "too_few")
    return next((finding for finding in order if finding in findings), "helped")
