"""Stored runs whose format must not change: they can be listed, shown, verified and resumed without a model call."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from .record import EXPORT, PATTERNS, SHOWN, STORE, run_command, show_run

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = json.loads(SHOWN.read_text(encoding="utf-8"))
RUNS = {run.pop("pattern"): run_id for run_id, run in _SHOWN.items()}
"""Id of each pattern's run."""


@pytest.fixture
def copied_store(tmp_path: Path) -> Path:
    """Copy the recorded store."""
    return shutil.copyfile(STORE, tmp_path / STORE.name)


@pytest.fixture
def import_store(tmp_path: Path) -> Path:
    """Import the recorded export into a store."""
    path = tmp_path / "imported.sqlite3"
    assert run_command("import", str(EXPORT), store=path).stdout == f"Imported {len(PATTERNS)} runs.\n"
    return path


def test_each_pattern_has_a_stored_run() -> None:
    assert [pattern.replace("_", "-") for pattern in RUNS] == [*PATTERNS]


@pytest.mark.parametrize("pattern", RUNS)
def test_stored_run_is_shown_as_recorded(pattern: str, copied_store: Path) -> None:
    assert show_run(RUNS[pattern], copied_store) == _SHOWN[RUNS[pattern]]


@pytest.mark.parametrize("pattern", RUNS)
def test_imported_run_is_shown_as_recorded(pattern: str, import_store: Path) -> None:
    assert show_run(RUNS[pattern], import_store) == _SHOWN[RUNS[pattern]]


@pytest.mark.parametrize("pattern", RUNS)
def test_finished_run_is_resumed_without_a_call(pattern: str, copied_store: Path) -> None:
    """The run's server is gone, so any call would fail."""
    before = json.loads(run_command("show", RUNS[pattern], "--page", "--json", store=copied_store).stdout)
    resumed = run_command("resume", RUNS[pattern], "--json", store=copied_store)
    assert (resumed.exit_code, json.loads(resumed.stdout)) == (0, before)


def test_stored_export_can_be_verified(copied_store: Path) -> None:
    """Replaying the journals must reproduce the stored outputs."""
    assert run_command("runs", "verify", str(EXPORT), store=copied_store).exit_code == 0


def test_stored_run_is_exported_unchanged(copied_store: Path) -> None:
    assert run_command("export", "--all", store=copied_store).stdout == EXPORT.read_text(encoding="utf-8")


def test_imported_run_is_exported_with_only_its_origin_changed(import_store: Path) -> None:
    exported = run_command("export", "--all", store=import_store).stdout
    assert exported.replace(', "foreign": true', "") == EXPORT.read_text(encoding="utf-8")


@pytest.mark.parametrize("pattern", RUNS)
def test_report_of_a_stored_run_is_verified(pattern: str, copied_store: Path) -> None:
    report = copied_store.with_suffix(".html")
    assert run_command("runs", "report", RUNS[pattern], "--html", str(report), store=copied_store).exit_code == 0
    assert run_command("runs", "verify", str(report), store=copied_store).exit_code == 0
