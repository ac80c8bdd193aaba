"""Comparison of two methods on the same questions: the difference, its interval, an exact test, and an e-value."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import exp, fsum, lgamma, log
from statistics import fmean

from flowdebate._util.validation import check_count
from flowdebate.evaluation.statistics import effective_size, newcombe, sign_flip_test

_SURE = 1e-9  # credits for ties are floats, so smaller differences are just rounding errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Difference in accuracy between two methods on the same questions."""

    better: int
    worse: int
    """Number of questions on which the first method scored higher (`better`) or lower (`worse`) than the second."""
    difference: float
    low: float
    high: float
    """Difference in accuracy, and the bounds of its Newcombe interval for paired proportions."""
    largest_gain: float
    """Largest difference that the interval does not exclude, adjusted for the number of comparisons (Bonferroni)."""
    clusters: int
    """Number of independent groups of questions."""
    p: float
    """P-value of the exact two-sided sign-flip test over clusters; equivalent to McNemar's exact test if each cluster
    has one question.
    """
    answered: float
    """Sum of the differences over the questions answered by both methods."""
    leads: tuple[int, int]
    """Numbers of clusters in which the first method was right more often, and less often, than the second."""


def compare_credits(
    ones: Sequence[float],
    other_credits: Sequence[float],
    clusters: Sequence[Hashable],
    *,
    confidence: float,
    tests: int = 1,
    answered: int | None = None,
) -> Paired:
    """Compare two methods by their credits (0 to 1), question by question. Needs scipy.

    Questions with the same value in `clusters` are not independent: intervals widen accordingly, and the test flips the
    signs of whole clusters. `tests` is the total number of comparisons. Both methods answered the first `answered`
    questions (None for all questions); the credits for the rest are imputed.
    """
    differences = [one - other for one, other in zip(ones, other_credits, strict=True)]
    seen = differences[:answered]
    size = effective_size(differences, clusters)
    low, high = newcombe(ones, other_credits, confidence=confidence, size=size)
    _, upper = newcombe(ones, other_credits, confidence=1 - (1 - confidence) / tests, size=size)
    sums: dict[Hashable, list[float]] = {}
    for value, cluster in zip(differences, clusters, strict=True):
        sums.setdefault(cluster, []).append(value)
    leans = [fsum(cluster_sums) for cluster_sums in sums.values()]
    return Paired(
        better=sum(difference > _SURE for difference in seen),
        worse=sum(difference < -_SURE for difference in seen),
        difference=fmean(differences),
        low=low,
        high=high,
        largest_gain=upper,
        clusters=len(sums),
        p=sign_flip_test(leans),
        answered=fsum(seen),
        leads=(sum(lean > _SURE for lean in leans), sum(lean < -_SURE for lean in leans)),
    )


def e_value(ones: int, other_wins: int) -> float:
    """Compute the e-value of `ones` wins to `other_wins` against a fair coin, valid at any stopping time.

    The e-value is the capital of a bettor who starts with one unit and bets on each win in advance, using the mixture
    of Krichevsky and Trofimov (1981). If both methods are equally good, it reaches 1 / alpha in at most a fraction
    alpha of studies, no matter how often it is checked (Ville's inequality): stopping at 20 is wrong in at most 5 of
    100 studies. A test with a fixed number of questions needs fewer questions.

    >>> [round(e_value(*wins), 2) for wins in ((0, 0), (5, 5), (10, 0), (15, 2))]
    [1.0, 0.25, 180.43, 52.21]
    """
    check_count("e_value()", minimum=0, ones=ones, others=other_wins)
    n = ones + other_wins
    # Likelihood under a Beta(1/2, 1/2) prior on the rate, relative to a rate of 1/2.
    mixture = lgamma(ones + 0.5) + lgamma(other_wins + 0.5) - lgamma(n + 1) - 2 * lgamma(0.5)
    return exp(mixture + n * log(2))
