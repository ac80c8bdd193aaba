"""Leaderboard computed from stored runs: models ranked by wins in debates, and judges by consistency.

The leaderboard also counts each model's repaired answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from pydantic import Field

from flowdebate._util.importing import InNotebooks
from flowdebate._util.wire import WireModel
from flowdebate.evaluation.audit_report import Figure, Places
from flowdebate.evaluation.ranking import Game, GameCollector, GameTable, Ranking, rank_table
from flowdebate.evaluation.statistics import check_scipy, share_interval
from flowdebate.evaluation.stored_audit import NO_VERDICT, ItemCollector, Items, argued, audit_judges, count_judges
from flowdebate.models.codec import manner_of
from flowdebate.patterns.debate.mirror import speaking_order
from flowdebate.store.base import StepRow, StoredRun
from flowdebate.ui.document import read_models


class RankedModel(WireModel):
    """A model's record in debates against other models."""

    model: str
    games: int
    wins: int
    ties: int
    strength: float | None
    """Strength in log-odds, with a mean of 0 over all models; None for an unranked model."""
    low: float | None
    high: float | None
    """Bounds of the 95% confidence interval; None if there is no interval."""


class RankedJudge(WireModel):
    """A judge's record, including how strongly reading order and speaking order influence its verdicts."""

    judge: str
    debates: int
    ballots: int
    first_read: Figure | None
    """Share of verdicts in favor of the side read first; None if there are no two-sided debates."""
    first_speaker: Figure | None
    """Share of verdicts in favor of the first speaker; None if there are no two-sided debates."""
    consistency: Figure | None
    """Share of debates with the same verdict in all orders; None if every debate was judged in a single order."""


class AnsweringModel(WireModel):
    """Counts of a model's malformed or unusual answers, across all roles."""

    model: str
    answers: int
    repaired: int
    """Number of repaired answers."""
    repairs: dict[str, int]
    """Number of repaired answers, keyed by kind of repair, most frequent first."""
    thought_aloud: int
    """Number of answers in which the model's thinking appears in the text."""
    thought_unannounced: int
    """Number of answers in which the model's thinking appears without an opening tag."""
    template_tokens: int
    """Number of answers that end in chat template tokens."""


class Leaderboard(InNotebooks, WireModel):
    """Standings of models and judges, computed from stored runs."""

    runs: int
    models: list[RankedModel]
    """Ranked models, strongest first."""
    ranking: Ranking | None
    """Ranking of the models, including the first-speaker advantage; None if no two models debated each other."""
    judges: list[RankedJudge]
    """Ranked judges, most consistent first."""
    answers: list[AnsweringModel] = Field(default_factory=list)
    """Models with repaired or unusual answers, sorted by their share of repaired answers, highest first."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Number of runs left out for lack of a game between two models, keyed by reason."""
    findings: list[str]


def leaderboard_of(
    runs: Sequence[StoredRun], steps: Iterable[StepRow] = (), *, prior: float | None = None
) -> Leaderboard:
    """Rank models by their wins against other models in `runs`, and judges by their ballots.

    `steps` are the runs' steps, in which repaired answers are marked. Each pair of sides with different models is a
    game, and games on the same question form a cluster. `prior` is passed to `rank_games`. Requires scipy.
    """
    standings = Standings()
    for run in runs:
        standings.add(run)
    standings.count_answers(steps)
    return standings.leaderboard(prior=prior)


class Standings:
    """Incremental collector of games, ballots and repairs; it does not need to keep the runs in memory."""

    def __init__(self) -> None:
        self._runs = 0
        self._games = GameCollector()
        self._left_out = Counter[str]()
        self._collector = ItemCollector()
        self._answers = _Answers()

    def add(self, run: StoredRun) -> None:
        """Add a run's games and ballots."""
        self._runs += 1
        games = _games_of(run)
        if isinstance(games, str):
            self._left_out[games] += 1
        else:
            for game in games:
                self._games.add(game)
        self._collector.add(run)

    def count_answers(self, steps: Iterable[StepRow]) -> None:
        """Count the repaired and unusual answers in a run's steps."""
        self._answers.count(steps)

    def leaderboard(self, *, prior: float | None = None) -> Leaderboard:
        """Rank models and judges over all runs added; see `leaderboard_of`."""
        return _rank(
            self._games.table(),
            self._collector.items,
            self._answers.models(),
            self._left_out,
            runs=self._runs,
            prior=prior,
        )


def _rank(
    games: GameTable,
    items: Items,
    answers: list[AnsweringModel],
    left_out: Counter[str],
    *,
    runs: int,
    prior: float | None,
) -> Leaderboard:
    ranking = None
    if games.matchups:
        check_scipy("leaderboard_of()")
        ranking = rank_table(games, prior=prior)
        if ranking.problem is not None and not (without := rank_table(games, order=False)).problem:
            ranking = without  # the games contain no information about the first position
    counts = count_judges(items)
    judged = audit_judges(counts)
    # if there is a single model, its figures are the overall figures
    figures = judged.models or dict.fromkeys(counts.models, judged)
    judges = [
        RankedJudge(
            judge=name or "(unknown)",
            debates=figure.items,
            ballots=figure.ballots,
            first_read=_first(figure.slots),
            first_speaker=_first(figure.turns),
            consistency=figure.position_consistency,
        )
        for name, figure in figures.items()
        if figure.ballots
    ]
    board = Leaderboard(
        runs=runs,
        models=_models(games, ranking),
        ranking=ranking,
        judges=sorted(judges, key=lambda row: -1 if row.consistency is None else -row.consistency.value),
        answers=answers,
        left_out=dict(sorted(left_out.items())),
        findings=[],
    )
    return board.model_copy(update={"findings": list(_findings(board))})


