"""Runs are repeatedly killed with SIGKILL and resumed; `make soak` does the same on a larger scale."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import warm

if TYPE_CHECKING:
    from tests.store.postgres import Server

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")


def run_killed(*options: str) -> dict[str, Any]:
    """Run a campaign in a process without threads, which can be forked safely, and return its report."""
    command = (warm.run_module("tests.runs.durable.kills"), *options)
    done = warm.run_warm(*command, timeout=100, cwd=ROOT, check=False)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def assert_nothing_lost(report: dict[str, Any]) -> None:
    """Check that no recorded call is repeated and that every run has the result of an undisturbed one."""
    assert report["paid_again"] == report["changed"] == report["unequal"] == []
    assert report["repeated"] <= report["in_flight"]


def test_run_killed_at_any_moment_has_the_same_result() -> None:
    """The process is killed at random moments, even during parallel turns and while providers fail."""
    report = run_killed("--kills", "12", "--seed", "11")
    assert report["kills"] == 12
    assert_nothing_lost(report)


def test_twenty_kills_in_a_row_do_no_harm() -> None:
    """Even a run that is killed each time it is resumed is completed eventually."""
    report = run_killed("--kills", "20", "--in-a-row", "20", "--point", "before", "--seed", "1")
    assert report["kills"] == 20
    assert report["runs"] == 1
    assert_nothing_lost(report)


@pytest.mark.slow
def test_runs_survive_kills_on_postgresql(postgres_server: Server) -> None:
    """The PostgreSQL server keeps running when its clients are killed."""
    report = run_killed("--kills", "4", "--seed", "5", "--store", postgres_server.url)
    assert report["kills"] == 4
    assert_nothing_lost(report)
