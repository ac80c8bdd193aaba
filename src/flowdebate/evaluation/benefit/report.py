"""Summaries of benefit reports in words: accuracy, certainty and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.evaluation.benefit.comparison import (
        BenefitItem,
        Finding,
        Method,
        MethodAnswer,
        Missing,
        PairedComparison,
    )


METHODS: Mapping[Method, str] = {
    "debate": "the debate",
    "single": "one call",
    "drafts": "the vote of first drafts",
    "self_consistency": "self-consistency",
}
"""The names of methods in sentences."""
_LEADS: Mapping[Finding, str] = {
    "helped": "The debate helped",
    "harmed": "The debate did not help, it was worse",
    "none_worth_it": "No gain of {gain} points or more",
    "too_few": "Too few to say",
}
_PERCENT = 100


def comparison_summary(compared: PairedComparison, *, confidence: float, min_gain: float) -> str:
    """One comparison in a sentence or two."""
    about = f"{_difference(compared, confidence)}; p = {compared.p_holm:.2g}"
    sentence = f"{_lead(compared.finding, min_gain)}: {_right(compared)} ({about}); {_cost(compared)}."
    if compared.finding != "too_few":
        return sentence
    if compared.n < compared.required_n:
        return f"{sentence} To show a gain of {_gain(min_gain)} points takes about {compared.required_n:,} questions."
    return f"{sentence} A gain of {_gain(min_gain)} points is neither shown nor ruled out."


def report_summary(
    finding: Finding,
    comparisons: Sequence[PairedComparison],
    *,
    confidence: float,
    min_gain: float,
    failed: int,
    attempted: int,
    missing: Missing,
) -> str:
    """All comparisons in a few sentences, about the most accurate of the baselines that decided the finding."""
    deciding = [each for each in comparisons if each.finding == finding]
    best = max(deciding, key=lambda each: each.baseline_right / each.n)
    lead = _lead(finding, min_gain)
    parts = [f"{lead}: {_right(best)} ({_difference(best, confidence)}); {_cost(best)}."]
    if finding == "too_few":
        helped = [METHODS[each.baseline] for each in comparisons if each.finding == "helped"]
        parts += [f"It did better than {_listed(helped)}."] if helped else []
        if best.n < best.required_n:
            parts.append(f"To show a gain of {_gain(min_gain)} points takes about {best.required_n:,} questions.")
    if failed:
        parts.append(_failed(best, failed, attempted, missing))
    return " ".join(parts)


def _failed(compared: PairedComparison, failed: int, attempted: int, missing: Missing) -> str:
    """What debates without a verdict count as, and what they could change."""
    sentence = f"{failed:,} of {attempted:,} debates ended without a verdict and"
    if missing == "left out":
        return f"{sentence} are left out: what they would have found is not known."
    bounds = f"{_points(compared.worst)} to {_points(compared.best)}"
    return (
        f"{sentence} count as wrong, and the baselines there as right as elsewhere; depending on what they would have "
        f"found, the difference is anything from {bounds} points."
    )


def _lead(finding: Finding, min_gain: float) -> str:
    return _LEADS[finding].format(gain=_gain(min_gain))


def _difference(compared: PairedComparison, confidence: float) -> str:
    interval = f"{confidence:.0%} interval {_points(compared.low)} to {_points(compared.high)}"
    return f"difference {_points(compared.difference)} points, {interval}"


def _cost(compared: PairedComparison) -> str:
    """The debate's cost as a multiple of the baseline's."""
    ratios = {
        "the price": compared.cost_ratio,
        "the tokens": compared.tokens_ratio,
        "the tokens written": compared.completion_tokens_ratio,
        "the calls": compared.calls_ratio,
    }
    parts = [f"{_times(ratio)} {what}" for what, ratio in ratios.items() if ratio is not None]
    return f"it cost {_listed(parts)}" if parts else "its cost is not known"


def change_summary(item: BenefitItem) -> str:
    """Say whether one debate changed the answer, and at what cost; the right answer need not be known.

    >>> from flowdebate.evaluation.benefit.comparison import BenefitItem, MethodAnswer
    >>> single = MethodAnswer(answer=["cap"], calls=1, tokens=100)
    >>> debate = MethodAnswer(answer=["free"], calls=5, tokens=940)
    >>> change_summary(BenefitItem(debate=debate, baselines={"single": single}))
    "The debate changed the answer to 'free': one call says 'cap'. It took 5 calls and 940 tokens: 9.4 times one call."
    """
    others = [(METHODS[name], answer) for name, answer in item.baselines.items()]
    changed = [name for name, answer in others if answer.answer != item.debate.answer]
    answers = "; ".join(f"{name} says {_answer(answer)}" for name, answer in others)
    if not others:
        sentence = (
            f"There is nothing to compare with: no baseline has an answer. The debate says {_answer(item.debate)}."
        )
    elif not changed:
        sentence = f"The debate did not change the answer: {_listed([name for name, _ in others])} "
        sentence += f"{'says' if len(others) == 1 else 'say'} {_answer(item.debate)} as well."
    elif len(changed) == len(others):
        sentence = f"The debate changed the answer to {_answer(item.debate)}: {answers}."
    else:
        sentence = f"The debate says {_answer(item.debate)}: {answers}."
    return f"{sentence} {_taken(item)}."


def _taken(item: BenefitItem) -> str:
    tokens = "" if item.debate.tokens is None else f" and {item.debate.tokens:,} tokens"
    took = f"It took {item.debate.calls:,} calls{tokens}"
    single = item.baselines.get("single")
    if single is None or not single.tokens or item.debate.tokens is None:
        return took
    return f"{took}: {_times(item.debate.tokens / single.tokens)} one call"


def _answer(answer: MethodAnswer) -> str:
    return _listed([repr(position) for position in answer.answer]) if answer.answer else "no position"


def _right(compared: PairedComparison) -> str:
    who = "it" if compared.finding in ("helped", "harmed") else "the debate"
    debate, baseline = _count(compared.debate_right), _count(compared.baseline_right)
    return f"{who} was right in {debate} of {compared.n:,}, {METHODS[compared.baseline]} in {baseline}"


def _count(right: float) -> str:
    """A number of items; a tie may be half an item."""
    return f"{round(right):,}" if abs(right - round(right)) < 0.05 else f"{right:,.1f}"  # noqa: PLR2004 - one decimal


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= _PERCENT else f"{ratio:.1f} times"


def _points(share: float) -> str:
    """A difference of shares, in percentage points with its sign."""
    points = round(share * _PERCENT, 1) or 0.0
    return f"{points:+g}" if points else "0"


def _gain(share: float) -> str:
    return f"{round(share * _PERCENT, 1):g}"


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
