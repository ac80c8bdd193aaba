"""Paged lists, read from an index so that the last page costs no more than the first."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
import weakref
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.store.base import NEWEST_SEARCHED, StoredRun, header_text
from flowdebate.store.memory import MemoryStore
from flowdebate.store.postgres import rows as postgres
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.store.sqlite import rows as sqlite
from flowdebate.store.sqlite.file import connect
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing.store import header

if TYPE_CHECKING:
    from tests.store.postgres import Server

pytestmark = pytest.mark.anyio

BEHIND: tuple[float, str] = (500.0, "r500")
ASKED: dict[str, Any] = {
    **dict.fromkeys(("status", "block", "text", "labels", "prefix")),
    "limit": 20,
    "before": BEHIND,
}
FILTERS: dict[str, dict[str, Any]] = {
    "runs_created": {"text": "a"},
    "runs_status": {"status": "running"},
    "runs_block": {"block": "x"},
    "run_labels": {"labels": {"t": "1"}, "text": "a"},
}
"""Filters, keyed by the index that orders their runs."""


@pytest.mark.parametrize("index", FILTERS)
def test_sqlite_seeks_to_the_start_of_a_page(tmp_path: Path, index: str) -> None:
    plan = query_plan(tmp_path, **{**ASKED, **FILTERS[index]})
    assert plan[0].startswith("SEARCH run")
    assert index in plan[0] or "USING PRIMARY KEY (label=? AND" in plan[0]
    assert "created_at<?" in plan[0]
    assert not any("TEMP B-TREE" in step or "SCAN run" in step for step in plan)


TEXTS = st.text(st.sampled_from("aAäÄßsS \"*^-'\x00\x1a\ud8000🙂\n")) | st.sampled_from(
    ["a AND b", '"', "NEAR(a b)", "text:a"]
)


@given(questions=st.lists(TEXTS, min_size=1, max_size=8), text=TEXTS.filter(bool), many=st.booleans())
def test_sqlite_finds_text_anywhere_in_a_question(questions: list[str], text: str, *, many: bool) -> None:
    """Case does not matter. The trigram index is used unless many questions contain the text."""
    with (
        TemporaryDirectory() as folder,
        closing(connect(Path(folder) / "runs.sqlite3", 1.0, name="runs")) as connection,
    ):
        headers = [header("", question=question) for question in questions]
        headers += [header("", question=text)] * 1_000 * many
        runs = [replace(run_header, run_id=f"r{n}", created_at=float(n)) for n, run_header in enumerate(headers)]
        stored = (StoredRun(header=run_header, status="complete", updated_at=1.0, steps=0) for run_header in runs)
        connection.executemany(sqlite.ADD_RUN, map(sqlite.run_values, stored))
        connection.execute("DELETE FROM runs WHERE run_id = 'r0'")
        fit = [
            run_header.run_id for run_header in reversed(runs[1:]) if text.casefold() in run_header.question.casefold()
        ]
        for labels in (None, {"no": "such"}):
            results = sqlite.find_runs(connection, text=text, labels=labels, status="complete", limit=50)
            listed = [json.loads(row[0])["run_id"] for row in results]
            assert listed == ([] if labels else fit[:50])


def test_sqlite_finds_rare_text_with_the_index(tmp_path: Path) -> None:
    """The query reads no runs except those that it returns."""
    plan = query_plan(tmp_path, parts='"abc"', text="abc", status="complete", labels={"t": "1"})
    assert plan[0].startswith("SCAN run_texts VIRTUAL TABLE")
    assert plan[1] == "SEARCH run_numbers USING INTEGER PRIMARY KEY (rowid=?)"
    assert plan[2].startswith("SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)")


def test_sqlite_filters_by_pattern_and_status_with_one_index(tmp_path: Path) -> None:
    """If no run has the requested status, the query does not have to read any run."""
    plan = query_plan(tmp_path, **{**ASKED, "block": "x", "status": "limit"})
    assert "runs_block_status (block=? AND status=? AND created_at<?" in plan[0]


@pytest.mark.slow
def test_sqlite_searches_the_newest_runs_for_two_characters(tmp_path: Path) -> None:
    """A trigram index cannot find two characters, and searching all runs would take linear time."""
    with closing(connect(tmp_path / "runs.sqlite3", 1.0, name="runs")) as connection:
        questions = ["rarely xy", *["often"] * NEWEST_SEARCHED, "lately xy"]
        headers = [header("", question=question) for question in questions]
        runs = [replace(run_header, run_id=f"r{n}", created_at=float(n)) for n, run_header in enumerate(headers)]
        stored = (StoredRun(header=run_header, status="complete", updated_at=1.0, steps=0) for run_header in runs)
        connection.executemany(sqlite.ADD_RUN, map(sqlite.run_values, stored))
        for text, count in (("xy", 1), ("rarely xy", 1), (" xy", 2)):
            assert len(sqlite.find_runs(connection, text=text).fetchall()) == count


def test_sqlite_finds_id_prefixes_with_the_index(tmp_path: Path) -> None:
    """The query looks up both ends of the range of ids that begin with the prefix."""
    assert "(run_id>? AND run_id<?)" in query_plan(tmp_path, prefix="r1")[0]


def query_plan(folder: Path, **filters: Any) -> list[str]:
    """Return SQLite's query plan for a list of runs."""
    connection = connect(folder / "runs.sqlite3", 1.0, name="runs")
    try:
        statement, values = sqlite.build_query(filters.pop("parts", None), **filters)
        return [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    finally:
        connection.close()


@pytest.mark.parametrize("index", [*FILTERS, "runs_grams", "runs_pkey"])
async def test_postgresql_seeks_to_the_start_of_a_page(postgres_server: Server, index: str) -> None:
    """PostgreSQL uses an index for each filter once the table is large enough.

    Rare text and ids have separate indexes.
    """
    schema = f"t{secrets.token_hex(8)}"
    store = PostgresStore(postgres_server.url, schema=schema)
    await store.runs()
    await store.close()
    insert = """
        INSERT INTO runs (run_id, block, folded, labels, status, created_at, updated_at, claim, header)
        SELECT 'r' || n, 'x' || n / 500, convert_to('a ' || md5(n::text), 'UTF8'),
               ARRAY['["t", "0"]'], CASE WHEN n / 100 = 3 THEN 'running' ELSE 'complete' END,
               n, n, 0, repeat('h', 500)
        FROM generate_series(1, 5000) AS n
    """
    filters = {**FILTERS, "runs_block": {"block": "x0"}, "runs_grams": {"text": "FEED"}, "runs_pkey": {"prefix": "r49"}}
    before = (350.0, "r350") if index in FILTERS else None
    filters["run_labels"] = {"labels": {"t": "0"}, "text": "a"}
    statement, values = postgres.build_query(**{**ASKED, "before": before, **filters[index]})
    with psycopg.connect(postgres_server.url, autocommit=True) as session, psycopg.ClientCursor(session) as cursor:
        cursor.execute(f"SET search_path TO {schema}".encode())
        cursor.execute(insert)
        cursor.execute("ANALYZE runs")
        cursor.execute("ANALYZE run_labels")
        plan = "\n".join(row[0] for row in cursor.execute(b"EXPLAIN " + statement, values).fetchall())
    assert index in plan
    # leave out the subplan that finds the lower bound of the newest runs for short text
    plan = re.sub(r"\n  InitPlan.*(?:\n {4,}.*)*", "", plan)
    assert "Seq Scan on run" not in plan
    if before is not None:
        assert "created_at <= " in plan
        assert "Sort" not in plan


async def test_postgresql_searches_the_newest_runs_for_two_letters(postgres_server: Server) -> None:
    """Two ASCII letters are too short for a trigram, so only the newest runs are searched.

    However, PostgreSQL's trigrams consist of bytes, so two Chinese or Cyrillic characters are long enough to be looked
    up in all runs.
    """
    schema, letters = f"t{secrets.token_hex(8)}", "\u0436\u0436"
    store = PostgresStore(postgres_server.url, schema=schema)
    await store.runs()
    insert = """
        INSERT INTO runs (run_id, block, folded, labels, status, created_at, updated_at, claim, header)
        SELECT 'r' || n, 'x', convert_to(CASE n WHEN 1 THEN %s WHEN %s THEN 'last xy' ELSE 'often' END, 'UTF8'),
               ARRAY[]::text[], 'complete', n, n, 0, replace(%s, 'r-id', 'r' || n)
        FROM generate_series(1, %s) AS n
    """
    number = NEWEST_SEARCHED + 1
    with psycopg.connect(postgres_server.url, autocommit=True) as session:
        session.execute(f"SET search_path TO {schema}".encode())
        session.execute(insert, (f"first xy {letters}", number, header_text(header("r-id")), number))
    results = {text: [run.header.run_id for run in await store.runs(text=text)] for text in ("xy", " xy", letters)}
    await store.close()
    assert results == {"xy": [f"r{number}"], " xy": [f"r{number}", "r1"], letters: ["r1"]}


async def test_sqlite_keeps_no_listed_rows_in_memory(tmp_path: Path) -> None:
    """The memory of a long list is freed as soon as its reader releases the list, not at the next read."""

    class Result:
        pass

    store = SqliteStore(tmp_path / "runs.sqlite3")
    try:
        await store.runs()
        freed = threading.Event()
        weakref.finalize(await store._do(lambda _: Result()), freed.set)
        assert await asyncio.to_thread(freed.wait, 20)
    finally:
        await store.close()


async def test_ids_with_invalid_unicode_are_sorted_consistently(tmp_path: Path) -> None:
    """A database stores an unpaired surrogate in escaped form and sorts by the escaped text.

    The in-memory store does the same.
    """
    listed = []
    for store in (MemoryStore(), SqliteStore(tmp_path / "runs.sqlite3")):
        for run_id in ("0", "\ud800", "z", "\ue000", "\U0001f600"):
            await store.create(replace(header(run_id), created_at=1.0))
        listed.append([run.header.run_id for run in await store.runs()])
        await store.close()
    assert listed[0] == listed[1]
