"""What ballots come to, when they are settled, and what curtailing saves."""

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
    """A ballot with so many points for each side; its scores are its points as shares."""
    whole = sum(points)
    scores = {side: point / whole for side, point in zip(sides, points, strict=True)}
    return JudgeBallot(view=view, order=list(sides), model=model, scores=scores)


points = st.tuples(*[st.integers(0, 4)] * 3).filter(any)
scored = st.builds(lambda given, model: ballot(*given, model=model), points, st.sampled_from([None, "m"]))
named = st.builds(
    lambda winner, problem: JudgeBallot(order=list(SIDES), winner=winner, problem=problem),
    st.sampled_from([None, *SIDES]),
    st.sampled_from([None, None, "no JSON"]),
)
ballots = st.lists(scored | named, max_size=7)


@given(ballots, ways, st.randoms(use_true_random=False))
def test_the_order_of_ballots_changes_nothing(cast: list[JudgeBallot], by: DecidedBy, random: Random) -> None:
    """To the last bit, nor does which of them could not be used."""
    found = decide(cast, sides=SIDES, by=by)
    random.shuffle(cast)
    assert decide(cast, sides=SIDES, by=by) == found
    assert decide([each for each in cast if each.problem is None], sides=SIDES, by=by) == found


@given(ballots, ways, st.permutations(SIDES))
def test_the_order_of_sides_changes_nothing_but_the_order(
    cast: list[JudgeBallot], by: DecidedBy, sides: list[str]
) -> None:
    """No side is better for being named first."""
    found, other = decide(cast, sides=SIDES, by=by), decide(cast, sides=sides, by=by)
    assert (found.scores, found.winner, found.flipped) == (other.scores, other.winner, other.flipped)
    assert list(other.scores) == sides


@given(ballots, ways)
def test_scores_are_shares_and_the_winner_has_the_most(cast: list[JudgeBallot], by: DecidedBy) -> None:
    """They add up to 1; a tie has no winner."""
    found = decide(cast, sides=SIDES, by=by)
    assert sum(found.scores.values()) == pytest.approx(1)
    if found.winner is not None:
        assert found.scores[found.winner] == max(found.scores.values())
    assert Judging(ballots=cast, scores=found.scores).scores == found.scores


@given(ballots, ways, st.integers(2, 4))
def test_casting_all_ballots_again_changes_nothing(cast: list[JudgeBallot], by: DecidedBy, times: int) -> None:
    """Neither the mean nor the share of votes."""
    assert decide(cast * times, sides=SIDES, by=by) == decide(cast, sides=SIDES, by=by)


@given(points, st.tuples(*[st.integers(0, 4)] * 3), st.integers(0, 99))
def test_a_cyclic_schedule_is_free_of_a_slots_bonus(
    quality: tuple[int, int, int], bonus: tuple[int, int, int], seed: int
) -> None:
    """Points to which each slot adds something lose it in the mean: the same side wins as without."""
    cast = []
    for view in Schedule(kind="cyclic").views(SIDES, random=Random(seed)):
        slots = [view.order.index(side) for side in SIDES]
        cast.append(ballot(*(good + bonus[slot] for good, slot in zip(quality, slots, strict=True))))
    found, whole = decide(cast, sides=SIDES), sum(quality) + sum(bonus)
    expected = [(good + sum(bonus) / 3) / whole for good in quality]
    assert list(found.scores.values()) == pytest.approx(expected)
    if (best := leader_of(dict(zip(SIDES, map(float, quality), strict=True)))) is not None:
        assert found.winner == best


def test_what_a_vote_that_ties_counts_for() -> None:
    """All that tie have equal parts, and so has everybody where nobody has won."""
    tied, none = ballot(2, 2, 1), JudgeBallot(order=list(SIDES))
    assert decide([tied], sides=SIDES, by="vote").scores == {"a": 0.5, "b": 0.5, "c": 0.0}
    assert decide([none], sides=SIDES).scores == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert decide([none], sides=SIDES).winner is None
    assert decide([], sides=SIDES).winner is None


def test_scores_and_votes_can_find_for_different_sides() -> None:
    """Two narrow ballots against a clear one."""
    cast = [ballot(3, 2, 0), ballot(3, 2, 0), ballot(0, 4, 0)]
    assert decide(cast, sides=SIDES).winner == "b"
    assert decide(cast, sides=SIDES, by="vote").winner == "a"


