"""Ranking of systems by pairwise games: a Bradley-Terry model with Davidson ties and a first-position advantage."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from itertools import groupby
from os import PathLike
from typing import NamedTuple

from pydantic import Field

from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_number, check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.choice_model import ChoiceFit, fit_choices
from flowdebate.evaluation.statistics import check_scipy

_WHERE = "rank_games()"
_TIE = 0.5


class Game(NamedTuple):
    """Game between two systems."""

    one: str
    """System in the first position, if the order matters."""
    other: str
    won: float
    """Result: 1 if `one` won, 0 if the other system did, 0.5 for a tie."""
    cluster: Hashable = None
    """Cluster of related games, for example those on the same question; None for an independent game."""
    placed: bool = True
    """True if one of the systems had the first position; False if the game had no first position."""


class Matchup(NamedTuple):
    """Pair of systems and a result."""

    one: str
    other: str
    won: float
    placed: bool


class GameTable(NamedTuple):
    """Games counted by matchup; clusters with identical games are counted together."""

    matchups: Sequence[Matchup]
    clusters: dict[tuple[int, ...], int]
    """Number of clusters with each combination of games; a combination is a tuple of the games' matchup indexes."""

    @property
    def names(self) -> list[str]:
        """Names of the systems, in order of first appearance."""
        return list(dict.fromkeys(name for matchup in self.matchups for name in (matchup.one, matchup.other)))

    @property
    def counts(self) -> list[tuple[Matchup, int]]:
        """Matchups and the number of games for each."""
        games = Counter[int]()
        for cluster, times in self.clusters.items():
            for matchup in cluster:
                games[matchup] += times
        return [(matchup, games[index]) for index, matchup in enumerate(self.matchups) if games[index]]

    @property
    def games(self) -> int:
        return sum(len(cluster) * times for cluster, times in self.clusters.items())

    def among(self, names: Sequence[str]) -> GameTable:
        """Return a table with only the games between the named systems."""
        inside = {index for index, game in enumerate(self.matchups) if game.one in names and game.other in names}
        clusters = Counter[tuple[int, ...]]()
        for cluster, times in self.clusters.items():
            if selected := tuple(game for game in cluster if game in inside):
                clusters[selected] += times
        return GameTable(self.matchups, clusters)


class GameCollector:
    """Collector of games; each game takes up sixteen bytes."""

    def __init__(self) -> None:
        self._matchups: dict[Matchup, int] = {}
        self._games, self._clusters = array("q"), array("q")
        self._alone = Counter[tuple[int, ...]]()

    def add(self, game: Game) -> None:
        """Add a game."""
        matchup = Matchup(game.one, game.other, game.won, game.placed)
        index = self._matchups.setdefault(matchup, len(self._matchups))
        if game.cluster is None:
            self._alone[index,] += 1
            return
        digest = blake2b(str(game.cluster).encode(errors="surrogatepass"), digest_size=8).digest()
        self._games.append(index)
        self._clusters.append(int.from_bytes(digest, signed=True))

    def table(self) -> GameTable:
        """Build the table of the games collected so far."""
        clusters = Counter[tuple[int, ...]](self._alone)
        order = sorted(range(len(self._games)), key=self._games.__getitem__)
        order.sort(key=self._clusters.__getitem__)
        for _, rows in groupby(order, key=self._clusters.__getitem__):
            clusters[tuple(self._games[row] for row in rows)] += 1
        return GameTable(list(self._matchups), dict(sorted(clusters.items())))


class RankedSystem(WireModel):
    """A system with its Bradley-Terry strength (Bradley and Terry 1952) in log-odds; the mean over all systems is 0."""

    name: str
    strength: float
    low: float | None = None
    """Bounds of the cluster-robust confidence interval; None if there is no interval."""
    high: float | None = None

    @property
    def interval(self) -> str:
        """The interval as text; "" if there is no interval."""
        return "" if self.low is None or self.high is None else f"{self.low:+.2f} to {self.high:+.2f}"


