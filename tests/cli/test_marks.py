"""Gaps in a result, shown on the page, in the report, in JSON and by the exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.ui.sections import FLAGS

from .siblings import serve_stage
from .stage import Stage
from .test_stored import run_command

if TYPE_CHECKING:
    from pathlib import Path

DEBATE = ("--max-rounds", "1", "--debater", "pro=cap rents", "--debater", "con=free rents")
SHORT = {
    "debate": (DEBATE, "transcript"),
    "deliberation": (("--max-rounds", "1"), "history"),
    "handoff": (("--max-turns", "2", "--transition", "text"), "transcript"),
    "round-robin": (("--max-rounds", "1"), "transcript"),
    "council": (("--review", "none"), "opinions"),
}
"""Options for a short run of each command, and the field of the raw output that contains the contributions."""


def page_and_report(saved: dict[str, Any], folder: Path) -> tuple[str, str]:
    """Return a document's page and report."""
    path, report = folder / "saved.json", folder / "report.md"
    path.write_text(json.dumps(saved))
    result = run_command("runs", "render", str(path), "--markdown", str(report))
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split()), report.read_text()


@pytest.mark.parametrize("verb", SHORT)
def test_truncated_contribution_is_marked_everywhere(verb: str, tmp_path: Path) -> None:
    options, location = SHORT[verb]
    chair = {"answer": "Cap them.", "dissent": None}
    with serve_stage(cut_off={0}, output=chair) as on:
        live = run_command(*on.options(*options, verb=verb))
    with serve_stage(cut_off={0}, output=chair) as on:
        document = json.loads(run_command(*on.options(*options, "--json", verb=verb)).stdout)
    contributions = document["raw"][location]
    assert [entry.get("flag") for entry in contributions].count("cut_off") == 1
    page, report = page_and_report(document, tmp_path)
    for text in (" ".join(live.stdout.split()), page, report):
        assert text.count(FLAGS["cut_off"]) == 1
        assert "failed" not in text
    assert f"Ended with gaps, after {len(contributions) - 1} complete " in page
    assert document["status"] == "degraded"


def run_debate() -> dict[str, Any]:
    """Return the document of a short debate."""
    with Stage() as on:
        value: dict[str, Any] = json.loads(run_command(*on.options(*DEBATE, "--json")).stdout)
    return value


def test_empty_contribution_is_marked(tmp_path: Path) -> None:
    document = run_debate()
    document["raw"]["transcript"][0] |= {"text": "", "flag": "empty"}
    document["status"] = document["raw"]["status"] = "degraded"
    page, report = page_and_report(document, tmp_path)
    assert f"({FLAGS['empty']})" in page
    assert f"({FLAGS['empty']})" in report
    assert "after 1 complete argument." in page


def test_unknown_winner_is_not_shown_as_a_winner(tmp_path: Path) -> None:
    """The page only quotes the name given by the judge and says that it is not a position."""
    document = run_debate()
    document["raw"]["verdict"] |= {"winner": None, "unknownWinner": "the mayor"}
    document["raw"]["losses"] = [
        {"round": 1, "role": "judge", "name": "my-judge", "error": "the mayor?", "instead": "not_counted"},
        {"round": 1, "role": "debater", "name": "con", "error": "never asked", "instead": "unheard"},
    ]
    for text in page_and_report(document, tmp_path):
        assert "none; the judge named 'the mayor', which is not a position" in text.replace("\\", "")
        assert "Judge my-judge named no side" in text.replace("\\", "")
        assert "Debater con was not heard" in text


@pytest.mark.parametrize("verb", ["handoff", "deliberation", "round-robin", "council"])
def test_run_without_contributions_has_no_result(verb: str) -> None:
    """Without any contributions, the exit code is 3 (or 1 if the pattern itself fails), but never 0."""
    options, location = SHORT[verb]
    flags = ("--attempts", "1", "--on-failure", "skip", "--json")
    with serve_stage(broken=range(99)) as on:
        result = run_command(*on.options(*options, *flags, verb=verb))
    document = json.loads(result.stdout)
    assert document["raw"][location] == []
    assert (document["status"], result.exit_code) in [("no_verdict", 3), ("failed", 1)]
