"""`flowdebate runs report` and `verify`: reports that can be derived from a run's journal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from tests.cli.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SIDES = ("--debater", "ann=cap rents", "--debater", "bob=build homes")


def run_command(*arguments: str, text: str | None = None) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, list(arguments), input=text)


@pytest.fixture(scope="module")
def report_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder containing a store with one run, and that run's reports and export."""
    folder = tmp_path_factory.mktemp("reports")
    store = ("--store", str(folder / "runs.sqlite3"))
    with Stage() as on:
        result = run_command(*on.options(*SIDES, "--max-rounds", "1", *store))
        assert result.exit_code == 0, result.output
    report = run_command(
        "runs", "report", "--last", "--html", str(folder / "r.html"), "--markdown", str(folder / "r.md"), *store
    )
    message = f"Wrote {folder / 'r.html'}: open it in a browser.\nWrote {folder / 'r.md'}.\n"
    assert (report.exit_code, report.stdout, report.stderr) == (0, "", message)
    assert run_command("export", "--all", "-o", str(folder / "r.jsonl"), *store).exit_code == 0
    return folder


def test_report_is_verified_without_a_store_or_a_model(report_folder: Path) -> None:
    for name in ("r.html", "r.jsonl"):
        result = run_command("runs", "verify", str(report_folder / name))
        assert result.exit_code == 0, result.output
        assert "verified: what is shown follows from the journal" in result.output
        assert "Not checked: votes of readers, dates and durations" in result.output
        [finding] = json.loads(
            run_command("runs", "verify", "-", "--json", text=(report_folder / name).read_text()).stdout
        )
        assert (finding["outcome"], finding["problems"], finding["answers"]) == ("verified", [], 4)
        assert "votes of readers" in finding["unchecked"]
    assert (report_folder / "r.md").read_text().startswith("# Debate")
    assert (report_folder / "r.html").stat().st_mode & 0o777 == 0o600


def test_exit_code_reflects_the_verification(report_folder: Path) -> None:
    html = (report_folder / "r.html").read_text()
    changed = run_command("runs", "verify", "-", text=html.replace("cap rents", "cut rents", 1))
    assert changed.exit_code == 1
    assert "does not follow from its journal" in changed.output
    unknown = run_command(
        "runs", "verify", "-", text=html.replace('content="flowdebate ', 'content="flowdebate 0.0.1-')
    )
    assert unknown.exit_code == 3
    assert "cannot be verified here" in unknown.output
    for text, problem in (
        ("<p>", "is not a flowdebate report"),
        ("{}", "line 1: "),
        ("", "neither a report nor a run"),
    ):
        bad = run_command("runs", "verify", "-", text=text)
        assert bad.exit_code == 2, bad.output
        assert problem in bad.output
    assert run_command("runs", "verify", str(report_folder / "missing.html")).exit_code == 2


def test_report_requires_a_target_and_a_run(report_folder: Path) -> None:
    store = ("--store", str(report_folder / "runs.sqlite3"))
    assert "--html FILE" in run_command("runs", "report", "--last", *store).output
    assert (
        "Say which run: flowdebate runs report RUN"
        in run_command("runs", "report", "--html", str(report_folder / "x.html"), *store).output
    )
    assert run_command("runs", "report", "nothing", "--html", str(report_folder / "x.html"), *store).exit_code == 2
    assert not (report_folder / "x.html").exists()
