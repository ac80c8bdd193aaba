"""Run queue: deliveries of run ids in DBOS's tables, the status of each queued run, and an overview of the queue."""

from __future__ import annotations

import base64
import json
import math
import pickle  # used only to write a pickle and to check that it is rejected
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from flowdebate._util.importing import IMPORTING
from flowdebate.errors import ConfigurationError, StoreError
from flowdebate.runs.queue_state import DeliveredRun, QueueState, QueueVersion, WorkerState
from flowdebate.store.base import StoredStatus, encode_text
from flowdebate.store.postgres.database import Address, open_prepared
from flowdebate.store.postgres.sessions import ALIVE

if TYPE_CHECKING:
    from types import ModuleType

    from dbos import DBOSClient, WorkflowStatus
    from dbos._serialization import Serializer
    from sqlalchemy import Engine

    from flowdebate.workers.deployment import Workers


_DELIVERIES = """
SELECT application_version, count(*) FILTER (WHERE status = 'ENQUEUED'), count(*) FILTER (WHERE status = 'DELAYED'),
       count(*) FILTER (WHERE status = 'PENDING'), extract(epoch FROM clock_timestamp())::double precision
       - min(created_at) FILTER (WHERE status = 'ENQUEUED') / 1000.0::double precision
FROM {deliveries} WHERE queue_name = %(queue)s AND status IN ('ENQUEUED', 'DELAYED', 'PENDING') GROUP BY 1
"""
_TAKEN = """
SELECT executor_id, count(*) FROM {deliveries} WHERE queue_name = %(queue)s AND status = 'PENDING' GROUP BY 1
"""
# Within its priority, a run shares the turn of the first waiting run. If its owner already has waiting runs, it takes
# the turn after the last of these instead.
_TURN = """
WITH waiting AS NOT MATERIALIZED (
    SELECT priority, queue_partition_key AS owner FROM "{schema}".workflow_status
    WHERE queue_name = %(queue)s AND status = 'ENQUEUED' AND application_version = %(version)s
    AND priority BETWEEN %(first)s AND %(last)s
), turns AS (
    SELECT min(priority) AS turn FROM waiting
    UNION ALL SELECT max(priority) + 1 FROM waiting WHERE owner = %(owner)s
)
SELECT least(coalesce(max(turn), %(first)s), %(last)s) FROM turns
"""
# Rows with a different marker are not read, because DBOS would unpickle them and thereby run code hidden in them.
_PROBLEM = """
SELECT delivery.serialization, coalesce(ended.output, delivery.output), coalesce(ended.error, delivery.error)
FROM "{schema}".workflow_status AS delivery LEFT JOIN "{schema}".workflow_output AS ended USING (workflow_uuid)
WHERE workflow_uuid = %(delivery)s
"""
_FOREIGN = """
SELECT workflow_uuid FROM "{schema}".workflow_status WHERE queue_name = %(queue)s
AND status IN ('ENQUEUED', 'DELAYED', 'PENDING', 'ERROR') AND serialization IS DISTINCT FROM 'portable_json' LIMIT 100
"""
FOREIGN = "its delivery was not written by this library and is not read, because it may contain code"
"""Reason given for abandoning a run because its row in the queue is pickled or unmarked."""
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
"""SQL statement that deletes the registrations of dead workers."""


def workers_of(queue: str) -> str:
    """Return the name of the document collection where a queue's workers are registered."""
    return f"workers/{queue}"


