"""Stored runs of the command: resumed after any interruption, listed, shown, deleted and moved."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flowdebate import handler
from flowdebate.cli.app import app
from flowdebate.store.sqlite.store import SqliteStore
from tests.processes import start_process

from .siblings import VERBS, serve_stage
from .stage import PATIENCE, OnTerminal, Stage, start_on_pipes
from .test_run import SIDES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from typer.testing import Result

    from flowdebate.runs.context import Context
    from flowdebate.store.base import StoredRun

ALL = {"debate": ("debate", (*SIDES, "--moderator")), **VERBS}
TOGETHER = {"consensus": 3, "deliberation": 3}
"""Number of calls that a pattern makes simultaneously, also used as its call limit. If a limit were reached in the
middle of them, the calls in flight would be abandoned, and resuming the run would repeat them.
"""
ONE_TURN = (("Homes ", "first."),)


def run_command(*arguments: str, stdin: bytes | None = None) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)


def use_store(path: Path, work: Callable[[SqliteStore], Awaitable[Any]]) -> Any:
    """Return the result of `work` on the store at `path`, opened as another process would open it."""

    async def act() -> Any:
        store = SqliteStore(path)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(act())


def newest_run(path: Path) -> StoredRun:
    """Return the newest run."""
    run: StoredRun = use_store(path, lambda store: store.runs(limit=1))[0]
    return run


def strip_times(value: Any) -> Any:
    """Return a document without times and ids."""
    if isinstance(value, dict):
        return {key: strip_times(entry) for key, entry in value.items() if key not in ("seconds", "runId")}
    return [strip_times(entry) for entry in value] if isinstance(value, list) else value


def copy_run(
    path: Path, run_id: str, *, like: StoredRun | None = None, header: dict[str, Any] | None = None, **run: Any
) -> None:
    """Store a changed copy of a run, by default the newest one."""
    like = newest_run(path) if like is None else like

    async def add(store: SqliteStore) -> None:
        other = replace(like, header=replace(like.header, run_id=run_id, **(header or {})), **run)
        await store.add(other, await store.steps(like.header.run_id))

    use_store(path, add)


def run_to_limit(on: Stage, *more: str) -> str:
    """Run a debate that reaches a limit after one argument, and return its id."""
    result = run_command(*on.options(*SIDES, "--max-rounds", "1", "--max-calls", "1", "--json", *more))
    assert result.exit_code == 3
    return str(json.loads(result.stdout)["runId"])


def store_template(on: Stage, path: Path) -> StoredRun:
    """Store a debate that ended at a limit, to be used as a template for copies."""
    run_to_limit(on)
    return newest_run(path)


def test_resuming_a_killed_run_gives_the_same_result(store: Path) -> None:
    """SIGKILL arrives during a call.

    Answers received before it are not requested again, and the document equals that of an uninterrupted run.
    """
    options = (*SIDES, "--max-rounds", "2", "--seed", "7")
    with Stage(turns=ONE_TURN) as on:
        uninterrupted = run_command(*on.options(*options, "--json", "--no-store"))
        calls = len(on.bodies)
    with Stage(turns=ONE_TURN, hold=(2, 0)) as on:
        with start_on_pipes(*on.options(*options)) as process:
            on.wait_for_turn(3)
            process.kill()
            process.wait(PATIENCE)
        table = run_command("runs", "--status", "left_behind")
        page = run_command("show", newest_run(store).header.run_id, "--page")
        raising = run_command("resume", "--last", "--on-uncertain", "raise")
        assert len(on.bodies) == 3
        result = run_command("resume", "--last", "--base-url", on.base_url, "--json")
        assert len(on.bodies) == calls + 1
    assert re.search(r"just now +debate +left behind +2 +Cap rents\?", table.stdout)
    assert "Interrupted after 2 complete arguments." in page.stdout
    assert raising.exit_code == 1
    assert "--on-uncertain retry would make the call again" in raising.stderr
    assert (result.exit_code, result.stderr) == (0, "")
    assert strip_times(json.loads(result.stdout)) == strip_times(json.loads(uninterrupted.stdout))
    assert json.loads(result.stdout)["runId"] == newest_run(store).header.run_id


@pytest.mark.parametrize("verb", ALL)
def test_each_command_can_be_resumed_from_its_stored_plan(verb: str, tmp_path: Path) -> None:
    options = (*ALL[verb][1], "--seed", "5")
    if verb == "consensus":  # without a store, a consensus debate has no archive
        options = (*options, "--no-archive")
    reports = tmp_path / "whole.md", tmp_path / "carried-on.md"
    with serve_stage() as on:
        uninterrupted = run_command(
            *on.options(*options, "--json", "--no-store", "--markdown", str(reports[0]), verb=verb)
        )
        calls = len(on.bodies)
    with serve_stage() as on:
        early = run_command(*on.options(*options, "--max-calls", str(TOGETHER.get(verb, 2)), verb=verb))
        assert len(on.bodies) == TOGETHER.get(verb, 2)
        hint = re.search(r"flowdebate resume (\w{8}) --max-calls N", early.stderr)
        assert hint is not None
        assert f"\nRun: {hint[1]}" in early.stdout
        more = ("--max-calls", "99", "--json", "--markdown", str(reports[1]))
        result = run_command("resume", hint[1], *more)
        second_time = run_command("resume", hint[1], "--max-calls", "99")
        assert len(on.bodies) == calls
    assert (early.exit_code, result.exit_code, result.stderr) == (3, uninterrupted.exit_code, "")
    first, second = (strip_times(json.loads(document.stdout)) for document in (uninterrupted, result))
    assert first == second
    texts = [re.sub(r"- (Time|Run): .*\n", "", report.read_text()) for report in reports]
    assert texts[0] == texts[1]
    rendered = run_command("runs", "render", "-", stdin=result.stdout_bytes).stdout
    assert sorted(_lines(second_time.stdout)) == sorted(_lines(rendered))
    page = run_command("show", hint[1], "--page")
    assert sorted(_lines(page.stdout)) == sorted(_lines(rendered))


def _lines(page: str) -> list[str]:
    """Return the lines of a page, except for times and lines that only a live run has."""
    page = re.sub(r"Time: .*? s| · flowdebate show \w+|^Model: .*", "", page)
    return [line for line in page.splitlines() if line]


def test_stored_plan_includes_the_contents_of_its_files(tmp_path: Path, store: Path) -> None:
    """The schema and the plan file may be changed or deleted after the run has started.

    Resuming the run does not add to its recording.
    """
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
    (tmp_path / "answer.json").write_text(json.dumps(schema))
    plan = tmp_path / "plan.toml"
    plan.write_text('question = "Should we cap rents?"\noutput_schema = "answer.json"\nmax_rounds = 1\n')
    cassette = tmp_path / "cassette"
    options = ("--model", "staged", "--max-calls", "2", "--file", str(plan), "--record", str(cassette))
    with Stage() as on:
        run_command("debate", "--base-url", on.base_url, *options)
        recorded = cassette.read_text()
        plan.unlink()
        (tmp_path / "answer.json").unlink()
        result = run_command("resume", "--last", "--max-calls", "9", "--json")
    assert (result.exit_code, json.loads(result.stdout)["output"]) == (0, {"answer": 42})
    assert result.stderr.startswith(f"Warning: {cassette} ends where the run was interrupted")
    assert cassette.read_text() == recorded
    assert newest_run(store).status == "complete"


def test_no_secret_is_stored(store: Path) -> None:
    """Keys are secrets, and so are the password and query of a base URL.

    The user has to pass them again to resume a run.
    """
    with Stage() as on:
        secret = on.base_url.replace("http://", "http://me:geheim@")
        early = run_command("debate", "Should we ship?", "--model", "staged", "--base-url", secret, "--max-calls", "1")
        contents = [path.read_bytes() for path in store.parent.iterdir() if path.is_file()]
        without = run_command("resume", "--last")
        result = run_command("resume", "--last", "--base-url", on.base_url, "--max-calls", "9")
    assert early.exit_code == 3
    assert not any(b"geheim" in data for data in contents)
    assert newest_run(store).header.plan is not None
    assert (without.exit_code, result.exit_code) == (2, 0)
    assert "--base-url must be given again: the run's base URL, http://127.0.0.1:" in without.stderr
    assert "geheim" not in without.stderr


def test_ctrl_c_shows_how_to_resume() -> None:
    with Stage(turns=ONE_TURN, hold=(1, 1)) as on, OnTerminal(*on.options(*SIDES)) as terminal:
        terminal.until("Homes first.")
        on.wait_for_turn(2)
        terminal.process.send_signal(2)
        assert terminal.end() == 130
    run_id = re.search(r"Run: (\w{32})", terminal.screen)
    assert run_id is not None
    assert f"To resume: flowdebate resume {run_id[1][:8]}\n" in terminal.screen


def test_store_location_depends_on_option_and_environment(store: Path, tmp_path: Path) -> None:
    """`--store` takes precedence over FLOWDEBATE_STORE, which takes precedence over the user's data directory.

    `--no-store` stores nothing.
    """
    path = tmp_path / "own runs.db"
    with Stage() as on:
        run_id = run_to_limit(on, "--store", str(path))
        result = run_command(*on.options(*SIDES, "--max-rounds", "1", "--max-calls", "1", "--store", str(path)))
        assert not store.exists()
        unkept = run_command(*on.options(*SIDES, "--max-rounds", "1", "--max-calls", "1", "--no-store", "--json"))
        assert not store.exists()
        run_to_limit(on)
        assert store.exists()
        del os.environ["FLOWDEBATE_STORE"]
        run_to_limit(on)
    assert f" --max-calls N --store '{path}'\n" in result.stderr
    assert (unkept.stderr, json.loads(unkept.stdout)["runId"]) == ("", None)
    assert newest_run(store.parent / "flowdebate" / "runs.sqlite3").status == "limit"
    assert run_id in run_command("runs", "--store", str(path), "--json").stdout


def test_unusable_store_fails_before_any_call(tmp_path: Path) -> None:
    """An unusable default store is skipped with a warning, but any other unusable store causes an error."""
    blocked = tmp_path / "file"
    blocked.write_text("no database")
    with Stage() as on:
        for location in (str(blocked), str(blocked / "runs.db"), "postgresql://me:geheim@127.0.0.1:9/x"):
            result = run_command(*on.options("--store", location))
            assert (result.exit_code, result.stdout, len(on.bodies)) == (1, "", 0)
            assert result.stderr.endswith("; to run without a store, add --no-store\n")
            assert "geheim" not in result.stderr
        conflict = run_command(*on.options("--store", "x", "--no-store"))
        assert (conflict.exit_code, len(on.bodies)) == (2, 0)
        del os.environ["FLOWDEBATE_STORE"]
        os.environ["XDG_DATA_HOME"] = str(blocked)
        document = run_command(*on.options(*SIDES, "--max-rounds", "1", "--json"))
    assert document.exit_code == 0
    assert document.stderr.startswith("Warning: the run is not stored: store ")
    assert json.loads(document.stdout)["runId"] is None
    assert blocked.read_text() == "no database"


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs",),
        (
            "eval",
            "leaderboard",
        ),
        (
            "eval",
            "audit",
        ),
        (
            "runs",
            "archive",
        ),
        ("export", "--all"),
        ("runs", "delete", "--status", "failed"),
        *(
            (*words, "--last")
            for words in (["show"], ["runs", "watch"], ["resume"], ["runs", "fork"], ["runs", "share"])
        ),
        ("runs", "report", "--last", "--html", "-"),
        ("runs", "answer", "a1b2"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_mistyped_store_path_creates_no_store(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Commands that read runs would otherwise create an empty store and report "No runs."."""
    location = tmp_path / "typo.db"
    result = run_command(*arguments, "--store", str(location))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: --store does not exist (got {location}).\n"
    assert not location.exists()


