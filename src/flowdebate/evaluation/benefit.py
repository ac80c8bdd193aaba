"""Paired comparison of debates with baselines: accuracy, intervals, exact tests, cost, and a summary in prose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, get_args

from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.paired import compare_credits
from flowdebate.evaluation.sample_sizes import required_n
from flowdebate.evaluation.statistics import effective_size, holm, share_interval
from flowdebate.patterns.debate.baseline_names import BaselineName
from flowdebate.patterns.debate.benefit import METHODS, Method, Undecided, list_names, times
from flowdebate.patterns.debate.benefit import BenefitItem as BenefitItem
from flowdebate.patterns.debate.benefit import MethodAnswer as MethodAnswer
from flowdebate.patterns.debate.benefit import benefit_item as benefit_item
from flowdebate.patterns.debate.benefit import change_summary as change_summary

_WHERE = "benefit_report()"
DRAFTS = 3  # minimum number of first drafts for a vote that can differ from a single answer
NAMES: tuple[BaselineName, ...] = get_args(BaselineName)
Finding = Literal["helped", "harmed", "none_worth_it", "too_few"]
"""Outcome of a comparison: the debate did better, did worse or gained less than `min_gain`, or the data is
inconclusive.
"""
Missing = Literal["wrong", "left out"]
"""Rule for counting debates without a verdict."""


class MethodResult(WireModel):
    """Accuracy and cost of one method over all answered questions."""

    method: Method
    n: int
    """Number of answered questions."""
    right: float
    """Number of correct answers; an undecided answer counts as its probability of being correct."""
    accuracy: float
    low: float
    high: float
    """Bounds of the Wilson interval for the accuracy."""
    undecided: int
    """Number of answers that name several positions or none."""
    calls: float
    tokens: float | None
    """Mean usage per question; None for a value that is not known for every question."""
    completion_tokens: float | None = None
    cost: float | None = None


class PairedComparison(WireModel):
    """Comparison of the debate with one baseline.

    It covers all questions answered by both the debate and the baseline, and all questions whose debate failed.
    """

    baseline: BaselineName
    n: int
    debate_right: float
    baseline_right: float
    """Number of correct answers from the debate and from the baseline."""
    better: int
    worse: int
    """Number of discordant pairs: questions on which the debate scored higher (`better`) or lower (`worse`) than the
    baseline.
    """
    difference: float
    low: float
    high: float
    """Debate accuracy minus baseline accuracy, followed by the bounds of the Newcombe interval for paired
    proportions.
    """
    worst: float
    best: float
    """Bounds of the difference if every question whose debate failed is counted in favor of the baseline (`worst`) or
    in favor of the debate (`best`).
    """
    clusters: int
    """Number of independent groups of questions."""
    p: float
    """P-value of the exact two-sided sign-flip test over clusters, which is McNemar's exact test if each cluster has
    one question.
    """
    p_holm: float
    """P-value adjusted for the number of baselines by Holm's method."""
    calls_ratio: float | None
    tokens_ratio: float | None
    completion_tokens_ratio: float | None = None
    cost_ratio: float | None = None
    """Calls, tokens and cost of the debate as multiples of the baseline's; None if unknown."""
    required_n: int
    """Number of questions needed to detect a gain of `min_gain` with 80% power."""
    finding: Finding
    summary: str


class BenefitReport(InNotebooks, WireModel):
    """Report on the benefit of debates over their baselines."""

    n: int
    """Number of questions included in the report; each has a known answer."""
    attempted: int
    """Total number of questions with a known answer."""
    failed: int = 0
    """Number of included questions whose debate ended without a verdict."""
    missing: Missing = "wrong"
    """Rule for counting failed debates."""
    without_truth: int = 0
    """Number of questions omitted because their correct answer is unknown."""
    confidence: float
    min_gain: float
    """Smallest gain in accuracy that justifies the cost."""
    methods: list[MethodResult]
    """Results for the debate, followed by the baselines."""
    comparisons: list[PairedComparison]
    finding: Finding
    """Overall finding: "helped" if the debate beat every baseline; "harmed" or "none_worth_it" if that is the finding
    for any baseline; otherwise "too_few".
    """
    summary: str
    """The report's conclusion in one or two sentences."""


