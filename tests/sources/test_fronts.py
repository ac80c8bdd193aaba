"""Sources on every front end: command line, plan file, HTTP, MCP and batch, for every pattern."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.mcp import create_server
from flowdebate.patterns import PATTERNS
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.cli.conftest import store
from tests.cli.siblings import serve_stage
from tests.server.stage import BRIEF, answer_debate, staged

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.testing import ModelRequest
    from tests.cli.stage import Stage

__all__ = ["store"]

CANARIES = ("canary-env", "canary-key")
REPORT = "Rents rose by 15 per cent."
SHORT: dict[str, tuple[str, ...]] = {
    "handoff": ("--max-turns", "2"),
    "council": ("--review", "none"),
    "critique": (),  # a critique has no rounds to limit
    "review": ("--reviewer", "Ada", "--reviewer", "Ben"),
}
CHAIR = {"answer": "Wait.", "dissent": None}
OUTPUTS: dict[str, Any] = {"critique": {"claims": []}}
"""Model answers by pattern; the default is `CHAIR`."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder that contains both notes and secrets, and make it the working directory."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "report.md").write_text(REPORT)
    (tmp_path / "notes" / ".env").write_text("TOKEN=canary-env")
    (tmp_path / "notes" / "deploy.txt").write_text("-----BEGIN PRIVATE KEY-----\ncanary-key")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(on: Stage, verb: str, *flags: str, text: str | None = None) -> Any:
    """Run a command with a scripted model and return its result."""
    arguments = [verb, *flags, "--model", "staged", "--base-url", on.base_url]
    return CliRunner().invoke(app, arguments, input=text, catch_exceptions=False)


def kept_in(store: Path) -> str:
    """Return everything that a SQLite store contains."""
    with closing(sqlite3.connect(store)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '% VIRTUAL %'"
        )
        rows = [row for (name,) in tables.fetchall() for row in connection.execute(f'SELECT * FROM "{name}"')]  # noqa: S608
    return "\n".join(str(value) for row in rows for value in row)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern_commands_read_a_folder_without_secrets(pattern: str, folder: Path, store: Path) -> None:
    short = SHORT.get(pattern, ("--max-rounds", "1"))
    with serve_stage(output=OUTPUTS.get(pattern, CHAIR)) as on:
        result = call(on, PATTERNS[pattern].verb, "Should we cap rents?", "--source", "notes", *short)
    # a deliberation with these answers reaches no settlement
    assert result.exit_code == 3 * (pattern == "deliberation"), result.output
    words = " ".join(result.stdout.split())
    assert "Sources: notes/report.md (6 tokens), estimated, which go to the model with each turn" in words
    assert (
        "Left out: notes/.env (may contain secrets), notes/deploy.txt (may contain secrets, so it is never read)"
        in words
    )
    assert words.index("Sources: ") < words.index("Should we cap rents?")
    if pattern == "review":  # a review instead reports which files were read; its findings have separate quotes
        assert "Read 1 of 3 files in full; not read: notes/.env (may contain secrets), notes/deploy.txt" in words
    else:
        hashed = sha256(REPORT.encode()).hexdigest()
        assert f"Source: notes/report.md ({len(REPORT)} bytes, SHA-256 {hashed})" in words
        assert "Quotes: none" in words
    requests = json.dumps(on.bodies)
    numbered = "\\n  |     1 " if pattern == "review" else ""  # a review's locations have line numbers
    assert f"[notes/report.md] {numbered}{REPORT}" in requests
    stored = kept_in(store)
    assert stored.count(REPORT) == 1
    for canary in CANARIES:
        assert canary not in requests
        assert canary not in stored
    assert folder.joinpath("notes", ".env").exists()


def test_stdin_can_be_a_question_or_a_source(folder: Path) -> None:
    """Using stdin for both is an error, raised before any model is called."""
    options = ("--max-rounds", "1", "--no-synthesizer", "--no-store")
    with serve_stage() as on:
        question_piped = call(on, "debate", "-", "--source", "notes/report.md", *options, text="Should we cap rents?\n")
        piped = call(on, "debate", "Should we cap rents?", "--source", "-", *options, text="Homes are scarce.")
        both_piped = call(on, "debate", "-", "--source", "-", *options, text="Should we cap rents?")
        named_source = call(on, "debate", "Should we cap rents?", "--source", "paper=notes/report.md", *options)
    assert "Question: Should we cap rents?" in on.bodies[0]["messages"][0]["content"]
    assert any("[stdin] Homes are scarce." in body["messages"][0]["content"] for body in on.bodies)
    assert any(f"[paper] {REPORT}" in body["messages"][0]["content"] for body in on.bodies)
    assert [result.exit_code for result in (question_piped, piped, both_piped, named_source)] == [0, 0, 2, 0]
    assert "Only one of QUESTION and --source can be -" in " ".join(both_piped.stderr.split())


def test_source_paths_are_relative_to_the_plan_file(folder: Path) -> None:
    """The paths do not depend on the working directory.

    Instead of paths, a plan may also contain the texts of its sources.
    """
    plan = 'pattern = "council"\nquestion = "Cap rents?"\nreview = "none"\nsources = ["report.md", "n=report.md"]\n'
    (folder / "notes" / "plan.toml").write_text(plan)
    with serve_stage(output=CHAIR) as on:
        assert call(on, "run", "notes/plan.toml", "--no-store").exit_code == 0
    assert f"[report.md] {REPORT}\n[n] {REPORT}" in on.bodies[0]["messages"][0]["content"]


