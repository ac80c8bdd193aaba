"""`--run-id` and `--resume`: a command that can be killed and repeated without paying twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app

from .siblings import serve_stage
from .stage import PATIENCE, Stage, start_on_pipes
from .test_run import SIDES
from .test_sides import ASKED, PROPOSED
from .test_stored import ALL, newest_run, run_command

if TYPE_CHECKING:
    from pathlib import Path

SAID = (("Homes ", "first."), ("Build ", "more."))
NAMED = ("--run-id", "rents", "--resume")


@pytest.mark.parametrize("verb", ALL)
def test_repeating_a_command_starts_resumes_and_shows_a_run(verb: str, store: Path) -> None:
    """For every pattern, the command first starts the run and then resumes it.

    Finally, it shows the result without making any calls.
    """
    options = (*ALL[verb][1], "--seed", "5", *NAMED, "--json")
    with serve_stage() as on:
        result = run_command(*on.options(*ALL[verb][1], "--seed", "5", "--no-store", verb=verb))
        calls = len(on.bodies)
    with serve_stage() as on:
        line = on.options(*options, verb=verb)
        early = run_command(*line, "--max-calls", "1")
        later, last = run_command(*line, "--max-calls", "99"), run_command(*line)
        assert len(on.bodies) == calls
    assert early.exit_code == 3
    assert later.exit_code == last.exit_code == result.exit_code
    documents = [json.loads(run.stdout) for run in (later, last)]
    assert documents[0]["runId"] == newest_run(store).header.run_id == "rents"
    assert documents[0]["raw"] == documents[1]["raw"]


def test_plan_file_can_set_run_id_and_labels(tmp_path: Path) -> None:
    with Stage(turns=SAID) as on:
        plan = tmp_path / "plan.toml"
        asks = f'question = "Should we ship?"\nmodel = "staged"\nbase_url = "{on.base_url}"'
        plan.write_text(f'pattern = "debate"\nmax_rounds = 1\n{asks}\n')
        first, second = (run_command("run", str(plan), *NAMED, "--json") for _ in range(2))
        assert len(on.bodies) == json.loads(first.stdout)["usage"]["calls"]
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert json.loads(second.stdout)["runId"] == "rents"


def test_run_can_be_found_by_its_labels() -> None:
    with Stage(turns=SAID) as on:
        line = on.options(*SIDES, "--max-rounds", "1")
        assert run_command(*line, "--label", "team=red", "--label", "topic=rents=1").exit_code == 0
        calls = len(on.bodies)
        wrong, nowhere = run_command(*line, "--label", "red"), run_command(*line, "--label", "team=red", "--no-store")
        assert len(on.bodies) == calls
    listings = [
        json.loads(run_command("runs", "--label", label, "--json").stdout) for label in ("team=red", "team=blue")
    ]
    assert [len(listing["runs"] if isinstance(listing, dict) else listing) for listing in listings] == [1, 0]
    assert (wrong.exit_code, "NAME=VALUE, such as" in wrong.stderr) == (2, True)
    assert "--label cannot be combined with --no-store" in nowhere.stderr


def test_run_id_conflicts_are_rejected() -> None:
    with Stage(turns=SAID) as on:
        line = on.options(*SIDES, "--max-rounds", "1")
        assert run_command(*line, "--run-id", "rents").exit_code == 0
        calls = len(on.bodies)
        result = run_command(*line, "--run-id", "rents")
        other = run_command(*[line[0], "Free rents?", *line[2:]], *NAMED)
        alone = run_command(*line, "--resume")
        nowhere = run_command(*line, *NAMED, "--no-store")
        assert len(on.bodies) == calls
    assert (result.exit_code, other.exit_code, alone.exit_code, nowhere.exit_code) == (2, 2, 2, 2)
    assert "Run rents already exists. To continue it, add --resume.\n" in result.stderr
    assert "run rents was started with different options" in other.stderr
    assert "--resume requires --run-id ID, to say which run to continue.\n" in alone.stderr


def test_proposed_sides_are_paid_for_once() -> None:
    """The proposal is stored alongside the run, so that a repeated command can reuse it."""
    with Stage(answers={"sides": PROPOSED}) as on:
        line = ["debate", ASKED, *on.options("--max-rounds", "1", "--no-synthesizer", *NAMED, "--json")[2:]]
        early = CliRunner().invoke(app, [*line, "--max-calls", "1"])
        later = CliRunner().invoke(app, [*line, "--max-calls", "9"], catch_exceptions=False)
        assert len(on.bodies) == 1 + json.loads(later.stdout)["usage"]["calls"]
    assert (early.exit_code, later.exit_code) == (3, 0)


@pytest.mark.parametrize("ends", ["by itself", "killed"])
def test_command_waits_for_a_run_in_another_process(ends: str, store: Path) -> None:
    with Stage(turns=SAID, hold=(1, 0)) as on:
        line = on.options(*SIDES, "--max-rounds", "1", *NAMED)
        with start_on_pipes(*line) as first:
            on.wait_for_turn(2)
            with start_on_pipes(*line) as second:
                assert second.stderr is not None
                assert (
                    second.stderr.readline().decode()
                    == "Run rents is being executed by another process; waiting for it …\n"
                )
                if ends == "killed":
                    first.kill()
                on.let_go()
                first.wait(PATIENCE)
                assert second.wait(PATIENCE) == 0
        assert len(on.bodies) == (4 if ends == "killed" else 3)
    assert (newest_run(store).header.run_id, newest_run(store).status) == ("rents", "complete")


def test_fork_can_be_continued_by_its_id() -> None:
    with Stage(turns=SAID) as on:
        run_command(*on.options(*SIDES, "--max-rounds", "1", "--run-id", "rents"))
        calls = len(on.bodies)
        line = ("runs", "fork", "rents", "--at", "round[1]/pro", "--fork-id", "rents-2", "--resume", "--json")
        early = run_command(*line, "--max-calls", "1")
        first, second = run_command(*line, "--max-calls", "99"), run_command(*line)
        assert len(on.bodies) - calls == 3
        other = run_command(*line[:4], "round[1]/con", *line[5:])
        assert len(on.bodies) - calls == 3
    assert [result.exit_code for result in (early, first, second, other)] == [3, 0, 0, 1]
    assert json.loads(first.stdout)["raw"] == json.loads(second.stdout)["raw"]
    assert "run rents-2 already exists" in other.stderr