def benefit_report(
    items: Sequence[BenefitItem],
    *,
    confidence: float = 0.95,
    min_gain: float = 0.05,
    missing: Missing = "wrong",
) -> BenefitReport:
    """Compare debates with their baselines on all `items` whose correct answer is known. Needs scipy.

    An answer is right or wrong. A tie, or a debate without a winner, counts as the probability of picking the correct
    position at random from those still open. If counting such answers as wrong would change a finding, the summary says
    so. A debate that `failed` counts as wrong; its baselines did not run and are assumed to be as accurate as on the
    other questions. If `missing` is "left out", such questions are not counted. Questions in the same `cluster` are not
    independent: intervals widen accordingly, and tests flip the signs of whole clusters.

    The debate is compared with each baseline by the exact sign-flip test (McNemar's test if questions are independent),
    adjusted for the number of baselines by Holm's method:

    - "helped", "harmed": the debate was right significantly more often, or less often, at `confidence`;
    - "none_worth_it": neither, but a confidence interval adjusted for the number of baselines (Bonferroni) rules out a
      gain in accuracy of `min_gain` or more;
    - "too_few": none of the above.

    `report.finding` is "helped" if that is the finding for every baseline. It is "harmed" or "none_worth_it" if that is
    the finding for any baseline, and otherwise "too_few". The vote among first drafts is compared only if at least
    three of them voted. Raise ConfigurationError if no item can be compared.
    """
    check_report_options(_WHERE, confidence=confidence, min_gain=min_gain, missing=missing)
    labeled = [item for item in items if item.truth is not None]
    counted = [item for item in labeled if not item.failed or missing == "wrong"]
    methods: list[Method] = ["debate", *(n for n in NAMES if any(n in item.baselines for item in counted))]
    names = _comparable_baselines(counted)
    if not names:
        raise ConfigurationError(
            _WHERE, "items", len(labeled), "must include an item with both a known truth and a baseline answer"
        )
    comparisons = _compare(names, counted, confidence=confidence, min_gain=min_gain)
    if_wrong = _compare(names, counted, confidence=confidence, min_gain=min_gain, undecided="wrong")
    comparisons = [
        compared.model_copy(update={"summary": f"{compared.summary} {_otherwise(other, confidence, min_gain)}"})
        if compared.finding != other.finding
        else compared
        for compared, other in zip(comparisons, if_wrong, strict=True)
    ]
    finding = min((compared.finding for compared in comparisons), key=_PRECEDENCE.index)
    failed = sum(item.failed for item in labeled)
    differing = [other for one, other in zip(comparisons, if_wrong, strict=True) if one.finding != other.finding]
    return BenefitReport(
        n=len(counted),
        attempted=len(labeled),
        failed=failed,
        missing=missing,
        without_truth=len(items) - len(labeled),
        confidence=confidence,
        min_gain=min_gain,
        methods=[_method_result(method, counted, confidence) for method in methods],
        comparisons=comparisons,
        finding=finding,
        summary=_summarize(
            finding,
            comparisons,
            confidence=confidence,
            min_gain=min_gain,
            failed=failed,
            undecided=sum(len(item.debate.answer) != 1 for item in counted if not item.failed),
            attempted=len(labeled),
            missing=missing,
        )
        + "".join(f" {_otherwise(other, confidence, min_gain)}" for other in differing[:1]),
    )


_PRECEDENCE: tuple[Finding, ...] = ("harmed", "none_worth_it", "too_few", "helped")
"""Findings in order of precedence: "helped" must hold against every baseline, and any other finding against at least
one.
"""


def _comparable_baselines(items: Sequence[BenefitItem]) -> list[BaselineName]:
    """Return the baselines that have answers.

    The first drafts are included only if their vote can differ from a single call.
    """
    return [
        name
        for name in NAMES
        if any(
            # A vote between two drafts, with ties counted as one half, is equivalent to a single call.
            answer is not None and (name != "drafts" or answer.votes is None or answer.votes >= DRAFTS)
            for answer in (item.baselines.get(name) for item in items)
        )
    ]


def check_report_options(location: str, *, confidence: object, min_gain: object, missing: object) -> None:
    """Raise ConfigurationError for invalid report options, before any model call."""
    check_share(location, ends=False, confidence=confidence, min_gain=min_gain)
    if missing not in get_args(Missing):
        raise ConfigurationError(location, "missing", missing, choices=get_args(Missing))