def read_queue(workers: Workers) -> QueueState:
    """Read the queue's state; raise StoreError if the database does not answer. This call blocks."""
    from psycopg import sql

    address = Address(workers.url, schema=workers.schema, timeout=5.0, patience=2.0)
    values = {"queue": workers.name, "collection": workers_of(workers.name)}
    table = sql.Identifier(workers.queue.schema, "workflow_status")
    try:
        with open_prepared(address) as session:
            rows = session.execute(sql.SQL(_DELIVERIES).format(deliveries=table), values).fetchall()
            taken_counts: dict[str, int] = dict(
                session.execute(sql.SQL(_TAKEN).format(deliveries=table), values).fetchall()
            )
            given_up: dict[str, int] = dict(session.execute(_GIVEN_UP.encode(), values).fetchall())
            alive = session.execute(_WORKERS.encode(), values).fetchall()
    except Exception as error:
        if address.is_error(error):
            raise StoreError(address.name, address.describe(error)) from None
        raise
    alive_workers = [
        WorkerState(worker=worker, running=taken_counts.get(worker, 0), **json.loads(body)) for worker, body in alive
    ]
    of_version = Counter(state.version for state in alive_workers)
    counts: dict[str, Any] = dict.fromkeys(of_version, (0, 0, 0, None))
    counts |= {name.removeprefix(f"{workers.name}/"): numbers for name, *numbers in rows}
    versions = tuple(
        QueueVersion(
            version=name, waiting=waiting, put_off=put_off, running=running, oldest=oldest, workers=of_version[name]
        )
        for name, (waiting, put_off, running, oldest) in sorted(counts.items())
    )
    return QueueState(
        queue=workers.name,
        waiting=sum(version.waiting for version in versions),
        put_off=sum(version.put_off for version in versions),
        running=sum(version.running for version in versions),
        oldest=max((version.oldest for version in versions if version.oldest is not None), default=None),
        rejected=given_up.get("rejected", 0),
        dead_letters=given_up.get("dead_letter", 0),
        versions=versions,
        workers=tuple(sorted(alive_workers, key=lambda version: version.since)),
    )


WORKFLOW = "flowdebate.deliver"  # name of the only DBOS workflow used here
_TURNS = 2**24
"""Number of DBOS priorities, out of 2**31, reserved for turns within each run priority. This is enough, because turn
numbers start over whenever the queue becomes empty.
"""
ACTIVE = ("ENQUEUED", "DELAYED", "PENDING")  # DBOS statuses of deliveries that have not ended

Delivery: TypeAlias = Literal["waiting", "taken", "done", "failed", "cancelled"]
"""Status of a run's latest delivery: waiting, taken by a worker, completed, failed, or cancelled."""
# number of worker deaths after which a run is executed alone; until then, other runs may have caused the deaths
_DEATHS_TOGETHER = 2

# DBOS statuses, mapped to the names used here.
DELIVERIES: Mapping[str, Delivery] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "taken",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRunStatus:
    """Status of a run submitted to workers, based on its store and its queue."""

    run_id: str
    status: StoredStatus
    """Status in the store; "queued" until a worker starts the run."""
    owned: bool
    """True if a process is executing the run."""
    steps: int
    """Number of steps recorded so far."""
    outcome: Mapping[str, Any] | None
    """The run's outcome: `output`, `raw`, `usage`, `seconds` and `error`; None until the run ends."""
    delivery: Delivery | None
    """Status of the run's latest delivery; None if the run was never put on the queue."""
    worker: str | None
    """Worker that took the latest delivery: "machine:process:number"."""
    problem: str | None
    """Reason why a worker abandoned the run; None if no worker did."""

    @property
    def over(self) -> bool:
        """True if the run has ended, or will not continue unless it is resumed."""
        if self.status in ("queued", "running"):
            return self.delivery in ("failed", "cancelled") and not self.owned
        return True


