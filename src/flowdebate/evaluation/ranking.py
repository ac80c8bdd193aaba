"""Ranking of systems by games between pairs: Bradley and Terry's model, with Davidson's ties and a first place."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_library, check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.statistics import two_sided_z

if TYPE_CHECKING:
    from flowdebate.evaluation.statistics import Floats

_INFINITE = 15.0
"""Log-odds that no sample shows: a coefficient beyond it grows without end."""
_SMALL = 1e-12


class Game(NamedTuple):
    """One system against another."""

    one: str
    """The one in the first place, where that matters."""
    other: str
    won: float
    """1 where the one won, 0 where the other did, 0.5 for a tie."""
    cluster: Hashable = None
    """What it shares with other games, such as a question; None: it is independent of all others."""
    placed: bool = True
    """False where neither had the first place."""


class RankedSystem(WireModel):
    """The strength of a system by Bradley and Terry (1952), in log-odds; the mean of all systems is 0."""

    name: str
    strength: float
    low: float
    """The ends of the interval, robust to what the games of one cluster have in common."""
    high: float


class Ranking(InNotebooks, WireModel):
    """Systems by strength, and what else decides games."""

    games: int
    systems: list[RankedSystem]
    """The strongest first; empty where there is no ranking."""
    order: Figure | None = None
    """What the first place is worth, in log-odds; None where it was not asked for."""
    ties: Figure | None = None
    """The logarithm of the parameter of Davidson (1970): at 0, equal systems tie in a third of games. None without."""
    problem: str | None = None
    """Why there is no ranking."""

    def chance(self, one: str, other: str, *, first: bool | None = None) -> float:
        """How likely the one is to win, of games that are no ties; `first`: whether it has the first place."""
        from math import exp

        strength = {each.name: each.strength for each in self.systems}
        place = 0.0 if first is None or self.order is None else self.order.value * (1 if first else -1)
        return 1 / (1 + exp(strength[other] - strength[one] - place))


def rank_games(games: Sequence[Game], *, order: bool = True, confidence: float = 0.95) -> Ranking:
    """Rank the systems of `games` by maximum likelihood. Needs numpy.

    The one wins in proportion to its strength, times what the first place is worth (`order`; False: nothing); a tie is
    as likely as the geometric mean of both strengths, times a parameter (Davidson 1970). Intervals are sandwich
    estimates over clusters. There is no ranking, and `problem` says why, where a strength would be infinite.
    ConfigurationError without games, and for a result that is none of 0, 0.5 and 1.

    >>> won = [Game("a", "b", float(row < 3)) for row in range(4)]
    >>> [(each.name, round(each.strength, 3)) for each in rank_games(won, order=False).systems]
    [('a', 0.549), ('b', -0.549)]
    """
    where = "rank_games()"
    check_library(where, "numpy", library="numpy", extra="audit")
    import numpy as np

    check_share(where, ends=False, confidence=confidence)
    if not games:
        raise ConfigurationError(where, "games", 0, "at least one")
    for index, game in enumerate(games):
        if game.won not in (0, 0.5, 1) or game.one == game.other:
            raise ConfigurationError(where, f"games[{index}]", tuple(game), "two systems, and 0, 0.5 or 1")
    names = list(dict.fromkeys(name for game in games for name in (game.one, game.other)))
    tied = any(game.won == 0.5 for game in games)  # noqa: PLR2004 - a tie
    options = np.zeros((len(games), 2 + tied, len(names) + order + tied))
    chosen = np.zeros(options.shape[:2])
    for row, game in enumerate(games):
        for option, sign in ((0, 1 / 2), (1, -1 / 2)):
            options[row, option, names.index(game.one)] = sign
            options[row, option, names.index(game.other)] = -sign
            if order and game.placed:
                options[row, option, len(names)] = sign
        if tied:
            options[row, 2, -1] = 1
        chosen[row, {1: 0, 0: 1, 0.5: 2}[game.won]] = 1
    clusters = [("alone", row) if game.cluster is None else game.cluster for row, game in enumerate(games)]
    fit = fit_choices(options, chosen, clusters, free=1)
    if fit is None:
        lonely = "some systems won, or lost, all their games with the others, or had none"
        first = ", or the first place won, or lost, all" if order else ""
        return Ranking(games=len(games), systems=[], problem=f"no ranking: {lonely}{first}")
    z = two_sided_z(1 - confidence)

    def figure(at: int, n: int) -> Figure:
        value, error = fit.coefficients[at], fit.errors[at]
        return Figure(value=value, n=n, low=value - z * error, high=value + z * error)

    found = [
        RankedSystem(name=name, strength=value, low=value - z * error, high=value + z * error)
        for name, value, error in zip(names, fit.coefficients, fit.errors, strict=False)
    ]
    return Ranking(
        games=len(games),
        systems=sorted(found, key=lambda each: -each.strength),
        order=figure(len(names), len(games)) if order else None,
        ties=figure(-1, len(games)) if tied else None,
    )


class ChoiceFit(NamedTuple):
    """A conditional logit model."""

    coefficients: list[float]
    errors: list[float]
    """Standard errors: the sandwich estimate over clusters."""


def fit_choices(options: Floats, chosen: Floats, clusters: Sequence[Hashable], *, free: int = 0) -> ChoiceFit | None:
    """Fit how much each column of `options` adds to the log-odds of being chosen (McFadden 1974). Needs numpy.

    `options` are numbers by choice, option and column, `chosen` the part of each choice that fell on each option;
    `free` is how many directions of the coefficients change nothing, in which they stay at a mean of 0. By Newton's
    method. None where a coefficient would be infinite, or the columns do not tell them apart.
    """
    import numpy as np

    coefficients = np.zeros(options.shape[2])
    for step_number in range(200):
        worth = options @ coefficients
        chances = np.exp(worth - worth.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        # of each column, the distances from what is expected in its choice
        centred = options - (chances[:, :, None] * options).sum(axis=1, keepdims=True)
        curvature = np.einsum("gk,gkp,gkq->pq", chances, centred, centred)
        if not step_number and np.linalg.matrix_rank(curvature, tol=1e-9) < len(coefficients) - free:
            return None
        bread = np.linalg.pinv(curvature, rcond=_SMALL, hermitian=True)
        scores = ((chosen - chances)[:, :, None] * options).sum(axis=1)
        step = bread @ scores.sum(axis=0)
        coefficients = coefficients + step / max(1.0, float(np.abs(step).max()))  # far from it, Newton overshoots
        if np.abs(coefficients).max() > _INFINITE:
            return None
        if np.abs(step).max() < _SMALL * 10:
            break
    names, place = np.unique([str(each) for each in clusters], return_inverse=True)
    sums = np.zeros((len(names), len(coefficients)))
    np.add.at(sums, place, scores)
    few = len(names) / max(len(names) - 1, 1)
    errors = np.sqrt(np.maximum(np.diag(bread @ (few * sums.T @ sums) @ bread), 0.0))
    return ChoiceFit(coefficients.tolist(), errors.tolist())
