"""`flowdebate runs watch` shows running and finished runs just like the command that started them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import handler
from flowdebate.cli.terminal.process import exit_code_of_signal

from .siblings import serve_stage
from .stage import PATIENCE, OnTerminal, Stage, start_on_pipes
from .test_run import SIDES
from .test_stored import ALL, TOGETHER, newest_run, run_command, run_to_limit

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.runs.context import Context

SAID = (("Homes ", "first."), ("Build ", "more."))


def page_lines(page: str) -> list[str]:
    """Return the lines of a page without its first lines and its times."""
    page = re.sub(r"Time: .*? s| · flowdebate show \w+|^(Model|Run \w+): .*", "", page, flags=re.MULTILINE)
    return [line for line in page.splitlines() if line.strip()]


def test_run_in_another_process_can_be_watched_to_its_end(store: Path) -> None:
    with Stage(turns=SAID, hold=(2, 1)) as on, start_on_pipes(*on.options(*SIDES)) as process:
        on.wait_for_turn(3)
        with OnTerminal("runs", "watch", "--last") as terminal:
            terminal.until("Round 2 of 2")
            terminal.until("pro is thinking")
            assert "Build more." in terminal.screen
            on.let_go()
            assert terminal.end() == 0
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        output = process.stdout.read().decode()
    assert re.match(r"Run \w{8}: running, started just now\nModel: staged at ", terminal.screen)
    watched = run_command("runs", "watch", "--last")
    assert page_lines(watched.stdout) == page_lines(output)
    assert (watched.exit_code, watched.stderr) == (0, "")
    for part in ("Homes first.", "Both are right.", newest_run(store).header.run_id):
        assert part in terminal.screen
        assert part in output


@pytest.mark.parametrize("verb", ALL)
def test_finished_run_is_shown_from_its_beginning(verb: str, tmp_path: Path) -> None:
    options = (*ALL[verb][1], "--seed", "5")
    reports = tmp_path / "own.md", tmp_path / "watched.md"
    for limit in ((), ("--max-calls", str(TOGETHER.get(verb, 2)))):
        with serve_stage() as on:
            result = run_command(*on.options(*options, *limit, "--markdown", str(reports[0]), verb=verb))
            calls = len(on.bodies)
            watched = run_command("runs", "watch", "--last", "--markdown", str(reports[1]))
            quiet = run_command("runs", "watch", "--last", "--quiet")
            assert len(on.bodies) == calls
        assert sorted(page_lines(watched.stdout)) == sorted(page_lines(result.stdout))
        assert watched.exit_code == quiet.exit_code == result.exit_code
        assert watched.stderr == result.stderr.replace(" --max-calls N", "")
        texts = [report.read_text() for report in reports]
        assert texts[0] == texts[1]
        assert set(page_lines(quiet.stdout)) <= set(page_lines(result.stdout))


def test_ctrl_c_ends_the_view_but_not_the_run(store: Path) -> None:
    with Stage(turns=SAID, hold=(1, 0)) as on, start_on_pipes(*on.options(*SIDES)) as process:
        on.wait_for_turn(2)
        with OnTerminal("runs", "watch", "--last") as terminal:
            terminal.until("con is thinking")
            terminal.process.send_signal(2)
            assert terminal.end() == exit_code_of_signal(2)
        run = newest_run(store)
        assert (run.status, run.owned) == ("running", True)
        on.let_go()
        process.wait(PATIENCE)
    assert f"The run continues. To watch it again: flowdebate runs watch {run.header.run_id[:8]}" in terminal.screen
    assert terminal.seen.rfind("\x1b[?25h") > terminal.seen.rfind("\x1b[?25l")
    assert newest_run(store).status == "complete"


def test_run_whose_process_has_died_is_reported(store: Path) -> None:
    with Stage(turns=SAID, hold=(1, 0)) as on, start_on_pipes(*on.options(*SIDES)) as process:
        on.wait_for_turn(2)
        process.kill()
        process.wait(PATIENCE)
        run = newest_run(store).header.run_id
        result = run_command("runs", "watch", run)
    assert result.exit_code == 3
    assert "Homes first." in result.stdout
    assert "Interrupted after 1 complete argument." in result.stdout
    assert result.stderr == f"The run's process is gone. To resume: flowdebate resume {run[:8]}\n"


def test_run_waiting_for_a_human_ends_the_view() -> None:
    """The hint shows the command for answering, including its `--store` option."""
    with Stage(turns=SAID) as on:
        result = run_command(*on.options(*SIDES, "--human", "con"))
        watched = run_command("runs", "watch", "--last")
    assert result.exit_code == watched.exit_code == 3
    assert watched.stderr == result.stderr
    assert re.fullmatch(r"To resume: flowdebate runs answer \w{8}\n", watched.stderr)


def test_watching_a_failed_run_fails() -> None:
    with Stage(verdict={"winner": 5}) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "1", "--on-failure", "fail"))
        failed = run_command("runs", "watch", "--last")
    run_command("debate", "Should we cap rents?", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    unreached = run_command("runs", "watch", "--last")
    assert failed.exit_code == unreached.exit_code == 1
    assert "the answer does not match its schema" in failed.stderr
    assert "Failed after 2 complete arguments." in failed.stdout
    assert "Failed after 0 complete arguments." in unreached.stdout
    assert unreached.stderr.startswith("Error: ")


def test_json_output_has_one_event_per_line() -> None:
    with Stage(turns=(("Homes \x9b31m\u202e", "first."), ("Build ", "more.")), hold=(2, 0)) as on:
        with start_on_pipes(*on.options(*SIDES)) as process:
            on.wait_for_turn(3)
            with start_on_pipes("runs", "watch", "--last", "--json") as watching:
                assert watching.stdout is not None
                first = watching.stdout.readline()
                on.let_go()
                live = [json.loads(line) for line in (first, *watching.stdout)]
            process.wait(PATIENCE)
        second = run_command("runs", "watch", "--last", "--json")
    events = [json.loads(line) for line in second.stdout.splitlines()]
    assert [events[0]["kind"], events[-1]["kind"]] == ["run_started", "run_finished"]
    assert events[-1]["status"] == "complete"
    assert not re.search("[\x80-\x9f\u202e]", second.stdout)
    assert "Homes \x9b31m\u202efirst." in [event.get("output") for event in events]
    assert [event for event in live if event["kind"] != "call_started"] == events
    assert "call_started" in [event["kind"] for event in live]


async def _program_block(value: str, ctx: Context, /) -> str:
    """Return text from a step with a side effect, as a block in another program would."""
    text: str = await ctx.step(_make_text)
    if value.startswith("fail"):
        raise ValueError(value)
    return text + value


async def _make_text() -> str:
    return "\x1b[2Jmade "


def test_runs_from_other_programs_are_shown_step_by_step(store: Path) -> None:
    block = handler(_program_block, name="mine")
    asyncio.run(block.run("Cap \x1b[2J rents?", store=store, run_id="my-run"))
    with pytest.raises(ValueError, match="fail"):
        asyncio.run(block.run("fail now", store=store, run_id="failing"))
    page, failing, quiet = (
        run_command("runs", "watch", "my-run"),
        run_command("runs", "watch", "failing"),
        run_command("runs", "watch", "my-run", "-q"),
    )
    assert (page.exit_code, failing.exit_code, quiet.exit_code) == (0, 1, 0)
    reason = "Run my-run was started by a program, and this command does not know its patterns"
    assert page.stderr == f"{reason}; watch shows its steps and its status\n"
    for part in ("mine#step", "\n  \\x1b[2Jmade ", "Outcome\n  complete"):
        assert part in page.stdout, page.stdout
    assert "mine#step" not in quiet.stdout
    assert "await block.resume('failing') in Python, where its block is built" in failing.stderr
    lines = [json.loads(line) for line in run_command("runs", "watch", "my-run", "--json").stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["step", "status"]
    assert (lines[0]["step"]["text"], lines[1]["status"]) == ("\x1b[2Jmade ", "complete")
    assert "\x1b" not in page.stdout + page.stderr + failing.stdout + failing.stderr
    assert run_command("runs", "watch", "my-run", "--markdown", str(store.parent / "x.md")).exit_code == 2


def test_misuse_prints_one_message(store: Path) -> None:
    with Stage() as on:
        run_id = run_to_limit(on)
    cases: dict[tuple[str, ...], str] = {
        (): "Say which run: flowdebate runs watch RUN, or --last.",
        (run_id, "--last"): "A run ID cannot be combined with --last.",
        ("nobody",): "there is no run nobody",
        (run_id, "--markdown", str(store.parent)): "is a folder",
    }
    for arguments, words in cases.items():
        result: Any = run_command("runs", "watch", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
