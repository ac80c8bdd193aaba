"""The council command: live, stored, resumed and shown runs, Markdown reports, and batches."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from flowdebate.cli.app import build_app
from tests.cli.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


def run_command(*arguments: str, text: str | None = None) -> Result:
    """Run the command as a user would."""
    return CliRunner().invoke(build_app(), list(arguments), input=text, catch_exceptions=False)


def answer_ranking(schema: str) -> dict[str, Any]:
    """Return a ranking of the letters in a schema."""
    letters = re.findall(r'"([A-Z])"', schema)
    return {"ranking": [{"answer": letter, "reason": f"{letter} holds."} for letter in dict.fromkeys(letters)]}


ANSWERS: dict[str, Any] = {"ranking": answer_ranking, "dissent": {"answer": "Wait a week.", "dissent": "How long."}}


def test_stored_council_can_be_shown_and_resumed(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    with Stage(turns=(("Wait, ", "I say."),), answers=ANSWERS) as on:
        location = ("--model", "staged", "--base-url", on.base_url, "--seed", "3")
        members = (
            "--member",
            "Ann=ann-model",
            "--member",
            "Bea=bob-model",
            "--model",
            "chair=staged",
            "--review",
            "all",
        )
        live = run_command("council", "Ship today?", *location, *members, "--markdown", str(report))
        models = [body["model"] for body in on.bodies]
        saved = run_command("council", "Ship today?", *location, *members, "--json")
        run_id = json.loads(saved.stdout)["runId"]
        before = len(on.bodies)
        resumed = run_command("resume", run_id)
        assert len(on.bodies) == before
        batch = run_command("batch", "-", "--pattern", "council", *location, text="Wait?\n")
    assert [result.exit_code for result in (live, saved, resumed, batch)] == [0, 0, 0, 0]
    assert sorted(models) == ["ann-model", "ann-model", "bob-model", "bob-model", "staged"]
    for part in ("Opinions", "Reviews", "Wait, I say.", "Ranking", "Wait a week.", "How long."):
        assert part in live.stdout
        assert part in report.read_text()
        assert part in resumed.stdout
        assert part in run_command("runs", "render", "-", text=saved.stdout).stdout
    assert json.loads(saved.stdout)["pattern"] == "council"
    assert "Complete: 1\n" in batch.stdout


def test_member_without_a_model_name_is_rejected() -> None:
    result = run_command("council", "Ship?", "--member", "Ann=")
    assert result.exit_code != 0
    assert "--member" in result.output
    assert "NAME=MODEL" in result.output
