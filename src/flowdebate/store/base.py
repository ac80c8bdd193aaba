"""The `Store` protocol, and the rows that stores read and write."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

from flowdebate._util.validation import check_count
from flowdebate.errors import ConfigurationError, RunConflict, RunNotFound, StoreError

ROW_FORMAT = 1
"""Format version for headers and bodies."""
PLAN_FORMAT = 1
"""Version of the plan format used in headers."""

RunStatus = Literal["running", "complete", "degraded", "no_verdict", "interrupted", "limit", "failed", "awaiting"]
"""Status of a run: in progress; complete; complete except for provider failures; ended without a verdict; cancelled;
ended by one of its limits; failed; suspended until a human answers.
"""

StoredStatus = Literal["queued", RunStatus, "rejected", "dead_letter"]
"""Status of a stored run: a `RunStatus`, "queued" (waiting for a worker), "rejected" (no worker can execute it in its
present form), or "dead_letter" (abandoned after repeatedly crashing its process without making progress).
"""

COMPLETE: tuple[RunStatus, ...] = ("complete", "degraded", "no_verdict")
"""Statuses of completed runs; resuming a completed run replays it without calling models or humans."""

GIVEN_UP: tuple[StoredStatus, ...] = ("rejected", "dead_letter")
"""Statuses of runs abandoned by workers; the `error` in the outcome states the reason."""

StepKind = Literal["call", "effect", "loss", "human"]
"""Kind of step: a model call, a side effect of a block, an accepted provider failure, or a human's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """A run's initial inputs and options, which never change."""

    run_id: str
    block: str
    seed: int
    created_at: float
    """Time of creation, in seconds since the epoch."""
    question: str
    """Question on a single line, for searches."""
    input: Any
    """The block's input, as JSON data."""
    fingerprint: Mapping[str, str]
    """Digests of the block's outline, the models and the limits, keyed by name; they must be unchanged when the run is
    resumed.
    """
    model: Any = None
    """Names of the run's models, keyed by intent, or by "all" if one model replaces all others. A single string is the
    name of the model provided by the environment; None means that model objects were used.
    """
    limits: Mapping[str, float] | None = None
    """Numeric limits on the run; None if the run has no limits."""
    session: Mapping[str, Any] | None = None
    """The session's state and history at the start of the run, as JSON data; None if they were empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels given to the run by the application."""
    plan: Mapping[str, Any] | None = None
    """Plan from which the command line can rebuild the block; None for runs started by other programs."""
    foreign: bool = False
    """True if the run was imported; its input, options and recorded answers are then untrusted."""
    parent: Mapping[str, Any] | None = None
    """Id of the fork's parent (`run`), and the changes made by the fork; None if the run is not a fork."""
    format: int = ROW_FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step of a run, including its attempts and its recorded result."""

    key: str
    """Path of the step in the run; a sequence number would be ambiguous if branches ran concurrently."""
    kind: StepKind
    request: str | None = None
    """Hash of the request or, for a human's step, the complete request as JSON; None if the step made no request."""
    attempts: int = 1
    """Number of attempts; each of them may have incurred costs."""
    failures: tuple[str, ...] = ()
    """Failures of earlier attempts, in order."""
    seq: int | None = None
    """Position of the step among the run's finished steps, starting at 1; None while the step is unfinished."""
    at: float | None = None
    """Time at which the step finished, in seconds since the epoch; None while the step is unfinished."""
    body: str | None = None
    """Recorded result as JSON text; None while the step is unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A stored run: its header and its current state."""

    header: RunHeader
    status: StoredStatus
    updated_at: float
    """Time of the last write, in seconds since the epoch."""
    steps: int
    """Number of finished steps."""
    recoveries: int = 0
    """Number of times the run has been resumed after a crash since it last made progress."""
    owned: bool = False
    """True if a live process owns the run."""
    outcome: Mapping[str, Any] | None = None
    """Result of the run as JSON data (`output`, `raw`, `usage`, `seconds` and `error`); None until the run ends."""

    @property
    def position(self) -> tuple[float, str]:
        """Position of the run in lists; pass it as `before` to list the runs that come after this one."""
        return (self.header.created_at, self.header.run_id)


