"""The command as users run it: a process on a terminal or in a pipe, which may be interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.processes import start_process

from .stage import PATIENCE, OnTerminal, Stage, clean_environment, find_command, start_on_pipes
from .test_render import DOCUMENT

PAGE_ESCAPES = re.compile(r"\x1b\[[\d;]*m|\x1b\[2K")
"""Escape codes used by the page: colors, and the removal of a notice."""
HOSTILE = ("\x1b[2J\x1b]0;owned\x07", "[for] x [/x] ", "\x9b31m\u202e", "\r\nRound 9 of 9\n", "tail ", "end.")
SIDES = ("--debater", "pro=cap rents", "--debater", "con=free rents", "--no-synthesizer")


def test_terminal_shows_the_debate_live() -> None:
    """Tokens appear before the turn has ended. Text from models cannot set colors or change the layout."""
    turns = (("alpha beta ", "gamma."), HOSTILE)
    verdict = {"reasoning": "\x1b[5mr [/b]", "winner": "cap rents", "verdict": "v [bold]x[/bold]"}
    stage = Stage(turns=turns, verdict=verdict, hold=(0, 1))
    with stage, OnTerminal(*stage.options(*SIDES, "--moderator"), cold=True) as terminal:
        terminal.until("alpha beta")
        assert "gamma" not in terminal.seen
        stage.let_go()
        assert terminal.end() == 0
    assert PAGE_ESCAPES.search(terminal.seen)
    assert re.search(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]\x1b\[0m pro is writing", terminal.seen)
    plain = terminal.screen
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", plain)
    assert "[for] x [/x] \\x9b31m\\u202e\\r" in plain
    assert "\\x1b[2J\\x1b]0;owned\\x07" in plain
    assert "\n  Round 9 of 9\n" in plain
    assert "v [bold]x[/bold]" in plain
    order = ["Model: staged at http", "Question", "pro: cap rents", "con: free rents", "Round 1 of 2"]
    order += [
        "Moderator calls on: pro, con",
        "Briefing: B.",
        "Angle: A?",
        "\npro:\n",
        "gamma.",
        "\ncon:\n",
        "end.",
        "╭",
    ]
    order += ["Verdict", "Winner: pro (cap rents)", "\\x1b[5mr [/b]", "╯", "Tokens: prompt 40 (cached 16)", "Calls: 4"]
    order += ["Time: ", "Run: ", "Seed: ", "flowdebate show "]
    rest = plain
    for part in order:
        assert part in rest
        rest = rest.partition(part)[2]


def test_no_color_means_no_escape_codes(tmp_path: Path) -> None:
    """NO_COLOR removes the colors, which are on by default, but keeps the layout."""
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(DOCUMENT))
    with OnTerminal("runs", "render", str(path), NO_COLOR="1") as plain:
        assert plain.end() == 0
    with OnTerminal("--no-color", "runs", "render", str(path)) as terminal:
        assert terminal.end() == 0
    assert terminal.seen == plain.seen
    with OnTerminal("runs", "render", str(path)) as colored:
        assert colored.end() == 0
    assert "\x1b" not in plain.seen
    assert PAGE_ESCAPES.sub("", colored.seen) == plain.seen != colored.seen
    assert max(map(len, plain.seen.split("\n"))) == 100


def test_arguments_are_kept_after_ctrl_c() -> None:
    turns = (("Homes ", "first."), ("Build ", "more."))
    with Stage(turns=turns, hold=(1, 1)) as stage, OnTerminal(*stage.options(*SIDES), cold=True) as terminal:
        terminal.until("Homes first.")
        stage.wait_for_turn(2)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert "Interrupted after 1 complete argument." in terminal.screen
    assert "Calls: " in terminal.screen
    assert "Traceback" not in terminal.seen
    assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[?25l")


def test_terminated_run_still_writes_its_documents(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    with Stage(hold=(1, 0)) as stage:
        options = stage.options(*SIDES, "--json", "--markdown", str(report))
        with OnTerminal(*options, stdout=subprocess.PIPE) as terminal:
            stage.wait_for_turn(2)
            terminal.process.terminate()
            assert terminal.end() == 143
            assert terminal.process.stdout is not None
            stdout = terminal.process.stdout.read()
    assert "Homes first." in terminal.screen
    assert "Interrupted after 1 complete argument." in terminal.screen
    document = json.loads(stdout)
    assert document["status"] == "interrupted"
    assert [entry["text"] for entry in document["raw"]["transcript"]] == ["Homes first."]
    assert (document["raw"]["rounds"], document["raw"]["verdict"]) == (1, None)
    assert "- Status: interrupted" in report.read_text()


def test_closed_pipe_ends_the_run_quietly() -> None:
    """`flowdebate run … | head -1` prints no message and makes no further calls."""
    with Stage(hold=(0, 1)) as stage:
        with start_on_pipes(*stage.options(*SIDES)) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"Model: staged at http://")
            stage.wait_for_turn(1)
            process.stdout.close()
            stage.let_go()
            assert process.wait(PATIENCE) == 141
            assert process.stderr is not None
            assert process.stderr.read() == b""
        assert len(stage.bodies) == 1


def test_unwritable_output_causes_at_most_one_message(tmp_path: Path) -> None:
    """A full disk is reported as an error without a traceback.

    A pipe that closes before the first line is not an error.
    """
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(DOCUMENT))
    if Path("/dev/full").exists():
        with Path("/dev/full").open("wb") as full:
            assert render_into(path, full.fileno()) == (
                1,
                b"Error: the output cannot be written: No space left on device\n",
            )
    reading, writing = os.pipe()
    os.close(reading)
    assert render_into(path, writing) == (141, b"")
    os.close(writing)


def render_into(path: Path, stdout: int) -> tuple[int, bytes]:
    """Return the exit code and the messages of `render` when it writes to an open file."""
    ended = subprocess.run(  # noqa: S603 - our own command
        find_command("runs", "render", str(path)),
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        timeout=PATIENCE,
        env=clean_environment(),
    )
    return ended.returncode, ended.stderr


def test_second_ctrl_c_ends_the_command_at_once() -> None:
    """The second Ctrl-C ends the command even if it has ignored the first."""
    script = (
        "import signal\n"
        "from flowdebate.cli.terminal.process import Interrupts\n"
        "with Interrupts(lambda: print('asked', flush=True)):\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        signal.pause()\n"
    )
    with start_process([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in (b"ready\n", b"asked\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT


def test_help_imports_neither_models_nor_layout() -> None:
    """`flowdebate --help` must respond immediately."""
    script = "import sys; from flowdebate.cli.app import app; app(['debate', '--help'], standalone_mode=False); "
    script += "print([name for name in ('rich', 'openai', 'instructor', 'jsonschema') if name in sys.modules])"
    ended = subprocess.run(  # noqa: S603 - above
        [sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=PATIENCE, env=clean_environment()
    )
    assert b"--max-rounds" in ended.stdout
    assert ended.stdout.endswith(b"[]\n")
