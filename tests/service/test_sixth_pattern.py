"""A sixth pattern needs a folder, a page and an entry in the registry; nothing else has to know it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import build_app
from flowdebate.patterns import PATTERNS
from tests.cli.stage import Stage

from .toy import INFO

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern is in the registry."""
    monkeypatch.setitem(PATTERNS, "toy", INFO)


def command(*arguments: str, text: str | None = None) -> Result:
    """The command, built with what is registered."""
    return CliRunner().invoke(build_app(), list(arguments), input=text, catch_exceptions=False)


def test_a_registered_pattern_is_run_shown_saved_stored_and_batched(tmp_path: Path) -> None:
    """Verb, plan file, live page, document, Markdown, resume and batch."""
    report, plan = tmp_path / "report.md", tmp_path / "plan.toml"
    plan.write_text('pattern = "toy"\nriddle = "What walks?"\n')
    with Stage(turns=(("A ", "man."),)) as on:
        where = ("--model", "staged", "--base-url", on.base_url)
        live = command("toy", "What walks?", *where, "--markdown", str(report))
        saved = command("run", str(plan), *where, "--json")
        run_id = json.loads(saved.stdout)["runId"]
        asked = len(on.bodies)
        resumed = command("resume", run_id)
        assert len(on.bodies) == asked
        batch = command("batch", "-", "--pattern", "toy", *where, text="What flies?\n")
    assert [each.exit_code for each in (live, saved, resumed, batch)] == [0, 0, 0, 0]
    assert "/v1\nRiddle: What walks?\n  Solver\n\nSolver:\n  A man.\n" in live.stdout
    assert "# Toy\n" in report.read_text()
    assert "> A man." in report.read_text()
    assert json.loads(saved.stdout)["pattern"] == "toy"
    assert "  A man.\n" in command("render", "-", text=saved.stdout).stdout
    assert "  A man.\n" in resumed.stdout
    assert "Complete: 1\n" in batch.stdout
    assert "toy" in command("runs").stdout