@dataclass(frozen=True, slots=True)
class History:
    """Outcomes of a run's earlier deliveries, stored with each new delivery."""

    deaths: int = 0
    """Number of workers that have died while executing the run since it last recorded a step."""
    deaths_alone: int = 0
    """Number of workers counted in `deaths` that were executing no other run, so only this run can have killed them."""
    outages: int = 0
    """Number of provider outages that have delayed the run since it last recorded a step."""
    since: int = 0
    """Time of the first delay counted in `outages`, in seconds since the epoch."""
    steps: int = 0
    """Number of steps recorded by the time a worker last died or the run was last delayed."""

    @classmethod
    def of(cls, delivery: WorkflowStatus) -> History:
        attributes = delivery.attributes or {}
        return cls(**{field.name: int(attributes.get(field.name) or 0) for field in fields(cls)})

    @property
    def suspect(self) -> bool:
        """True if the run is suspected of killing its workers, so no other run may be executed alongside it."""
        return self.deaths >= _DEATHS_TOGETHER

    @property
    def delay(self) -> float:
        """Delay in seconds before the run's next delivery; it doubles each time."""
        longest = 0.0
        for number, (first, longest_delay) in ((self.deaths, DELAYS["death"]), (self.outages, DELAYS["outage"])):
            if number:
                longest = max(longest, min(first * 2.0 ** min(number - 1, 60), longest_delay))
        return longest

    def after_death(self, steps: int) -> History:
        """Return the history after the death of another worker, given the number of steps recorded so far.

        >>> once = History().after_death(3)
        >>> twice = once.after_death(3)
        >>> twice.suspect, twice.after_death(3).deaths_alone, twice.after_death(4).deaths
        (True, 1, 1)
        """
        before = self._without_progress(steps)
        return replace(before, deaths=before.deaths + 1, deaths_alone=before.deaths_alone + before.suspect)

    def after_outage(self, steps: int, now: float) -> History:
        """Return the history after another provider outage, given the number of steps recorded so far."""
        before = self._without_progress(steps)
        return replace(before, outages=before.outages + 1, since=before.since or math.ceil(now))

    def _without_progress(self, steps: int) -> History:
        return History(steps=steps) if steps > self.steps else self


DELAYS = {"death": (0.5, 60.0), "outage": (5.0, 600.0)}
"""Initial and maximum delay in seconds before a run is redelivered, keyed by cause."""


