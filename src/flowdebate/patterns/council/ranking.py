"""Ranking of a council's answers: mean rank, Borda count, Kendall's W, self-preference.

Pure functions of the reviews. Nothing depends on the order in which they arrived.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random
from statistics import quantiles
from typing import TYPE_CHECKING

from flowdebate.patterns.council.schemas import CouncilAgreement, CouncilRank, CouncilReview

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.patterns.council.schemas import ReviewScope


_DRAWS = 400
"""Resamples for the interval of W."""
_TWO = 2
"""Minimum number of reviewers who can agree, and of answers to agree on."""


def review_orders(names: Sequence[str], *, scope: ReviewScope, random: Random) -> dict[str, list[str]]:
    """For each reviewer, whose answers it is shown and in which order.

    Each answer is in each slot equally often (a Latin square, relabelled at random), so that a preference for a slot
    favours nobody.

    >>> from random import Random
    >>> orders = review_orders(["ann", "bea", "cid"], scope="others", random=Random(1))
    >>> sorted(order[0] for order in orders.values())
    ['ann', 'bea', 'cid']
    """
    drawn = sorted(names)
    random.shuffle(drawn)
    count = len(drawn)
    orders: dict[str, list[str]] = {}
    for index, name in enumerate(drawn):
        if scope == "others":
            orders[name] = [drawn[(index + step) % count] for step in range(1, count)]
        else:  # a member's own answer is in another slot each time
            orders[name] = [drawn[(slot - index) % count] for slot in range(count)]
    return {name: orders[name] for name in names}


def rank_answers(reviews: Mapping[str, CouncilReview], names: Sequence[str]) -> list[CouncilRank]:
    """The answers of `names` from the best to the worst by mean rank; those that nobody ranked are left out.

    Tied answers share a place, and are in the order of `names`.
    """
    ranks: dict[str, dict[str, int]] = {name: {} for name in names}
    borda = dict.fromkeys(names, 0)
    for reviewer, review in reviews.items():
        for ranked in review.ranking:
            ranks[ranked.agent_name][reviewer] = ranked.rank
            borda[ranked.agent_name] += len(review.ranking) - ranked.rank
    means = {name: Fraction(sum(given.values()), len(given)) for name, given in ranks.items() if given}
    order = sorted(means, key=lambda name: (means[name], names.index(name)))
    return [
        CouncilRank(
            agent_name=name,
            rank=1 + sum(mean < means[name] for mean in means.values()),
            tied=sum(mean == means[name] for mean in means.values()) > 1,
            mean_rank=float(means[name]),
            borda=borda[name],
            reviews=len(ranks[name]),
            self_preference=_self_preference(ranks[name], name),
        )
        for name in order
    ]


def _self_preference(given: Mapping[str, int], author: str) -> float | None:
    others = [rank for reviewer, rank in given.items() if reviewer != author]
    if author not in given or not others:
        return None
    return float(Fraction(sum(others), len(others)) - given[author])


def agreement(reviews: Mapping[str, CouncilReview], *, seed: int = 0) -> CouncilAgreement | None:
    """Kendall's W of the reviews, with a 95% interval (percentile bootstrap over reviewers, drawn from `seed`).

    W compares how far the answers' rank sums spread with the spread that full agreement would give; for reviewers who
    each leave out their own answer it is Durbin's form for incomplete blocks. None if there are fewer than two reviews,
    or nothing to compare in them. With few reviewers the interval is wide, and says so.
    """
    ranked = [[item.agent_name for item in reviews[name].ranking] for name in sorted(reviews)]
    if len(ranked) < _TWO or max(map(len, ranked)) < _TWO:
        return None
    consensus = _consensus(ranked)
    random = Random(seed)  # noqa: S311 - repeatable on purpose
    draws = [_w(random.choices(ranked, k=len(ranked)), consensus) for _ in range(_DRAWS)]
    cuts = quantiles(draws, n=40, method="inclusive")
    return CouncilAgreement(w=_w(ranked, consensus), low=cuts[0], high=cuts[-1], reviews=len(ranked))


def _w(rankings: Sequence[Sequence[str]], consensus: Mapping[str, int]) -> float:
    """Kendall's W: the spread of the centred rank sums, divided by their spread if all ranked by `consensus`.

    For a balanced design that divisor is the same for any consensus; a resample is not quite balanced.
    """
    agreed = [sorted(ranking, key=consensus.__getitem__) for ranking in rankings]
    spread, most = (sum(value * value for value in _centred_sums(some).values()) for some in (rankings, agreed))
    return min(1.0, spread / most) if most else 1.0


def _consensus(rankings: Sequence[Sequence[str]]) -> dict[str, int]:
    """The place of each answer by its centred rank sum."""
    sums = _centred_sums(rankings)
    return {name: place for place, name in enumerate(sorted(sums, key=lambda name: (sums[name], name)))}


def _centred_sums(rankings: Sequence[Sequence[str]]) -> dict[str, int]:
    """For each answer, twice the sum of its ranks, each less the middle rank of its review: whole numbers."""
    sums: dict[str, int] = {}
    for ranking in rankings:
        for index, name in enumerate(ranking):
            sums[name] = sums.get(name, 0) + 2 * index + 1 - len(ranking)
    return sums