async def _program_block(value: str, ctx: Context, /) -> str:
    """Return text from a step, as a block in another program would."""
    text: str = await ctx.step(_make_text)
    return text + value


async def _make_text() -> str:
    return "\x1b[2Jmade "


def test_runs_from_other_programs_are_shown_but_not_resumed(store: Path) -> None:
    block = handler(_program_block, name="mine")
    asyncio.run(block.run("Cap \x1b[2J rents?", store=store, run_id="my-run"))
    table, run_page = run_command("runs"), run_command("show", "my-run")
    resumed, page = run_command("resume", "my-run"), run_command("show", "my-run", "--page")
    assert re.search(r"my-run +just now +mine +complete +1 +Cap \\x1b\[2J rents\?", table.stdout)
    assert "\n  \\x1b[2Jmade " in run_page.stdout
    assert "\x1b" not in table.stdout + run_page.stdout + run_command("runs", "--json").stdout
    assert resumed.exit_code == page.exit_code == 2
    assert "await block.resume('my-run') in Python" in resumed.stderr
    assert newest_run(store).status == "complete"


def test_error_explains_why_a_run_cannot_be_resumed(store: Path) -> None:
    with Stage() as on:
        run_to_limit(on)
        like = newest_run(store)
        changed = {"fingerprint": {**like.header.fingerprint, "outline": "debate\n  → old"}}
        copy_run(store, "changed-1", like=like, header=changed)
        copy_run(store, "dead-1", like=like, status="dead_letter", recoveries=30)
        copy_run(store, "dead-2", like=like)
        posts = len(on.bodies)
        cases = {
            ("resume", "changed-1"): (
                2,
                "outline -  → old",
                "resume it anyway: flowdebate resume changed-1 --allow-changes",
            ),
            ("resume", "dead-1"): (1, "30 times in a row", "resumed with --retry-dead-letter"),
            ("resume", "dead"): (2, "2 run IDs begin with dead: dead-1, dead-2", "Type more"),
            ("resume", "cha"): (2, "the first 4 characters", "cha"),
            ("resume", "nobody"): (2, "there is no run nobody", "flowdebate runs"),
            ("resume", "a\udcffbcd"): (2, "RUN must be the ID of a run", ""),
            ("resume", "dead-2", "--model", "other"): (2, "A different --model", "add --allow-changes"),
            ("resume", "dead-2", "--last"): (2, "A run ID cannot be combined with --last.", "flowdebate runs"),
            ("resume",): (2, "Say which run: flowdebate resume RUN, or --last.", "flowdebate runs"),
            ("resume", "dead-2", "--on-uncertain", "x"): (2, "retry or raise", ""),
        }
        for arguments, (code, *parts) in cases.items():
            result = run_command(*arguments)
            assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1), arguments
            assert all(part in result.stderr for part in parts), result.stderr
        assert len(on.bodies) == posts
        results = [
            run_command("resume", "changed-1", "--allow-changes", "--model", "other", "--max-calls", "9"),
            run_command("resume", "dead-1", "--retry-dead-letter", "--max-calls", "9"),
        ]
        assert [body["model"] for body in on.bodies[posts:]] == ["other", "other", "staged", "staged"]
    assert [result.exit_code for result in results] == [0, 0]