class Ranking(InNotebooks, WireModel):
    """Systems ordered by strength, along with the other effects estimated from the games."""

    games: int
    """Number of games between ranked systems."""
    systems: list[RankedSystem]
    """Ranked systems, strongest first; empty if there is no ranking."""
    above: list[str] = Field(default_factory=list)
    """Systems known only to be stronger than the ranked ones: they beat ranked systems or others in this list, and
    never lost to a ranked one.
    """
    below: list[str] = Field(default_factory=list)
    """Systems known only to be weaker than the ranked ones: they lost to ranked systems or to others in this list, and
    never beat a ranked one.
    """
    apart: list[str] = Field(default_factory=list)
    """Systems that are not connected to the ranked systems by any chain of games."""
    order: Figure | None = None
    """Advantage of being in the first position, in log-odds; None if it was not fitted."""
    ties: Figure | None = None
    """Logarithm of the tie parameter (Davidson 1970), which is 0 if equally strong systems tie in a third of their
    games; None if the parameter was not fitted.
    """
    problem: str | None = None
    """Reason why no ranking could be computed."""
    without_interval: str | None = None
    """Reason why no confidence intervals were computed for the strengths."""

    def chance(self, one: str, other: str, *, first: bool | None = None) -> float:
        """Predict the share of untied games that `one` wins; `first` is True if `one` has the first position."""
        from math import exp

        strengths = {system.name: system.strength for system in self.systems}
        place = 0.0 if first is None or self.order is None else self.order.value * (1 if first else -1)
        return 1 / (1 + exp(strengths[other] - strengths[one] - place))

    @property
    def findings(self) -> list[str]:
        """The ranking's limitations, as full sentences."""
        sentences = [sentence for sentence in (self.problem, self.without_interval) if sentence is not None]
        lacking = [system.name for system in self.systems if system.low is None]
        if lacking and self.without_interval is None:
            why = "what sets them apart rests on fewer than three questions, or on like results"
            sentences.append(f"no interval for {', '.join(lacking)}: {why}")
        for names, place in (
            (self.above, "above all ranked systems: never lost to one"),
            (self.below, "below all ranked systems: never won against one"),
            (self.apart, "not ranked: no chain of won and lost games connects them with the ranked systems"),
        ):
            if names:
                sentences.append(f"{place}: {', '.join(names)}")
        return sentences


def rank_games(
    games: Sequence[Game] | str | PathLike[str],
    *,
    order: bool = True,
    confidence: float = 0.95,
    prior: float | None = None,
) -> Ranking:
    """Rank the systems in `games` (or in a ballot file) by maximum likelihood. Needs scipy.

    A system's chance of winning is proportional to its strength, multiplied by the advantage of the first position
    (`order`; False for no advantage). The chance of a tie is proportional to the geometric mean of both strengths,
    multiplied by a parameter (Davidson 1970). Confidence intervals treat a cluster as one observation; none are
    computed from fewer than three clusters, or if all clusters are alike.

    Without a `prior`, strengths can only be estimated within a group in which a chain of wins or ties leads from each
    system to every other one. The largest such group is ranked; `above`, `below` and `apart` list the other systems.
    With a `prior`, all systems are ranked: `prior` is the standard deviation of a normal prior on strengths, in
    log-odds (5 is a weak prior); it also applies to the first-position advantage and the tie parameter.

    Raise ConfigurationError if there are no games, or for a result other than 0, 0.5 or 1.

    >>> games = [Game("a", "b", float(row < 3)) for row in range(4)]
    >>> [(system.name, round(system.strength, 3)) for system in rank_games(games, order=False).systems]
    [('a', 0.549), ('b', -0.549)]
    """
    check_scipy(_WHERE)
    if isinstance(games, (str, PathLike)):
        from flowdebate.evaluation.ballot_file import read_ballots

        games = read_ballots(games).games
    check_share(_WHERE, ends=False, confidence=confidence)
    check_number(_WHERE, above=0, optional=True, prior=prior)
    if not games:
        raise ConfigurationError(_WHERE, "games", None, "must not be empty")
    for index, game in enumerate(games):
        if game.won not in (0, _TIE, 1) or game.one == game.other:
            raise ConfigurationError(
                _WHERE,
                f"games[{index}]",
                tuple(game),
                "must be a tuple of two different systems and a score of 0, 0.5 or 1",
            )
    collector = GameCollector()
    for game in games:
        collector.add(game)
    return rank_table(collector.table(), order=order, confidence=confidence, prior=prior)


def rank_table(
    table: GameTable, *, order: bool = True, confidence: float = 0.95, prior: float | None = None
) -> Ranking:
    """Rank the systems in a non-empty game table; see `rank_games`."""
    if prior is not None:
        return _rank(table, _Groups(table.names, [], [], []), order=order, confidence=confidence, prior=prior)
    if all(matchup.won == _TIE for matchup in table.matchups):
        return Ranking(games=table.games, systems=[], problem="no ranking: all games are ties")
    ranking = _rank(table, _group(table, minimum=_TIE), order=order, confidence=confidence)
    if ranking.problem is None:
        return ranking
    # If systems are connected only by ties, the strengths and the tie parameter may be infinite.
    return _rank(table, _group(table, minimum=1), order=order, confidence=confidence)


