"""Runs of an unchanged format are listed, shown, verified and resumed, and no model is asked for it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from .record import EXPORT, PATTERNS, SHOWN, STORE, command, show

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = json.loads(SHOWN.read_text(encoding="utf-8"))
RUNS = {run.pop("pattern"): run_id for run_id, run in _SHOWN.items()}
"""The id of each pattern's run."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Copy the recorded store."""
    return shutil.copyfile(STORE, tmp_path / STORE.name)


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """Import the recorded export into a store."""
    path = tmp_path / "imported.sqlite3"
    assert command("import", str(EXPORT), store=path).stdout == f"Imported {len(PATTERNS)} runs.\n"
    return path


def test_there_is_a_run_of_each_pattern() -> None:
    """They are in the order of their recording."""
    assert [pattern.replace("_", "-") for pattern in RUNS] == [*PATTERNS]


@pytest.mark.parametrize("pattern", RUNS)
def test_a_run_is_shown(pattern: str, store: Path) -> None:
    """Step by step, and as its command's page."""
    assert show(RUNS[pattern], store) == _SHOWN[RUNS[pattern]]


@pytest.mark.parametrize("pattern", RUNS)
def test_an_imported_run_is_shown(pattern: str, imported: Path) -> None:
    """Like the run that was exported."""
    assert show(RUNS[pattern], imported) == _SHOWN[RUNS[pattern]]


@pytest.mark.parametrize("pattern", RUNS)
def test_a_finished_run_is_resumed_without_a_call(pattern: str, store: Path) -> None:
    """Its server is gone, so a call would fail."""
    before = json.loads(command("show", RUNS[pattern], "--page", "--json", store=store).stdout)
    resumed = command("resume", RUNS[pattern], "--json", store=store)
    assert (resumed.exit_code, json.loads(resumed.stdout)) == (0, before)


def test_an_export_is_verified(store: Path) -> None:
    """Its outputs follow from its journals."""
    assert command("runs", "verify", str(EXPORT), store=store).exit_code == 0


def test_a_stored_run_is_exported_as_it_was(store: Path) -> None:
    """The files are equal byte for byte."""
    assert command("export", "--all", store=store).stdout == EXPORT.read_text(encoding="utf-8")


def test_an_imported_run_is_exported_as_it_was_but_for_its_origin(imported: Path) -> None:
    """An imported run is marked as foreign."""
    exported = command("export", "--all", store=imported).stdout
    assert exported.replace(', "foreign": true', "") == EXPORT.read_text(encoding="utf-8")


@pytest.mark.parametrize("pattern", RUNS)
def test_the_report_of_a_stored_run_is_verified(pattern: str, store: Path) -> None:
    """A report contains the run's journal."""
    report = store.with_suffix(".html")
    assert command("runs", "report", RUNS[pattern], "--html", str(report), store=store).exit_code == 0
    assert command("runs", "verify", str(report), store=store).exit_code == 0