def test_runs_in_progress_are_not_deleted(store: Path) -> None:
    """A run in progress can be neither deleted nor resumed.

    Once its process has died, the run counts as abandoned.
    """
    with Stage() as on:
        run_id = run_to_limit(on)

    async def act() -> tuple[list[Result], Result]:
        owner = SqliteStore(store)
        await owner.take(run_id)
        try:
            tried = [
                ("resume", run_id),
                ("runs", "delete", run_id, "--yes"),
                ("runs", "delete", "--older-than", "0", "--yes"),
            ]
            results = [await asyncio.to_thread(run_command, *arguments) for arguments in tried]
            return results, await asyncio.to_thread(run_command, "runs", "--status", "running")
        finally:
            await owner.close()

    (resumed, deleted, older), table = asyncio.run(act())
    assert (resumed.exit_code, deleted.exit_code, older.stdout) == (1, 1, "Deleted 0 runs.\n")
    assert resumed.stderr == deleted.stderr
    assert "is being run by another process" in resumed.stderr
    assert re.search(r"debate +running +1 +Cap", table.stdout)
    assert "No runs." in run_command("runs", "--status", "running").stdout
    assert "left behind" in run_command("runs").stdout


def test_run_list_can_be_filtered(store: Path) -> None:
    with Stage() as on:
        run_id = run_to_limit(on)
    copy_run(store, "older", header={"created_at": 1e9, "question": "Free rents?"}, status="complete")
    copy_run(store, "other", header={"created_at": 2e9, "block": "panel"}, status="no_verdict")

    def ids(*options: str) -> list[str]:
        return [run["runId"] for run in json.loads(run_command("runs", "--json", *options).stdout)]

    assert ids() == ["other", run_id, "older"]
    assert ids("--status", "complete") == ids("--text", "FREE") == ["older"]
    assert ids("--pattern", "panel") == ["other"]
    assert ids("--limit", "1") == ["other"]
    lines = run_command("runs", "--limit", "2").stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["RUN", "other", run_id[:8]]
    assert lines[-1] == f"Next page: flowdebate runs --limit 2 --before {run_id[:8]}"
    assert "2001-09-09  debate  complete " in run_command("runs").stdout
    for option, value in (("--status", "lost"), ("--limit", "0"), ("--text", " "), ("--pattern", "\udcff")):
        result = run_command("runs", option, value)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Error: {option} must " in result.stderr


