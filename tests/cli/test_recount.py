"""`flowdebate recount`: recounts, output and errors, without any model call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from flowdebate.cli.ballots import recount
from flowdebate.evaluation.recounting import LIMITS

from .siblings import saved, stage
from .stage import Stage
from .test_run import SIDES
from .test_stored import add_like, command, newest

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(recount)

POINTS = [
    {"reasoning": "It answered.", "scores": {"yes": 80, "no": 20}, "verdict": "Yes."},
    {"reasoning": "It came last.", "scores": {"yes": 45, "no": 55}, "verdict": "No."},
]
DEBATE = ("--debater", "pro=yes", "--debater", "con=no", "--max-rounds", "1")


def decided(*arguments: str, stdin: str | None = None) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)


def document(*arguments: str) -> dict[str, Any]:
    """What it prints with --json."""
    result = decided(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def held(on: Stage, *arguments: str, verb: str = "debate") -> dict[str, Any]:
    """The document of a run that is kept."""
    result = command(*on.options(*arguments, "--json", verb=verb))
    assert result.exit_code in (0, 3)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def flipped(raw: dict[str, Any]) -> dict[str, Any]:
    """A raw output whose judge found for another side when it was shown the other order."""
    ballots = [
        {"view": view, "order": list(order), "model": "staged", "scores": {"yes": share, "no": 1 - share}}
        for view, (order, share) in enumerate([(("yes", "no"), 0.8), (("no", "yes"), 0.45)])
    ]
    judging = {
        "schedule": "swap", "ballots": ballots, "planned": 2, "scores": {"yes": 0.625, "no": 0.375}, "flipped": True
    }  # fmt: skip
    return {**raw, "verdict": {**raw["verdict"], "winner": "yes", "judging": judging}}


def test_a_kept_debate_is_decided_again_and_nobody_is_asked(store: Path) -> None:
    """By id, by what it begins with, and as the newest; the model's server hears nothing, and need not be there."""
    with Stage() as on:
        run_id = held(on, *DEBATE)["runId"]
        outcome = newest(store).outcome
        assert outcome is not None
        add_like(store, "swapped1", outcome={**outcome, "raw": flipped(outcome["raw"])})
        asked = len(on.bodies)
        found = document("swapped1")
        assert len(on.bodies) == asked
    assert document("swap") == found
    rows = {row["rule"]: row for row in found["recount"]["rows"]}
    assert list(rows) == ["mean", "plurality", "majority", "supermajority", "unanimous"]
    assert (rows["mean"]["winner"], rows["mean"]["scores"]) == ("yes", {"yes": 0.625, "no": 0.375})
    assert rows["plurality"]["end"] == "tie"
    assert found["recount"]["skipped"]["borda"] == "with two sides it is plurality"
    assert found["recount"]["flipped"] is True
    assert (found["decided"], found["runId"], found["question"]) == ("yes", "swapped1", "Cap rents?")
    assert found["findings"][-1] == LIMITS
    assert document(run_id)["recount"]["cast"] == 1


def test_the_page_is_a_table_the_ballots_and_findings(tmp_path: Path) -> None:
    """Of what --json printed, from a file or stdin; nothing in it acts on a terminal."""
    with Stage() as on:
        saved_run = held(on, *DEBATE, "--no-store")
    path = tmp_path / "debate.json"
    path.write_text(json.dumps({**saved_run, "raw": flipped(saved_run["raw"])}))
    result = decided("--data", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "Question: Cap rents?",
        "Decided for: yes",
        "Decided again by 2 ballots, without asking anybody",
        "",
    ]
    assert [cell.strip() for cell in lines[4].split("  ") if cell] == ["RULE", "FINDS FOR", "BALLOTS", "WHY"]
    assert [cell.strip() for cell in lines[5].split("  ") if cell] == [
        "mean",
        "yes",
        "2",
        "'yes' has a mean share of 0.625",
    ]
    assert "  Ballot 2, staged (view 2): no\n" in result.stdout
    assert result.stdout.endswith(f"- {LIMITS}\n")
    assert decided("--data", "-", stdin=path.read_text()).stdout == result.stdout
    hostile = path.read_text().replace("staged", "\\u001b[31mx")
    assert "\x1b" not in decided("--data", "-", stdin=hostile).stdout
    bare = tmp_path / "raw.json"
    bare.write_text(json.dumps(flipped(saved_run["raw"])))
    assert document("--data", str(bare))["recount"] == document("--data", str(path))["recount"]


def test_what_a_rule_is_told_changes_what_it_says(tmp_path: Path) -> None:
    """Which rules, from which share one approves, and what a model weighs."""
    with Stage() as on:
        raw = flipped(held(on, *DEBATE, "--no-store")["raw"])
    raw["verdict"]["judging"]["ballots"][1]["model"] = "a=b"
    path = tmp_path / "raw.json"
    path.write_text(json.dumps(raw))
    options = ("--rule", "approval", "--rule", "weighted", "--threshold", "0.8", "--weight", "a=b=9")
    approval, weighted = document("--data", str(path), *options)["recount"]["rows"]
    assert (approval["winner"], approval["scores"]) == ("yes", {"yes": 1, "no": 0})
    assert weighted["winner"] == "no"
    runoff = document("--data", str(path), "--rule", "instant-runoff")["recount"]["rows"]
    assert [row["rule"] for row in runoff] == ["instant_runoff"]


