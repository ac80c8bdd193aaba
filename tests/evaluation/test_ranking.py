"""Rankings from games: strengths, ties and first places match a reference fit, and intervals have nominal coverage."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg

from evidence.intervals import QUESTIONS
from evidence.intervals import cover as simulated_cover
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation import Game, rank_games

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = "abcde"


def draw_games(seed: int, *, ties: bool, games: int = 400) -> list[Game]:
    """Draw games between five systems of different strengths, with an advantage for first place."""
    random, played = Random(seed), []
    for row in range(games):
        one, other = random.sample(range(5), 2)
        result = (one - other) / 2 + 0.6 + random.gauss(0, 1.7)
        won = 0.5 if ties and abs(result) < 0.6 else float(result > 0)
        played.append(Game(NAMES[one], NAMES[other], won, row // 2))
    return played


def reference_fit(games: Sequence[Game], *, order: bool, ties: bool) -> np.ndarray:
    """Return the coefficients of statsmodels' stratified Cox model: strengths (the first is 0), order, ties."""
    rows, choices, groups = [], [], []
    for number, game in enumerate(games):
        for option, sign in ((1.0, 0.5), (0.0, -0.5), *([(0.5, 0.0)] if ties else [])):
            row = [sign * ((name == game.one) - (name == game.other)) for name in NAMES[1:]]
            rows.append(row + ([sign] if order else []) + ([float(option == 0.5)] if ties else []))
            choices.append(game.won == option)
            groups.append(number)
    # the chosen option "dies" first in its group, which yields the same likelihood
    status = np.array(choices, dtype=float)
    fit = PHReg(2 - status, np.array(rows), status=status, strata=np.array(groups)).fit(disp=0)
    return np.asarray(fit.params)


@pytest.mark.parametrize("ties", [False, True], ids=["no ties", "ties"])
@pytest.mark.parametrize("order", [False, True], ids=["no order", "order"])
@pytest.mark.parametrize("seed", range(3))
def test_ranking_matches_a_reference_fit(seed: int, order: bool, ties: bool) -> None:  # noqa: FBT001 - of pytest
    games = draw_games(seed, ties=ties, games=200)
    expected = reference_fit(games, order=order, ties=ties)
    strengths = np.array([0.0, *expected[:4]])
    ranking = rank_games(games, order=order)
    strength_of = {system.name: system.strength for system in ranking.systems}
    assert [strength_of[name] for name in NAMES] == pytest.approx(strengths - strengths.mean(), abs=1e-6)
    if order:
        assert ranking.order is not None
        assert ranking.order.value == pytest.approx(expected[4], abs=1e-6)
    if ties:
        assert ranking.ties is not None
        assert ranking.ties.value == pytest.approx(expected[-1], abs=1e-6)
    else:
        assert ranking.ties is None
    assert [system.name for system in ranking.systems] == sorted(strength_of, key=lambda name: -strength_of[name])
    chance = ranking.chance("e", "a", first=True) if order else ranking.chance("e", "a")
    assert chance > 0.7


def test_systems_outside_the_largest_component_are_placed_above_or_below() -> None:
    """Only systems in the largest component get a strength. Systems with no connection to it are listed separately."""
    even = [Game(one, other, 1, (one, other)) for one, other in ("ab", "ba", "bc", "ca")]
    odd = [Game("top", "a", 1), Game("higher", "top", 1), Game("b", "low", 1), Game("x", "y", 1), Game("x", "low", 1)]
    ranking = rank_games([*even, *odd], order=False)
    assert {system.name for system in ranking.systems} == {"a", "b", "c"}
    assert (ranking.above, ranking.below, ranking.apart) == (["top", "higher"], ["low"], ["x", "y"])
    assert ranking.games == 4
    assert "above all ranked systems: never lost to one: top, higher" in ranking.findings
    alone = rank_games(even, order=False)
    assert {system.name: system.strength for system in ranking.systems} == {
        system.name: system.strength for system in alone.systems
    }