class RunQueue:
    """Run queue called `name` for workers with `version`; DBOS's tables, in `schema`, are created on first use.

    A delivery is a workflow whose only argument is a run id. The workflow's id consists of the run id and a number,
    because a run may be redelivered; at any time, at most one delivery of a run is waiting. All methods block, and may
    be called from any thread.
    """

    def __init__(self, url: str, *, name: str, version: str, schema: str) -> None:
        self.url: str = url
        self.name = name
        self.version: str = f"{name}/{version}"
        """Version as registered in DBOS, unique among the applications that share a database."""
        self.schema = schema
        self._client: DBOSClient | None = None
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def open(self) -> DBOSClient:
        """Import DBOS, create its tables, and connect; call this before storing anything, since it may fail or be slow.

        Raises StoreError if the database cannot be used.
        """
        with self._lock, self._reached():
            if self._client is None:
                dbos = driver()
                dbos.DBOS.migrate(self.url, schema=self.schema)
                from sqlalchemy import create_engine, make_url

                url = make_url(self.url).set(drivername="postgresql+psycopg")
                # Two sessions: one for DBOS, and one for queries about turns.
                self._engine = create_engine(
                    url, pool_size=2, max_overflow=0, pool_pre_ping=True, connect_args={"application_name": self.name}
                )
                self._client = dbos.DBOSClient(
                    system_database_engine=self._engine,
                    dbos_system_schema=self.schema,
                    application_name=self.name,
                    serializer=json_serializer(),
                )
            return self._client

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Convert database errors raised in the `with` block to StoreError."""
        try:
            yield
        except Exception as error:
            address = Address(self.url, schema=self.schema, timeout=10.0, patience=2.0)
            cause = getattr(error, "orig", error)  # SQLAlchemy's error wraps the driver's error
            if not address.is_error(cause):
                raise
            raise StoreError(address.name, address.describe(cause)) from None

    def send(self, run_id: str, *, owner: str = "", priority: int | None = 0) -> bool:
        """Put the run on the queue unless a delivery is active; return False if a worker has already taken the run.

        Runs with a lower priority value are taken first, and owners take turns within a priority. A run with priority
        None comes before all others.
        """
        deliveries = self.of(run_id)
        active = [delivery.status for delivery in deliveries if delivery.status in ACTIVE]
        if not active:
            partition = _partition(owner)
            turn = {} if priority is None else {"priority": self._turn(partition, priority)}
            self._send(run_id, deliveries, History(), queue_partition_key=partition, **turn)
        return "PENDING" not in active

    def redeliver(self, old: str, run_id: str, history: History, *, delay: float) -> None:
        """Put the run at the front of the queue after `delay` seconds, replacing delivery `old`. Idempotent."""
        deliveries = self.of(run_id)
        if {delivery.workflow_id for delivery in deliveries if delivery.status in ACTIVE} <= {old}:
            partition = next(
                (delivery.queue_partition_key for delivery in deliveries if delivery.queue_partition_key),
                _partition(""),
            )
            self._send(run_id, deliveries, history, queue_partition_key=partition, delay_seconds=delay)

    def problem_of(self, delivery: str) -> str | None:
        """Return a worker's reason for abandoning a delivery; None if it was not abandoned."""
        rows = self._query(_PROBLEM, delivery=delivery)
        if not rows or rows[0][0] != _OURS:
            return FOREIGN if rows else None
        try:
            output, error = (None if text is None else json.loads(text) for text in rows[0][1:])
        except ValueError:  # not valid JSON, so not written by this library, although it has this library's marker
            return FOREIGN
        problem = output.get("problem") if isinstance(output, dict) else None
        failure = error.get("message") if isinstance(error, dict) else None
        return str(problem or failure) if problem or failure else None

    def foreign(self) -> list[str]:
        """Find deliveries in the queue that were not written by this library."""
        return [str(delivery) for (delivery,) in self._query(_FOREIGN, queue=self.name)]

    def _query(self, query: str, **values: object) -> Sequence[Any]:
        self.open()
        assert self._engine is not None  # noqa: S101 - opened
        schema = self.schema.replace('"', '""').replace("%", "%%")
        with self._reached(), self._engine.connect() as session:
            return session.exec_driver_sql(query.format(schema=schema), values).all()

    def drop(self, delivery: str) -> None:
        """Delete a delivery.

        Cancelling it instead would look like a user's request to a live worker.
        """
        self.open().delete_workflows([delivery])

    def _send(self, run_id: str, deliveries: Sequence[WorkflowStatus], history: History, **options: object) -> None:
        # Use consecutive rather than random numbers, so that concurrent clients notice each other's deliveries.
        number = 1 + max((int(delivery.workflow_id.rpartition("/")[2], 16) for delivery in deliveries), default=-1)
        options_sent: Any = options | {
            "workflow_name": WORKFLOW,
            "queue_name": self.name,
            "workflow_id": f"{encode_text(run_id)}/{number:x}",
            "app_version": self.version,
            "serialization_type": driver().WorkflowSerializationFormat.PORTABLE,  # JSON instead of pickles
            "attributes": {"run": encode_text(run_id)} | asdict(history),
        }
        self.open().enqueue(options_sent, run_id)

    def _turn(self, partition: str, priority: int) -> int:
        first = 1 + priority * _TURNS  # runs that have already started get no priority, so DBOS takes them first
        values = {"first": first, "last": first + _TURNS - 1, "queue": self.name, "version": self.version}
        [[turn]] = self._query(_TURN, **values, owner=partition)
        return int(turn)

    def delivery_of(self, worker: str, delivery: str) -> tuple[DeliveredRun, History]:
        """Return the delivery's description for observers, and the history of the run's earlier deliveries."""
        workflows = self.open().list_workflows(workflow_ids=[delivery], load_input=False, load_output=False)
        origin = {"queue": self.name, "worker": worker, "version": self.version.removeprefix(f"{self.name}/")}
        if not workflows:
            return DeliveredRun(**origin, delivery=1, seconds=0.0), History()
        status, history = workflows[0], History.of(workflows[0])
        due = max(status.created_at or 0, status.delay_until_epoch_ms or 0)
        number = history.deaths + history.outages + max(status.recovery_attempts or 0, 1)
        waited = max((status.dequeued_at or due) - due, 0) / 1000
        return DeliveredRun(**origin, delivery=number, seconds=waited), history

    def of(self, run_id: str) -> Sequence[WorkflowStatus]:
        """Return all deliveries of the run, newest first."""
        workflows = self.open().list_workflows(
            workflow_id_prefix=f"{encode_text(run_id)}/",
            attributes={"run": encode_text(run_id)},
            sort_desc=True,
            load_input=False,
            load_output=False,
        )
        # Compare the full id, because another run's id may consist of this one followed by "/" and more text.
        return [workflow for workflow in workflows if workflow.workflow_id.rpartition("/")[0] == encode_text(run_id)]

    def active(self, run_id: str) -> list[str]:
        """Return the ids of the run's unfinished deliveries."""
        return [workflow.workflow_id for workflow in self.of(run_id) if workflow.status in ACTIVE]

    def executing_deliveries(self, worker: str | None = None) -> Sequence[WorkflowStatus]:
        """Return the deliveries being executed by all workers of this version, or only those of the given worker."""
        return self.open().list_workflows(
            queue_name=self.name,
            status="PENDING",
            app_version=self.version,
            executor_id=worker,
            load_input=False,
            load_output=False,
        )

    def cancelled(self, ids: Iterable[str]) -> set[str]:
        """Return the `ids` whose deliveries have been cancelled."""
        workflows = self.open().list_workflows(
            workflow_ids=list(ids), status="CANCELLED", load_input=False, load_output=False
        )
        return {workflow.workflow_id for workflow in workflows}

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel deliveries, leaving finished ones unchanged."""
        if ids:
            self.open().cancel_workflows(list(ids))

    def hand_back(self, ids: Sequence[str]) -> None:
        """Put deliveries back on the queue for any worker to take."""
        if ids:
            self.open().resume_workflows(list(ids), queue_name=self.name)

    def prepare(self, max_concurrency: int, owner_concurrency: int | None, poll: float) -> None:
        """Create or update the queue, with limits on runs per worker and per owner, and a poll interval in seconds."""
        self.open().register_queue(
            self.name,
            worker_concurrency=max_concurrency,
            partition_concurrency=owner_concurrency,
            polling_interval_sec=poll,
            on_conflict="always_update",
        )

    def close(self) -> None:
        """Close the connections; the queue can be used again afterwards."""
        with self._lock:
            client, self._client = self._client, None
            engine, self._engine = self._engine, None
        if client is not None:
            client.destroy()
        if engine is not None:
            engine.dispose()


def _partition(owner: str) -> str:
    """Return a short name for an owner's partition of the queue, because DBOS indexes the name."""
    return sha256(owner.encode(errors="surrogatepass")).hexdigest()