class _Groups(NamedTuple):
    """Systems in a game table, grouped by how they relate to the ranked group."""

    ranked: list[str]
    above: list[str]
    below: list[str]
    apart: list[str]


def _group(table: GameTable, *, minimum: float) -> _Groups:
    """Find the largest group in which each system reaches every other by a chain of results of at least `minimum`."""
    import numpy as np

    names = table.names
    index = {name: place for place, name in enumerate(names)}
    links = np.zeros((len(names), len(names)))
    for game, times in table.counts:
        links[index[game.one], index[game.other]] += times * (game.won >= minimum)
        links[index[game.other], index[game.one]] += times * (1 - game.won >= minimum)
    reached = (links > 0) | np.eye(len(names), dtype=bool)
    for _ in range(len(names).bit_length()):
        reached = reached @ reached  # doubles the maximum length of chains
    part = np.argmax(reached & reached.T, axis=1)  # index of the first system in each group

    def size(number: int) -> tuple[int, float]:
        inside = part == number
        return int(inside.sum()), float(links[np.ix_(inside, inside)].sum())

    largest = part == max(dict.fromkeys(part.tolist()), key=size)
    start = int(np.argmax(largest))
    below, above = ({*np.flatnonzero(reach).tolist()} for reach in (reached[start], reached[:, start]))
    outside = [place for place in range(len(names)) if not largest[place]]
    return _Groups(
        ranked=[name for name, inside in zip(names, largest, strict=True) if inside],
        above=[names[place] for place in outside if place in above],
        below=[names[place] for place in outside if place in below],
        apart=[names[place] for place in outside if place not in above | below],
    )


def _rank(table: GameTable, groups: _Groups, *, order: bool, confidence: float, prior: float | None = None) -> Ranking:
    """Rank the systems in a group by the games among them."""
    ranked = table.among(groups.ranked)
    games = ranked.games
    if not games:
        problem = "no ranking: no two systems have each beaten the other, directly or through others"
        return Ranking(games=0, systems=[], problem=problem)
    tied = any(game.won == _TIE for game, _ in ranked.counts)
    fit = _fit(ranked, groups.ranked, order=order, tied=tied, prior=prior)
    if fit is None:
        problem = (
            "no ranking with a first place: what it is worth would be infinite, or cannot be told from the strengths "
            "(order=False leaves it out)"
        )
        return Ranking(games=games, systems=[], problem=problem)

    def figure(index: int) -> Figure:
        low, high = fit.interval(index, confidence=confidence)
        return Figure(value=fit.coefficients[index], n=games, low=low, high=high)

    systems = []
    for index, name in enumerate(groups.ranked):
        low, high = fit.interval(index, confidence=confidence)
        systems.append(RankedSystem(name=name, strength=fit.coefficients[index], low=low, high=high))
    return Ranking(
        games=games,
        systems=sorted(systems, key=lambda system: -system.strength),
        above=groups.above,
        below=groups.below,
        apart=groups.apart,
        order=figure(len(systems)) if order else None,
        ties=figure(-1) if tied else None,
        without_interval=fit.without_interval,
    )


def _fit(table: GameTable, names: Sequence[str], *, order: bool, tied: bool, prior: float | None) -> ChoiceFit | None:
    """Fit a model with columns for strengths, first-position advantage and tie parameter, in that order."""
    import numpy as np

    index = {name: place for place, name in enumerate(names)}
    rows = [(table.matchups[game], cluster) for cluster in table.clusters for game in cluster]
    options = np.zeros((len(rows), 2 + tied, len(names) + order + tied))
    shares = np.zeros(options.shape[:2])
    for row, (game, _) in enumerate(rows):
        for option, sign in ((0, 1 / 2), (1, -1 / 2)):
            options[row, option, index[game.one]] = sign
            options[row, option, index[game.other]] = -sign
            if order and game.placed:
                options[row, option, len(names)] = sign
        if tied:
            options[row, 2, -1] = 1
        shares[row, {1: 0, 0: 1, _TIE: 2}[game.won]] = 1
    clusters = [cluster for _, cluster in rows]
    return fit_choices(options, shares, clusters, strengths=len(names), prior=prior, times=table.clusters)