def test_ties_connect_systems_both_ways() -> None:
    """A tie connects two systems only if other games show how likely ties are.

    Otherwise, the strengths would be infinite.
    """
    tied = [Game("a", "b", 0.5, 1), Game("a", "b", 1, 2), Game("a", "b", 1, 3)]
    assert "no two systems" in str(rank_games(tied, order=False).problem)
    connected = [Game(one, other, won, 4) for one, other, won in (("b", "c", 1), ("c", "b", 1), ("b", "c", 0.5))]
    assert rank_games([*tied, *connected], order=False).systems[0].name == "a"
    # a system that has won or tied all its games is ranked above two systems that have beaten each other
    alone = rank_games([*tied, *connected[:2]], order=False)
    assert [system.name for system in alone.systems] == ["a", "b", "c"]


def test_all_systems_can_be_ranked_with_a_prior() -> None:
    """With a prior, even systems that won every game or never played each other can be ranked.

    A narrower prior makes the strengths smaller.
    """
    games = [Game("a", "b", 1, 1), Game("b", "c", 1, 2), Game("c", "b", 1, 3), Game("d", "e", 1, 4)]
    assert rank_games(games, order=False).above == ["a"]
    wide, narrow = (rank_games(games, order=False, prior=prior) for prior in (2, 0.5))
    assert wide.systems[0].name in "ad"
    assert {system.name for system in wide.systems} == {*"abcde"}
    assert max(system.strength for system in wide.systems) > 2 * max(system.strength for system in narrow.systems)
    many = [game._replace(cluster=(game.cluster, copy)) for game in games[1:3] for copy in range(400)]
    free, drawn_in = rank_games(many, order=False), rank_games(many, order=False, prior=2)
    assert [system.strength for system in free.systems] == pytest.approx(
        [system.strength for system in drawn_in.systems], abs=1e-6
    )
    with pytest.raises(ConfigurationError, match="prior"):
        rank_games(games, prior=0)


def test_infinite_strengths_are_reported_as_problems() -> None:
    """The strengths are infinite if all games are ties, if one system always wins, or if the first slot always wins."""
    assert rank_games([Game("a", "b", 0.5)] * 3).problem == "no ranking: all games are ties"
    assert "no two systems" in str(rank_games([Game("a", "b", 1), Game("b", "c", 1)], order=False).problem)
    always = [Game(one, other, 1) for one, other in (("a", "b"), ("b", "a")) for _ in range(5)]
    assert "first place" in str(rank_games(always).problem)
    assert rank_games(always, order=False).systems[0].strength == pytest.approx(0)
    # no single coefficient is infinite, but the strengths and the first-place effect grow together
    together = [Game("b", "a", 1), Game("a", "b", 0), Game("b", "a", 0), Game("a", "b", 0)] * 10
    assert "first place" in str(rank_games(together).problem)


@pytest.mark.parametrize(
    ("games", "reason"),
    [
        ([Game("a", "b", won, "q") for won in (1, 1, 0)], "one question"),
        ([Game("a", "b", won, question) for question in "pq" for won in (1, 1, 0)], "two questions"),
        (
            [Game("a", "b", won, question) for question in "pqrst" for won in (1, 1, 0)],
            "not vary across the 5 questions",
        ),
    ],
    ids=["one question", "two questions", "alike"],
)
def test_clusters_without_variation_give_no_intervals(games: list[Game], reason: str) -> None:
    ranking = rank_games(games, order=False)
    assert [(system.low, system.high) for system in ranking.systems] == [(None, None)] * 2
    assert ranking.systems[0].strength == pytest.approx(np.log(2) / 2)
    assert reason in str(ranking.without_interval)
    assert ranking.findings == [ranking.without_interval]


def test_interval_width_follows_the_smallest_number_of_questions() -> None:
    """If a system was asked only three of thirty questions, its interval is based on those three."""
    random = Random(4)
    games = [
        Game(one, other, float(random.random() < 0.5), question)
        for question in range(30)
        for one, other in permutations("ab", 2)
    ]
    for question in range(3):
        games += [Game("c", "a", float(question == 0), question), Game("c", "b", float(question < 2), question)]
    width = {system.name: (system.high or 0) - (system.low or 0) for system in rank_games(games, order=False).systems}
    assert width["c"] > 1.5 * max(width["a"], width["b"])
    games = [game for game in games if "c" not in game or game.cluster < 2]  # type: ignore[operator]
    assert "no interval for c" in " ".join(rank_games(games, order=False).findings)


