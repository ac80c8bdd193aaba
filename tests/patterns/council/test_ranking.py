"""Orders, mean ranks, Borda counts, Kendall's W and self-preference as laws."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.patterns.council.reviews import agreement, rank_answers, review_orders
from flowdebate.patterns.council.schemas import CouncilRanked, CouncilReview

NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=2, max_size=9, unique=True)
SCOPES = st.sampled_from(["others", "all"])


def review(name: str, *ranking: str) -> CouncilReview:
    """The review of `name`, from the best to the worst."""
    ranked = [CouncilRanked(agent_name=each, rank=place, reason="-") for place, each in enumerate(ranking, start=1)]
    return CouncilReview(agent_name=name, order=list(ranking), ranking=ranked)


def reviews(*made: CouncilReview) -> dict[str, CouncilReview]:
    """Reviews by reviewer."""
    return {each.agent_name: each for each in made}


@given(NAMES, SCOPES, st.integers())
def test_each_answer_is_in_each_slot_equally_often(names: list[str], scope: str, seed: int) -> None:
    """A preference for a slot favours nobody."""
    orders = review_orders(names, scope=scope, random=Random(seed))  # type: ignore[arg-type] # drawn from its values
    for slot in range(len(names) - (scope == "others")):
        assert sorted(order[slot] for order in orders.values()) == sorted(names)


@given(NAMES, SCOPES, st.integers())
def test_each_answer_is_reviewed_equally_often(names: list[str], scope: str, seed: int) -> None:
    """By all other members, and with "all" by its author as well."""
    orders = review_orders(names, scope=scope, random=Random(seed))  # type: ignore[arg-type] # drawn from its values
    seen = Counter(name for order in orders.values() for name in order)
    assert set(seen.values()) == {len(names) - (scope == "others")}
    for name, order in orders.items():
        assert (name in order) == (scope == "all")


def pairs_of_neighbours(count: int, scope: str) -> Counter[tuple[str, str]]:
    """How often an answer is shown right after another one, over all reviews of `count` members."""
    orders = review_orders([str(each) for each in range(count)], scope=scope, random=Random(count))  # type: ignore[arg-type]
    return Counter(pair for order in orders.values() for pair in pairwise(order))


@pytest.mark.parametrize("count", range(2, 41))
def test_no_two_answers_are_neighbours_more_than_once_without_ones_own(count: int) -> None:
    """So a good answer makes nobody's answer in particular look poor: of N (N - 1) pairs, N (N - 2) are shown."""
    shown = pairs_of_neighbours(count, "others")
    assert len(shown) == count * (count - 2)
    assert set(shown.values()) <= {1}


@pytest.mark.parametrize("count", range(2, 41, 2))
def test_all_pairs_are_neighbours_once_in_an_even_council(count: int) -> None:
    """Williams' square: with each answer in each review, each follows each other one exactly once."""
    shown = pairs_of_neighbours(count, "all")
    assert len(shown) == count * (count - 1)
    assert set(shown.values()) == {1}


@pytest.mark.parametrize("count", range(3, 41, 2))
def test_nearly_all_pairs_are_neighbours_once_in_an_odd_council(count: int) -> None:
    """Such a square does not exist for a cycle of odd length: of its N - 1 steps, one occurs twice and one never."""
    shown = pairs_of_neighbours(count, "all")
    assert len(shown) == count * (count - 2)
    assert Counter(shown.values()) == Counter({1: count * (count - 3), 2: count})


@given(NAMES, st.randoms(use_true_random=False))
def test_the_ranking_does_not_depend_on_the_order_of_arrival(names: list[str], random: Random) -> None:
    """Neither does the agreement."""
    made = [review(name, *random.sample([other for other in names if other != name], len(names) - 1)) for name in names]
    there = reviews(*made)
    random.shuffle(made)
    back = reviews(*made)
    assert rank_answers(there, names) == rank_answers(back, names)
    assert agreement(there) == agreement(back)


@given(NAMES, st.randoms(use_true_random=False))
def test_borda_counts_and_ranks_add_up(names: list[str], random: Random) -> None:
    """Each review gives as many points as it has pairs of answers."""
    there = reviews(*[review(name, *random.sample(names, len(names))) for name in names])
    ranked = rank_answers(there, names)
    pairs = len(names) * (len(names) - 1) // 2
    assert sum(rank.borda for rank in ranked) == pairs * len(names)
    assert [rank.mean_rank for rank in ranked] == sorted(rank.mean_rank for rank in ranked)
    for rank in ranked:
        assert rank.tied == (sum(other.mean_rank == rank.mean_rank for other in ranked) > 1)


@given(NAMES, SCOPES, st.integers())
def test_reviewers_who_agree_have_a_concordance_of_one(names: list[str], scope: str, seed: int) -> None:
    """Also if each leaves out its own answer."""
    orders = review_orders(names, scope=scope, random=Random(seed))  # type: ignore[arg-type] # drawn from its values
    there = reviews(*[review(name, *sorted(order)) for name, order in orders.items()])
    found = agreement(there)
    if len(names) - (scope == "others") < 2:
        assert found is None
    else:
        assert found is not None
        assert (found.w, found.reviews) == (1, len(names))


@given(NAMES, st.randoms(use_true_random=False))
def test_concordance_stays_between_nothing_and_all(names: list[str], random: Random) -> None:
    """Whatever they rank."""
    found = agreement(reviews(*[review(name, *random.sample(names, len(names))) for name in names]))
    assert found is not None
    assert 0 <= found.w <= 1


def test_concordance_of_complete_rankings_is_kendalls() -> None:
    """The textbook formula: 12 S / (m² (n³ - n)) with three reviewers and four answers."""
    there = reviews(review("x", "a", "b", "c", "d"), review("y", "a", "c", "b", "d"), review("z", "b", "a", "c", "d"))
    sums = {"a": 4, "b": 6, "c": 8, "d": 12}
    spread = sum((value - 7.5) ** 2 for value in sums.values())
    found = agreement(there)
    assert found is not None
    assert found.w == pytest.approx(12 * spread / (3**2 * (4**3 - 4)))


def test_an_agreement_claims_no_interval() -> None:
    """From three to nine reviewers the former 95% interval held the truth in .55 to .92 of councils."""
    found = agreement(reviews(review("x", "a", "b", "c"), review("y", "a", "c", "b"), review("z", "b", "a", "c")))
    assert found is not None
    assert set(found.model_dump()) == {"w", "reviews"}


def test_opposite_rankings_have_no_concordance() -> None:
    """Two reviewers, each the reverse of the other."""
    found = agreement(reviews(review("x", "a", "b", "c"), review("y", "c", "b", "a")))
    assert found is not None
    assert found.w == 0


def test_ties_share_a_place() -> None:
    """The place after two firsts is the third."""
    ranked = rank_answers(reviews(review("x", "a", "b", "c"), review("y", "b", "a", "c")), ["a", "b", "c"])
    assert [(rank.agent_name, rank.rank, rank.tied) for rank in ranked] == [
        ("a", 1, True),
        ("b", 1, True),
        ("c", 3, False),
    ]


def test_self_preference_compares_a_members_own_rank_with_the_others() -> None:
    """Above 0: it prefers its own answer."""
    there = reviews(review("a", "a", "b"), review("b", "b", "a"))
    assert [rank.self_preference for rank in rank_answers(there, ["a", "b"])] == [1.0, 1.0]
    alone = reviews(review("a", "b"), review("b", "a"))
    assert [rank.self_preference for rank in rank_answers(alone, ["a", "b"])] == [None, None]
