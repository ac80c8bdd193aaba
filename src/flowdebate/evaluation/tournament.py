"""Tournaments for ranking systems: each pair of systems debates each question twice, with swapped seats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Unpack

from flowdebate._text import error_text
from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.evaluation_run import reader
from flowdebate.evaluation.ranking import Game, Ranking, rank_games
from flowdebate.evaluation.statistics import check_scipy
from flowdebate.runs.batch import Batch, BatchControls

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.models.base import Model

SystemT = TypeVar("SystemT")
_WHERE = "tournament()"


class Seat(NamedTuple, Generic[SystemT]):
    """A system and the position it argues for."""

    name: str
    position: str
    system: SystemT
    """The system's value in `systems`, such as a model."""


class Tournament(InNotebooks, WireModel):
    """All games of a tournament and the resulting ranking."""

    games: list[Game]
    """Games played. In each, `one` is the system in the first seat, and the cluster is the row index."""
    ranking: Ranking
    """Ranking of the systems, without a first-seat advantage if the first seat won or lost every game."""
    failed: dict[int, str]
    """Errors from the debates that ended without a verdict, keyed by debate index; the next call retries
    these debates.
    """

    @property
    def points(self) -> dict[str, float]:
        """Points per system, highest first.

        A system gets a point for each debate it won, and half a point for each debate without a winner.
        """
        totals: dict[str, float] = {}
        for game in self.games:
            totals[game.one] = totals.get(game.one, 0) + game.won
            totals[game.other] = totals.get(game.other, 0) + 1 - game.won
        return dict(sorted(totals.items(), key=lambda pair: -pair[1]))


async def tournament(  # noqa: PLR0913 - those of a batch
    systems: Mapping[str, SystemT],
    rows: Sequence[Any],
    *,
    judge: Model | str | None = None,
    play: Callable[[Any, Sequence[Seat[SystemT]]], Block[Any, Any]] | None = None,
    question: str | Callable[[Any], Any] = "question",
    choices: str | Callable[[Any], Sequence[str]] = "choices",
    confidence: float = 0.95,
    prior: float | None = None,
    seed: int = 0,
    batch_id: str | None = None,
    **options: Unpack[BatchControls],
) -> Tournament:
    """Have each pair of `systems` debate every row twice, swapping seats, and rank the systems. Needs scipy.

    - `systems`: models keyed by name. They argue for two rounds, and the model `judge` decides. If `play` is set, the
      values may be of any kind: `play` is called with the row and two seats, and returns a debate. The first seat
      argues for the first position, and speaks first.
    - `question` and `choices` (two positions) are keys of a row, or functions of it.
    - `prior` is passed to `rank_games`; with a prior, systems that won or lost every game are ranked too.
    - `options` are passed to `Block.batch`: if you pass `store`, repeating the call after an interruption continues
      without paying for anything twice. `batch_id` is the batch's name in the store; None derives it from names, rows
      and seed.

    Before any call, raise ConfigurationError if there are fewer than two systems, or if a row does not have two
    positions.

    >>> from flowdebate.testing import ScriptedModel
    >>> judge = ScriptedModel(*[{"reasoning": "-", "winner": "yes", "verdict": "-"}] * 2)
    >>> ann, bob = ScriptedModel(*["Because."] * 4, name="ann"), ScriptedModel(*["But."] * 4, name="bob")
    >>> rows = [{"question": "Rent caps?", "choices": ["yes", "no"]}]
    >>> import asyncio
    >>> asyncio.run(tournament({"ann": ann, "bob": bob}, rows, judge=judge)).points
    {'ann': 1.0, 'bob': 1.0}
    """
    check_scipy(_WHERE)
    check_share(_WHERE, ends=False, confidence=confidence)
    read_question, positions = reader(question), reader(choices)
    _check(systems, rows, positions)
    # Row by row, so that an interrupted tournament has compared all systems on its first rows.
    plays = [
        (number, [Seat(name, position, systems[name]) for name, position in zip(pair, positions(row), strict=True)])
        for number, row in enumerate(rows)
        for one, other in combinations(systems, 2)
        for pair in ((one, other), (other, one))
    ]
    if batch_id is None:
        rows_read = [[read_question(row), positions(row)] for row in rows]
        identity = json.dumps([list(systems), rows_read, seed], default=str)
        batch_id = f"tournament-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"

    def build_match(match: tuple[int, Sequence[Seat[SystemT]]]) -> tuple[Block[Any, Any], None]:
        number, seats = match
        return _debate(seats, judge) if play is None else play(rows[number], seats), None

    first, _ = build_match(plays[0])
    batch = Batch(
        first,
        plays,
        question=lambda match: read_question(rows[match[0]]),
        plan_item=build_match,
        seed=seed,
        batch_id=batch_id,
        **options,
    )
    games: list[Game] = []
    failed: dict[int, str] = {}
    for item in await batch.all():
        verdict = getattr(item.raw, "verdict", None)
        if verdict is None:
            failed[item.index] = f"ended as {item.status}" if item.error is None else error_text(item.error)
            continue
        number, (one, other) = item.row
        won = {one.position: 1.0, other.position: 0.0}.get(verdict.winner, 0.5)
        games.append(Game(one.name, other.name, won, number))
    if not games:
        problem = f"no ranking: no debate has a verdict; the first one: {failed[0]}"
        return Tournament(games=[], ranking=Ranking(games=0, systems=[], problem=problem), failed=failed)
    ranking = rank_games(games, confidence=confidence, prior=prior)
    # if the ranking failed only because of the first seat's effect, it succeeds without that effect
    if ranking.problem is not None:
        ranking = rank_games(games, order=False, confidence=confidence, prior=prior)
    return Tournament(games=games, ranking=ranking, failed=failed)


def _check(systems: Mapping[str, Any], rows: Sequence[Any], positions: Callable[[Any], Any]) -> None:
    if len(systems) < 2:  # noqa: PLR2004 - a game takes two
        raise ConfigurationError(_WHERE, "systems", list(systems), "must map names to at least two systems")
    if not rows:
        raise ConfigurationError(_WHERE, "rows", None, "must not be empty")
    for number, row in enumerate(rows):
        row_positions = positions(row)
        is_pair = isinstance(row_positions, (list, tuple)) and len(row_positions) == 2  # noqa: PLR2004 - as above
        if not is_pair or row_positions[0] == row_positions[1]:
            raise ConfigurationError(
                _WHERE, f"choices of row {number}", row_positions, "must be two different positions"
            )


def _debate(seats: Sequence[Seat[Any]], judge: Model | str | None) -> Block[Any, Any]:
    from flowdebate.chassis.roster import Debater
    from flowdebate.patterns.debate.factory import debate
    from flowdebate.patterns.debate.judging.options import JudgeOptions

    # the judge must not know which system is speaking
    sides = [Debater(name, seat.position, model=seat.system) for name, seat in zip("ab", seats, strict=True)]
    judging = JudgeOptions(model=judge)
    return debate(name="tournament", debaters=sides, max_rounds=2, judge=judging, moderator=False, synthesizer=False)