def random_games(seed: int) -> list[Game]:
    """Draw a small table: few systems and few games, some of them ties."""
    random = Random(seed)
    systems = [f"s{number}" for number in range(random.randint(2, 6))]
    results, games = [0, 1, 1, 0.5] if seed % 2 else [0, 1], []
    for _ in range(random.randint(1, 14)):
        one, other = random.sample(systems, 2)
        games.append(Game(one, other, random.choice(results), random.randint(0, 4)))
    return games


def find_infinite(tables: range) -> list[int]:
    """Find tables in which a strength or an effect is too large for a sample of this size."""
    problems = []
    for seed in tables:
        for order in (False, True):
            ranking = rank_games(random_games(seed), order=order)
            figures = [figure.value for figure in (ranking.order, ranking.ties) if figure is not None]
            if any(abs(value) > 10 for value in [*figures, *(system.strength for system in ranking.systems)]):
                problems.append(seed)
    return problems


def test_random_tables_have_no_infinite_strengths() -> None:
    assert find_infinite(range(80)) == []


@pytest.mark.parametrize("games", [[], [Game("a", "a", 1)], [Game("a", "b", 2)]], ids=["none", "itself", "2 wins"])
def test_invalid_games_are_rejected(games: list[Game]) -> None:
    with pytest.raises(ConfigurationError, match="games"):
        rank_games(games)


def strength_coverage(studies: int, rows: int, *, seed: int) -> float:
    """Return how often strength intervals contain the true value if texts in a row share a topic effect."""
    rng = np.random.default_rng(seed)
    true = dict(zip("abc", (0.6, 0.1, -0.7), strict=True))
    hits = 0
    for _ in range(studies):
        # sorting by such sums gives rankings that follow Luce's model, so each pair follows the library's model
        luck = np.array([*true.values()]) + rng.gumbel(size=(rows, 3))
        games = [
            Game(one, other, float(abilities["abc".index(one)] > abilities["abc".index(other)]), row)
            for row, abilities in enumerate(luck)
            for one, other in combinations("abc", 2)
        ]
        hits += sum(
            (system.low or 0) <= true[system.name] <= (system.high or 0)
            for system in rank_games(games, order=False).systems
        )
    return hits / studies / 3


def order_coverage(studies: int, games: int, *, seed: int) -> tuple[float, float]:
    """Return how often the intervals for the first-place effect and Davidson's parameter contain the true value."""
    rng, true, first, ties = np.random.default_rng(seed), (0.5, 0.0, -0.5), 0.4, -0.3
    hits = np.zeros(2)
    for _ in range(studies):
        simulated_games: list[Game] = []
        for row in range(games):
            one, other = rng.choice(3, 2, replace=False)
            lead = true[one] - true[other] + first
            weights = np.exp([lead / 2, -lead / 2, ties])
            simulated_games.append(
                Game("abc"[one], "abc"[other], (1, 0, 0.5)[rng.choice(3, p=weights / weights.sum())], row)
            )
        ranking = rank_games(simulated_games)
        assert ranking.order is not None
        assert ranking.ties is not None
        for at, (figure, truth) in enumerate(((ranking.order, first), (ranking.ties, ties))):
            hits[at] += (figure.low or 0) <= truth <= (figure.high or 0)
    return float(hits[0] / studies), float(hits[1] / studies)


@pytest.mark.slow
def test_intervals_have_nominal_coverage() -> None:
    assert strength_coverage(200, 60, seed=5) >= 0.93
    assert min(order_coverage(100, 120, seed=6)) >= 0.9
    assert min(simulated_cover(systems, 3, studies=80).holds for systems in (2, 3)) >= 0.93


@pytest.mark.simulation
@pytest.mark.timeout(1800)
def test_intervals_have_nominal_coverage_in_many_studies() -> None:
    """The simulated studies include some with only a few questions.

    Run `python -m evidence.intervals` to print the coverage and the widths.
    """
    assert strength_coverage(2_000, 50, seed=7) >= 0.93
    assert strength_coverage(2_000, 200, seed=8) >= 0.93
    assert min(order_coverage(2_000, 150, seed=9)) >= 0.93
    for systems in (2, 3):
        for questions in QUESTIONS:
            assert simulated_cover(systems, questions, studies=2_000).holds >= 0.93
    assert find_infinite(range(2_000)) == []
