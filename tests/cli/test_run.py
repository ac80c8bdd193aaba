"""`flowdebate debate` with a real server: output, saved files, reports and exit codes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from flowdebate import DebateRawOutput
from flowdebate.cli.app import app

from .stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SIDES = ("--debater", "pro=cap rents", "--debater", "con=free rents", "--no-synthesizer")


def run_command(stage: Stage, *more: str) -> Result:
    """Run the command on the stage in this process; stdout is not a terminal."""
    return CliRunner(env={"FORCE_COLOR": "1"}).invoke(app, stage.options(*more), catch_exceptions=False)


def test_json_output_is_a_single_document(tmp_path: Path) -> None:
    schema = tmp_path / "answer.json"
    schema.write_text('{"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}')
    options = (*SIDES, "--seed", "5", "--moderator", "--synthesizer", "--output-schema", str(schema))
    with Stage() as stage:
        result = run_command(stage, *options, "--json")
        plain = run_command(stage, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert set(document) == {
        "pattern",
        "status",
        "error",
        "debaters",
        "maxRounds",
        "models",
        "raw",
        "output",
        "usage",
        "seconds",
        "seed",
        "runId",
    }
    raw = DebateRawOutput.model_validate(document["raw"])
    assert raw.to_wire() == document["raw"]
    assert [entry.text for entry in raw.transcript] == ["Homes first.", "Build more."]
    assert (document["status"], document["seed"], document["output"]) == ("complete", 5, {"answer": 42})
    assert document["usage"] == {"calls": 5, "promptTokens": 50, "cachedTokens": 20, "completionTokens": 15}
    rendered = CliRunner().invoke(app, ["runs", "render", "-"], input=result.stdout)
    assert _timeless(rendered.stdout) == _timeless(plain.stdout)
    assert (plain.exit_code, plain.stderr) == (0, "")
    assert "\x1b" not in plain.stdout


def test_yes_and_no_are_the_default_sides() -> None:
    with Stage() as stage:
        options = ["debate", "Should we cap rents?", *stage.options("--json")[2:]]
        result = CliRunner().invoke(app, options, catch_exceptions=False)
        prompts = [str(body["messages"]) for body in stage.bodies]
    document = json.loads(result.stdout)
    assert [side["name"] for side in document["debaters"]] == ["pro", "con"]
    assert document["raw"]["rounds"] == 2
    assert document["raw"]["moderatorDecisions"] == []
    assert document["output"] == "Homes first."
    assert len(prompts) == 6
    assert all("We should not cap rents" in prompt for prompt in prompts[:5])


def test_synthesizer_writes_text_without_a_schema() -> None:
    turns = (("Homes ", "first."), ("Build ", "more."), ("Do ", "both."))
    with Stage(turns=turns) as stage:
        result = run_command(stage, *SIDES, "--max-rounds", "1", "--synthesizer")
    assert "\nSummary\n  Do both.\n" in result.stdout


def test_arguments_are_kept_after_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    wrong = {"reasoning": "r", "winner": "nobody \x1b[2J", "verdict": "v"}
    with Stage(verdict=wrong) as stage:
        result = run_command(
            stage, *SIDES, "--max-rounds", "1", "--on-failure", "fail", "--json", "--markdown", str(report)
        )
        plain = run_command(stage, *SIDES, "--max-rounds", "1", "--on-failure", "fail")
    assert result.exit_code == plain.exit_code == 1
    document = json.loads(result.stdout)
    assert document["status"] == "failed"
    assert document["raw"]["verdict"] is None
    assert [entry["text"] for entry in document["raw"]["transcript"]] == ["Homes first.", "Build more."]
    assert result.stderr.startswith("Error: the answer does not match its schema")
    assert document["error"] in result.stderr
    assert "\x1b" not in result.stderr
    assert "- Status: failed" in report.read_text()
    assert "Build more." in plain.stdout
    assert "Failed after 2 complete arguments." in plain.stdout


def test_unreachable_server_is_reported_in_one_message() -> None:
    options = ["debate", "Should we cap rents?", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "\nTo resume: flowdebate resume " in result.stderr
    assert result.stderr.count("\n") == 2
    assert "Failed after 0 complete arguments." in result.stdout


def test_library_warnings_are_printed_to_stderr() -> None:
    """For example, a plan with five rounds is permitted but causes a warning."""
    with Stage() as stage:
        result = run_command(stage, *SIDES, "--max-rounds", "5", "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: ")
    assert result.stderr.count("\n") == 1
    assert json.loads(result.stdout)["raw"]["rounds"] == 5


def test_report_is_replaced_atomically(tmp_path: Path) -> None:
    """No temporary file is left behind, and symbolic links and file permissions are preserved."""
    report, link = tmp_path / "report.md", tmp_path / "link.md"
    report.write_text("old")
    report.chmod(0o640)
    link.symlink_to(report)
    with Stage() as stage:
        result = run_command(stage, *SIDES, "--max-rounds", "1", "--markdown", str(link))
    assert result.exit_code == 0
    assert report.read_text().startswith("# Debate\n\n> Cap rents?\n")
    assert report.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, report]


def _timeless(page: str) -> str:
    return re.sub(r"Time: .*? s|Run: \w+|^Model: .*\n| · flowdebate show \w+", "", page)
