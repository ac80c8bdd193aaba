"""Forks and continuations of stored runs: recorded steps are reused, and models are called only for the other steps."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar, Unpack

from pydantic import Field, TypeAdapter, ValidationError

from flowdebate._text import error_text, is_blank, typed
from flowdebate._util.validation import check_count, check_text
from flowdebate.errors import ConfigurationError, JournalMismatch, RunNotFound
from flowdebate.models.codec import called_models, edited_text, json_text, reused_text
from flowdebate.runs.header import StoreOptions
from flowdebate.runs.journal import DECISION, LOST, TOOL, UNANSWERED, Journal, JournalOptions, is_within
from flowdebate.runs.suspend import answer_text, read_answer
from flowdebate.store.base import COMPLETE, RunHeader, StepKind, StepRow, Store, StoredRun, StoredStatus
from flowdebate.store.open import StoreChoice, open_store

MAX_ADDED_ROUNDS = 1_000
"""Maximum number of rounds that a continuation can add to a run."""
_MAX_EARLIER_ROUNDS = 10_000
"""Maximum number of rounds that a run may have before a continuation; it is also the maximum for a debate."""
MAX_ADDED_QUESTION_LENGTH = 4_000
"""Maximum length of a reader's question, in characters; the question is part of every prompt in the next round."""
ASKED = f"must be a question of at most {MAX_ADDED_QUESTION_LENGTH:,} characters"


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """Additional rounds, and readers' questions, for a fork of a finished run."""

    held: Annotated[int, Field(ge=1, le=_MAX_EARLIER_ROUNDS)]
    """Number of rounds completed before the continuation."""
    rounds: Annotated[int, Field(ge=1, le=MAX_ADDED_ROUNDS)]
    """Number of additional rounds."""
    asked: tuple[tuple[int, str], ...] = ()
    """Readers' questions, each with the 1-based number of the round that answers it."""

    def to_plan(self) -> dict[str, Any]:
        """Serialize the continuation for the plan of the fork."""
        questions = [{"round": number, "text": text} for number, text in self.asked]
        return {"held": self.held, "rounds": self.rounds, "asked": questions}

    @classmethod
    def of_plan(cls, stored: object) -> Continuation | None:
        """Read the continuation from a plan written by `to_plan`; return None if the plan has none.

        Raises ConfigurationError if the data is invalid, which is possible only in an imported run.
        """
        if stored is None:
            return None
        try:
            fields_ = {**stored, "asked": [(question["round"], question["text"]) for question in stored["asked"]]}  # type: ignore[dict-item, index]  # errors below
            return TypeAdapter(cls).validate_python(fields_)
        except (TypeError, KeyError, ValidationError):
            raise ConfigurationError(
                "plan", "continuation", stored, "must describe how the fork continues the debate"
            ) from None


def plan_continuation(stored: StoredRun, *, location: str, rounds: int = 1, ask: str | None = None) -> Continuation:
    """Plan a continuation of a stored run for `rounds` more rounds.

    Raises ConfigurationError if the run is unfinished or has no rounds.
    """
    check_count(location, maximum=MAX_ADDED_ROUNDS, rounds=rounds)
    if ask is not None and (not isinstance(ask, str) or is_blank(ask) or len(ask) > MAX_ADDED_QUESTION_LENGTH):
        raise ConfigurationError(location, "ask", ask, ASKED)
    raw = (stored.outcome or {}).get("raw")
    round_count: object = raw.get("rounds") if isinstance(raw, Mapping) else None
    if stored.status not in COMPLETE or type(round_count) is not int or round_count < 1:
        problem = "must be a finished run with rounds; resume an unfinished one"
        raise ConfigurationError(location, "run_id", stored.header.run_id, problem)
    before = raw.get("readerQuestions", []) if isinstance(raw, Mapping) else []
    questions = [(int(question["round"]), str(question["text"])) for question in before]
    return Continuation(
        held=round_count, rounds=rounds, asked=(*questions, *([] if ask is None else [(round_count + 1, ask)]))
    )


def plan_requested_continuation(stored: StoredRun, more: object) -> Continuation:
    """Plan a continuation of a stored run from a front end's options: "rounds", "ask" or both."""
    if not isinstance(more, Mapping) or not {"rounds", "ask"}.issuperset(more):
        raise ConfigurationError(
            "options", "continuation", more, 'must be a table with "rounds" (default: 1), "ask" or both'
        )
    return plan_continuation(
        stored, location="continuation", **{key: value for key, value in more.items() if value is not None}
    )


async def plan_continuation_of(
    location: str, run_id: str, *, rounds: int, ask: str | None, store: StoreChoice | StoreOptions
) -> Continuation:
    """Plan a continuation of the run with the given id; raise ConfigurationError if no store is configured."""
    choice = store.store if isinstance(store, StoreOptions) else store
    opened = open_store(choice, location=location)
    if opened is None:
        raise ConfigurationError(location, "store", store, "must be the run's store")
    return plan_continuation(await opened.run(run_id), location=location, rounds=rounds, ask=ask)