def _method_result(method: Method, items: Sequence[BenefitItem], confidence: float) -> MethodResult:
    answered = [item for item in items if method == "debate" or method in item.baselines]
    answers = [item.debate if method == "debate" else item.baselines[method] for item in answered]
    credits_ = [
        0.0 if item.failed else answer.credit(str(item.truth), sides=item.sides)
        for answer, item in zip(answers, answered, strict=True)
    ]
    size = effective_size(credits_, _clusters(answered))
    low, high = share_interval(fmean(credits_), size, confidence=confidence)
    return MethodResult(
        method=method,
        n=len(answers),
        right=sum(credits_),
        accuracy=fmean(credits_),
        low=low,
        high=high,
        undecided=sum(len(answer.answer) != 1 for answer in answers),
        calls=fmean(answer.calls for answer in answers),
        tokens=_mean_if_complete([answer.tokens for answer in answers]),
        completion_tokens=_mean_if_complete([answer.completion_tokens for answer in answers]),
        cost=_mean_if_complete([answer.cost for answer in answers]),
    )


def _mean_if_complete(amounts: Sequence[float | None]) -> float | None:
    amounts_known = [amount for amount in amounts if amount is not None]
    return fmean(amounts_known) if len(amounts_known) == len(amounts) else None


def _clusters(items: Sequence[BenefitItem]) -> list[object]:
    """Return the cluster of each item; an item without a cluster forms its own cluster."""
    return [("alone", number) if item.cluster is None else item.cluster for number, item in enumerate(items)]


def _compare(
    names: Sequence[BaselineName],
    items: Sequence[BenefitItem],
    *,
    confidence: float,
    min_gain: float,
    undecided: Undecided = "lot",
) -> list[PairedComparison]:
    """Compare the debate with each baseline, adjusting p-values for the number of baselines."""
    counts = [_compare_with(name, items, confidence, len(names), undecided) for name in names]
    adjusted = holm([comparison.p for comparison, _ in counts])
    compared = []
    for (comparison, p_adjusted), p in zip(counts, adjusted, strict=True):
        finding: Finding = "none_worth_it" if p_adjusted < min_gain else "too_few"
        if p < 1 - confidence and comparison.difference:
            finding = "helped" if comparison.difference > 0 else "harmed"
        # smoothed, so that the estimate stays above 0 even if no pair differs
        differing = (comparison.better + comparison.worse + 1) / (comparison.n + 2)
        n = required_n(min_gain, differing=round(differing, 2), tests=len(names), alpha=round(1 - confidence, 9))
        full = comparison.model_copy(update={"p_holm": p, "finding": finding, "required_n": n})
        difference = f"{_difference(full, confidence)}; p = {p:.2g}"
        summary = f"{_lead(finding, min_gain)}: {_right(full)} ({difference}); {_cost(full)}."
        if finding == "too_few" and full.n < n:
            summary += f" To show a gain of {_gain(min_gain)} points takes about {n:,} questions."
        elif finding == "too_few":
            summary += f" A gain of {_gain(min_gain)} points is neither shown nor ruled out."
        compared.append(full.model_copy(update={"summary": summary}))
    return compared


def _compare_with(
    name: BaselineName, items: Sequence[BenefitItem], confidence: float, tests: int, undecided: Undecided
) -> tuple[PairedComparison, float]:
    """Compute a comparison's counts, interval and test, and the largest gain that is consistent with the data.

    The gain is adjusted for the number of `tests`.
    """
    answered = [item for item in items if name in item.baselines]
    credits_ = [
        item.baselines[name].credit(str(item.truth), sides=item.sides, undecided=undecided) for item in answered
    ]
    paired = [*answered, *(item for item in items if item.failed)]
    ones = [
        0.0 if item.failed else item.debate.credit(str(item.truth), sides=item.sides, undecided=undecided)
        for item in paired
    ]
    other_credits = [
        *credits_,
        *[fmean(credits_)] * (len(paired) - len(answered)),
    ]  # the baselines of a failed debate were not run
    comparison = compare_credits(
        ones, other_credits, _clusters(paired), answered=len(answered), confidence=confidence, tests=tests
    )
    return PairedComparison(
        baseline=name,
        n=len(paired),
        debate_right=sum(ones),
        baseline_right=sum(other_credits),
        better=comparison.better,
        worse=comparison.worse,
        difference=comparison.difference,
        low=comparison.low,
        high=comparison.high,
        worst=(comparison.answered - len(paired) + len(answered)) / len(paired),
        best=(comparison.answered + len(paired) - len(answered)) / len(paired),
        clusters=comparison.clusters,
        p=comparison.p,
        p_holm=comparison.p,
        calls_ratio=_ratio([(item.debate.calls, item.baselines[name].calls) for item in answered]),
        tokens_ratio=_ratio([(item.debate.tokens, item.baselines[name].tokens) for item in answered]),
        completion_tokens_ratio=_ratio(
            [(item.debate.completion_tokens, item.baselines[name].completion_tokens) for item in answered]
        ),
        cost_ratio=_ratio([(item.debate.cost, item.baselines[name].cost) for item in answered]),
        required_n=0,
        finding="too_few",
        summary="",
    ), comparison.largest_gain


