"""Pages of lists are read from an index: the last one costs no more than the first."""

from __future__ import annotations

import asyncio
import secrets
import threading
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from flowdebate.store.memory import MemoryStore
from flowdebate.store.postgres import rows as postgres
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.store.sqlite import rows as sqlite
from flowdebate.store.sqlite.file import connect
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing.store import header

if TYPE_CHECKING:
    from pathlib import Path

    from tests.store.postgres import Server

pytestmark = pytest.mark.anyio

BEHIND: tuple[float, str] = (500.0, "r500")
ASKED: dict[str, Any] = {
    **dict.fromkeys(("status", "block", "text", "labels", "prefix")),
    "limit": 20,
    "before": BEHIND,
}
FILTERS: tuple[dict[str, Any], ...] = ({}, {"status": "running"}, {"block": "x", "text": "a", "labels": {"t": "1"}})


@pytest.mark.parametrize("filters", FILTERS, ids=["all", "status", "others"])
def test_sqlite_begins_a_page_where_the_last_one_ended(tmp_path: Path, filters: dict[str, Any]) -> None:
    """It looks the position up in the index, and sorts nothing."""
    connection = connect(tmp_path / "runs.sqlite3", 1.0, name="runs")
    try:
        statement, values = sqlite.build_query(**{**ASKED, **filters})
        plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    finally:
        connection.close()
    assert plan[0] == "SEARCH runs USING INDEX runs_created (created_at<?)"
    assert not any("TEMP B-TREE" in step or "SCAN" in step for step in plan)


@pytest.mark.parametrize("filters", FILTERS, ids=["all", "status", "others"])
async def test_postgresql_begins_a_page_where_the_last_one_ended(a_server: Server, filters: dict[str, Any]) -> None:
    """As SQLite does, once the table is worth an index."""
    schema = f"t{secrets.token_hex(8)}"
    store = PostgresStore(a_server.url, schema=schema)
    await store.runs()
    await store.close()
    insert = """
        INSERT INTO runs (run_id, block, folded, labels, status, created_at, updated_at, claim, header)
        SELECT 'r' || n, 'x', 'a', '{"[\\"t\\", \\"1\\"]"}', 'running', n, n, 0, repeat('h', 500)
        FROM generate_series(1, 5000) AS n
    """
    statement, values = postgres.build_query(**{**ASKED, **filters})
    with psycopg.connect(a_server.url, autocommit=True) as session, psycopg.ClientCursor(session) as cursor:
        cursor.execute(f"SET search_path TO {schema}".encode())
        cursor.execute(insert)
        cursor.execute("ANALYZE runs")
        plan = "\n".join(row[0] for row in cursor.execute(b"EXPLAIN " + statement, values).fetchall())
    assert "Index Scan using runs_created on runs" in plan
    assert "Index Cond: (created_at <= " in plan
    assert "Sort" not in plan


async def test_sqlite_holds_nothing_that_it_has_given(tmp_path: Path) -> None:
    """A long list is free as soon as its reader has forgotten it, not only at the next read."""

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


async def test_ids_that_are_no_valid_unicode_are_listed_in_one_order(tmp_path: Path) -> None:
    """A database stores half of a surrogate pair escaped, and orders what it stores; memory does the same."""
    listed = []
    for store in (MemoryStore(), SqliteStore(tmp_path / "runs.sqlite3")):
        for run_id in ("0", "\ud800", "z", "\ue000", "\U0001f600"):
            await store.create(replace(header(run_id), created_at=1.0))
        listed.append([run.header.run_id for run in await store.runs()])
        await store.close()
    assert listed[0] == listed[1]