T = TypeVar("T")

_NAMED = 6
"""Maximum number of paths to list in an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parent:
    """Parent of a fork: the steps that the fork can reuse, and the edits made by the fork."""

    labels: Mapping[str, str]
    rows: Mapping[str, StepRow]
    edits: Mapping[str, Any]
    began_at: float
    left_at: float
    """Time at which the fork diverges from its parent. Like the parent's start (`began_at`), it is measured on the
    parent's clock.
    """
    reused_key: str | None = None
    """Steps whose keys contain this string are reused even if their requests have changed; None if there are none."""


class ForkJournal(Journal):
    """Journal of a fork: a step that is not yet recorded is copied from the parent if the parent has a matching one.

    Model calls match if both the request and the model are equal; human answers match if the requests are equal. Side
    effects and provider failures have no request, so they are reused as long as no earlier step differs. Stop
    conditions are evaluated again. A reused step is recorded in the fork before any later step, so the fork is
    self-contained.
    """

    def __init__(self, store: Store, header: RunHeader, parent: _Parent, **options: Unpack[JournalOptions]) -> None:
        super().__init__(store, header, **options)
        self._parent = parent
        self.parent_labels: Mapping[str, str] = parent.labels
        self._clock = parent.began_at
        self._ahead = parent.left_at - header.created_at
        self._differs = False
        """True once the fork has diverged from its parent, by executing a step itself or using an edited answer."""
        self._unwritten: deque[StepRow] = deque()
        """Steps reused from the parent but not yet recorded, in order."""
        self._writing = asyncio.Lock()

    def accepts_any_request(self, key: str) -> bool:  # noqa: ARG002 - the request shows whether the parent has the same step
        return False

    def find(self, key: str, request: str | None = None, *, model: str | None = None) -> StepRow | None:
        row = super().find(key, request)
        inherited = self._find_in_parent(key, request, model)
        if row is not None:  # a resumed fork diverges from its parent at the same step as before
            self._differs = self._differs or inherited is None or row.body != inherited.body
            return row
        if inherited is not None:
            self._differs = self._differs or key in self._parent.edits
            self._clock = max(self._clock, inherited.at or 0.0)
            self._unwritten.append(inherited)
        return inherited

    def _find_in_parent(self, key: str, request: str | None, model: str | None) -> StepRow | None:
        """Adapt the parent's matching step for the fork; return None if the step must be executed."""
        row = self._parent.rows.get(key)
        # the fork calls a role again if the call failed in the parent
        if row is None or row.body is None or UNANSWERED in key:
            return None
        # a role whose loss is reused, or a tool whose result is, would not read the edited answer to one of its calls
        place, skipped, _ = key.partition(LOST if LOST in key else TOOL)
        if skipped and any(is_within(edited, place) for edited in self._parent.edits):
            return None
        if key in self._parent.edits:
            return replace(row, request=request, body=edited_body(row, self._parent.edits[key]))
        if self._parent.reused_key is not None and self._parent.reused_key in key:
            return replace(row, request=request, body=reused_text(row.body) if row.kind == "call" else row.body)
        if row.kind in ("call", "human"):
            # The model must be one of those called in the parent run, including fallbacks; an edited answer may come
            # from any model.
            same = row.request == request and (model is None or model in (called_models(row.body) or (model,)))
            return replace(row, body=reused_text(row.body)) if same else None
        # Decisions are not reused, because a fork is a cheap way to let a run continue longer, or stop earlier, than
        # its parent.
        return None if self._differs or key.endswith(DECISION) else row

    def read(self, row: StepRow, reader: Callable[[str], T]) -> T:
        try:
            return super().read(row, reader)
        except JournalMismatch as error:
            if row.key not in self._parent.edits:
                raise
            edit = self._parent.edits[row.key]
            raise invalid_edit_error(row.key, edit, error_text(error.__cause__ or error)) from error

    def has_steps(self, place: str) -> bool:
        if not self._differs and any(is_within(key, place) for key in self._parent.rows):
            return True
        return super().has_steps(place)

    async def intend(self, key: str, kind: StepKind, request: str | None) -> None:
        self._differs = True
        await self._write_reused()
        await super().intend(key, kind, request)

    async def ask(self, key: str, request: str) -> None:
        self._differs = True
        await self._write_reused()
        await super().ask(key, request)

    async def commit(self, key: str, kind: StepKind, body: str) -> None:
        await self._write_reused()
        await super().commit(key, kind, body)

    async def finish(self, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        if self.owned:
            await self._write_reused()
        await super().finish(status, outcome)

    async def _write_reused(self) -> None:
        """Record the steps reused from the parent that have not been recorded yet."""
        async with self._writing:  # written in order; otherwise, a fork killed halfway through would leave a gap
            while self._unwritten:
                row = self._unwritten.popleft()
                await self.store.intend(self.run_id, row.key, row.kind, row.request)
                await self.store.commit(self.run_id, row.key, row.kind, row.body or "", row.at or self._clock)


def fork_header(
    parent: StoredRun,
    rows: Sequence[StepRow],
    *,
    block: str,
    fingerprint: Mapping[str, str],
    fork_id: str | None,
    edits: Mapping[str, Any] | None,
    at: str | None,
    prefix: str | None = None,
) -> RunHeader:
    """Create the header for a fork of `parent`; raise ConfigurationError for an invalid edit or path."""
    location = f"{block}.fork()"
    header = parent.header
    if header.block != block:
        raise ConfigurationError(
            location, "run_id", header.run_id, f"must be the ID of a run of {block}, not of {header.block}"
        )
    check_text(location, optional=True, fork_id=fork_id)
    rows_by_key = {row.key: row for row in rows if row.body is not None and row.kind in ("call", "human")}
    if at is not None and at not in rows_by_key:
        raise _unknown_path_error(location, "at", at, rows_by_key)
    if edits is not None and not isinstance(edits, Mapping):
        raise ConfigurationError(location, "edits", edits, "must be a dict that maps paths to answers")
    for place, edit in (edits or {}).items():
        if place not in rows_by_key:
            raise _unknown_path_error(location, "edits", place, rows_by_key)
        edited_body(rows_by_key[place], edit)
    first = min((rows_by_key[place].seq or 0 for place in (*(edits or ()), *([at] if at else []))), default=None)
    before = [row.at or 0.0 for row in rows if row.body is not None and (first is None or (row.seq or 0) < first)]
    # A fork of a fork uses the clock of the original run, because the recorded answers are dated by that clock.
    began_at = (header.parent or {}).get("began_at", header.created_at)
    return replace(
        header,
        run_id=fork_id or os.urandom(16).hex(),
        created_at=time.time(),
        fingerprint=fingerprint,
        parent={
            "run": header.run_id,
            "at": at,
            "edits": dict(edits or {}),
            "began_at": began_at,
            "left_at": max(before, default=began_at),
            **({} if prefix is None else {"kept": prefix}),
        },
    )


async def journal_of(store: Store, header: RunHeader, **options: Unpack[JournalOptions]) -> Journal:
    """Open the journal of a run; for a fork, also read the parent's journal if the parent still exists.

    An imported fork has no parent in this store, even if another run there has the parent's id.
    """
    parent = header.parent
    if parent is None or "began_at" not in parent:
        return Journal(store, header, **options)
    labels: Mapping[str, str] = {}
    rows: Sequence[StepRow] = ()
    # if the parent has been deleted, only the steps that the fork has not yet copied are requested again
    with suppress(RunNotFound):
        labels = (await store.run(parent["run"])).header.labels
        rows = await store.steps(parent["run"])
    done = [row for row in rows if row.seq is not None]
    end = next((row.seq for row in done if row.key == parent["at"]), None)
    before = [row for row in done if end is None or (row.seq or 0) < end or row.key in parent["edits"]]
    return ForkJournal(
        store,
        header,
        _Parent(
            labels=labels,
            rows={row.key: row for row in before},
            edits=parent["edits"],
            began_at=parent["began_at"],
            left_at=parent["left_at"],
            reused_key=parent.get("kept"),
        ),
        **options,
    )


def edited_body(row: StepRow, edit: object) -> str:
    """Return the text to record for an edited step; raise ConfigurationError if the edit does not fit the step."""
    try:
        if row.kind == "human":
            if isinstance(edit, str) and not isinstance(read_answer(row.body or "")[0], str):
                edit = json.loads(edit)  # the command line passes only text
            return json_text({**json.loads(answer_text(edit, suspended=False)), "origin": "edited"})
        return edited_text(row.body or "", edit)
    except (ValueError, TypeError, RecursionError) as error:
        problem = "the answer must be JSON: " if isinstance(error, json.JSONDecodeError) else ""
        raise invalid_edit_error(row.key, edit, f"{problem}{error}") from None


def invalid_edit_error(place: str, edit: object, why: str) -> ConfigurationError:
    """Create the error for an edit that does not fit the step at `place`."""
    return ConfigurationError("fork()", f"edits.{place}", edit, f"must be a valid answer for the step ({why})")


def _unknown_path_error(
    location: str, field: str, place: object, known_keys: Mapping[str, StepRow]
) -> ConfigurationError:
    places = ", ".join(map(typed, list(known_keys)[:_NAMED])) + (", …" if len(known_keys) > _NAMED else "")
    return ConfigurationError(
        location, field, place, f"must be the path of a recorded answer: {places or 'there is none'}"
    )
