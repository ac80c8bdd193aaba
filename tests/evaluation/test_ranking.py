"""Rankings of games: strengths, ties and the first place, equal to a reference fit, with intervals that hold."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import Game, rank_games

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = "abcde"


def drawn(seed: int, *, ties: bool, games: int = 400) -> list[Game]:
    """Games of five systems, of which some are better, and the first place is worth something."""
    random, found = Random(seed), []
    for row in range(games):
        one, other = random.sample(range(5), 2)
        result = (one - other) / 2 + 0.6 + random.gauss(0, 1.7)
        won = 0.5 if ties and abs(result) < 0.6 else float(result > 0)
        found.append(Game(NAMES[one], NAMES[other], won, row // 2))
    return found


def reference(games: Sequence[Game], *, order: bool, ties: bool) -> np.ndarray:
    """The coefficients of statsmodels' stratified model of Cox: strengths (the first is 0), order, ties."""
    rows, chosen, groups = [], [], []
    for number, game in enumerate(games):
        for option, sign in ((1.0, 0.5), (0.0, -0.5), *([(0.5, 0.0)] if ties else [])):
            row = [sign * ((name == game.one) - (name == game.other)) for name in NAMES[1:]]
            rows.append(row + ([sign] if order else []) + ([float(option == 0.5)] if ties else []))
            chosen.append(game.won == option)
            groups.append(number)
    # who is chosen "dies" first in a group of its own: the same likelihood, by Newton's method
    status = np.array(chosen, dtype=float)
    fit = PHReg(2 - status, np.array(rows), status=status, strata=np.array(groups)).fit(disp=0)
    return np.asarray(fit.params)


@pytest.mark.parametrize("ties", [False, True], ids=["no ties", "ties"])
@pytest.mark.parametrize("order", [False, True], ids=["no order", "order"])
@pytest.mark.parametrize("seed", range(3))
def test_a_ranking_is_that_of_a_reference_fit(seed: int, order: bool, ties: bool) -> None:  # noqa: FBT001 - of pytest
    """To 1e-6: strengths, what the first place is worth, and Davidson's parameter."""
    games = drawn(seed, ties=ties, games=200)
    expected = reference(games, order=order, ties=ties)
    strengths = np.array([0.0, *expected[:4]])
    found = rank_games(games, order=order)
    held = {each.name: each.strength for each in found.systems}
    assert [held[name] for name in NAMES] == pytest.approx(strengths - strengths.mean(), abs=1e-6)
    if order:
        assert found.order is not None
        assert found.order.value == pytest.approx(expected[4], abs=1e-6)
    if ties:
        assert found.ties is not None
        assert found.ties.value == pytest.approx(expected[-1], abs=1e-6)
    else:
        assert found.ties is None
    assert [each.name for each in found.systems] == sorted(held, key=lambda name: -held[name])
    chance = found.chance("e", "a", first=True) if order else found.chance("e", "a")
    assert chance > 0.7


def test_there_is_no_ranking_where_a_strength_is_infinite() -> None:
    """A system that won everything, systems that never met, and a first place that always won."""
    for games in (
        [Game("a", "b", 1), Game("b", "c", 1), Game("c", "b", 1)],
        [Game("a", "b", 1), Game("b", "a", 1), Game("c", "d", 1), Game("d", "c", 1)],
    ):
        found = rank_games(games, order=False)
        assert (found.systems, found.problem is None) == ([], False)
    always = [Game(one, other, 1) for one, other in (("a", "b"), ("b", "a")) for _ in range(5)]
    assert "first place" in str(rank_games(always).problem)
    assert rank_games(always, order=False).systems[0].strength == pytest.approx(0)


@pytest.mark.parametrize("games", [[], [Game("a", "a", 1)], [Game("a", "b", 2)]], ids=["none", "itself", "2 wins"])
def test_games_that_are_none_are_refused(games: list[Game]) -> None:
    """Before anything is fitted."""
    with pytest.raises(ConfigurationError, match="games"):
        rank_games(games)


def cover(studies: int, rows: int, *, seed: int) -> float:
    """How often the interval of a strength holds the true one, where texts of a row share a topic's luck."""
    rng = np.random.default_rng(seed)
    true = dict(zip("abc", (0.6, 0.1, -0.7), strict=True))
    hits = 0
    for _ in range(studies):
        luck = np.array([*true.values()]) + rng.gumbel(
            size=(rows, 3)
        )  # ranks of such sums are Luce's: pairs of them are ours
        games = [
            Game(one, other, float(own["abc".index(one)] > own["abc".index(other)]), row)
            for row, own in enumerate(luck)
            for one, other in combinations("abc", 2)
        ]
        hits += sum(each.low <= true[each.name] <= each.high for each in rank_games(games, order=False).systems)
    return hits / studies / 3


def cover_order(studies: int, games: int, *, seed: int) -> tuple[float, float]:
    """How often the intervals of the first place's and of Davidson's parameter hold the true ones."""
    rng, true, first, ties = np.random.default_rng(seed), (0.5, 0.0, -0.5), 0.4, -0.3
    hits = np.zeros(2)
    for _ in range(studies):
        drawn_: list[Game] = []
        for row in range(games):
            one, other = rng.choice(3, 2, replace=False)
            lead = true[one] - true[other] + first
            weights = np.exp([lead / 2, -lead / 2, ties])
            drawn_.append(Game("abc"[one], "abc"[other], (1, 0, 0.5)[rng.choice(3, p=weights / weights.sum())], row))
        found = rank_games(drawn_)
        assert found.order is not None
        assert found.ties is not None
        for at, (figure, there) in enumerate(((found.order, first), (found.ties, ties))):
            hits[at] += (figure.low or 0) <= there <= (figure.high or 0)
    return float(hits[0] / studies), float(hits[1] / studies)


def test_intervals_hold_what_they_claim() -> None:
    """In at least .93 of simulated studies."""
    assert cover(200, 60, seed=5) >= 0.93
    assert min(cover_order(100, 120, seed=6)) >= 0.9


@pytest.mark.simulation
def test_intervals_hold_what_they_claim_in_thousands_of_studies() -> None:
    """The same with 2,000 studies each."""
    assert cover(2_000, 50, seed=7) >= 0.93
    assert cover(2_000, 200, seed=8) >= 0.93
    assert min(cover_order(2_000, 150, seed=9)) >= 0.93
