"""`flowdebate run` with a judge that is asked about several views, and with a panel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.schemas import DebateRawOutput

from .stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SIDES = ("--debater", "pro=cap rents", "--debater", "con=free rents")


def _scored(first: float, second: float) -> dict[str, Any]:
    scores = {"cap rents": first, "free rents": second}
    return {"reasoning": "It answered.", "scores": scores, "verdict": "Cap them."}


def _run(stage: Stage, *more: str) -> Result:
    return CliRunner().invoke(app, stage.options(*SIDES, "--rounds", "1", *more), catch_exceptions=False)


def test_a_judge_that_changes_its_mind_is_told(tmp_path: Path) -> None:
    """Two orders, two answers: the page and the report name the ballots and their shares, the document has them all."""
    answers = {"scores": [_scored(90, 10), _scored(40, 60)]}
    report = tmp_path / "report.md"
    with Stage(answers=answers) as stage:
        plain = _run(stage, "--schedule", "swap", "--markdown", str(report))
    with Stage(answers=answers) as stage:
        document = json.loads(_run(stage, "--schedule", "swap", "--json").stdout)
    assert plain.exit_code == 0
    words = " ".join(plain.stdout.split())
    assert "2 (swap), which disagree: cap rents 0.65, free rents 0.35" in words
    assert "**Ballots**: 2 (swap), which disagree" in report.read_text().replace("\\", "")
    raw = DebateRawOutput.model_validate(document["raw"])
    assert raw.found.winner == "cap rents"
    assert raw.found.judging is not None
    assert [ballot.winner for ballot in raw.found.judging.ballots] == ["cap rents", "free rents"]


@pytest.mark.parametrize(
    ("on_flip", "winner"), [("abstain", "none, the judge abstains"), ("tie", "none, a tie")], ids=str
)
def test_a_verdict_without_a_winner_says_why(on_flip: str, winner: str) -> None:
    """An abstention is no synthesis of several positions."""
    with Stage(answers={"scores": [_scored(90, 10), _scored(40, 60)]}) as stage:
        result = _run(stage, "--schedule", "swap", "--on-flip", on_flip)
    assert result.exit_code == 0
    assert winner in result.stdout


def test_a_panel_of_two_models_votes() -> None:
    """Each model of the panel is asked; the ballots that could change nothing are saved."""
    panel = ("--panel", "staged", "--panel", "other", "--panel", "ann-model")
    with Stage(answers={"scores": _scored(80, 20)}) as stage:
        result = _run(stage, *panel, "--decided-by", "vote", "--curtail")
    assert result.exit_code == 0
    assert "2 (single, 1 saved): cap rents 1.00, free rents 0.00" in " ".join(result.stdout.split())
    assert {body["model"] for body in stage.bodies} == {"staged", "other"}


WRONG = {
    ("--schedule", "both"): '"single", "swap", "cyclic", "full" or "sampled(n)"',
    ("--on-flip", "ignore"): "'average', 'abstain', 'tie', 'human'",
    ("--curtail", "--on-flip", "tie"): "left out with another --on-flip than average",
    ("--schedule", "swap", "--human", "judge"): "left out where options of a judging model are given",
}


@pytest.mark.parametrize("given", WRONG, ids=" ".join)
def test_what_a_judge_cannot_be_told_is_refused(given: tuple[str, ...]) -> None:
    """The error names the option, and what is allowed; nothing is asked."""
    with Stage() as stage:
        result = _run(stage, *given)
    assert result.exit_code == 2
    assert WRONG[given] in " ".join(result.stderr.split())
    assert stage.bodies == []
