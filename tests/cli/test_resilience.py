"""Behavior of the command when a server fails or a limit is reached."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app

from .stage import Stage
from .test_run import SIDES, run_command

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


def list_arguments(result: Result) -> list[str]:
    """Return the arguments made in a document."""
    return [entry["text"] for entry in json.loads(result.stdout)["raw"]["transcript"]]


def test_failed_call_is_retried_and_reported() -> None:
    with Stage(broken={0}) as stage:
        plain = run_command(stage, *SIDES, "--max-rounds", "1")
        posts = len(stage.bodies)
    assert plain.exit_code == 0
    assert posts == 4
    assert "(the endpoint answered 503: overloaded; asking again)" in plain.stdout
    assert "Calls: 4" in plain.stdout


def test_single_attempt_sends_one_request() -> None:
    """With `--attempts 1`, the command fails on the first error."""
    with Stage(broken={0}) as stage:
        result = run_command(stage, *SIDES, "--max-rounds", "1", "--attempts", "1", "--json")
        posts = len(stage.bodies)
    assert (result.exit_code, posts) == (1, 1)
    assert "503" in result.stderr
    assert json.loads(result.stdout)["status"] == "failed"


def test_debate_can_continue_without_a_failed_turn(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    options = (*SIDES, "--max-rounds", "2", "--attempts", "1", "--on-failure", "skip")
    with Stage(broken={2}) as stage:
        failed = run_command(stage, *options)
    assert failed.exit_code == 1
    assert 'only "free rents" answered in round 2, but the quorum is 2' in failed.stderr
    sides = (*SIDES, "--debater", "third=tax rents")
    with Stage(broken={4}, turns=(("One.",),)) as stage:
        result = run_command(stage, *sides, *options[4:], "--json", "--markdown", str(report))
    with Stage(broken={4}, turns=(("One.",),)) as stage:
        plain = run_command(stage, *sides, *options[4:])
    assert (result.exit_code, plain.exit_code) == (0, 0)
    document = json.loads(result.stdout)
    (loss,) = document["raw"]["losses"]
    assert (document["status"], loss["role"], loss["name"], loss["round"]) == ("degraded", "debater", "con", 2)
    assert len(list_arguments(result)) == 5
    second = CliRunner().invoke(app, ["runs", "render", "-"], input=result.stdout)
    for page in (plain.stdout, second.stdout):
        assert "Debater con failed: " in page
        assert "the turn is skipped" in page.replace("\n    ", " ")
        assert "Ended with gaps, after 5 complete arguments." in page
    assert "*Debater con failed*" in report.read_text()


def test_failed_judge_leaves_a_debate_without_a_verdict() -> None:
    """Exit code 3 tells scripts that there is no verdict."""
    with Stage(broken={2}) as stage:
        result = run_command(stage, *SIDES, "--max-rounds", "1", "--attempts", "1", "--on-failure", "skip", "--json")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert (document["status"], document["raw"]["verdict"]) == ("no_verdict", None)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (("--max-calls", "1"), "calls=1"),
        (("--max-tokens", "10"), "tokens=10"),
        (("--max-seconds", "0.4"), "seconds=0.4"),
    ],
    ids=lambda value: str(value[0]),
)
def test_limit_ends_the_debate_with_a_partial_result(limit: tuple[str, str], message: str) -> None:
    with Stage(hold=(1, 0)) as stage:
        result = run_command(stage, *SIDES, "--max-rounds", "1", *limit, "--json")
    with Stage(hold=(1, 0)) as stage:
        plain = run_command(stage, *SIDES, "--max-rounds", "1", *limit)
    assert (result.exit_code, plain.exit_code) == (3, 3)
    assert result.stderr.startswith("To resume: flowdebate resume ")
    document = json.loads(result.stdout)
    assert (document["status"], document["raw"]["status"]) == ("limit", "limit")
    assert message in document["error"]
    assert "Ended by a limit after " in plain.stdout
    assert message in plain.stdout


def test_fallback_model_is_used_after_a_failure() -> None:
    options = (*SIDES, "--max-rounds", "1", "--attempts", "1", "--fallback", "spare")
    with Stage(broken={0}) as stage:
        result = run_command(stage, *options, "--json")
        models = [body["model"] for body in stage.bodies]
    with Stage(broken={0}) as stage:
        plain = run_command(stage, *options)
    assert (result.exit_code, plain.exit_code) == (0, 0)
    assert models == ["staged", "spare", "staged", "staged"]
    assert list_arguments(result) == ["fine", "Homes first."]
    assert "(staged failed: the endpoint answered 503: overloaded; asking spare)" in plain.stdout


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--max-calls", "0"), "--max-calls"),
        (("--max-seconds", "-1"), "--max-seconds"),
        (("--attempts", "0"), "--attempts"),
        (("--on-failure", "ignore"), "--on-failure"),
        (("--fallback", " "), "--fallback"),
        (("--record", "a", "--replay", "b"), "--replay"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_meaningless_options_are_reported_in_one_message(options: tuple[str, ...], field: str) -> None:
    with Stage() as stage:
        result = run_command(stage, *SIDES, *options)
        assert stage.bodies == []
    assert result.exit_code == 2
    assert field in " ".join(result.stderr.split()).split(" ", 1)[1]
    assert "`" not in result.stderr


def test_plan_file_can_set_the_same_options(tmp_path: Path) -> None:
    file = tmp_path / "debate.toml"
    settings: dict[str, Any] = {
        "max_calls": 1,
        "attempts": 1,
        "on_failure": '"skip"',
        "fallback": '["x"]',
        "max_tokens": 9,
    }
    file.write_text("\n".join(f"{key} = {value}" for key, value in settings.items()))
    with Stage() as stage:
        result = run_command(stage, *SIDES, "--file", str(file), "--json")
    assert result.exit_code == 3
    file.write_text("max_seconds = true")
    with Stage() as stage:
        wrong = run_command(stage, *SIDES, "--file", str(file))
    assert wrong.exit_code == 2
    assert f"{file}: `max_seconds` must be a number greater than 0 (got true)" in wrong.stderr


def test_stop_condition_ends_a_debate_normally(tmp_path: Path) -> None:
    condition = "tokens(1000000) | rounds(2) & ~seconds(1000)"
    file = tmp_path / "debate.toml"
    file.write_text(f'terminate_when = "{condition}"')
    for options in (("--terminate-when", condition), ("--file", str(file))):
        with Stage() as stage:
            result = run_command(stage, *SIDES, "--max-rounds", "4", *options, "--json")
        document = json.loads(result.stdout)
        assert (result.exit_code, document["status"]) == (0, "complete")
        assert (document["raw"]["rounds"], document["raw"]["stopReason"]) == (2, "rounds(2) & ~seconds(1000)")
        assert document["raw"]["verdict"]["verdict"] == "Both are right."
    report = tmp_path / "report.md"
    with Stage() as stage:
        run_command(stage, *SIDES, "--max-rounds", "4", "--terminate-when", "rounds(1)", "--markdown", str(report))
    assert r"Rounds: 1, stopped by rounds(1)" in report.read_text().replace("\\", "")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("rounds(2) | secnds(9)", "contains an unknown condition at character 13 (Did you mean seconds?"),
        ("rounds(0)", "has an invalid argument in rounds(…) at character 8"),
        (
            'flag("enough")',
            "contains an unknown condition at character 1",
        ),  # flags can be set only in Python code, so the command does not offer this condition
    ],
)
def test_invalid_stop_condition_is_rejected_before_any_call(tmp_path: Path, condition: str, message: str) -> None:
    file = tmp_path / "debate.toml"
    file.write_text(f"terminate_when = '{condition}'")
    for place, options in (
        ("--terminate-when", ("--terminate-when", condition)),
        (f"{file}: `terminate_when`", ("--file", str(file))),
    ):
        with Stage() as stage:
            result = run_command(stage, *SIDES, *options)
        assert (result.exit_code, stage.bodies) == (2, [])
        assert f"{place} {message}" in result.stderr


def test_recorded_debate_is_replayed_without_a_server(tmp_path: Path) -> None:
    cassette = tmp_path / "debate.cassette"
    options = (*SIDES, "--seed", "3", "--moderator", "--json", "--schedule", "single")
    with Stage() as stage:
        first = run_command(stage, *options, "--record", str(cassette))
        posts = len(stage.bodies)
    replayed = CliRunner().invoke(app, ["debate", "Cap rents?", *options, "--replay", str(cassette)])
    assert (first.exit_code, replayed.exit_code, posts) == (0, 0, 4)
    one, other = json.loads(first.stdout), json.loads(replayed.stdout)
    assert one["raw"] == other["raw"]
    assert one["usage"] == other["usage"]


def test_replay_with_a_different_request_fails(tmp_path: Path) -> None:
    """The error shows how the requests differ. Recording to an existing file is rejected."""
    cassette = tmp_path / "debate.cassette"
    with Stage() as stage:
        assert run_command(stage, *SIDES, "--max-rounds", "1", "--record", str(cassette)).exit_code == 0
        result = run_command(stage, *SIDES, "--max-rounds", "1", "--record", str(cassette))
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    drifted = CliRunner().invoke(app, ["debate", "Free rents?", *SIDES, "--max-rounds", "1", "--replay", str(cassette)])
    assert drifted.exit_code == 1
    assert "Free rents?" in drifted.stderr
    missing = CliRunner().invoke(app, ["debate", "Q?", "--replay", str(tmp_path / "none")])
    assert missing.exit_code == 2


def test_recording_includes_the_models_of_all_roles(tmp_path: Path) -> None:
    cassette = tmp_path / "debate.cassette"
    with Stage() as stage:
        result = run_command(
            stage, *SIDES, "--max-rounds", "1", "--model", "synthesize=staged", "--record", str(cassette)
        )
    assert result.exit_code == 0
    assert len(cassette.read_text().splitlines()) == 1 + 3