def _games_of(run: StoredRun) -> list[Game] | str:
    """Return a run's games, or the reason why it has none."""
    raw: Any = (run.outcome or {}).get("raw")
    debate, models = argued(run), read_models((run.outcome or {}).get("models")) or {}
    verdict = raw.get("verdict") if isinstance(raw, dict) else None
    if debate is None or not isinstance(verdict, dict):
        return NO_VERDICT
    speakers: dict[str, set[str]] = {}
    for entry in debate.transcript:
        speakers.setdefault(entry.stance, set()).update(models.get(entry.agent_name, ()))
    # A side argued by several models is not credited to any of them.
    sides = {
        side: speakers_of_side.pop()
        for side in speaking_order(debate.transcript)
        if len(speakers_of_side := speakers[side]) == 1
    }
    games = [
        Game(
            sides[one],
            sides[other],
            1 if winner == one else 0 if winner == other else 0.5,
            run.header.question,
            placed=raw.get("turnOrder") != "simultaneous",
        )
        for winner in [verdict.get("winner")]
        for one, other in combinations(sides, 2)
        if sides[one] != sides[other]
        if winner is None or winner in (one, other)
    ]
    return games or "has no two sides with different models"


def _models(games: GameTable, ranking: Ranking | None) -> list[RankedModel]:
    strengths = {} if ranking is None else {system.name: system for system in ranking.systems}
    played, won, tied = Counter[str](), Counter[str](), Counter[str]()
    for game, times in games.counts:
        for name, result in ((game.one, game.won), (game.other, 1 - game.won)):
            played[name] += times
            won[name] += times * (result == 1)
            tied[name] += times * (result not in (0, 1))
    models = []
    for name in games.names:
        strength = strengths.get(name)
        models.append(
            RankedModel(
                model=name,
                games=played[name],
                wins=won[name],
                ties=tied[name],
                strength=None if strength is None else strength.strength,
                low=None if strength is None else strength.low,
                high=None if strength is None else strength.high,
            )
        )
    return sorted(models, key=lambda row: (-(row.strength or 0), -row.wins / row.games))


# Item count at the start of a repair's description; without it, descriptions of the same kind of repair are equal.
_COUNT = re.compile(r"\A\d+ of \d+ ")


class _Answers:
    """Counts of each model's repaired and unusual answers."""

    def __init__(self) -> None:
        self._answers = Counter[str]()
        self._oddities: dict[str, Counter[str]] = {}
        self._repairs: dict[str, Counter[str]] = {}

    def count(self, steps: Iterable[StepRow]) -> None:
        """Count the answers in `steps`."""
        for step in steps:
            manner = None if step.kind != "call" or step.body is None else manner_of(step.body)
            if manner is None:
                continue
            self._answers[manner.model] += 1
            kinds = {_COUNT.sub("", repair) for repair in manner.repaired}
            self._repairs.setdefault(manner.model, Counter()).update(sorted(kinds))
            oddities = (*manner.flags, *(["repaired"] if kinds else ()))
            self._oddities.setdefault(manner.model, Counter()).update(oddities)

    def models(self) -> list[AnsweringModel]:
        """Return the models with repaired or unusual answers."""
        models = [
            AnsweringModel(
                model=model,
                answers=count,
                repairs=dict(self._repairs[model].most_common()),
                repaired=self._oddities[model]["repaired"],
                thought_aloud=self._oddities[model]["thought_aloud"],
                thought_unannounced=self._oddities[model]["thought_unannounced"],
                template_tokens=self._oddities[model]["template_tokens"],
            )
            for model, count in self._answers.items()
        ]
        unclean = [model for model in models if model.repaired or model.thought_aloud or model.template_tokens]
        return sorted(unclean, key=lambda model: (-model.repaired / model.answers, model.model))


def _first(places: Sequence[Places]) -> Figure | None:
    """Compute the first place's win rate in two-sided debates; the interval counts each debate as one observation."""
    pair = next((place for place in places if len(place.places) == 2 and place.n), None)  # noqa: PLR2004 - two sides
    if pair is None:
        return None
    share = next(place.rate for place in pair.places if place.place == "1")
    low, high = share_interval(share, pair.items)
    return Figure(value=share, n=pair.items, low=low, high=high)


def _findings(board: Leaderboard) -> list[str]:
    findings = []
    if board.ranking is not None:
        findings += board.ranking.findings
    order = None if board.ranking is None else board.ranking.order
    if order is not None and (order.low or 0) * (order.high or 0) > 0:
        which = "first" if order.value > 0 else "last"
        findings.append(f"between two equal models, whoever speaks {which} is ahead: {abs(order.value):.2f} log-odds")
    for judge in board.judges:
        for figure, does in ((judge.first_read, "it reads"), (judge.first_speaker, "speaks")):
            if figure is not None and not (figure.low or 0) <= 1 / 2 <= (figure.high or 1):
                place, share = ("first", figure.value) if figure.value > 1 / 2 else ("last", 1 - figure.value)
                what = f"what {does} {place}" if does == "it reads" else f"whoever {does} {place}"
                verdicts = f"{share:.0%} of its verdicts on {figure.n:,} debates"
                findings.append(f"the judge {judge.judge} picks {what} in {verdicts}")
    return findings