def _ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    ones, denominators = zip(*pairs, strict=True)
    if None in ones or None in denominators or not sum(denominators):
        return None
    return float(sum(ones) / sum(denominators))


# Findings in prose

_LEADS: Mapping[Finding, str] = {
    "helped": "The debate helped",
    "harmed": "The debate did not help, it was worse",
    "none_worth_it": "No gain of {gain} points or more",
    "too_few": "Too few to say",
}


def _summarize(
    finding: Finding,
    comparisons: Sequence[PairedComparison],
    *,
    confidence: float,
    min_gain: float,
    failed: int,
    undecided: int,
    attempted: int,
    missing: Missing,
) -> str:
    """Summarize all comparisons in a few sentences.

    The summary focuses on the baselines whose finding matches the overall `finding`, and especially on the most
    accurate of them.
    """
    deciding = [comparison for comparison in comparisons if comparison.finding == finding]
    best = max(deciding, key=lambda item: item.baseline_right / item.n)
    lead = _lead(finding, min_gain)
    parts = [f"{lead}: {_right(best)} ({_difference(best, confidence)}); {_cost(best)}."]
    if finding == "too_few":
        helped = [METHODS[comparison.baseline] for comparison in comparisons if comparison.finding == "helped"]
        parts += [f"It did better than {list_names(helped)}."] if helped else []
        if best.n < best.required_n:
            parts.append(f"To show a gain of {_gain(min_gain)} points takes about {best.required_n:,} questions.")
    if undecided:
        parts.append(f"{undecided:,} of {attempted:,} debates were undecided.")
    if failed:
        sentence = f"{failed:,} of {attempted:,} debates ended without a verdict and"
        if missing == "left out":
            parts.append(f"{sentence} are excluded, because their outcome is unknown.")
        else:
            bounds = f"{_points(best.worst)} to {_points(best.best)}"
            parts.append(
                f"{sentence} count as wrong, and the baselines there as right as elsewhere; depending on what they "
                f"would have found, the difference is anything from {bounds} points."
            )
    return " ".join(parts)


def _otherwise(compared: PairedComparison, confidence: float, min_gain: float) -> str:
    """Describe what the finding would be if undecided answers counted as wrong."""
    lead = _lead(compared.finding, min_gain)
    return f"With undecided answers counted as wrong: {lead}: {_right(compared)} ({_difference(compared, confidence)})."


def _lead(finding: Finding, min_gain: float) -> str:
    return _LEADS[finding].format(gain=_gain(min_gain))


def _difference(compared: PairedComparison, confidence: float) -> str:
    interval = f"{confidence:.0%} interval {_points(compared.low)} to {_points(compared.high)}"
    return f"difference {_points(compared.difference)} points, {interval}"


def _cost(compared: PairedComparison) -> str:
    ratios = {
        "the price": compared.cost_ratio,
        "the tokens": compared.tokens_ratio,
        "the tokens written": compared.completion_tokens_ratio,
        "the calls": compared.calls_ratio,
    }
    parts = [f"{times(ratio)} {what}" for what, ratio in ratios.items() if ratio is not None]
    return f"it cost {list_names(parts)}" if parts else "its cost is not known"


def _right(compared: PairedComparison) -> str:
    def count(right: float) -> str:  # the number need not be whole, because a tie may count as one half
        return f"{round(right):,}" if abs(right - round(right)) < 0.05 else f"{right:,.1f}"  # noqa: PLR2004 - one decimal

    who = "it" if compared.finding in ("helped", "harmed") else "the debate"
    debate, baseline = count(compared.debate_right), count(compared.baseline_right)
    return f"{who} was right in {debate} of {compared.n:,}, {METHODS[compared.baseline]} in {baseline}"


def _points(share: float) -> str:
    points = round(share * 100, 1) or 0.0
    return f"{points:+g}" if points else "0"


def _gain(share: float) -> str:
    return f"{round(share * 100, 1):g}"
