"""Proposed sides: shown before the debate, confirmed in a terminal, and stored with the run."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app

from .stage import OnTerminal, Stage

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

ASKED = "Which database should we use?"
PROPOSED = {
    "sides": [{"name": "Postgres", "position": "We should use Postgres."}, {"name": "MySQL", "position": "Use MySQL"}]
}


def sides_stage(**options: Any) -> Stage:
    """Serve a stage that also proposes sides."""
    return Stage(answers={"sides": PROPOSED}, **options)


def debate_arguments(on: Stage, *more: str) -> list[str]:
    """Return the command-line arguments for a debate without sides."""
    return ["debate", ASKED, *on.options("--max-rounds", "1", "--no-synthesizer", *more)[2:]]


def run_command(on: Stage, *more: str) -> Result:
    """Run the command without a terminal."""
    return CliRunner().invoke(app, debate_arguments(on, *more), catch_exceptions=False)


def test_proposed_sides_are_shown_and_debated() -> None:
    """The proposal takes one extra call, and the document records the proposed sides."""
    with sides_stage() as on:
        result = run_command(on, "--json")
    document = json.loads(result.stdout)
    assert "  Postgres = We should use Postgres\n" in result.stderr
    assert "  MySQL = Use MySQL\n" in result.stderr
    assert [(side["name"], side["stance"]) for side in document["debaters"]] == [
        ("Postgres", "We should use Postgres"),
        ("MySQL", "Use MySQL"),
    ]
    assert len(on.bodies) == 1 + document["usage"]["calls"]
    assert all(f'The answer to \\"{ASKED}\\" is yes' not in json.dumps(body) for body in on.bodies)


def test_resumed_run_keeps_the_proposed_sides() -> None:
    """The sides are stored in the plan, so they are not requested again."""
    with sides_stage() as on:
        early = run_command(on, "--max-calls", "1")
        before = len(on.bodies)
        result = CliRunner().invoke(app, ["resume", "--last", "--max-calls", "9", "--json"])
    assert (early.exit_code, result.exit_code) == (3, 0)
    assert [side["name"] for side in json.loads(result.stdout)["debaters"]] == ["Postgres", "MySQL"]
    assert "sides" not in json.dumps([body.get("response_format") for body in on.bodies[before:]])


def test_proposals_are_recorded_and_replayed(tmp_path: Path) -> None:
    """A replayed debate makes no calls, not even to propose sides."""
    with sides_stage() as on:
        options = ("--seed", "3", "--json")
        first = run_command(on, *options, "--record", str(tmp_path / "cassette"))
        calls = len(on.bodies)
        second = run_command(on, *options, "--replay", str(tmp_path / "cassette"))
        assert len(on.bodies) == calls
    assert json.loads(first.stdout)["raw"] == json.loads(second.stdout)["raw"]


def test_invalid_options_are_rejected_before_sides_are_proposed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no database")
    wrong = [
        ("--human", "nobody"),
        ("--store", str(tmp_path / "file")),
        ("--markdown", str(tmp_path)),
        ("--curtail", "--on-flip", "tie"),
    ]
    with sides_stage() as on:
        codes = [run_command(on, *options).exit_code for options in wrong]
    assert (codes, on.bodies) == ([2, 1, 2, 2], [])


def test_command_fails_if_the_proposed_sides_are_invalid(tmp_path: Path) -> None:
    with Stage(answers={"sides": {"sides": [{"name": "a", "position": "\x1b[2J"}]}}) as on:
        result = run_command(on, "--store", str(tmp_path / "own.sqlite3"))
        listed = CliRunner().invoke(app, ["runs", "--json", "--store", str(tmp_path / "own.sqlite3")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "\x1b" not in result.stderr
    assert "Error: " in result.stderr
    assert json.loads(listed.stdout) == []


@pytest.mark.parametrize(
    ("typed", "code", "stances"),
    [
        ("\n", 0, ["We should use Postgres", "Use MySQL"]),
        ("what\ny\n", 0, ["We should use Postgres", "Use MySQL"]),
        ("edit\nred = Redis it is\nold = stay\n\ny\n", 0, ["Redis it is", "stay"]),
        ("edit\nred\n\ny\n", 0, ["We should use Postgres", "Use MySQL"]),
        ("n\n", 130, None),
        (None, 130, None),
    ],
    ids=["enter", "unclear", "edited", "not-edited", "no", "ctrl-c"],
)
def test_proposed_sides_are_confirmed_in_a_terminal(
    store: Path, typed: str | None, code: int, stances: list[str] | None
) -> None:
    with sides_stage() as on, OnTerminal(*debate_arguments(on)) as terminal:
        terminal.until("[Y/n/edit]")
        if typed is None:
            terminal.process.send_signal(signal.SIGINT)
        else:
            terminal.write(typed)
        assert terminal.end() == code
    assert store.exists() or stances is None
    if stances is None:
        assert len(on.bodies) == 1
    else:
        assert all(stance in json.dumps(on.bodies[1]) for stance in stances)


def test_yes_option_skips_the_confirmation() -> None:
    with sides_stage() as on, OnTerminal(*debate_arguments(on, "--yes")) as terminal:
        assert terminal.end() == 0
    assert "[Y/n/edit]" not in terminal.seen
    assert "Postgres = We should use Postgres" in terminal.seen


def test_batch_proposes_missing_sides(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(f"Should we cap rents?\n{ASKED}\n")
    with sides_stage() as on:
        options = [
            "batch",
            str(tmp_path / "q.txt"),
            *on.options("--max-rounds", "1", "--no-synthesizer", verb="batch")[2:],
        ]
        options += ["--out", str(tmp_path / "r.jsonl")]
        first = CliRunner().invoke(app, options, catch_exceptions=False)
        calls = len(on.bodies)
        second = CliRunner().invoke(app, options, catch_exceptions=False)
        assert len(on.bodies) == calls
    assert (first.exit_code, second.exit_code) == (0, 0)
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    names = {row["question"]: [side["name"] for side in row["document"]["debaters"]] for row in rows}
    assert names == {"Should we cap rents?": ["pro", "con"], ASKED: ["Postgres", "MySQL"]}
