"""Tournaments: every pair plays in both orders, systems are ranked, and resuming repeats no game."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.evaluation import tournament
from flowdebate.evaluation.documents import lay_out
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flowdebate.evaluation import Seat
    from flowdebate.models.base import ModelRequest

pytestmark = pytest.mark.anyio

ROWS = [{"question": f"Question {number}?", "choices": ["yes", "no"]} for number in range(30)]
STRONG = {"ann": 2.0, "bob": 0.0, "cy": -1.5}


class Judging:
    """Models that sign their arguments, and a judge that prefers the stronger one, with some noise."""

    def __init__(self, *, fails: Sequence[str] = ()) -> None:
        self.fails = fails
        self.judged: list[str] = []
        self.spoken = Counter[str]()
        self.judge = FunctionModel(self._judge, name="judge")
        self.systems = {name: FunctionModel(self._speaker(name), name=name) for name in STRONG}

    def _speaker(self, name: str) -> Any:
        def speak(_: ModelRequest) -> str:
            self.spoken[name] += 1
            return f"So says {name}."

        return speak

    def _judge(self, request: ModelRequest) -> Any:
        prompt = " ".join(str(message["content"]) for message in request.messages)
        self.judged.append(prompt)
        if any(question in prompt for question in self.fails):
            raise ProviderFailed("away", status=503)
        first, second = (re.search(rf"\[{side}\] So says (\w+)", prompt)[1] for side in ("yes", "no"))  # type: ignore[index]
        lead = STRONG[first] - STRONG[second] + Random(prompt).gauss(0, 1.5)
        return {"reasoning": "-", "winner": "yes" if lead > 0 else "no", "verdict": "-"}


@pytest.mark.slow
async def test_pairs_meet_in_both_orders_and_are_ranked(tmp_path: Path) -> None:
    judging = Judging()
    options: Any = {"judge": judging.judge, "store": tmp_path / "t.db"}
    result = await tournament(judging.systems, ROWS, **options)
    assert Counter((game.one, game.other) for game in result.games) == dict.fromkeys(
        [("ann", "bob"), ("bob", "ann"), ("ann", "cy"), ("cy", "ann"), ("bob", "cy"), ("cy", "bob")], 30
    )
    assert [system.name for system in result.ranking.systems] == ["ann", "bob", "cy"]
    assert [*result.points] == ["ann", "bob", "cy"]
    assert sum(result.points.values()) == len(result.games) == 180
    assert result.ranking.order is not None
    assert "ann:" not in judging.judged[0]
    spoken = judging.spoken.copy()
    assert await tournament(judging.systems, ROWS, **options) == result
    assert judging.spoken == spoken
    assert lay_out(result) is not None


async def test_failed_debates_are_repeated(tmp_path: Path) -> None:
    """Arguments that were completed before the failure are taken from the store."""
    judging = Judging(fails=["Question 3?"])
    options: Any = {"judge": judging.judge, "store": tmp_path / "t.db"}
    first = await tournament(judging.systems, ROWS[:5], **options)
    assert len(first.games) == 24
    assert [*first.failed] == list(range(18, 24))
    spoken, judging.fails = judging.spoken.total(), ()
    complete = await tournament(judging.systems, ROWS[:5], **options)
    assert (len(complete.games), complete.failed) == (30, {})
    assert judging.spoken.total() == spoken


async def test_custom_play_functions_can_be_used() -> None:
    def play(_: object, seats: Sequence[Seat[str]]) -> Any:
        sides = [Debater(name, seat.position, role=seat.system) for name, seat in zip("ab", seats, strict=True)]
        return debate(name="t", debaters=sides, max_rounds=1, moderator=False, synthesizer=False)

    model = FunctionModel(
        lambda request: "So." if request.output is None else {"reasoning": "-", "winner": "yes", "verdict": "-"}
    )
    result = await tournament({"x": "a poet", "y": "a clerk"}, ROWS[:4], play=play, model=model)
    assert result.points == {"x": 4, "y": 4}
    assert result.ranking.order is None
    assert result.ranking.systems[0].strength == pytest.approx(0)


async def test_single_question_gives_strengths_without_intervals() -> None:
    """An interval of zero width would be wrong, so the report explains why there is no interval."""
    judging = Judging()
    by_seat = FunctionModel(lambda _: {"reasoning": "-", "winner": "yes", "verdict": "-"}, name="seat")
    result = await tournament(judging.systems, ROWS[:1], judge=by_seat)
    assert [system.strength for system in result.ranking.systems] == pytest.approx([0, 0, 0])
    assert {(system.low, system.high) for system in result.ranking.systems} == {(None, None)}
    assert "one question cannot show how results vary" in str(lay_out(result))


async def test_tournaments_without_a_verdict_have_no_ranking() -> None:
    judging = Judging(fails=["Question"])
    result = await tournament(judging.systems, ROWS[:1], judge=judging.judge)
    assert (result.games, result.ranking.systems, len(result.failed)) == ([], [], 6)
    assert "no debate has a verdict" in str(result.ranking.problem)


@pytest.mark.parametrize(
    ("systems", "rows", "field"),
    [
        ({"ann": "x"}, ROWS, "systems"),
        ({"ann": "x", "bob": "y"}, [], "rows"),
        ({"ann": "x", "bob": "y"}, [{**ROWS[0], "choices": ["yes"]}], "choices of row 0"),
        ({"ann": "x", "bob": "y"}, [{**ROWS[0], "choices": "no"}], "choices of row 0"),
        ({"ann": "x", "bob": "y"}, [{"question": "Tea?"}], "choices"),
    ],
    ids=["one system", "no row", "one position", "a text", "no such column"],
)
async def test_invalid_tournaments_are_rejected(systems: Any, rows: Any, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await tournament(systems, rows)
    assert caught.value.field == field