def test_a_kept_consensus_is_decided_again() -> None:
    """Its votes; its own rule finds what it found."""
    with stage() as on:
        run_id = held(on, "--max-rounds", "1", "--seed", "5", verb="consensus")["runId"]
        asked = len(on.bodies)
        found = document(run_id)
        assert len(on.bodies) == asked
    rows = {row["rule"]: row for row in found["recount"]["rows"]}
    assert (found["decided"], rows["majority"]["winner"], rows["unanimous"]["end"]) == ("Planner", "Planner", "short")
    assert "Decided again by 3 votes" in decided(run_id).stdout


def test_a_debate_that_was_judged_again_is_decided_by_those_ballots(store: Path) -> None:
    """A run of `audit --rejudge` has ballots, and no verdict."""
    with Stage(answers={"scores": POINTS}) as on:
        run_id = held(on, *DEBATE)["runId"]
        again = ("--rejudge", "--base-url", on.base_url, "--model", "staged", "--schedule", "swap", "--json")
        assert command("audit", run_id, *again).exit_code == 0
    found = document(newest(store).header.run_id)
    assert (found["recount"]["cast"], found["recount"]["sides"]) == (2, ["no", "yes"])
    assert found["decided"] is None


def test_what_has_no_ballots_says_why(store: Path, tmp_path: Path) -> None:
    """Exit code 3: a run under way, a verdict of another kind, a pattern without sides; and a debate without one."""
    with Stage() as on:
        run_id = held(on, *DEBATE)["runId"]
    outcome = newest(store).outcome
    assert outcome is not None
    raw = outcome["raw"]
    without = {**raw, "verdict": {key: value for key, value in raw["verdict"].items() if key != "judging"}}
    lost = {**raw, "verdict": None, "status": "no_verdict"}
    add_like(store, "human", outcome={**outcome, "raw": without})
    add_like(store, "lost1", outcome={**outcome, "raw": lost})
    add_like(store, "damaged", outcome={**outcome, "raw": {**raw, "rounds": "many"}})
    add_like(store, "other", outcome={**outcome, "raw": None})
    add_like(store, "open1", outcome=None, status="running")
    for name, why in (
        ("human", "has a verdict without ballots: a human's, a custom judge's, or an earlier version's"),
        ("lost1", "has no verdict of a judge"),
        ("damaged", "has no ballots that can be read"),
        ("other", "has no verdict of a judge"),
        ("open1", "has not ended"),
    ):
        result = decided(name)
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr == f"Error: run {name} {why}\n"
    assert document("--last")["runId"] == run_id, "the newest that has ballots"
    path = tmp_path / "panel.json"
    path.write_text(json.dumps(saved("x")["round_robin"]))
    result = decided("--data", str(path))
    assert (result.exit_code, f"{path} has no ballots: a round_robin has" in result.stderr) == (3, True)


def test_ballots_that_all_failed_are_no_decision(tmp_path: Path) -> None:
    """The page says so, and the exit code."""
    with Stage() as on:
        raw = flipped(held(on, *DEBATE, "--no-store")["raw"])
    for ballot in raw["verdict"]["judging"]["ballots"]:
        ballot["problem"] = "no JSON"
    path = tmp_path / "raw.json"
    path.write_text(json.dumps(raw))
    result = decided("--data", str(path))
    assert result.exit_code == 3
    assert "- no rule can count these ballots\n" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "Error: Say which debate to recount: the id of its run, or --last, or --data FILE.\n"),
        (("abcd", "--last"), "Say which debate to recount"),
        (("--last", "--data", "x"), "Say which debate to recount"),
        (("--last",), "Error: No run in "),
        (("nothing",), "nothing"),
        (("ab",), "Type at least 4 characters that its id begins with"),
        (("--data", " "), "--data must be the path of a file"),
        (("--data", "none.json"), "none.json: cannot be read"),
        (("--data", "x", "--store", "y"), "Leave --store out where --data is given"),
        (("--last", "--weight", "ann"), "--weight must be a name, =, and a number, got 'ann'"),
        (("--last", "--weight", "=3"), "--weight must be a name, =, and a number"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_asked_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    """With what would be allowed, and exit code 2."""
    result = decided(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_a_rule_that_there_is_not_is_refused() -> None:
    """With all that there are."""
    with Stage() as on:
        run_id = held(on, *SIDES, "--max-rounds", "1")["runId"]
    result = decided(run_id, "--rule", "dice")
    assert result.exit_code == 2
    assert "`rules` must be some of mean, median, " in result.stderr
