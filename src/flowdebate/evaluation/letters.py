"""Calibration of a judge's letter verdicts: the judge's length bias, and the lead a side needs to win."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.ballots import Judging, LetterFit, balanced, leads_of

_MIN_KNOWN, _MIN_EQUAL = 10, 20  # minimum numbers of pairs in which one side is better, and of pairs of equal sides
_TWO = 2


def fit_letters(judged: Iterable[tuple[Judging, str | None]]) -> LetterFit:
    """Fit the length bias and threshold of a judge's letter verdicts, for `JudgeOptions(answer_form="letter", fit=…)`.

    Pass each verdict on two sides as `verdict.judging`, along with the stance of the side that is better by
    construction, or None if both sides are equally good. The length bias is fitted to all pairs by least squares: the
    better side of a pair has a constant lead, equally good sides have no lead, and in both cases the logarithm of the
    ratio of the sides' lengths contributes to the lead. `min_log_odds` is the length-corrected lead that another pair
    of equally good sides exceeds with a probability of at most 5%: the ceil(.95 (n + 1))-th smallest of n. Raises
    ConfigurationError if there are fewer than 10 pairs with a better side or fewer than 20 pairs of equally good sides,
    if the ratio of lengths is the same in all pairs with a better side, or if a verdict has no letter ballots on two
    sides.
    """
    points: list[tuple[float, float]] = []
    equal: list[tuple[float, float]] = []
    for index, (judging, better) in enumerate(judged):
        used = balanced(judging.ballots)
        lengths = used[0].lengths if used else None
        if lengths is None or len(lengths) != _TWO or (better is not None and better not in lengths):
            problem = "must have letter ballots on two sides, and its better side must be one of them or None"
            raise ConfigurationError("fit_letters()", f"judged[{index}]", better, problem)
        first, second = sorted(lengths, key=lambda side: side != better)
        leads = leads_of([(ballot.model, ballot.log_odds or {}) for ballot in used], [first, second])
        ratio = math.log(max(lengths[first], 1) / max(lengths[second], 1))
        (equal if better is None else points).append((ratio, leads[first][second]))
    if len(points) < _MIN_KNOWN or len(equal) < _MIN_EQUAL or len({ratio for ratio, _ in points}) < _TWO:
        counts = f"{len(points)} and {len(equal)}"
        problem = (
            f"must have at least {_MIN_KNOWN} items of different lengths with a better side, "
            f"and at least {_MIN_EQUAL} without one"
        )
        raise ConfigurationError("fit_letters()", "judged", counts, problem)
    # the order of two equal sides is arbitrary, so those pairs are not centered
    means = [fmean(values) for values in zip(*points, strict=True)]
    pairs = [(ratio - means[0], lead - means[1]) for ratio, lead in points] + equal
    slope = sum(ratio * lead for ratio, lead in pairs) / sum(ratio * ratio for ratio, _ in pairs)
    residuals = sorted(abs(lead - slope * ratio) for ratio, lead in equal)
    return LetterFit(
        per_log_length=slope, min_log_odds=residuals[min(math.ceil(0.95 * (len(residuals) + 1)), len(residuals)) - 1]
    )
