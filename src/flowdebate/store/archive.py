"""Persistent archive: records of past debates, kept as documents in a store.

Each debate adds one document to each part of the archive, with the debate's id as the key, so writing is idempotent,
and concurrent processes cannot overwrite each other's documents. Stores cannot delete documents, so the documents of a
forgotten debate are overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from flowdebate._text import error_text, listed, problems_of
from flowdebate._util.validation import check_text
from flowdebate.errors import ConfigurationError, StoreError
from flowdebate.measures import Ballot, Position
from flowdebate.resources.archive import (
    Archive,
    CritiquePattern,
    Log,
    LoggedDebates,
    LoggedOutcomes,
    LoggedPatterns,
    LoggedPersonas,
    LoggedPositions,
    LoggedRatings,
    PastDebate,
    PersonaRecord,
    VerdictOutcome,
)
from flowdebate.store.base import Store
from flowdebate.store.export import GONE
from flowdebate.store.open import StoreChoice, open_store

_FORMAT = 1
"""Version of the document format."""
_MAX_NAME_LENGTH = 100
"""Maximum length of an archive's name, in characters; the name is part of each key in the store and appears in error
messages.
"""


class ArchivedDebate(PastDebate):
    """An archived debate, its agents, and everything recorded about the debate since it was archived."""

    agents: list[str]
    """Agents that voted or received votes."""
    recorded: VerdictOutcome | None


@dataclass(slots=True, kw_only=True)
class StoredArchive(Archive):
    """An archive kept as documents in a store; its debate records can be corrected or removed."""

    logs: Mapping[str, _StoredLog]
    """Logs for the individual parts of the archive, keyed by collection name."""

    async def debates(self) -> list[ArchivedDebate]:
        """List all debates, newest first."""
        logged = await LoggedDebates(self.logs["debates"], self.logs["outcomes"]).all()
        votes, outcomes = await self.logs["votes"].read(), await self.logs["outcomes"].read()
        agents = {
            debate: {name for ballot in ballots for name in (ballot.voter, ballot.choice)}
            for debate, ballots in votes.items()
        }
        return [
            ArchivedDebate(**dict(past), agents=sorted(agents.get(past.id, ())), recorded=outcomes.get(past.id))
            for past in logged
        ]

    async def correct(
        self, debate: str, *, right: str | None = None, wrong: str | None = None, answer: str | None = None
    ) -> None:
        """Replace a debate's outcome, the answer shown to later debates, or both.

        Raises the same errors as `record_outcome`, and ConfigurationError if the debate is missing or has no answer.
        """
        past = (await self.logs["debates"].read()).get(debate)
        if past is None or (answer is not None and past.answer is None):
            problem = "is not in this archive" if past is None else "has no agreed answer"
            raise ConfigurationError("StoredArchive.correct", "debate", debate, problem)
        check_text("StoredArchive.correct", optional=True, answer=answer)
        if answer is None or right is not None or wrong is not None:
            await self.logs["outcomes"].replace(debate, await self._check_outcome(debate, right, wrong))
        if answer is not None:
            await self.logs["debates"].replace(debate, past.model_copy(update={"answer": answer}))

    async def forget(self, debate: str) -> None:
        """Remove everything the archive has learned from a debate, including its effect on ratings."""
        for log in self.logs.values():
            await log.replace(debate, None)


def stored_archive(store: StoreChoice, *, name: str = "default", patience: float = 10.0) -> StoredArchive:
    """Open an archive in `store`, for use as `consensus(archive=…)`; several processes may use it at once.

    `store` is a Store, a path, or an address such as "postgresql://…". Archives with different names are independent.
    `patience` is in seconds, as in `Archive`.

    >>> archive = stored_archive("memory:", name="city council")
    """
    opened = open_store(store, location="stored_archive")
    if opened is None:
        raise ConfigurationError("stored_archive", "store", store, "must be a Store, a path or a name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _MAX_NAME_LENGTH:
        problem = f"must be 1 to {_MAX_NAME_LENGTH} printable characters"
        raise ConfigurationError("stored_archive", "name", name, problem)

    logs: dict[str, _StoredLog] = {}

    def log(part: str, kind: object) -> Log[Any]:
        logs[part] = _StoredLog(opened, f"archive/{name}/{part}", kind)
        return logs[part]

    return StoredArchive(
        past_debates=LoggedDebates(log("debates", PastDebate)),
        critique_patterns=LoggedPatterns(log("patterns", list[CritiquePattern])),
        ratings=LoggedRatings(log("ratings", dict[str, float])),
        positions=LoggedPositions(log("positions", list[Position])),
        personas=LoggedPersonas(log("personas", dict[str, PersonaRecord])),
        outcomes=LoggedOutcomes(log("votes", list[Ballot]), log("outcomes", VerdictOutcome)),
        patience=patience,
        logs=logs,
    )


class _StoredLog(Log[Any]):
    """Log whose values are stored as the documents of a collection."""

    def __init__(self, store: Store, collection: str, kind: Any) -> None:  # noqa: ANN401 - a type that pydantic knows
        super().__init__()
        self._store = store
        self._collection = collection
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self._parsed: Mapping[str, tuple[str, Any]] = {}
        """Documents as last read and their parsed values, keyed by debate."""

    async def add(self, debate: str, value: object) -> None:
        body = self._body(debate, value)
        if not await self._store.put(self._collection, debate, body):
            await self._store.put(
                self._collection, debate, body, expected=GONE
            )  # replaces a forgotten document, because a new run may have the same id as a deleted run

    async def replace(self, debate: str, value: object) -> None:
        """Replace the value recorded for `debate` with `value`, or remove it if `value` is None."""
        body = GONE if value is None else self._body(debate, value)
        while (before := (await self._store.documents(self._collection)).get(debate)) != body:
            if before is None and value is None:
                break
            await self._store.put(self._collection, debate, body, expected=before)

    async def read(self) -> Mapping[str, Any]:
        """Return the values keyed by debate, in the order the debates were added.

        Only documents that have changed are parsed again.
        """
        documents, parsed = await self._store.documents(self._collection), self._parsed
        present = {key: body for key, body in documents.items() if body != GONE}
        self._parsed = {
            key: parsed[key] if key in parsed and parsed[key][0] == body else (body, self._parse(key, body))
            for key, body in present.items()
        }
        return {key: value for key, (_, value) in self._parsed.items()}

    def _body(self, debate: str, value: object) -> str:
        try:
            plain = self._adapter.dump_python(self._adapter.validate_python(value), mode="json")
            return json.dumps({"format": _FORMAT, "value": plain}, allow_nan=False)
        except ValueError as error:
            raise self._problem(debate, "cannot be stored", error) from error

    def _parse(self, debate: str, body: str) -> object:
        try:
            document = json.loads(body)
            written = document["format"]
            if written == _FORMAT:
                return self._adapter.validate_python(document["value"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._problem(debate, "cannot be read", error) from error
        formats = f"format {written}; this version reads {_FORMAT}"
        problem = f"was written by another version of flowdebate ({formats}): use that version"
        raise self._problem(debate, problem)

    def _problem(self, debate: str, problem: str, error: Exception | None = None) -> StoreError:
        if isinstance(error, ValidationError):
            problem += f": {listed(problems_of(error)[:1])}"
        elif error is not None:
            problem += f": {error_text(error)}"
        return StoreError(self._store.name, f"the document of debate {debate} in {self._collection} {problem}")
