"""Leaderboards from stored runs: which models win debates, and which judges are position-biased."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from flowdebate import Debater, JudgeOptions, debate
from flowdebate.cli.app import app
from flowdebate.evaluation.leaderboard import leaderboard_of
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.store import SqliteStore
from flowdebate.testing import FunctionModel, SimJudge

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.evaluation.leaderboard import Leaderboard
    from flowdebate.testing import ModelRequest

QUALITY = {"large": 1.2, "middle": 0.4, "small": 0.0}


def self_naming_model(name: str) -> FunctionModel:
    """Create a model whose arguments mention its name."""
    used = Usage(calls=1, prompt_tokens=9, cached_tokens=0, completion_tokens=1)

    def answer(request: ModelRequest) -> ModelResponse:
        seed = sum(map(ord, str(request.messages)))  # the judge's noise depends on its input
        return ModelResponse(text=f"A {name} argument, {seed}.", usage=used)

    return FunctionModel(answer, name=name)


async def store_debates(store: SqliteStore, *, slot: float, questions: int) -> Leaderboard:
    """Store debates between each pair of models in both orders, judged in both orders by a biased judge."""
    judge = SimJudge(
        slot=slot, noise=1.0, quality=lambda text: next(worth for name, worth in QUALITY.items() if name in text)
    )
    for number in range(questions):
        for one in QUALITY:
            for other in QUALITY:
                if one != other:
                    sides = [
                        Debater("ann", "tea", model=self_naming_model(one)),
                        Debater("bob", "rum", model=self_naming_model(other)),
                    ]
                    block = debate(
                        name="drinks",
                        debaters=sides,
                        max_rounds=1,
                        moderator=False,
                        synthesizer=False,
                        judge=JudgeOptions(schedule="swap", panel=(judge,)),
                    )
                    await block.run(f"Which one, {number}?", store=store, seed=number)
    return leaderboard_of(await store.runs(limit=1_000))


def test_models_are_ranked_by_debates_won(tmp_path: Path) -> None:
    """The better model comes first, whatever the speaking order.

    An order effect that is not significant is not mentioned.
    """
    board = asyncio.run(store_debates(SqliteStore(tmp_path / "runs.db"), slot=0.0, questions=8))
    assert [model.model for model in board.models] == ["large", "middle", "small"]
    assert sum(model.games for model in board.models) == 2 * 6 * 8
    assert all(
        model.low is not None and model.low <= (model.strength or 0) <= (model.high or 0) for model in board.models
    )
    assert board.ranking is not None
    assert not [finding for finding in board.findings if "picks" in finding]


def test_leaderboard_names_a_position_biased_judge(tmp_path: Path) -> None:
    """The page and the document state how often the judge prefers the side that it reads first."""
    path = tmp_path / "runs.db"
    board = asyncio.run(store_debates(SqliteStore(path), slot=9.0, questions=2))
    (judge,) = board.judges
    assert judge.first_read is not None
    assert judge.first_read.value > 0.9
    assert judge.consistency is not None
    assert judge.consistency.value < 0.2
    # at the start of a sentence, the name would be capitalized
    assert board.findings[-1].startswith("the judge ")
    assert "picks what it reads first in" in board.findings[-1]
    result = CliRunner().invoke(
        app, ["eval", "leaderboard", "--store", str(path), "--format", "json"], catch_exceptions=False
    )
    assert (result.exit_code, json.loads(result.stdout)["judges"][0]["judge"]) == (0, judge.judge)
    for form in ("text", "markdown"):
        result = CliRunner().invoke(
            app, ["eval", "leaderboard", "--store", str(path), "--format", form], catch_exceptions=False
        )
        assert result.exit_code == 0
        assert all(name in result.stdout for name in (*QUALITY, judge.judge))


def test_repaired_answers_are_counted_by_model(tmp_path: Path) -> None:
    """Repairs are counted by kind. Answers reused from another run are not counted twice."""
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    verdict = '{"reasoning": "-", "winner": "TEA", "verdict": "-",}'
    replies = iter(["<think>Hm.</think>Tea.", "Rum.<|im_end|>", "Hm.\n</think>\nTea.", f"```json\n{verdict}\n```"])
    model = FunctionModel(lambda _: next(replies), name="sloppy")
    clean = {"reasoning": "-", "winner": "rum", "verdict": "-"}
    sides = [Debater("ann", "tea"), Debater("bob", "rum")]
    block = debate(name="drinks", debaters=[*sides, Debater("cleo", "milk")], max_rounds=1, synthesizer=False)
    asyncio.run(block.run("Which?", model=model, store=store, run_id="first"))
    plain = FunctionModel(lambda request: clean if request.output else "Rum.", name="neat")
    asyncio.run(block.run("Which?", model=plain, store=store))
    asyncio.run(block.fork("first", at="drinks/drinks-judge", store=store, model=plain))
    result = CliRunner().invoke(
        app, ["eval", "leaderboard", "--store", str(path), "--format", "json"], catch_exceptions=False
    )
    assert json.loads(result.stdout)["answers"] == [
        {
            "model": "sloppy",
            "answers": 4,
            "repaired": 1,
            "repairs": {"code fence": 1, "spelling of a choice": 1, "trailing comma": 1},
            "thoughtAloud": 2,
            "thoughtUnannounced": 1,
            "templateTokens": 1,
        }
    ]
    output = CliRunner().invoke(app, ["eval", "leaderboard", "--store", str(path)], catch_exceptions=False).stdout
    assert "1 (25%)" in output


def test_empty_store_has_no_ranking(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    assert leaderboard_of([]).models == []
    sides = [Debater(name, side, model=self_naming_model("small")) for name, side in (("ann", "tea"), ("bob", "rum"))]
    judge = JudgeOptions(schedule="swap", panel=(SimJudge(),))
    block = debate(name="drinks", debaters=sides, max_rounds=1, moderator=False, synthesizer=False, judge=judge)
    asyncio.run(block.run("Which?", store=store))
    board = leaderboard_of(asyncio.run(store.runs()))
    assert (board.models, board.left_out) == ([], {"has no two sides with different models": 1})
    (empty := tmp_path / "none.db").touch()
    result = CliRunner().invoke(app, ["eval", "leaderboard", "--store", str(empty)])
    assert result.exit_code == 3
