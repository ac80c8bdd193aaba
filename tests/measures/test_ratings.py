from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.measures import INITIAL_RATING, K_FACTOR, calibration, elo_changes, expected, vote_weight
from tests.measures.drawn import names

ratings = st.floats(0, 4000)
anything = st.floats(allow_nan=False, allow_infinity=False)


def draw_ratings(agents: list[str], data: st.DataObject) -> dict[str, float]:
    """Draw a rating for each agent."""
    return {name: data.draw(ratings) for name in agents}


def test_constants_have_their_usual_values() -> None:
    """An agent without any history has a rating of 1500. For each pair of agents, 32 points are at stake."""
    assert (INITIAL_RATING, K_FACTOR) == (1500.0, 32.0)


def test_consensus_winner_gains_from_two_equal_agents() -> None:
    """The winner gets two thirds of the points in each pair instead of the expected half.

    It gains 32/6 points per pair.
    """
    changes = elo_changes(dict.fromkeys("abc", INITIAL_RATING), winner="a", consensus=True)
    assert changes == pytest.approx({"a": 10.667, "b": -5.333, "c": -5.333}, abs=5e-4)


@pytest.mark.parametrize(("consensus", "gain"), [(True, 13.645), (False, 24.312)], ids=["consensus", "none"])
def test_lower_rated_winners_gain_more_if_there_is_no_consensus(consensus: bool, gain: float) -> None:  # noqa: FBT001
    """An agent rated 1400 beats one rated 1600.

    The winner's score is two thirds if there is a consensus, and 1 otherwise.
    """
    changes = elo_changes({"low": 1400, "high": 1600}, winner="low", consensus=consensus)
    assert changes == pytest.approx({"low": gain, "high": -gain}, abs=5e-4)


@given(names, st.booleans(), st.floats(0.1, 100), st.data())
def test_changes_add_up_to_zero(agents: list[str], consensus: bool, k: float, data: st.DataObject) -> None:  # noqa: FBT001
    before = draw_ratings(agents, data)
    winner = data.draw(st.none() | st.sampled_from(agents))
    changes = elo_changes(before, winner=winner, consensus=consensus, k=k)
    assert list(changes) == agents
    assert abs(math.fsum(changes.values())) < 1e-9


@given(names, st.booleans(), st.data())
def test_order_of_agents_does_not_matter(agents: list[str], consensus: bool, data: st.DataObject) -> None:  # noqa: FBT001
    before = draw_ratings(agents, data)
    shuffled = {name: before[name] for name in data.draw(st.permutations(agents))}
    winner = data.draw(st.sampled_from(agents))
    assert elo_changes(before, winner=winner, consensus=consensus) == elo_changes(
        shuffled, winner=winner, consensus=consensus
    )


@given(names, st.data())
def test_winners_lose_nothing_if_there_is_no_consensus(agents: list[str], data: st.DataObject) -> None:
    """The other agents gain nothing, and they lose more than they would if there were a consensus."""
    before = draw_ratings(agents, data)
    winner = data.draw(st.sampled_from(agents))
    alone = elo_changes(before, winner=winner, consensus=False)
    together = elo_changes(before, winner=winner, consensus=True)
    assert alone[winner] >= 0
    assert all(alone[name] <= 0 for name in agents if name != winner)
    assert all(together[name] >= alone[name] for name in agents if name != winner)


@given(names, st.booleans(), st.data())
def test_ratings_do_not_change_if_there_is_no_winner(agents: list[str], consensus: bool, data: st.DataObject) -> None:  # noqa: FBT001
    assert elo_changes(draw_ratings(agents, data), winner=None, consensus=consensus) == dict.fromkeys(agents, 0.0)


@given(anything, anything)
def test_expected_scores_of_a_pair_add_up_to_one(a: float, b: float) -> None:
    one, other = expected(a, b), expected(b, a)
    assert 0 <= one <= 1
    assert one + other == pytest.approx(1)
    assert (one >= other) is (a >= b) or math.isclose(one, other)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("winner", {"winner": "z"}),
        ("ratings", {"ratings": {"a": math.nan}}),
        ("ratings", {"ratings": {"a": math.inf}}),
        ("ratings", {"ratings": {"a": True}}),
        ("k", {"k": 0}),
        ("k", {"k": math.nan}),
        ("k", {"k": True}),
    ],
    ids=["stranger", "nan", "infinite", "bool", "zero", "nan k", "bool k"],
)
def test_invalid_ratings_are_rejected(field: str, options: dict[str, Any]) -> None:
    given_options: dict[str, Any] = {"ratings": {"a": 1500.0}, "winner": None, "consensus": True} | options
    with pytest.raises(ConfigurationError) as caught:
        elo_changes(given_options.pop("ratings"), **given_options)
    assert caught.value.field == field


# Calibration

forecasts = st.tuples(st.floats(0, 1), st.booleans())


def test_voters_without_outcomes_have_no_calibration() -> None:
    assert calibration([]) is None
    assert vote_weight(None, calibration([])) == 1


@given(st.lists(forecasts, min_size=1), st.randoms(use_true_random=False))
def test_calibration_is_between_0_and_1_in_any_order_of_outcomes(
    outcomes: list[tuple[float, bool]], random: Any
) -> None:
    """The calibration scales a vote's weight by a factor between 0.5 and 1.5."""
    factor = calibration(outcomes)
    random.shuffle(outcomes)
    assert factor is not None
    assert calibration(outcomes) == factor
    assert 0 <= factor <= 1
    assert 0.5 <= vote_weight(None, factor) <= 1.5


@given(st.integers(1, 500))
def test_confident_voters_gain_if_right_and_lose_if_wrong(count: int) -> None:
    """The effect grows with the number of outcomes, but one outcome changes a vote's weight by less than 5%."""
    right, wrong = calibration([(1.0, True)] * count), calibration([(1.0, False)] * count)
    assert right is not None
    assert wrong is not None
    assert right - 0.5 == pytest.approx(0.5 - wrong)
    assert right == pytest.approx(0.5 + 0.5 * count / (count + 10))
    assert 1 < vote_weight(None, calibration([(1.0, True)])) < 1.05


@given(st.lists(st.booleans(), min_size=1))
def test_a_confidence_of_one_half_is_neutral(outcomes: list[bool]) -> None:
    assert calibration([(0.5, right) for right in outcomes]) == pytest.approx(0.5)


@given(st.lists(forecasts, min_size=1, max_size=5), st.floats(0, 1))
def test_better_forecasts_never_worsen_the_calibration(outcomes: list[tuple[float, bool]], confidence: float) -> None:
    """If two voters differ in a single confidence, the one closer to the outcome is at least as well calibrated."""
    (first, right), *rest = outcomes
    near, far = sorted((first, confidence), key=lambda share: abs(share - right))
    better, worse = calibration([(near, right), *rest]), calibration([(far, right), *rest])
    assert better is not None
    assert worse is not None
    assert better >= worse or better == pytest.approx(worse)


@pytest.mark.parametrize("confidence", [2, -0.1, math.nan, True])
def test_forecasts_out_of_range_are_rejected(confidence: float) -> None:
    with pytest.raises(ConfigurationError, match=r"calibration\(\): `confidence` must be a number between 0 and 1"):
        calibration([(confidence, True)])
