"""Agreement beyond chance: Cohen's and Fleiss' kappa, Krippendorff's alpha, and rates corrected with human labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from math import sqrt
from statistics import fmean, variance
from typing import NamedTuple

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.statistics import two_sided_z


def cohen_kappa(ones: Sequence[Hashable], other_labels: Sequence[Hashable]) -> float | None:
    """Compute two raters' agreement beyond chance (Cohen 1960): 1 is full agreement, 0 is no better than chance.

    Return None if there are no items, or if all ratings by both raters are the same, because chance alone would explain
    such agreement.

    >>> cohen_kappa("aabb", "aaba"), cohen_kappa("aa", "aa")
    (0.5, None)
    """
    if len(ones) != len(other_labels):
        raise ConfigurationError(
            "cohen_kappa()", "others", len(other_labels), f"must have as many entries as `ones` ({len(ones)})"
        )
    n = len(ones)
    one, other = Counter(ones), Counter(other_labels)
    by_chance = sum(one[name] * other[name] for name in one) / (n * n) if n else 1.0
    if by_chance >= 1:
        return None
    observed = sum(a == b for a, b in zip(ones, other_labels, strict=True)) / n
    return (observed - by_chance) / (1 - by_chance)


def fleiss_kappa(counts: Sequence[Mapping[str, int]]) -> float | None:
    """Compute several raters' agreement beyond chance (Fleiss 1971) from each item's rating counts.

    Every item needs the same number of ratings, at least two; use `krippendorff_alpha` if the numbers differ. Return
    None if all ratings are the same.

    >>> fleiss_kappa([{"a": 3}, {"b": 3}, {"a": 1, "b": 2}])
    0.55
    """
    raters = {sum(item.values()) for item in counts}
    if len(raters) != 1 or (m := raters.pop()) < 2:  # noqa: PLR2004 - a rater cannot agree alone
        raise ConfigurationError(
            "fleiss_kappa()",
            "counts",
            sorted(raters),
            "must have the same number of ratings for each item, and at least 2",
        )
    totals = sum((Counter(item) for item in counts), Counter[str]())
    by_chance = sum((number / (m * len(counts))) ** 2 for number in totals.values())
    if by_chance >= 1:
        return None
    observed = fmean(sum(k * (k - 1) for k in item.values()) / (m * (m - 1)) for item in counts)
    return (observed - by_chance) / (1 - by_chance)


def krippendorff_alpha(ratings: Sequence[Sequence[Hashable | None]]) -> float | None:
    """Compute agreement beyond chance among any number of raters, for nominal ratings (Krippendorff 2011).

    `ratings` has one row per rater and one rating per item; None marks a missing rating. Return None if no item has two
    ratings, or if all ratings are the same.

    >>> round(krippendorff_alpha([["a", "a", "b", None], ["a", "b", "b", "a"]]), 3)
    0.444
    """
    lengths = {len(row) for row in ratings}
    if len(lengths) > 1:
        raise ConfigurationError(
            "krippendorff_alpha()", "ratings", sorted(lengths), "must have the same number of entries for each rater"
        )
    items = [Counter(label for label in item if label is not None) for item in zip(*ratings, strict=True)]
    items = [item for item in items if sum(item.values()) > 1]  # an item with a single rating offers nothing to compare
    totals = sum(items, Counter[object]())
    n = sum(totals.values())
    if len(totals) < 2:  # noqa: PLR2004 - one name only
        return None
    unlike = sum((m * m - sum(k * k for k in item.values())) / (m - 1) for item in items for m in [sum(item.values())])
    by_chance = (n * n - sum(k * k for k in totals.values())) / (n - 1)
    return 1 - unlike / by_chance


class CorrectedRate(NamedTuple):
    """A corrected rate and the bounds of its confidence interval."""

    value: float
    low: float
    high: float


def corrected_rate(
    judged: Sequence[float], human: Sequence[float | None], *, confidence: float = 0.95
) -> CorrectedRate:
    """Estimate a rate over all items from a judge's ratings, corrected by human labels for some items.

    `human` has None for each unlabeled item. The estimate is the judge's mean on the unlabeled items plus the mean
    difference between humans and the judge on the labeled ones. If the labeled items were drawn at random, it is
    unbiased regardless of the judge's errors (prediction-powered inference, Angelopoulos et al. 2023, arXiv
    2301.09633). With few labels the interval is too narrow, so use at least 20. Raise ConfigurationError for fewer than
    two labeled or two unlabeled items.

    >>> found = corrected_rate([1, 1, 1, 1] * 25, [1, 0, 1, 1] * 10 + [None] * 60)
    >>> [round(part, 2) for part in found]
    [0.75, 0.61, 0.89]
    """
    location = "corrected_rate()"
    if len(judged) != len(human):
        raise ConfigurationError(
            location, "human", len(human), f"must have {len(judged)} entries, with None for each item without a label"
        )
    differing = [label - judgement for judgement, label in zip(judged, human, strict=True) if label is not None]
    rest = [judgement for judgement, label in zip(judged, human, strict=True) if label is None]
    if min(len(differing), len(rest)) < 2:  # noqa: PLR2004 - a variance takes two
        raise ConfigurationError(
            location, "human", len(differing), "must label at least two items and leave at least two unlabeled"
        )
    value = fmean(rest) + fmean(differing)
    half = two_sided_z(1 - confidence) * sqrt(variance(rest) / len(rest) + variance(differing) / len(differing))
    return CorrectedRate(value, value - half, value + half)