def test_batch_rows_may_have_their_own_sources(folder: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"question": "Should we cap rents?", "sources": ["notes/report.md"]},
        {"question": "Ban cars?", "sources": {"memo": "Cars are loud."}},
        {"question": "Tea?"},
    ]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "all.md").write_text("For all.")
    (folder / "plan.toml").write_text('review = "none"')
    options = ("--pattern", "council", "--file", "plan.toml", "--source", "all.md")
    with serve_stage(output=CHAIR) as on:
        done = call(on, "batch", "q.jsonl", *options, "--out", "out.jsonl")
    assert done.exit_code == 0, done.output
    texts = {"cap rents": f"[report.md] {REPORT}", "Ban cars": "[memo] Cars are loud.", "Tea": "[all.md] For all."}
    prompts = ["\n".join(message["content"] for message in body["messages"]) for body in on.bodies]
    for question, source in texts.items():
        matching = [text for text in prompts if question in text]
        assert any(source in text for text in matching)
        assert not any(unrelated in text for text in matching for unrelated in texts.values() if unrelated != source)
    (folder / "q.jsonl").write_text(json.dumps({"question": "Should we cap rents?", "sources": ["none.md"]}))
    with serve_stage(output=CHAIR) as on:
        failed = call(on, "batch", "q.jsonl", *options)
    assert failed.exit_code == 2
    assert "none.md: cannot be read" in failed.stderr
    assert on.bodies == []


class Reading:
    """A model that records its requests."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def model(self) -> FunctionModel:
        """Return the model."""

        def answer(request: ModelRequest) -> Any:
            self.shown.append("\n".join(str(message["content"]) for message in request.messages))
            return answer_debate(request)

        return FunctionModel(answer)


def test_http_requests_can_send_text_or_name_allowed_files(folder: Path) -> None:
    """Without an allowed folder, no path is read. Otherwise, only paths inside it are read."""
    inside, outside = str(folder / "notes" / "report.md"), folder / "notes" / ".." / "secret.txt"
    outside.write_text("canary-env")
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as plain:
        refused = plain.post("/runs", {**BRIEF, "options": {"max_rounds": 1, "sources": [inside]}})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == "sources"
    reading = Reading()
    make = lambda: Service(store="memory:", model=reading.model())  # noqa: E731 - as `staged` takes it
    with staged(make, allow_sources=[folder / "notes"]) as server:
        for path in (str(outside), "/etc/passwd", "-", str(folder / "notes-2")):
            refused = server.post("/runs", {**BRIEF, "options": {"max_rounds": 1, "sources": [path]}})
            assert refused.status_code == 422
            assert str(folder / "notes") in refused.text
        blank = server.post("/runs", {**BRIEF, "options": {"sources": {"memo": " "}}})
        assert 'of non-blank texts by name (got {"memo": " "})' in blank.json()["detail"]
        server.finished(options={"max_rounds": 1, "sources": [inside]})
        run_id = server.finished(options={"max_rounds": 1, "sources": {"memo": "<b>Loud</b>"}})
        listed = server.get(f"/runs/{run_id}").json()["document"]["raw"]["sources"]
        assert listed[0]["name"] == "memo"
        page = server.http.get(f"{server.pages}/runs/{run_id}")
        assert "<b>Loud" not in page.text
    assert any(f"[report.md] {REPORT}" in prompt for prompt in reading.shown)
    assert not any("canary" in prompt for prompt in reading.shown)


def test_services_stay_responsive_while_reading_documents() -> None:
    """Reading a sheet with 100,000 cells takes 17 seconds, so documents are read in a separate thread."""
    readers: list[Thread] = []

    async def begin() -> None:
        async with Service(store="memory:", model=FunctionModel(answer_debate)) as service:
            options = {"max_rounds": 1, "sources": {"memo": "data:text/plain;base64,TG91ZC4="}}
            check: Any = lambda _: readers.append(current_thread())  # noqa: E731 - before the sources are read
            await service.begin("debate", "Should we ship?", options=options, check=check)

    asyncio.run(begin())
    assert readers
    assert current_thread() not in readers


def test_mcp_hosts_can_send_text_or_name_allowed_files(folder: Path) -> None:
    reading = Reading()
    cases: list[tuple[Any, bool]] = [
        (["notes/report.md"], True),
        ({"memo": "Loud."}, True),
        (["/etc/passwd"], False),
    ]

    async def refusal() -> str:
        answer = ""
        async with (
            Service(store="memory:", model=reading.model()) as service,
            Client(create_server(service, allow_sources=["notes"])) as host,
        ):
            for sources, ok in cases:
                brief = {"question": "Should we ship?", "max_rounds": 1, "sources": sources, "wait": 30}
                result = await host.call_tool("start_debate", brief)
                assert result.is_error is not ok, result.content
                answer = str(result.content)
        return answer

    refused = asyncio.run(refusal())
    assert "in an allowed folder" in refused
    assert str(folder / "notes") in refused
    assert any(f"[report.md] {REPORT}" in prompt for prompt in reading.shown)
    assert any("[memo] Loud." in prompt for prompt in reading.shown)


def test_excluded_files_in_a_folder_are_not_shown(folder: Path) -> None:
    with serve_stage(output=CHAIR) as on:
        result = call(
            on, "review", "--source", "notes", "--exclude", ".env", "--exclude", "deploy.*", "--gate", "no nit"
        )
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "Read 1 of 3 files in full; excluded: notes/.env, notes/deploy.txt" in words
