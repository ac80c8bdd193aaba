"""Sources in requests, forks and imported runs: texts, or files in data URLs, within limits."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.mcp import create_server
from flowdebate.service.service import Service
from flowdebate.sources.converter import shared_converter
from flowdebate.sources.files import read_sources
from flowdebate.store.export import export_run
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, answer_debate, staged
from tests.sources.hostile import CORPUS, html

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx2

pytest.importorskip("mammoth", reason="the extra flowdebate[documents]")


def data_url(data: bytes) -> str:
    """Return a file as a data URL, as in a request."""
    return f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"


def make_service() -> Service:
    return Service(store="memory:", model=FunctionModel(answer_debate))


LONG = "x" * 2_100_000
TEXT = {"text": "Rents rose."}


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        ({"memo": {**TEXT, "size": -1}}, "`memo` is a table with `size`, which cannot be set"),
        ({"memo": {**TEXT, "sha256": "no hash"}}, "`memo` is a table with `sha256`, which cannot be set"),
        ({"memo": {**TEXT, "pages": {"p": -5}}}, "`memo` is a table with `pages`, which cannot be set"),
        ({"memo": {**TEXT, "left_out": "is a link"}}, "`memo` is a table with `left_out`, which cannot be set"),
        ({"memo": {"text": LONG}}, "`memo` is a table"),
        ({"memo": LONG}, "memo: has more than 2 MB of text"),
        ({"a": LONG[:1_500_000], "b": LONG[:1_500_000]}, "b: has more than 2 MB of text"),
        ({"memo": data_url(LONG.encode())}, "memo: has more than 2 MB of text"),
        ({"memo.html": data_url(html(f"<p>{LONG}</p>"))}, "memo.html: has more than 2 MB of text"),
        ({"x" * 201: "Rents rose."}, "has a source with an invalid name: it has more than 200 characters"),
        ({"a\nb": "Rents rose."}, "has a source with an invalid name: it has line breaks or other control characters"),
        (
            {"a\x1b[2Jb": "Rents rose."},
            "has a source with an invalid name: it has line breaks or other control characters",
        ),
        (
            {"a\u202eb": "Rents rose."},
            "has a source with an invalid name: it has line breaks or other control characters",
        ),
        ({" ": "Rents rose."}, "has a source with an invalid name: it is blank"),
        ({str(number): "Rents rose." for number in range(1_001)}, "must have at most 1,000 entries"),
        (["a\0b"], "cannot refer to files over HTTP"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_requests_cannot_set_computed_fields_or_exceed_limits(sources: Any, reason: str) -> None:
    with staged(make_service) as server:
        run_id = server.finished()
        options = {"options": {"sources": sources}}
        for path, body in (("/runs", {**BRIEF, **options}), (f"/runs/{run_id}/fork", options)):
            if path == "/runs" or len(str(body)) < 1_000_000:  # larger bodies are rejected unread
                refused = server.post(path, body)
                assert refused.status_code == 422, refused.text
                assert reason in refused.json()["detail"]
        assert len(server.get("/runs").json()["runs"]) == 1


def test_paths_with_a_nul_byte_are_rejected(tmp_path: Path) -> None:
    """A path with a NUL byte is treated like any other path outside the allowed folders."""
    with staged(make_service, allow_sources=[tmp_path]) as server:
        refused = server.post("/runs", {**BRIEF, "options": {"sources": [f"{tmp_path}/a\0b"]}})
    assert refused.status_code == 422
    assert f"cannot refer to files outside {tmp_path} over HTTP" in refused.json()["detail"]


def test_size_and_hash_describe_the_bytes_of_a_source() -> None:
    page = html("<p>Rents rose.</p>")
    with staged(make_service) as server:
        sources = {"memo": "Rents rose.", "page.html": data_url(page)}
        run_id = server.finished(options={"max_rounds": 1, "sources": sources})
        listed = server.get(f"/runs/{run_id}").json()["document"]["raw"]["sources"]
    assert [(row["name"], row["size"], row["characters"]) for row in listed] == [
        ("memo", 11, 11),
        ("page.html", len(page), 13),
    ]


@pytest.mark.parametrize(("verb", "number"), [("begin", 4), pytest.param("fork", 12, marks=pytest.mark.slow)])
def test_documents_in_one_request_do_not_delay_others(verb: str, number: int) -> None:
    """While many documents are still loading, the server must answer other requests within a second."""
    endless = {"options": {"max_rounds": 1, "sources": {"a.pdf": data_url(CORPUS["pages"]["empty-pages.pdf"]())}}}
    problems: list[str] = []
    with staged(make_service) as server:
        run_id = server.finished()
        path = f"/runs/{run_id}/fork" if verb == "fork" else "/runs"
        body = endless if verb == "fork" else {**BRIEF, **endless}

        def attack() -> None:
            refused = server.post(path, body, timeout=90)
            problems.append(f"{refused.status_code} {refused.json()['detail']}")

        converter = shared_converter()
        seconds, converter.seconds = converter.seconds, 1.5
        threads = [threading.Thread(target=attack) for _ in range(number)]
        loud = {**BRIEF, "options": {"max_rounds": 1, "sources": {"memo": "Loud."}}}
        calls: list[Callable[[], httpx2.Response]] = [
            lambda: server.get("/health"),
            lambda: server.get("/models"),
            lambda: server.http.get(f"{server.pages}/new"),
            lambda: server.post("/runs", loud),
        ]
        for call in calls:  # warm up first, because the first call of each kind loads modules
            assert call().status_code < 300
        try:
            for thread in threads:
                thread.start()
            seconds_of_calls: list[float] = []
            ends = time.monotonic() + 1.5
            while time.monotonic() < ends:
                for call in calls:
                    start = time.monotonic()
                    assert call().status_code < 300
                    seconds_of_calls.append(time.monotonic() - start)
        finally:
            for thread in threads:
                thread.join()
            converter.seconds = seconds
    assert median(seconds_of_calls) < 1.0  # the median, since a single call may wait for a CPU that other tests use
    assert problems == ["422 a.pdf: takes more than 1.5 s to read: split it, or save it as text"] * number


def test_hosts_are_told_why_a_document_is_unreadable() -> None:
    nested = CORPUS["nesting"]["paragraphs.docx"]()

    async def refusal() -> str:
        async with make_service() as service, Client(create_server(service)) as host:
            brief = {
                "question": "Should we ship?",
                "max_rounds": 1,
                "sources": {"a.docx": data_url(nested)},
                "wait": 30,
            }
            result = await host.call_tool("start_debate", brief)
            assert result.is_error
            return str(result.content)

    assert "a.docx: is not a readable DOCX document" in asyncio.run(refusal())


def test_the_command_names_an_unreadable_document(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(CORPUS["nesting"]["paragraphs.docx"]())
    refused = CliRunner().invoke(app, ["debate", "Should we ship?", "--source", str(path), "--model", "openai/gpt-5"])
    assert refused.exit_code == 2
    assert "a.docx: is not a readable DOCX document" in " ".join(refused.stderr.split())


IN_PLAN: tuple[tuple[str, Callable[[], bytes]], ...] = (
    ("a.pdf", CORPUS["pages"]["empty-pages.pdf"]),
    ("a.html", lambda: html("<p>Converted!</p>")),
)


@pytest.mark.parametrize(("name", "make"), IN_PLAN)
def test_stored_text_is_never_read_as_a_path(tmp_path: Path, name: str, make: Callable[[], bytes]) -> None:
    """The plan in an export may have been tampered with, so no command may convert a file that the plan mentions."""
    hostile = data_url(make())

    async def forged() -> list[str]:
        async with make_service() as service:
            options = {"max_rounds": 1, "sources": {name: "Rents rose."}}
            run = await service.begin("debate", "Should we ship?", options=options, run_id="r")
            await service.wait(run.run_id)
            return [line async for line in export_run(service.store, "r")]

    lines = [line.replace(json.dumps("Rents rose."), json.dumps(hostile), 1) for line in asyncio.run(forged())]
    assert any(hostile in line for line in lines)
    path, store = tmp_path / "runs.jsonl", str(tmp_path / "runs.sqlite3")
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines))
    start = time.monotonic()
    for command in (
        ("runs", "verify", str(path)),
        ("import", str(path), "--store", store),
        ("show", "r", "--store", store),
    ):
        result = CliRunner().invoke(app, command)
        assert "Converted!" not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
    assert time.monotonic() - start < 10


def test_file_texts_are_stored_for_resumed_runs(tmp_path: Path) -> None:
    looks = data_url(b"Rents rose.")
    (tmp_path / "a.txt").write_text(looks)
    (source,) = read_sources([str(tmp_path / "a.txt")])
    assert source.text == looks
