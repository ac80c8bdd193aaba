"""Overview of a queue: what waits in it, and which workers are alive."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from flowdebate.errors import StoreError
from flowdebate.runs.queue_state import QueueState, QueueVersion, WorkerState
from flowdebate.store.postgres.database import Address, open_prepared
from flowdebate.store.postgres.sessions import ALIVE

if TYPE_CHECKING:
    from flowdebate.workers.deployment import Workers


_DELIVERIES = """
SELECT application_version, status, executor_id, count(*),
       extract(epoch FROM clock_timestamp())::double precision - min(created_at) / 1000.0::double precision
FROM {deliveries} WHERE queue_name = %(queue)s AND status IN ('ENQUEUED', 'DELAYED', 'PENDING') GROUP BY 1, 2, 3
"""
_GIVEN_UP = """
SELECT status, count(*) FROM runs
WHERE status IN ('rejected', 'dead_letter') AND header::jsonb->'plan'->>'workers' = %(queue)s GROUP BY 1
"""
_WORKERS = f"""
SELECT key, body FROM documents
WHERE collection = %(collection)s AND split_part(key, ':', -1)::bigint IN (SELECT number FROM {ALIVE} AS held (number))
"""  # noqa: S608 - contains no value
FORGET = f"""
DELETE FROM documents WHERE collection = %s
AND split_part(key, ':', -1)::bigint NOT IN (SELECT number FROM {ALIVE} AS held (number)) RETURNING key
""".encode()  # noqa: S608
"""Statement that forgets the workers that are dead."""


def workers_of(queue: str) -> str:
    """The collection of documents in which the workers of a queue say that they are there."""
    return f"workers/{queue}"


def read_queue(workers: Workers) -> QueueState:
    """Read the state of the queue; StoreError if the database does not answer. Blocks."""
    from psycopg import sql

    address = Address(workers.url, schema=workers.schema, timeout=5.0, patience=2.0)
    values = {"queue": workers.name, "collection": workers_of(workers.name)}
    table = sql.Identifier(workers.queue.schema, "workflow_status")
    try:
        with open_prepared(address) as session:
            found = session.execute(sql.SQL(_DELIVERIES).format(deliveries=table), values).fetchall()
            given_up: dict[str, int] = dict(session.execute(_GIVEN_UP.encode(), values).fetchall())
            alive = session.execute(_WORKERS.encode(), values).fetchall()
    except Exception as error:
        if address.is_error(error):
            raise StoreError(address.name, address.describe(error)) from None
        raise
    busy = {worker: number for _, status, worker, number, _ in found if status == "PENDING"}
    there = [WorkerState(worker=worker, running=busy.get(worker, 0), **json.loads(body)) for worker, body in alive]
    of_version = Counter(each.version for each in there)
    versions = []
    for name in sorted({row[0].removeprefix(f"{workers.name}/") for row in found} | set(of_version)):
        rows = [row for row in found if row[0] == f"{workers.name}/{name}"]
        counts = Counter[str]()
        for _, status, _, number, _ in rows:
            counts[status] += number
        versions.append(
            QueueVersion(
                version=name,
                waiting=counts["ENQUEUED"],
                put_off=counts["DELAYED"],
                running=counts["PENDING"],
                oldest=max((seconds for _, status, _, _, seconds in rows if status == "ENQUEUED"), default=None),
                workers=of_version[name],
            )
        )
    return QueueState(
        queue=workers.name,
        waiting=sum(each.waiting for each in versions),
        put_off=sum(each.put_off for each in versions),
        running=sum(each.running for each in versions),
        oldest=max((each.oldest for each in versions if each.oldest is not None), default=None),
        rejected=given_up.get("rejected", 0),
        dead_letters=given_up.get("dead_letter", 0),
        versions=tuple(versions),
        workers=tuple(sorted(there, key=lambda each: each.since)),
    )