def read_all_pages(*options: str) -> list[list[str]]:
    """Return the rows on all pages, using the command printed at the end of each page."""
    pages, arguments = [], ["runs", *options]
    while arguments:
        lines = run_command(*arguments).stdout.splitlines()
        following = next((line for line in lines if line.startswith("Next page: ")), "")
        pages.append([line for line in lines[1:] if not line.startswith(("Next page", "To list the runs of a batch"))])
        arguments = shlex.split(following.removeprefix("Next page: flowdebate "))
    return pages


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
def test_list_shows_the_command_for_the_next_page(store: Path, tmp_path: Path, size: int) -> None:
    with Stage() as on:
        like = store_template(on, store)
    for number, batch in enumerate(("", "b", "a", "", "b", "", "a", "b", "")):
        labels = {"labels": {"batch": f"the {batch}"}} if batch else {}
        copy_run(store, f"run {number}", like=like, header={"created_at": 1e9 + number, **labels})
    elsewhere = tmp_path / "a folder" / "runs.sqlite3"
    for number in range(3):
        header = replace(like.header, run_id=f"r{number}", created_at=1e9 + number)
        use_store(elsewhere, partial(SqliteStore.add, run=replace(like, header=header), steps=[]))
    for options in ((), ("--text", "cap RENTS?"), ("--batch-id", "the b"), ("--store", str(elsewhere))):
        lines = run_command("runs", *options).stdout.splitlines()[1:]
        pages = read_all_pages("--limit", str(size), *options)
        rows = [row for page in pages for row in page]
        assert [" ".join(row.split()) for row in rows] == [
            " ".join(row.split()) for row in lines if not row.startswith("To list the runs of a batch")
        ]
        assert all(len(page) == size for page in pages[:-1])
    assert len(read_all_pages("--limit", str(size))) == -(-7 // size)
    data = [json.loads(run_command("runs", "--json", *more).stdout) for more in ((), ("--before", "run 5"))]
    assert data[1] == data[0][5:]


def test_page_begins_after_the_given_run(store: Path) -> None:
    with Stage() as on:
        like = store_template(on, store)
    copy_run(store, "0123abcd-older", like=like, header={"created_at": 1e9})
    assert "0123abcd" in run_command("runs", "--before", like.header.run_id[:6]).stdout
    assert run_command("runs", "--before", "0123").stdout == "No runs.\n"
    result = run_command("runs", "--before", "nobody")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nobody" in result.stderr


def test_run_is_shown_step_by_step(store: Path) -> None:
    with Stage() as on:
        result = run_command(*on.options(*SIDES, "--max-rounds", "1", "--json"))
        run_id = json.loads(result.stdout)["runId"]
        calls = len(on.bodies)
        page = run_command("show", run_id[:6])
        data = json.loads(run_command("show", run_id, "--json").stdout)
        document = json.loads(run_command("show", run_id, "--page", "--json").stdout)
        assert len(on.bodies) == calls
    order = [f"Run: {run_id}", "About: Cap rents?", "Command: flowdebate debate", "chat: staged", "Status: complete"]
    order += ["debate/round[1]/debate-turn-pro/", "(staged, tokens: 10 in, 3 out, ", " s)", "  Homes first."]
    order += ["debate-turn-con/", "Build more.", "debate/debate-judge", "Outcome", "Verdict: ", "Both are right."]
    rest = page.stdout
    for part in order:
        assert part in rest, part
        rest = rest.partition(part)[2]
    assert (data["status"], data["pattern"], data["steps"], len(data["done"])) == ("complete", "debate", 3, 3)
    assert data["done"][0]["text"] == "Homes first."
    assert data["done"][0]["usage"] == {"promptTokens": 10, "cachedTokens": 4, "completionTokens": 3}
    assert document == json.loads(result.stdout)


def test_note_is_saved_and_shown(store: Path) -> None:
    with Stage() as on:
        run_id = run_to_limit(on)
    assert "Note: Without **figures**." in run_command("show", run_id, "--note", "Without **figures**.").stdout
    assert json.loads(run_command("show", run_id, "--json").stdout)["note"] == "Without **figures**."
    result = run_command("show", run_id, "--note", "x" * 2001)
    assert (result.exit_code, "at most 2,000 characters" in result.stderr) == (2, True)
    assert "Note:" not in run_command("show", run_id, "--note", "").stdout


def test_terminated_export_leaves_no_file(store: Path, tmp_path: Path) -> None:
    with Stage() as on:
        run_to_limit(on)
    like = newest_run(store)
    long = replace(like, outcome={**(like.outcome or {}), "note": "x" * 2_000_000})
    for number in range(40):
        copy_run(store, f"r{number}", like=long)
    target = tmp_path / "exported"
    target.mkdir()
    command_line = [sys.executable, "-m", "flowdebate", "export", "--all", "--out", str(target / "x.jsonl")]
    with start_process([*command_line, "--store", str(store)]) as process:
        while process.poll() is None and not any(part.stat().st_size for part in target.iterdir()):
            time.sleep(0.005)
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
    assert list(target.iterdir()) == []


def test_terminated_write_leaves_nothing_behind(tmp_path: Path) -> None:
    """All reports, pages and tables are written by the same function.

    In this test, its process is terminated while it is writing 200 MB.
    """
    script = """
import sys
from pathlib import Path
from flowdebate.cli.terminal.process import clean_up_at_termination, write_whole
with clean_up_at_termination():
    write_whole(Path(sys.argv[1]), b"x" * 200_000_000)
    sys.stdin.read()
"""
    target = tmp_path / "report.html"
    with start_process([sys.executable, "-c", script, str(target)], stdin=subprocess.PIPE) as process:
        while process.poll() is None and not any(part.stat().st_size for part in tmp_path.iterdir()):
            time.sleep(0.001)
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir() if path != target] == []


