"""What keeps runs: the `Store` protocol, and the rows that go in and out of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from flowdebate.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = (
    "ROW_FORMAT",
    "RunHeader",
    "StepKind",
    "StepRow",
    "Store",
    "StoredRun",
    "StoredStatus",
    "header_of",
    "header_text",
)

ROW_FORMAT = 1
"""The number of the form in which headers and bodies are written; older ones stay readable."""

StoredStatus = Literal[
    "queued",
    "running",
    "complete",
    "degraded",
    "no_verdict",
    "interrupted",
    "limit",
    "failed",
    "awaiting",
    "dead_letter",
]
"""Where a stored run stands: as `RunStatus`, and three more. It waits for a worker, to be begun or carried on; it waits
for a human's answer; or it has taken its process down with it so often, without getting any further, that it is not
carried on any more."""

StepKind = Literal["call", "effect", "loss", "human"]
"""What a step is: a call of a model, something impure that a block did, an answer that a pattern has given up, what a
human answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What a run was begun with; nothing of it changes."""

    run_id: str
    block: str
    """The name of the block that is run."""
    seed: int
    created_at: float
    """Seconds since the epoch."""
    question: str
    """What it is about, on one line: what searches look at."""
    input: Any
    """What the block was given, as JSON data."""
    fingerprint: Mapping[str, str]
    """What a run must be carried on with, by name: the outline of the block, the models, the limits."""
    model: Any = None
    """The names of the models that stand for the intents, as the run was given them; None for model objects."""
    limits: Mapping[str, float] | None = None
    """The run's limits that are numbers; None for a run without."""
    session: Mapping[str, Any] | None = None
    """The session's state and history when it began, as JSON data; None where they were empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The application's own words about it."""
    plan: Mapping[str, Any] | None = None
    """How the command line builds its block again; None for runs of other programs."""
    format: int = ROW_FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step of a run: an intention, and what came of it."""

    key: str
    """Its place in the run: never a number in a sequence, which branches that go on at once would mix up."""
    kind: StepKind
    request: str | None = None
    """The hash of what was asked, of a human's step all of it as JSON; None where nothing was asked."""
    attempts: int = 1
    """How often it was begun: what is above 1 may have been paid as often."""
    failures: tuple[str, ...] = ()
    """How earlier attempts failed, in order."""
    seq: int | None = None
    """Its place among the run's finished steps, from 1; None while it is open."""
    at: float | None = None
    """When it was finished, in seconds since the epoch; None while it is open."""
    body: str | None = None
    """What came of it, as JSON text; None while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as the store knows it."""

    header: RunHeader
    status: StoredStatus
    updated_at: float
    """When anything of it was last written, in seconds since the epoch."""
    steps: int
    """How many steps are finished."""
    recoveries: int = 0
    """How often it was carried on after its process had died, since it last got any further."""
    owned: bool = False
    """Whether somebody carries it out, or has died doing so."""
    outcome: Mapping[str, Any] | None = None
    """How it ended, as JSON data: `output`, `raw`, `usage`, `seconds` and `error`. None before."""


@runtime_checkable
class Store(Protocol):
    """Keeps runs and their steps; `flowdebate.testing.StoreConformance` is what any implementation must pass.

    What `commit`, `put` and `add` have written is durable when they return, with the run that it is of; what others
    have written outlives the process. All write also if their caller is cancelled in the meantime. One owner
    at a time carries out a run: the store object that has created or taken it, until it finishes or releases it, or
    its process dies. Another's writes are refused with RunConflict.
    StoreError, with the name of the place, for a store that cannot be read or written; it is left as it is.
    """

    @property
    def name(self) -> str:
        """The place, for messages: a path, or an address without its password."""

    async def create(self, header: RunHeader) -> None:
        """Keep a new run, and own it. Raises RunExists where the id is taken."""

    async def take(self, run_id: str) -> StoredRun:
        """Own a run that was left, and give it as it was before.

        A run that is taken while its status is "running" was left by a process that died: this counts as a recovery.
        Raises RunNotFound, and RunConflict while somebody carries it out.
        """

    async def release(self, run_id: str) -> None:
        """Own it no more; nothing else of it changes. For a run that is not owned, nothing."""

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        """Write down that the step `key` is about to be carried out; gives the attempt's number, from 1."""

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        """Keep what came of the step `key`, of this kind, intended or not; what was kept first stands."""

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        """Write down how the last attempt at the step `key` failed; the step stays open."""

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        """Write down how the run ended, and own it no more."""

    async def run(self, run_id: str) -> StoredRun:
        """The run; raises RunNotFound."""

    async def steps(self, run_id: str) -> Sequence[StepRow]:
        """Its steps: the finished ones in their order, then the open ones by key. Raises RunNotFound."""

    async def runs(
        self,
        *,
        status: StoredStatus | None = None,
        block: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Sequence[StoredRun]:
        """Those runs that are all that is asked for, the newest first; `text` stands in the question, in any case."""

    async def delete(self, run_id: str) -> None:
        """Forget the run. Raises RunNotFound, and RunConflict while somebody carries it out."""

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        """Keep a whole run that another store gave, as it is, owned by nobody. Raises RunExists."""

    async def documents(self, collection: str) -> Mapping[str, str]:
        """What lasts beyond runs, as JSON texts by key, in the order in which the keys were first put."""

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        """Keep a document in place of `expected`, None for a new one; False, and nothing done, if another stands there.

        So several processes can change one document: read it, put the change, and begin again where it gives False.
        """

    async def close(self) -> None:
        """Let go of files and connections, once everything is written. Using it afterwards is a StoreError."""


_FIELDS = tuple(field.name for field in fields(RunHeader))


def header_text(header: RunHeader) -> str:
    """`header` as JSON."""
    return json.dumps({name: getattr(header, name) for name in _FIELDS})


def header_of(text: str, store: str) -> RunHeader:
    """The header that `header_text` made into `text`; StoreError for one of a newer format."""
    try:
        values: dict[str, Any] = json.loads(text)
        written = values.get("format", 0)
        if isinstance(written, int) and written <= ROW_FORMAT:
            return RunHeader(**{name: values[name] for name in _FIELDS if name in values})
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(store, f"holds a run whose header cannot be read: {error}") from error
    raise StoreError(store, f"holds a run of a newer format ({written}, known: {ROW_FORMAT})")
