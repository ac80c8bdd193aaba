"""Whether a debate helped, in plain words: what was right, how sure that is, what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.evaluation.benefit.schemas import BenefitItem, Comparison, Finding, Found, Method

__all__ = (
    "METHODS",
    "change_words",
    "comparison_words",
    "cost_words",
    "report_words",
)

METHODS: Mapping[Method, str] = {
    "debate": "the debate",
    "single": "one call",
    "drafts": "the vote of first drafts",
    "self_consistency": "self-consistency",
}
"""What each method is called in sentences."""
_LEADS: Mapping[Finding, str] = {
    "helped": "The debate helped",
    "harmed": "The debate did not help, it was worse",
    "no_gain": "The debate did not help",
    "too_few": "Too few to say",
}
_PERCENT = 100


def comparison_words(found: Comparison, *, confidence: float, worth: float) -> str:
    """One comparison in a sentence or two."""
    interval = f"{confidence:.0%} interval {_points(found.low)} to {_points(found.high)}"
    about = f"difference {_points(found.difference)} points, {interval}; p = {found.p_holm:.2g}"
    sentence = f"{_LEADS[found.finding]}: {_right(found)} ({about}); {cost_words(found)}."
    if found.finding != "too_few":
        return sentence
    if found.n < found.needed:
        return f"{sentence} To show a gain of {_gain(worth)} points takes about {found.needed:,} questions."
    return f"{sentence} A gain of {_gain(worth)} points is neither shown nor ruled out."


def report_words(finding: Finding, comparisons: Sequence[Comparison], *, worth: float) -> str:
    """All comparisons in a sentence or two: told of the baseline that was right most often, of those that decide."""
    deciding = [each for each in comparisons if each.finding == finding]
    best = max(deciding, key=lambda each: each.other / each.n)
    sentence = f"{_LEADS[finding]}: {_right(best)}; {cost_words(best)}."
    if finding == "too_few":
        helped = [METHODS[each.baseline] for each in comparisons if each.finding == "helped"]
        against = f" It did better than {_listed(helped)}." if helped else ""
        more = f" To show a gain of {_gain(worth)} points takes about {best.needed:,} questions."
        return f"{sentence}{against}{more if best.n < best.needed else ''}"
    return sentence


def cost_words(found: Comparison) -> str:
    """What the debate cost, in those of the baseline."""
    parts = []
    if found.tokens_ratio is not None:
        parts.append(f"{_times(found.tokens_ratio)} the tokens")
    if found.calls_ratio is not None:
        parts.append(f"{_times(found.calls_ratio)} the calls")
    return f"it cost {' and '.join(parts)}" if parts else "what it cost is not known"


def change_words(item: BenefitItem) -> str:
    """Whether one debate changed the answer, and at what cost: all that can be said without knowing the truth.

    >>> from flowdebate.evaluation.benefit.schemas import Found, BenefitItem
    >>> single = Found(answer=["cap"], calls=1, tokens=100)
    >>> change_words(BenefitItem(debate=Found(answer=["free"], calls=5, tokens=940), baselines={"single": single}))
    "The debate changed the answer to 'free': one call says 'cap'. It took 5 calls and 940 tokens: 9.4 times one call."
    """
    others = [(METHODS[name], found) for name, found in item.baselines.items()]
    changed = [name for name, found in others if found.answer != item.debate.answer]
    said = "; ".join(f"{name} says {_answer(found)}" for name, found in others)
    if not others:
        sentence = f"There is nothing to compare with: all baselines were lost. The debate says {_answer(item.debate)}."
    elif not changed:
        sentence = f"The debate did not change the answer: {_listed([name for name, _ in others])} "
        sentence += f"{'says' if len(others) == 1 else 'say'} {_answer(item.debate)} as well."
    elif len(changed) == len(others):
        sentence = f"The debate changed the answer to {_answer(item.debate)}: {said}."
    else:
        sentence = f"The debate says {_answer(item.debate)}: {said}."
    return f"{sentence} {_taken(item)}."


def _taken(item: BenefitItem) -> str:
    tokens = "" if item.debate.tokens is None else f" and {item.debate.tokens:,} tokens"
    took = f"It took {item.debate.calls:,} calls{tokens}"
    single = item.baselines.get("single")
    if single is None or not single.tokens or item.debate.tokens is None:
        return took
    return f"{took}: {_times(item.debate.tokens / single.tokens)} one call"


def _answer(found: Found) -> str:
    return _listed([repr(position) for position in found.answer]) if found.answer else "no position"


def _right(found: Comparison) -> str:
    who = "the debate" if found.finding == "too_few" else "it"
    return (
        f"{who} was right in {_count(found.debate)} of {found.n:,}, {METHODS[found.baseline]} in {_count(found.other)}"
    )


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