def test_deleted_runs_cannot_be_found(store: Path) -> None:
    with Stage() as on:
        run_id = run_to_limit(on)
    copy_run(store, "older", header={"created_at": 1e9}, updated_at=1e9)
    copy_run(store, "whole", status="complete")
    asking = run_command("runs", "delete", run_id)
    assert (asking.exit_code, asking.stdout) == (2, "")
    assert "To delete 1 run, add --yes." in asking.stderr
    for arguments in ((), (run_id, "--status", "limit"), (run_id, "--older-than", "1"), ("--older-than", "-1")):
        assert run_command("runs", "delete", "--yes", *arguments).exit_code == 2
    assert run_command("runs", "delete", "--older-than", "30", "--yes").stdout == "Deleted 1 run.\n"
    assert run_command("runs", "delete", "--status", "complete", "--yes").stdout == "Deleted 1 run.\n"
    assert run_command("runs", "delete", run_id[:8], run_id, "-y").stdout == "Deleted 1 run.\n"
    assert run_command("runs").stdout == "No runs.\n"
    assert run_command("runs", "delete", run_id, "-y").exit_code == 2


def test_labeled_runs_can_be_listed_and_deleted(store: Path) -> None:
    """A label can name an owner, such as a user who is leaving.

    Runs that do not match in age, status or owner are kept.
    """
    with Stage() as on:
        like = store_template(on, store)
    for number, owner in enumerate(("ann", "ann", "bob")):
        copy_run(store, f"of-{owner}-{number}", like=like, header={"labels": {"owner": owner, "team": "a=b"}})
    assert run_command("runs", "delete", "--label", "owner", "--yes").exit_code == 2
    listed = json.loads(run_command("runs", "--json", "--label", "owner=ann", "--label", "team=a=b").stdout)
    assert {run["runId"] for run in listed} == {"of-ann-0", "of-ann-1"}
    assert "--label owner=ann --limit 1" in run_command("runs", "--label", "owner=ann", "--limit", "1").stdout
    assert (
        run_command("runs", "delete", "--label", "owner=ann", "--older-than", "1", "--yes").stdout
        == "Deleted 0 runs.\n"
    )
    assert run_command("runs", "delete", "--label", "owner=ann", "--yes").stdout == "Deleted 2 runs.\n"
    assert len(json.loads(run_command("runs", "--json").stdout)) == 2


