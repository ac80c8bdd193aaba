"""Lists of 100,000 stored runs, with each filter, in both databases (PostgreSQL: scripts/postgres install).

Each list is a page of 50. For SQLite, the figure is the processor time of this process; for PostgreSQL, it is the time
reported by the server. Both are medians of five.
"""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg
from postgres_server import Server, Unavailable

from flowdebate.store.base import RunHeader, StoredRun
from flowdebate.store.postgres import rows as postgres
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.store.sqlite import rows as sqlite
from flowdebate.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from flowdebate.store.base import StoredStatus

_RUNS, _PAGE, _TIMES, _SCHEMA = 100_000, 50, 5, "lists"
_LISTS: dict[str, dict[str, Any]] = {
    "the newest": {},
    "behind 95,000 others": {"before": (5_000.0, "")},
    "in progress (5)": {"status": "running"},
    "failed (100)": {"status": "failed"},
    "of an owner (2,500)": {"labels": {"owner": "user-7"}},
    "of nobody": {"labels": {"owner": "nobody"}},
    "of a batch, the oldest 5,000": {"labels": {"batch": "old"}},
    "of an owner, in progress": {"labels": {"owner": "user-9"}, "status": "running"},
    "of a pattern (100)": {"block": "council"},
    "ids that begin with 4 characters": {"prefix": "abcd"},
    "a text that one question has": {"text": "TOWN 4711?"},
    "a text that no question has": {"text": "no such text"},
    "a text that all questions have": {"text": "rents"},
}


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _runs() -> Iterator[StoredRun]:
    outcome = {"output": "x" * 2_000, "raw": {"text": "y" * 2_000}, "error": None}
    for number in range(1, _RUNS + 1):
        header = RunHeader(
            run_id=_md5(str(number)),
            block="council" if number % 1_000 == 0 else "debate",
            seed=1,
            created_at=float(number),
            question=f"Should we {_md5(f'q{number}')} rents in town {number}?",
            input="x" * 400,
            fingerprint={},
            labels={"owner": f"user-{number % 40}"} | ({"batch": "old"} if number <= 5_000 else {}),
        )
        status: StoredStatus = "running" if number % 20_000 == 9 else "failed" if number % 1_000 == 7 else "complete"
        yield StoredRun(header=header, status=status, updated_at=float(number), steps=5, outcome=outcome)


async def _of_sqlite(folder: str) -> dict[str, float]:
    def fill(connection: sqlite3.Connection) -> None:
        connection.executemany(sqlite.ADD_RUN, map(sqlite.run_values, _runs()))

    store = SqliteStore(Path(folder) / "runs.sqlite3")
    await store._do(fill)  # noqa: SLF001
    milliseconds = {}
    for name, filters in _LISTS.items():
        times = []
        for _ in range(_TIMES):
            start = time.process_time()
            await store.runs(limit=_PAGE, brief=True, **filters)
            times.append(time.process_time() - start)
        milliseconds[name] = 1_000 * statistics.median(times)
    await store.close()
    return milliseconds


async def _of_postgresql(url: str) -> dict[str, float]:
    store = PostgresStore(url, schema=_SCHEMA)
    await store.runs()
    await store.close()
    columns = "run_id, block, folded, labels, status, created_at, updated_at, steps, claim, header, outcome, brief"
    milliseconds = {}
    with psycopg.connect(url, autocommit=True) as session, psycopg.ClientCursor(session) as cursor:
        cursor.execute(f"SET search_path TO {_SCHEMA}".encode())
        with session.cursor().copy(f"COPY runs ({columns}) FROM STDIN".encode()) as copy:
            for run in _runs():
                values = {**postgres.header_values(run.header), **postgres.outcome_texts(run.outcome), "claim": 0}
                values |= {"status": run.status, "updated_at": run.updated_at, "steps": run.steps}
                values["run_id"] = values["run"]
                copy.write_row([values[name] for name in columns.split(", ")])
        cursor.execute("VACUUM ANALYZE")  # the server does this periodically
        for name, filters in _LISTS.items():
            statement, values = postgres.build_query(limit=_PAGE, brief=True, **filters)
            times = []
            for _ in range(_TIMES):
                *_, (last,) = cursor.execute(b"EXPLAIN ANALYZE " + statement, values).fetchall()
                times.append(float(last.split()[2]))
            milliseconds[name] = statistics.median(times)
    return milliseconds


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        columns = {"SQLite, ms of CPU": asyncio.run(_of_sqlite(folder))}
    try:
        with Server() as server:
            columns["PostgreSQL, ms"] = asyncio.run(_of_postgresql(server.url))
    except Unavailable as error:
        print(f"without PostgreSQL: {error}")
    print(f"\nA page of {_PAGE} of {_RUNS:,} runs" + "".join(f"{column:>20}" for column in columns))
    for name in _LISTS:
        print(f"{name:35}" + "".join(f"{column[name]:20.1f}" for column in columns.values()))


if __name__ == "__main__":
    main()