def driver() -> ModuleType:
    """Import and return the `dbos` package; raise ConfigurationError if it is missing."""
    try:
        with IMPORTING:
            import dbos
    except ImportError:
        hint = "pip install 'flowdebate[dbos]'"
        raise ConfigurationError("Workers", "url", None, "requires dbos, which is not installed", hint=hint) from None
    return dbos


_OURS = "portable_json"  # DBOS's marker for JSON rows, as written by this library


def json_serializer() -> Serializer:
    """Return DBOS's JSON serializer, to replace the default one, which would unpickle rows without a marker."""
    from dbos._serialization import DBOSPortableJSON

    return DBOSPortableJSON


def refuse_pickles() -> None:
    """Prevent DBOS from unpickling rows in this worker process; raise ConfigurationError if this is not possible.

    Each row has a marker that determines how DBOS reads it. Without this function, anybody with write access to the
    queue's tables could run code in every worker.
    """
    from dbos import _serialization

    def refuse(_: str) -> NoReturn:
        raise StoreError("the queue", FOREIGN)

    _serialization.DBOSDefaultSerializer.deserialize = refuse  # type: ignore[method-assign, assignment]
    harmless = base64.b64encode(pickle.dumps("")).decode()
    try:
        _serialization.deserialize_value(harmless, "py_pickle", json_serializer())
    except StoreError:
        return
    raise ConfigurationError("Workers.work()", "DBOS", None, "must be a version that can reject pickles")