def test_deletion_is_confirmed_in_a_terminal(store: Path) -> None:
    with Stage() as on:
        run_id = run_to_limit(on)
    for answer, code, remains in (("n", 1, True), ("y", 0, False)):
        with OnTerminal("runs", "delete", run_id) as terminal:
            terminal.until("Delete 1 run? [y/N]:")
            terminal.write(f"{answer}\n")
            assert terminal.end() == code
        assert run_id[:8] in terminal.screen
        assert (run_id[:8] in run_command("runs").stdout) is remains


def test_written_files_are_private(tmp_path: Path) -> None:
    """Reports, recordings, exports and batch results are private, whatever the umask.

    Existing files keep their mode.
    """
    files = {name: tmp_path / name for name in ("r.md", "r.rec", "r.jsonl", "b.jsonl", "b.csv", "q.csv", "old.md")}
    report, record, exported, lines, table, questions, old = map(str, files.values())
    files["q.csv"].write_text("question\nTea?\n")
    files["old.md"].touch()
    files["old.md"].chmod(0o644)
    before = os.umask(0)
    try:
        with Stage() as on:
            run_id = run_to_limit(on, "--markdown", report, "--record", record)
            run_command("runs", "report", run_id, "--markdown", old)
            run_command("export", run_id, "-o", exported)
            for out in (lines, table):
                shared = ("--model", "staged", "--base-url", on.base_url, "--max-rounds", "1")
                run_command("batch", questions, "--out", out, *shared)
    finally:
        os.umask(before)
    modes = {name: f"{path.stat().st_mode & 0o777:o}" for name, path in files.items()}
    assert modes == dict.fromkeys(files, "600") | {"q.csv": modes["q.csv"], "old.md": "644"}


