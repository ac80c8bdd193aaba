"""Humans on the command line: they answer in the terminal, or later with `flowdebate runs answer`."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from flowdebate.cli.app import app

from .stage import OnTerminal, Stage

if TYPE_CHECKING:
    from typer.testing import Result

SIDES = ("--debater", "pro=cap rents", "--debater", "con=free rents", "--max-rounds", "1", "--no-synthesizer")
VERDICT = json.dumps({"reasoning": "It answered.", "winner": "cap rents", "verdict": "Cap them."})


def run_command(*arguments: str, typed: str = "") -> Result:
    """Run the command with `typed` piped to stdin."""
    return CliRunner().invoke(app, list(arguments), input=typed, prog_name="flowdebate")


def test_run_waits_for_human_answers_and_continues() -> None:
    with Stage() as on:
        parked = run_command(*on.options(*SIDES, "--human", "con", "--human", "judge"))
        hint = re.search(r"flowdebate runs answer (\w{8})", parked.stderr)
        assert hint is not None
        run = hint[1]
        listed = run_command("runs", "--status", "awaiting")
        run_page = run_command("show", run)
        page = run_command("show", run, "--page")
        answer = run_command("runs", "answer", run, typed="Build more.\n")
        wrong = run_command("runs", "answer", run, "--json", '{"winner": "nobody"}')
        later = run_command("runs", "answer", run, "--later", "--json", VERDICT)
        result = run_command("resume", run)
        twice = run_command("runs", "answer", run, "--json", VERDICT)
        assert len(on.bodies) == 1
    assert (parked.exit_code, listed.exit_code, run_page.exit_code, page.exit_code) == (3, 0, 0, 0)
    assert run in listed.stdout
    assert "You are con. You argue for this position: free rents" in answer.stderr
    assert "Build more." in answer.stdout
    assert answer.exit_code == 3
    assert wrong.exit_code == 1
    assert '`winner` must be "cap rents" or "free rents", or null (got nobody)' in wrong.stderr
    assert (later.exit_code, f"flowdebate resume {run}" in later.stderr) == (0, True)
    assert (result.exit_code, "Winner: pro (cap rents)" in result.stdout) == (0, True)
    assert (twice.exit_code, "the first answer is final" in twice.stderr) == (1, True)


def test_roles_are_checked_before_any_call() -> None:
    with Stage() as on:
        nobody = run_command(*on.options(*SIDES, "--human", "ann"))
        unkept = run_command(*on.options(*SIDES, "--human", "con", "--no-store"))
        assert on.bodies == []
    assert (nobody.exit_code, "must be pro, con, judge or moderator" in nobody.stderr) == (2, True)
    assert (unkept.exit_code, "`store` is required" in unkept.stderr) == (2, True)


def test_humans_can_answer_in_a_terminal() -> None:
    humans = ("--human", "con", "--human", "judge")
    with Stage() as on, OnTerminal(*on.options(*SIDES, *humans)) as terminal:
        terminal.until("(end with an empty line)")
        terminal.write("Build more.\n\n")
        terminal.until("reasoning (text): ")
        terminal.write("It answered.\n")
        terminal.until('winner ("cap rents" or "free rents", or null): ')
        terminal.write("ann\n")
        terminal.until("verdict (text): ")
        terminal.write("Free them.\n")
        terminal.until("Please answer again")
        terminal.write("It answered.\nfree rents\nFree them.\n")
        assert terminal.end() == 0
        assert len(on.bodies) == 1
    assert "con (free rents)" in terminal.screen


def test_typing_can_be_interrupted_and_resumed() -> None:
    """Ctrl-C ends the command at once. The run then waits for the human, just like any suspended run."""
    with Stage() as on:
        options = on.options(*SIDES, "--human", "con", "--schedule", "single")
        with OnTerminal(*options) as terminal:
            terminal.until("(end with an empty line)")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == 130
        run = re.search(r"Run: (\w+)", terminal.screen)
        assert run is not None
        with OnTerminal("runs", "answer", run[1]) as terminal:
            terminal.until("(end with an empty line)")
            terminal.write("Build more.\n\n")
            assert terminal.end() == 0
        assert len(on.bodies) == 2
    assert "Build more." in terminal.screen
