"""Does this debate help? What was right with and without one, how sure that is, and at which cost."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Literal

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.benefit.paired import holm, items_needed, newcombe, sign_test, wilson
from flowdebate.evaluation.benefit.report import comparison_words, report_words
from flowdebate.evaluation.benefit.schemas import BenefitItem, BenefitReport, Comparison, Finding, Found, Standing
from flowdebate.patterns.debate.schemas import BASELINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.evaluation.benefit.schemas import Method
    from flowdebate.patterns.debate.schemas import BaselineAnswer, BaselineName, DebateRawOutput

__all__ = (
    "help_item",
    "helped",
)

_WHERE = "helped()"
_SURE = 1e-9
"""Credits that differ by less are the same."""


def help_item(
    raw: DebateRawOutput,
    *,
    baselines: Sequence[BaselineAnswer],
    calls: int,
    tokens: int | None,
    truth: str | None = None,
) -> BenefitItem:
    """What a debate and its `baselines` found; `calls` and `tokens` are those of the whole run (`result.usage`).

    What the baselines took is taken off them; the rest is what the debate took. A baseline without a single vote was
    lost, and is left out.
    """
    winner = None if raw.verdict is None else raw.verdict.winner
    known = [answer.tokens for answer in baselines]
    apart = None if None in known else sum(filter(None, known))
    return BenefitItem(
        truth=truth,
        debate=Found(
            answer=[] if winner is None else [winner],
            calls=calls - sum(answer.calls for answer in baselines),
            tokens=None if tokens is None or apart is None else tokens - apart,
        ),
        baselines={
            answer.name: Found(answer=answer.leaders, calls=answer.calls, tokens=answer.tokens)
            for answer in baselines
            if answer.leaders
        },
    )


def helped(items: Sequence[BenefitItem], *, confidence: float = 0.95, worth: float = 0.1) -> BenefitReport:
    """Whether the debates of `items`, those whose truth is known, did better than their baselines. Needs scipy.

    Whoever names one position is right or wrong; a tie counts as the chance that a lot between its positions would be
    right, and no answer as wrong. Each baseline is compared on the items that it has an answer to, by the exact test on
    those where one of the two was right and the other was not, adjusted by Holm for the number of baselines:

    - "helped", "harmed": the debate was right more often, less often, beyond chance at `confidence`;
    - "no_gain": neither, and the interval rules a gain of `worth` (in accuracy) or more out;
    - "too_few": none of these.

    `report.finding` is "helped" where that holds against every baseline; "harmed" or "no_gain" where it holds against
    one, since that one is as good without a debate; else "too_few". ConfigurationError without an item that can be
    compared.
    """
    _check(confidence, "confidence")
    _check(worth, "worth")
    known = [item for item in items if item.truth is not None]
    names = [name for name in BASELINES if any(name in item.baselines for item in known)]
    if not names:
        raise ConfigurationError(_WHERE, "items", len(known), "at least one with a truth and an answer of a baseline")
    methods: list[Method] = ["debate", *names]
    comparisons = _compared(names, known, confidence=confidence, worth=worth)
    finding = _finding(comparisons)
    return BenefitReport(
        n=len(known),
        without_truth=len(items) - len(known),
        confidence=confidence,
        worth=worth,
        standings=[_standing(method, known, confidence) for method in methods],
        comparisons=comparisons,
        finding=finding,
        words=report_words(finding, comparisons, worth=worth),
    )


def _standing(method: Method, items: Sequence[BenefitItem], confidence: float) -> Standing:
    found = [(_of(method, item), str(item.truth)) for item in items if method == "debate" or method in item.baselines]
    credits_ = [each.credit(truth) for each, truth in found]
    low, high = wilson(fmean(credits_), len(found), confidence=confidence)
    tokens = [each.tokens for each, _ in found if each.tokens is not None]
    return Standing(
        method=method,
        n=len(found),
        right=sum(credits_),
        accuracy=fmean(credits_),
        low=low,
        high=high,
        undecided=sum(len(each.answer) != 1 for each, _ in found),
        calls=fmean(each.calls for each, _ in found),
        tokens=fmean(tokens) if len(tokens) == len(found) else None,
    )


def _of(method: Method, item: BenefitItem) -> Found:
    return item.debate if method == "debate" else item.baselines[method]


def _compared(
    names: Sequence[BaselineName], items: Sequence[BenefitItem], *, confidence: float, worth: float
) -> list[Comparison]:
    """The debate against each baseline, with p-values that know how many they are."""
    counts = [_counted(name, items, confidence) for name in names]
    adjusted = holm([each.p for each in counts])
    compared = []
    for each, p in zip(counts, adjusted, strict=True):
        finding = _found(each, p < 1 - confidence, worth)
        differing = (each.better + each.worse + 1) / (each.n + 2)  # not none, where none of a few has differed
        needed = items_needed(worth, differing=differing, tests=len(names), alpha=1 - confidence)
        full = each.model_copy(update={"p_holm": p, "finding": finding, "needed": needed})
        words = comparison_words(full, confidence=confidence, worth=worth)
        compared.append(full.model_copy(update={"words": words}))
    return compared


def _counted(name: BaselineName, items: Sequence[BenefitItem], confidence: float) -> Comparison:
    """The counts, the interval and the test of one comparison, as if it were the only one."""
    pairs = [(item.debate, item.baselines[name], str(item.truth)) for item in items if name in item.baselines]
    ones = [debate.credit(truth) for debate, _, truth in pairs]
    others = [other.credit(truth) for _, other, truth in pairs]
    better = sum(one > other + _SURE for one, other in zip(ones, others, strict=True))
    worse = sum(one < other - _SURE for one, other in zip(ones, others, strict=True))
    low, high = newcombe(ones, others, confidence=confidence)
    p = sign_test(better, worse)
    return Comparison(
        baseline=name,
        n=len(pairs),
        debate=sum(ones),
        other=sum(others),
        better=better,
        worse=worse,
        difference=fmean(ones) - fmean(others),
        low=low,
        high=high,
        p=p,
        p_holm=p,
        calls_ratio=_ratio([(debate.calls, other.calls) for debate, other, _ in pairs]),
        tokens_ratio=_ratio([(debate.tokens, other.tokens) for debate, other, _ in pairs]),
        needed=0,
        finding="too_few",
        words="",
    )


def _ratio(pairs: Sequence[tuple[int | None, int | None]]) -> float | None:
    ones, others = zip(*pairs, strict=True)
    if None in ones or None in others or not sum(others):
        return None
    return float(sum(ones) / sum(others))


def _found(counts: Comparison, shown: bool, worth: float) -> Finding:  # noqa: FBT001 - whether it is beyond chance
    if shown and counts.better != counts.worse:
        return "helped" if counts.better > counts.worse else "harmed"
    return "no_gain" if counts.high < worth else "too_few"


def _finding(comparisons: Sequence[Comparison]) -> Finding:
    """What all comparisons come to."""
    findings = {each.finding for each in comparisons}
    order: tuple[Literal["harmed", "no_gain", "too_few"], ...] = ("harmed", "no_gain", "too_few")
    return next((finding for finding in order if finding in findings), "helped")


def _check(value: object, field: str) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1:
        raise ConfigurationError(_WHERE, field, value, "a number between 0 and 1")