def test_runs_can_be_moved_from_one_store_to_another(store: Path, tmp_path: Path) -> None:
    other, file = str(tmp_path / "other.db"), str(tmp_path / "runs.jsonl")
    with Stage(turns=(("Homes \x9b31m\u202e", "first."),)) as on:
        run_id = run_to_limit(on)
        piped = run_command("export", run_id[:8])
        assert run_command("export", "--all", "-o", file).stdout == ""
        assert not re.search("[\x80-\x9f\u202e]", piped.stdout)
        assert run_command("import", "-", "--store", other, stdin=piped.stdout_bytes).stdout == "Imported 1 run.\n"
        second = run_command("import", file, "--store", other)
        assert second.stdout == "Imported 0 runs; 1 was there already.\n"
        options = ("--store", other, "--base-url", on.base_url)
        result = run_command("resume", run_id, *options, "--max-calls", "9", "--json")
        assert len(on.bodies) == 3
    texts = [entry["text"] for entry in json.loads(result.stdout)["raw"]["transcript"]]
    assert texts[0] == "Homes \x9b31m\u202efirst."
    duplicate, bad = run_command("export", run_id, "-o", file), run_command("import", str(store))
    assert (duplicate.exit_code, bad.exit_code) == (2, 2)
    assert "already exists" in duplicate.stderr
    for arguments in (("export",), ("export", run_id, "--all"), ("export", "nobody")):
        assert run_command(*arguments).exit_code == 2
