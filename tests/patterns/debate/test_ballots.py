"""Decisions from ballots: when they are settled, and how many calls curtailing saves."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.ballots import (
    DecidedBy,
    JudgeBallot,
    Judging,
    decide,
    effective_n,
    is_settled,
    leader_of,
)
from flowdebate.patterns.debate.judging.views import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

SIDES = ("a", "b", "c")
ways: st.SearchStrategy[DecidedBy] = st.sampled_from(["mean", "vote"])


def ballot(*points: float, model: str | None = None, view: int = 0, sides: Sequence[str] = SIDES) -> JudgeBallot:
    """Create a ballot with these points for each side, and the corresponding shares as scores."""
    total = sum(points)
    scores = {side: point / total for side, point in zip(sides, points, strict=True)}
    return JudgeBallot(view=view, order=list(sides), model=model, scores=scores)


points = st.tuples(*[st.integers(0, 4)] * 3).filter(any)
scored = st.builds(lambda shares, model: ballot(*shares, model=model), points, st.sampled_from([None, "m"]))
votes = st.builds(
    lambda winner, problem: JudgeBallot(order=list(SIDES), winner=winner, problem=problem),
    st.sampled_from([None, *SIDES]),
    st.sampled_from([None, None, "no JSON"]),
)
ballots = st.lists(scored | votes, max_size=7)


@given(ballots, ways, st.randoms(use_true_random=False))
def test_ballot_order_does_not_matter(cast: list[JudgeBallot], by: DecidedBy, random: Random) -> None:
    decision = decide(cast, sides=SIDES, by=by)
    random.shuffle(cast)
    assert decide(cast, sides=SIDES, by=by) == decision
    assert decide([ballot_ for ballot_ in cast if ballot_.problem is None], sides=SIDES, by=by) == decision


@given(ballots, ways, st.permutations(SIDES))
def test_order_of_sides_does_not_affect_the_result(cast: list[JudgeBallot], by: DecidedBy, sides: list[str]) -> None:
    decision, reordered = decide(cast, sides=SIDES, by=by), decide(cast, sides=sides, by=by)
    assert (decision.scores, decision.winner, decision.flipped) == (
        reordered.scores,
        reordered.winner,
        reordered.flipped,
    )
    assert list(reordered.scores) == sides


@given(ballots, ways)
def test_scores_are_shares_and_the_highest_share_wins(cast: list[JudgeBallot], by: DecidedBy) -> None:
    decision = decide(cast, sides=SIDES, by=by)
    assert sum(decision.scores.values()) == pytest.approx(1)
    if decision.winner is not None:
        assert decision.scores[decision.winner] == max(decision.scores.values())
    assert Judging(ballots=cast, scores=decision.scores).scores == decision.scores


@given(ballots, ways, st.integers(2, 4))
def test_duplicating_all_ballots_changes_nothing(cast: list[JudgeBallot], by: DecidedBy, times: int) -> None:
    assert decide(cast * times, sides=SIDES, by=by) == decide(cast, sides=SIDES, by=by)


@given(points, st.tuples(*[st.integers(0, 4)] * 3), st.integers(0, 99))
def test_cyclic_schedules_cancel_slot_bonuses(
    quality: tuple[int, int, int], bonus: tuple[int, int, int], seed: int
) -> None:
    """A bonus for a particular slot cancels out when scores are averaged over all orders.

    The bonus therefore does not change the winner.
    """
    cast = []
    for view in Schedule(kind="cyclic").views(SIDES, random=Random(seed)):
        slots = [view.order.index(side) for side in SIDES]
        cast.append(ballot(*(good + bonus[slot] for good, slot in zip(quality, slots, strict=True))))
    decision, total = decide(cast, sides=SIDES), sum(quality) + sum(bonus)
    expected = [(good + sum(bonus) / 3) / total for good in quality]
    assert list(decision.scores.values()) == pytest.approx(expected)
    if (best := leader_of(dict(zip(SIDES, map(float, quality), strict=True)))) is not None:
        assert decision.winner == best


def test_tied_votes_are_split_evenly() -> None:
    """A ballot without a winner counts as a fraction of a vote for each side."""
    tied, none = ballot(2, 2, 1), JudgeBallot(order=list(SIDES))
    assert decide([tied], sides=SIDES, by="vote").scores == {"a": 0.5, "b": 0.5, "c": 0.0}
    assert decide([none], sides=SIDES).scores == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert decide([none], sides=SIDES).winner is None
    assert decide([], sides=SIDES).winner is None


def test_scores_and_votes_can_favor_different_sides() -> None:
    """Two ballots that narrowly favor one side win the vote.

    If a third ballot clearly favors another side, that side can still have the best mean score.
    """
    cast = [ballot(3, 2, 0), ballot(3, 2, 0), ballot(0, 4, 0)]
    assert decide(cast, sides=SIDES).winner == "b"
    assert decide(cast, sides=SIDES, by="vote").winner == "a"


def test_flips_occur_only_between_ballots_from_one_model() -> None:
    """Two models that disagree have not flipped. A model flips if its choice of winner depends on the view."""
    one, other = ballot(3, 1, 0, model="m"), ballot(1, 3, 0, model="n")
    assert not decide([one, other], sides=SIDES).flipped
    second, none = ballot(1, 3, 0, model="m", view=1), ballot(2, 2, 0, model="m", view=1)
    assert decide([one, second], sides=SIDES).flipped
    assert decide([one, none], sides=SIDES).flipped, "for one, then for none"
    assert not decide([one, second.model_copy(update={"problem": "-"})], sides=SIDES).flipped
    assert not decide([one, second.model_copy(update={"view": 0})], sides=SIDES).flipped, "the same view: that is noise"


KINDS = {
    2: [ballot(1, 0, sides="ab"), ballot(0, 1, sides="ab"), ballot(1, 1, sides="ab"), ballot(2, 1, sides="ab")],
    3: [ballot(1, 0, 0), ballot(0, 1, 0), ballot(0, 0, 1), ballot(1, 1, 0), ballot(1, 1, 1)],
}
"""Ballots by number of sides: a vote for each side, ties and, for two sides, an uneven score."""


@pytest.mark.parametrize("by", ["mean", "vote"])
@pytest.mark.parametrize(("count", "planned"), [(2, 4), (3, 4)])
def test_curtailing_gives_the_same_verdict(count: int, planned: int, by: DecidedBy) -> None:
    """Whatever the omitted ballots might have contained, they could not have changed the winner."""
    sides, settled = SIDES[:count], 0
    for size in range(planned):
        for cast in product(KINDS[count], repeat=size):
            if not is_settled(cast, remaining=planned - size, sides=sides, by=by):
                continue
            settled += 1
            winner = decide(cast, sides=sides, by=by).winner
            assert winner is not None
            for rest in product(KINDS[count], repeat=planned - size):
                assert decide([*cast, *rest], sides=sides, by=by).winner == winner
    assert settled


@pytest.mark.parametrize("by", ["mean", "vote"])
def test_unsettled_verdicts_can_still_change(by: DecidedBy) -> None:
    sides, planned = SIDES[:2], 4
    for size in range(planned):
        for cast in product(KINDS[2], repeat=size):
            if is_settled(cast, remaining=planned - size, sides=sides, by=by):
                continue
            winners = {
                decide([*cast, *rest], sides=sides, by=by).winner for rest in product(KINDS[2], repeat=planned - size)
            }
            assert len(winners) > 1


def test_verdicts_without_open_ballots_are_settled() -> None:
    assert is_settled([], remaining=0, sides=SIDES)
    assert is_settled([], remaining=3, sides=["a"])
    assert not is_settled([], remaining=1, sides=SIDES)


def test_unusable_ballots_settle_nothing() -> None:
    broken = JudgeBallot(order=list(SIDES), winner="a", problem="no JSON")
    assert not is_settled([broken, broken], remaining=1, sides=SIDES, by="vote")


@given(st.dictionaries(st.sampled_from(SIDES), st.integers(0, 3), min_size=1))
def test_leader_has_the_most_votes(totals: dict[str, int]) -> None:
    leader = leader_of({side: float(total) for side, total in totals.items()})
    leaders = [side for side in totals if totals[side] == max(totals.values())]
    assert leader == (leaders[0] if len(leaders) == 1 else None)


@given(st.integers(1, 50), st.floats(0, 1))
def test_effective_panel_size_is_bounded(n: int, correlation: float) -> None:
    """The effective size is the number of judges if their errors are independent, and 1 if they are identical."""
    assert 1 - 1e-9 <= effective_n(n, correlation) <= n
    assert (effective_n(n, 0), effective_n(n, 1)) == (n, 1)
    assert effective_n(9) == 2


@pytest.mark.parametrize(("n", "correlation"), [(0, 0.1), (True, 0.1), (2, -0.1), (2, 1.1), (2, float("nan"))])
def test_invalid_panels_are_rejected(n: int, correlation: float) -> None:
    with pytest.raises(ConfigurationError):
        effective_n(n, correlation)


def test_decision_requires_at_least_one_side() -> None:
    with pytest.raises(ConfigurationError):
        decide([], sides=[])


def test_saved_calls_are_reported() -> None:
    """Once two of three judges agree, there is no need to call the third."""
    cast = [ballot(1, 0, 0), ballot(1, 0, 0)]
    assert is_settled(cast, remaining=1, sides=SIDES, by="vote")
    judging = Judging(ballots=cast, planned=3, scores=decide(cast, sides=SIDES).scores)
    assert judging.saved == 1
