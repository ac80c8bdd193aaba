"""`flowdebate eval audit`: audits, their output and errors, and rejudging stored debates."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.evaluation.audit_report import LIMITS
from flowdebate.evaluation.readers import cast_vote

from .stage import PATIENCE, Stage
from .test_stored import copy_run, newest_run, use_store

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from flowdebate.store.sqlite.store import SqliteStore

SIDES = ("--debater", "pro=yes", "--debater", "con=no")
SCORES = {"reasoning": "It answered.", "scores": {"yes": 80, "no": 20}, "verdict": "Yes."}


def run_command(*arguments: str, stdin: str | None = None) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)


def run_audit(*arguments: str) -> dict[str, Any]:
    """Return the output of `audit --json`."""
    result = run_command("eval", "audit", *arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def format_row(*ballots: tuple[str, str | None], **more: object) -> str:
    """Return one line of a data set with ballots given as (order, winner)."""
    cast = [{"order": list(order), "winner": winner, **more} for order, winner in ballots]
    return json.dumps({"ballots": cast}) + "\n"


@pytest.fixture
def write_data(tmp_path: Path) -> Path:
    """Write 60 items, each judged in both orders by a judge that picks the first slot in 50 of them."""
    path = tmp_path / "ballots.jsonl"
    biased, fair = (
        format_row(("ab", "a"), ("ba", "b"), model="m$x$"),
        format_row(("ab", "a"), ("ba", "a"), model="m$x$"),
    )
    path.write_text(biased * 50 + fair * 10)
    return path


def run_debate(on: Stage, *more: str) -> str:
    """Run and store a debate, and return its id."""
    result = run_command(*on.options(*SIDES, "--max-rounds", "1", "--json", *more))
    assert result.exit_code == 0
    return str(json.loads(result.stdout)["runId"])


def test_data_set_yields_a_table_and_findings(write_data: Path) -> None:
    result = run_command("eval", "audit", "--data", str(write_data))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Audit of 120 ballots on 60 items\n\nJUDGE  FIGURE")
    rows = [row.split("  ") for row in result.stdout.splitlines()[3:9]]
    assert [[cell.strip() for cell in row if cell][1:3] for row in rows] == [
        ["slot 1 of 2", "92%"],
        ["slot 2 of 2", "8%"],
        ["position consistency (PC)", "0.17"],
        ["preference fairness (PF)", "-0.83"],
        ["flip probability", "0.83"],
        ["unparsed answers", "0%"],
    ]
    assert "- favors the first slot: 110 of 120 (92%, 95% CI " in result.stdout
    assert result.stdout.endswith(f"- {LIMITS}\n")


def test_json_output_is_deterministic(write_data: Path) -> None:
    first = run_audit("--data", str(write_data), "--seed", "3")
    assert first["audit"]["seed"] == 3
    assert first["audit"]["positionConsistency"]["n"] == 60
    assert first["findings"][-1] == LIMITS
    second = run_command("eval", "audit", "--data", "-", "--seed", "3", "--json", stdin=write_data.read_text())
    assert json.loads(second.stdout) == first


def test_model_names_are_printed_safely(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    path.write_text(format_row(("ab", "a"), model="m") + format_row(("ba", None), model="\x1b[31mn", problem="no JSON"))
    result = run_command("eval", "audit", "--data", str(path))
    assert (result.exit_code, "\x1b" in result.stdout) == (0, False)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "has no items"),
        ("{", "line 1: not valid JSON"),
        (format_row(("ab", "a")) + "\n[]", "line 3: expected an object (got [])"),
        ('{"ballots": NaN}', "line 1: not valid JSON: NaN is not a valid JSON number"),
        ('{"ballots": [{"order": 1}]}', "line 1: `ballots.0.order` must be a list"),
        ("[" * 100_000, "line 1: nested too deeply"),
    ],
    ids=["empty", "no JSON", "a list", "NaN", "no order", "deep"],
)
def test_invalid_data_set_is_rejected(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    result = run_command("eval", "audit", "--data", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}: {problem}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--data", "x", "abcd"), "RUN cannot be combined with --data"),
        (("--data", "x", "--pattern", "debate"), "--pattern cannot be combined with --data"),
        (("abcd", "--limit", "3"), "--limit cannot be combined with RUN"),
        (("--status", "done"), "--status must be queued, running, "),
        (("--limit", "0"), "--limit must be at least 1 (got 0)"),
        (("--seed", "-1"), "--seed must be at least 0 (got -1)"),
        (("--data", " "), "--data must be the path of a file"),
        (("--schedule", "cyclic"), "--schedule requires --rejudge"),
        (("--answer-form", "letter"), "--answer-form requires --rejudge"),
        (
            ("--rejudge", "--answer-form", "winner"),
            "--answer-form must be scores, letter",
        ),
        (("--model", "local"), "--model requires --rejudge"),
        (("--rejudge", "--data", "x"), "--rejudge cannot be combined with --data"),
        (("--rejudge", "--schedule", "all"), "--schedule must be "),
        (("--rejudge", "--repeat", "0"), "--repeat must be at least 1 (got 0)"),
        (("--rejudge", "--model", " "), "--model must be a model name"),
        (("--rejudge", "--base-url", "http://127.0.0.1:9/v1"), "--model is required with --base-url: specify a model"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_invalid_option_combinations_are_rejected(arguments: tuple[str, ...], problem: str) -> None:
    result = run_command("eval", "audit", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_stored_runs_are_audited(store: Path) -> None:
    """Only runs with ballots are audited; the command reports how many have none, and why."""
    with Stage(turns=(("One.",), ("Two.",), ("Three.",), ("Four.",))) as on:
        first, second = run_debate(on), run_debate(on)
    last = newest_run(store)
    assert last.outcome is not None
    raw = last.outcome["raw"]
    verdict = {key: value for key, value in raw["verdict"].items() if key != "judging"}
    broken = {**verdict, "judging": {"ballots": 7}}
    copy_run(store, "old", outcome={**last.outcome, "raw": {**raw, "verdict": verdict}})
    copy_run(store, "bad", like=last, outcome={**last.outcome, "raw": {**raw, "verdict": broken}})
    copy_run(store, "other", like=last, outcome={**last.outcome, "raw": None})
    copy_run(store, "open", like=last, outcome=None, status="running")
    report = run_audit()
    assert (report["audit"]["items"], report["audit"]["ballots"], report["audit"]["undecided"]) == (2, 2, 2)
    assert report["leftOut"] == {
        "not over yet": 1,
        "judged by a person or a custom judge, without ballots": 1,
        "ballots that cannot be read": 1,
        "no verdict by a judge": 1,
    }
    assert "Not counted: 1 run, not over yet\n" in run_command("eval", "audit").stdout
    assert run_audit(first, second[:8], first)["audit"]["items"] == 2
    assert run_audit("--limit", "5")["audit"]["items"] == 1
    assert run_audit("--text", "rents", "--pattern", "debate", "--status", "complete")["leftOut"].keys() != set()
    assert run_command("eval", "audit", "--text", "nothing like it").exit_code == 3
    assert run_command("eval", "audit", "nothing").exit_code == 2


def test_reader_votes_are_compared_with_the_judge(store: Path) -> None:
    """If there are no reader votes, the comparison is left out of the table, the findings and the document."""
    with Stage(turns=(("One.",), ("Two.",), ("Three.",), ("Four.",))) as on:
        run_id = run_debate(on)
    assert "readers" not in run_audit()
    run = newest_run(store)
    assert run.outcome is not None
    won = {**run.outcome["raw"], "verdict": {**run.outcome["raw"]["verdict"], "winner": "yes"}}
    copy_run(store, "won", outcome={**run.outcome, "raw": won})

    async def vote(store: SqliteStore) -> None:
        for number, winner in enumerate(("yes", "yes", "no")):
            await cast_vote(store, await store.run("won"), f"reader-{number}", winner)
        await cast_vote(store, await store.run(run_id), "reader-0", None)

    use_store(store, vote)
    readers = run_audit()["readers"]
    assert (readers["debates"], readers["undecided"], readers["votes"], readers["same"]) == (2, 1, 4, 3)
    assert (readers["agreement"]["value"], readers["agreement"]["n"]) == (1.0, 1)
    page = run_command("eval", "audit").stdout
    assert "agreement with readers" in page
    assert "too few to tell: in 1 of 1 debate most readers voted as the judge" in " ".join(page.split())


def test_stored_debate_is_rejudged_and_paid_for_once() -> None:
    with Stage(answers={"scores": SCORES}) as on:
        run_id = run_debate(on)
        calls = len(on.bodies)
        options = ("--rejudge", "--base-url", on.base_url, "--model", "staged", "--schedule", "swap", "--repeat", "2")
        report = run_audit(run_id, *options)
        assert len(on.bodies) == calls + 4
        assert run_audit(run_id, *options) == report
        assert len(on.bodies) == calls + 4
        on.answers = {"scores": {**SCORES, "scores": {"A": 80, "B": 20}}}
        panel = run_audit(run_id, *options[:5], "--model", "other", "--labels", "--schedule", "single")
        assert len(on.bodies) == calls + 6
    assert (report["audit"]["items"], report["audit"]["ballots"]) == (1, 4)
    assert report["audit"]["positionConsistency"]["value"] == 1
    assert report["audit"]["repetitionStability"]["n"] == 2
    assert set(panel["audit"]["models"]) == {"other", "staged"}
    assert [place["wins"] for place in panel["audit"]["labels"][0]["places"]] == [2, 0]
    complete = run_audit()
    assert (complete["audit"]["items"], complete["audit"]["ballots"]) == (1, 1 + 4 + 2)


def test_stored_debate_can_be_rejudged_by_letter() -> None:
    with Stage(answers={"scores": SCORES}, letters=lambda _: {"A": -0.2, "B": -1.7}) as on:
        run_id = run_debate(on)
        options = (run_id, "--rejudge", "--base-url", on.base_url, "--model", "staged", "--answer-form", "letter")
        report = run_audit(*options)
        calls = len(on.bodies)
        page = run_command("eval", "audit", *options).stdout
        assert len(on.bodies) == calls
        assert run_audit(*options[:-2])["audit"]["slotLogOdds"] is None
    assert report["audit"]["ballots"] == 2
    assert report["audit"]["slotLogOdds"]["value"] == pytest.approx(1.5)
    assert "first slot ahead, log-odds" in page
    assert "by letter, the first slot is ahead by 1.50" in page


def test_rejudging_keeps_the_answer_form_of_the_stored_run() -> None:
    with Stage(answers={"scores": SCORES}, letters=lambda _: {"A": -0.2, "B": -1.7}) as on:
        run_id = run_debate(on, "--answer-form", "letter")
        options = (run_id, "--rejudge", "--base-url", on.base_url, "--model", "staged")
        repeated, single = run_audit(*options), run_audit(*options, "--schedule", "single")
    assert repeated["audit"]["slotLogOdds"]["value"] == pytest.approx(1.5)
    assert (repeated["audit"]["ballots"], single["audit"]["ballots"]) == (2, 1)


def test_interrupted_audit_shows_how_to_continue() -> None:
    before = signal.getsignal(signal.SIGINT)
    ended, first = threading.Event(), threading.Lock()

    def interrupt(_: str) -> dict[str, Any]:
        # ballots are requested concurrently, and a second signal would end the process
        if first.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)
        ended.wait(PATIENCE)
        return SCORES

    with Stage(answers={"scores": interrupt}) as on:
        run_id = run_debate(on)
        result = run_command("eval", "audit", run_id, "--rejudge", "--base-url", on.base_url, "--model", "staged")
        ended.set()
    signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "Interrupted. To continue: the same command\n"


def test_unjudgeable_runs_are_reported(store: Path) -> None:
    with Stage(answers={"scores": SCORES}) as on:
        run_id = run_debate(on)
        outcome = newest_run(store).outcome
        copy_run(store, "other", outcome={**(outcome or {}), "raw": None})
        options = ("--rejudge", "--base-url", on.base_url, "--model", "staged", "--json")
        report = json.loads(run_command("eval", "audit", *options).stdout)
    keyless = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}
    failed = CliRunner().invoke(
        app, ["eval", "audit", run_id, "--rejudge", "--model", "openai/gpt-5-mini"], env=keyless
    )
    assert report["leftOut"] == {"has no transcript of a debate between two sides": 1}
    assert report["audit"]["ballots"] == 2
    assert failed.exit_code == 1
    assert f"Run {run_id} could not be judged again: AuthenticationFailed: " in failed.stderr
    assert failed.stdout == "Audit of 0 ballots on 0 items\n"
    assert run_command("eval", "audit", "other", *options).exit_code == 3