def test_a_flip_is_one_models_and_not_two() -> None:
    """Models may differ; one that finds otherwise in another view has flipped."""
    one, other = ballot(3, 1, 0, model="m"), ballot(1, 3, 0, model="n")
    assert not decide([one, other], sides=SIDES).flipped
    again, none = ballot(1, 3, 0, model="m", view=1), ballot(2, 2, 0, model="m", view=1)
    assert decide([one, again], sides=SIDES).flipped
    assert decide([one, none], sides=SIDES).flipped, "for one, then for none"
    assert not decide([one, again.model_copy(update={"problem": "-"})], sides=SIDES).flipped
    assert not decide([one, again.model_copy(update={"view": 0})], sides=SIDES).flipped, "the same view: that is noise"


KINDS = {
    2: [ballot(1, 0, sides="ab"), ballot(0, 1, sides="ab"), ballot(1, 1, sides="ab"), ballot(2, 1, sides="ab")],
    3: [ballot(1, 0, 0), ballot(0, 1, 0), ballot(0, 0, 1), ballot(1, 1, 0), ballot(1, 1, 1)],
}
"""All a vote can be, and a score besides."""


@pytest.mark.parametrize("by", ["mean", "vote"])
@pytest.mark.parametrize(("count", "planned"), [(2, 4), (3, 4)])
def test_curtailing_gives_the_same_verdict(count: int, planned: int, by: DecidedBy) -> None:
    """Whatever the ballots are that are left: of all that there can be, none changes who wins."""
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
def test_what_is_not_settled_can_still_change(by: DecidedBy) -> None:
    """Curtailing waits for no ballot that it could do without: some ballots would take the lead away."""
    sides, planned = SIDES[:2], 4
    for size in range(planned):
        for cast in product(KINDS[2], repeat=size):
            if is_settled(cast, remaining=planned - size, sides=sides, by=by):
                continue
            winners = {
                decide([*cast, *rest], sides=sides, by=by).winner for rest in product(KINDS[2], repeat=planned - size)
            }
            assert len(winners) > 1


def test_with_nothing_left_it_is_settled() -> None:
    """Also a tie; and where there is one side there is nothing to decide."""
    assert is_settled([], remaining=0, sides=SIDES)
    assert is_settled([], remaining=3, sides=["a"])
    assert not is_settled([], remaining=1, sides=SIDES)


def test_a_ballot_that_cannot_be_used_settles_nothing() -> None:
    """It is one that is not left, and no more."""
    broken = JudgeBallot(order=list(SIDES), winner="a", problem="no JSON")
    assert not is_settled([broken, broken], remaining=1, sides=SIDES, by="vote")


@given(st.dictionaries(st.sampled_from(SIDES), st.integers(0, 3), min_size=1))
def test_the_leader_has_more_than_all_others(totals: dict[str, int]) -> None:
    """Or there is none."""
    leader = leader_of({side: float(total) for side, total in totals.items()})
    most = [side for side in totals if totals[side] == max(totals.values())]
    assert leader == (most[0] if len(most) == 1 else None)


@given(st.integers(1, 50), st.floats(0, 1))
def test_a_panel_is_worth_one_to_all_of_its_judges(n: int, correlation: float) -> None:
    """All if their errors are independent, one if they are the same."""
    assert 1 - 1e-9 <= effective_n(n, correlation) <= n
    assert (effective_n(n, 0), effective_n(n, 1)) == (n, 1)
    assert effective_n(9) == 2


@pytest.mark.parametrize(("n", "correlation"), [(0, 0.1), (True, 0.1), (2, -0.1), (2, 1.1), (2, float("nan"))])
def test_what_no_panel_can_be_is_refused(n: int, correlation: float) -> None:
    """How many judges, and how they go together."""
    with pytest.raises(ConfigurationError):
        effective_n(n, correlation)


def test_no_sides_cannot_be_decided() -> None:
    """There must be one at least."""
    with pytest.raises(ConfigurationError):
        decide([], sides=[])


def test_what_curtailing_saves_is_counted() -> None:
    """Three votes, of which two agree at once: one call is saved, and the verdict knows."""
    cast = [ballot(1, 0, 0), ballot(1, 0, 0)]
    assert is_settled(cast, remaining=1, sides=SIDES, by="vote")
    judging = Judging(ballots=cast, planned=3, scores=decide(cast, sides=SIDES).scores)
    assert judging.saved == 1