@runtime_checkable
class Store(Protocol):
    """Storage for runs and their steps; every implementation must pass `flowdebate.testing.StoreConformance`.

    When `commit`, `put` or `add` returns, its write and the run's earlier writes are durable; writes by other methods
    are only guaranteed to survive the end of the process. A write completes even if its caller is cancelled. A run has
    one owner at a time: the store object that created or took it, until that object finishes or releases the run, or
    its process dies. Writes by other owners raise RunConflict. If reading or writing fails, the store stays unchanged
    and raises a StoreError that states the store's name.
    """

    @property
    def name(self) -> str:
        """Location of the store, as shown in messages: a path, or a URL without the password."""

    async def create(self, header: RunHeader) -> None:
        """Add a new run and take ownership of it; raise RunExists if the id is taken."""

    async def take(self, run_id: str) -> StoredRun:
        """Take ownership of a run, and return the run as it was before the change.

        If the run's status is "running" but its process is dead, taking the run counts as a recovery. Raises
        RunNotFound, and RunConflict while a different owner is alive.
        """

    async def release(self, run_id: str) -> None:
        """Give up ownership of a run without changing anything else; do nothing if this store does not own it."""

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        """Record the start of an attempt at the step `key`; return the attempt's number, starting at 1."""

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        """Record the result of the step `key`, whether or not `intend` was called; an existing result is kept."""

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        """Record the failure of the latest attempt at the step `key`; the step remains unfinished."""

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        """Record how the run ended, and give up ownership of it."""

    async def run(self, run_id: str) -> StoredRun:
        """Read a run; raise RunNotFound if the id is unknown."""

    async def steps(self, run_id: str, *, after: int = 0) -> Sequence[StepRow]:
        """Read the run's finished steps numbered above `after`, in order, then its unfinished steps, sorted by key.

        Raises RunNotFound.
        """

    async def runs(
        self,
        *,
        status: StoredStatus | None = None,
        block: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        prefix: str | None = None,
        limit: int | None = None,
        before: tuple[float, str] | None = None,
        brief: bool = False,
    ) -> Sequence[StoredRun]:
        """List at most `limit` runs that match all arguments, newest first, breaking ties by id.

        `text` is searched for in the question, ignoring case; stores may limit searches for one or two characters to
        the newest 10,000 runs (`NEWEST_SEARCHED`). Ids must begin with `prefix`. `before` is the `position` of any run,
        even one deleted since: only runs after it in the list are returned. If runs are added or deleted while a list
        is being paged through, no run is repeated, and no run that was there from the beginning is skipped. With
        `brief`, outcomes may omit `output` and `raw`, their largest fields. Raises ConfigurationError for an invalid
        `limit` or `before` (see `check_page`).
        """

    async def delete(self, run_id: str) -> None:
        """Delete the run; raise RunNotFound, or RunConflict while its owner is alive."""

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        """Add an entire run from another store, unchanged and without an owner; raise RunExists if the id is taken."""

    async def documents_in(
        self, collections: Sequence[str], *, key: str | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        """Read the `documents` of several collections, grouped by collection.

        If `key` is passed, only the documents stored at that key are read. Empty collections are omitted.
        """

    async def documents(self, collection: str) -> Mapping[str, str]:
        """Read the documents of a collection, as JSON strings by key, in the order in which the keys were first added.

        Documents outlive runs.
        """

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        """Replace the document at `key` if its body is `expected`; if `expected` is None, add a new document.

        If anything else is stored there, do nothing and return False. This is compare-and-set: to change a shared
        document, read it, put the changed document, and start over if `put` returns False.
        """

    async def close(self) -> None:
        """Write all pending data, then close files and connections. Any later use of the store raises StoreError."""


class RunFilter(TypedDict, total=False):
    """Arguments of `Store.runs`, for stores that forward them to other functions."""

    status: StoredStatus | None
    block: str | None
    text: str | None
    labels: Mapping[str, str] | None
    prefix: str | None
    limit: int | None
    before: tuple[float, str] | None
    brief: bool


_MAX_INT64 = 2**63 - 1
"""Largest `limit` accepted by databases."""


def brief_of(outcome: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an outcome without its two outputs, as shown in lists.

    >>> brief_of({"output": "…", "raw": {}, "error": None})
    {'error': None}
    """
    return None if outcome is None else {key: outcome[key] for key in outcome if key not in ("output", "raw")}


_OUTPUT_IS_RAW = "output_is_raw"


def pack_outcome(outcome: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Pack the outcome for writing; if the two outputs are equal, as they are in most patterns, keep only `raw`.

    >>> pack_outcome({"output": {"text": "…"}, "raw": {"text": "…"}})
    {'raw': {'text': '…'}, 'output_is_raw': True}
    """
    if outcome is None or _OUTPUT_IS_RAW in outcome or not {"output", "raw"} <= outcome.keys():
        return outcome
    output, raw = outcome["output"], outcome["raw"]
    # Compare the JSON text, too, because Python considers 1, 1.0 and True equal.
    if output is not raw and not (output == raw and json.dumps(output) == json.dumps(raw)):
        return outcome
    return {**{key: value for key, value in outcome.items() if key != "output"}, _OUTPUT_IS_RAW: True}


def unpack_outcome(packed: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Restore an outcome packed by `pack_outcome`."""
    if packed is None or packed.get(_OUTPUT_IS_RAW) is not True or "raw" not in packed or "output" in packed:
        return packed
    outcome = {key: value for key, value in packed.items() if key != _OUTPUT_IS_RAW}
    return {"output": outcome["raw"], **outcome}


NEWEST_SEARCHED = 10_000
"""Number of newest runs searched for strings of one or two characters, which are too short for trigram indexes."""


def check_page(limit: int | None, before: tuple[float, str] | None) -> None:
    """Check the paging arguments of `Store.runs`, as every store must do first.

    Raises ConfigurationError if an argument is invalid.
    """
    check_count("Store.runs", minimum=0, maximum=_MAX_INT64, optional=True, limit=limit)
    match before:
        case None:
            return
        case (int() | float() as at, str()) if isinstance(before, tuple) and not isinstance(at, bool):
            if abs(at) <= sys.float_info.max:  # false for NaN and infinities
                return
    problem = "must be the `position` of a run, a tuple of its created_at and id"
    raise ConfigurationError("Store.runs", "before", before, problem)


def prefix_end(prefix: str) -> str | None:
    """Return the smallest string that sorts, by code points, after all strings with this prefix.

    Returns None if no such string can be formed simply by changing the last character.

    >>> prefix_end("run-1"), prefix_end("")
    ('run-2', None)
    """
    if not prefix or encode_text(prefix) != prefix or prefix[-1] in "\x19\ud7ff\U0010ffff":
        return None
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def list_order(position: tuple[float, str]) -> tuple[float, str]:
    """Return the sort key for a run's `position` in lists.

    >>> sorted([(1.0, "a"), (2.0, "b"), (2.0, "a")], key=list_order)
    [(2.0, 'a'), (2.0, 'b'), (1.0, 'a')]
    """
    created_at, run_id = position
    return (-created_at, encode_text(run_id))  # databases sort by the encoded text


@contextmanager
def ending_run(run_id: str, ending: set[str]) -> Iterator[None]:
    """Keep the run in `ending` while its end or release is being written, and after a write that may have failed."""
    # If the end of a run cannot be written, for example because the disk is full, the run is no longer in progress but
    # is still owned: the same store object must be able to take or delete it.
    ending.add(run_id)
    try:
        yield
    except (RunConflict, RunNotFound):
        ending.discard(run_id)
        raise
    ending.discard(run_id)


_FIELDS = tuple(field.name for field in fields(RunHeader))
_RARE = ("foreign", "parent")


def header_values(header: RunHeader) -> dict[str, Any]:
    """Return the fields of `header` as they are stored and exported; rarely used fields are omitted unless set."""
    return {name: getattr(header, name) for name in _FIELDS if name not in _RARE or getattr(header, name)}


def header_text(header: RunHeader) -> str:
    """Serialize `header` as JSON."""
    return json.dumps(header_values(header))


def header_of(text: str, store: str) -> RunHeader:
    """Parse a header from JSON; raise StoreError if the header's format is unknown."""
    try:
        values: dict[str, Any] = json.loads(text)
        written = values.get("format")
        if written == ROW_FORMAT:
            return RunHeader(**{name: values[name] for name in _FIELDS if name in values})
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(store, f"contains a run whose header cannot be read: {error}") from error
    problem = (
        f"contains a run written by another version of flowdebate (format {written}; this version reads {ROW_FORMAT})"
    )
    raise StoreError(store, f"{problem}: use that version")


def documents_of(run_id: str) -> str:
    """Return the name of the collection for a run's exportable documents, such as its readers' votes."""
    return f"run/{run_id}"


def by_collection(rows: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """Group rows of (collection, key, body) into the form returned by `Store.documents_in`.

    >>> by_collection([("a", "x", "1"), ("b", "x", "2"), ("a", "y", "3")])
    {'a': {'x': '1', 'y': '3'}, 'b': {'x': '2'}}
    """
    documents = dict[str, dict[str, str]]()
    for collection, key, body in rows:
        documents.setdefault(collection, {})[key] = body
    return documents


_MARK = "\x1a"
"""Escape character ("substitute"), followed by the four-digit hexadecimal code of the escaped character."""
_UNFIT = re.compile("[\x00\x1a\ud800-\udfff]")
_MARKED = re.compile("\x1a([0-9a-f]{4})")


def encode_text(text: str) -> str:
    r"""Escape the characters in `text` that databases reject: NUL and lone surrogates. Most strings stay unchanged.

    >>> encode_text("no\x00 end")
    'no\x1a0000 end'
    """
    if "\x00" not in text and _MARK not in text:
        try:
            text.encode()  # seven times as fast as the regular expression, and sufficient for nearly every string
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNFIT.sub(lambda match: f"{_MARK}{ord(match[0]):04x}", text)


def decode_text(text: str) -> str:
    r"""Undo `encode_text`.

    >>> decode_text(encode_text("a\x00\x1a\ud800"))
    'a\x00\x1a\ud800'
    """
    return _MARKED.sub(lambda match: chr(int(match[1], 16)), text) if _MARK in text else text
