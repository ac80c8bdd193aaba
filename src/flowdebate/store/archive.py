"""Persistent archive: records of past debates among the documents of a store.

Each debate adds one immutable document under its id, so writing twice changes nothing, and concurrent processes cannot
overwrite each other.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from flowdebate.errors import ConfigurationError, StoreError, error_text, problems_of, shown
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
from flowdebate.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.store.base import Store
    from flowdebate.store.open import StoreChoice


_FORMAT = 1
"""Format number of documents; older formats stay readable."""
_LONGEST_NAME = 100
"""Characters: the name is part of a key in every store, and is shown in error messages."""


def stored_archive(store: StoreChoice, *, name: str = "default", patience: float = 10.0) -> Archive:
    """Open an archive in `store`, for `consensus(archive=…)`; several processes may use it at once.

    `store` is a Store, a path, or an address such as "postgresql://…". Archives of different names are independent.
    `patience` is in seconds, as that of `Archive`.

    >>> archive = stored_archive("memory:", name="city council")
    """
    opened = open_store(store, where="stored_archive")
    if opened is None:
        raise ConfigurationError("stored_archive", "store", store, "a Store, a path or a name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        allowed = f"printable text of 1 to {_LONGEST_NAME} characters"
        raise ConfigurationError("stored_archive", "name", name, allowed)

    def log(part: str, kind: Any) -> Log[Any]:  # noqa: ANN401 - a type that pydantic knows
        return _StoredLog(opened, f"archive/{name}/{part}", kind)

    return Archive(
        past_debates=LoggedDebates(log("debates", PastDebate)),
        critique_patterns=LoggedPatterns(log("patterns", list[CritiquePattern])),
        ratings=LoggedRatings(log("ratings", dict[str, float])),
        positions=LoggedPositions(log("positions", list[Position])),
        personas=LoggedPersonas(log("personas", dict[str, PersonaRecord])),
        outcomes=LoggedOutcomes(log("votes", list[Ballot]), log("outcomes", VerdictOutcome)),
        patience=patience,
    )


class _StoredLog(Log[Any]):
    """A log whose values are the documents of a collection."""

    def __init__(self, store: Store, collection: str, kind: Any) -> None:  # noqa: ANN401 - as above
        super().__init__()
        self._store = store
        self._collection = collection
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    async def add(self, debate: str, value: Any) -> None:  # noqa: ANN401 - of the kind that the adapter checks
        try:
            plain = self._adapter.dump_python(self._adapter.validate_python(value), mode="json")
            body = json.dumps({"format": _FORMAT, "value": plain}, allow_nan=False)
        except ValueError as error:
            raise self._problem(debate, "cannot be stored", error) from error
        await self._store.put(self._collection, debate, body)

    async def read(self) -> Mapping[str, Any]:
        """The values by debate, in the order of the documents; a document never changes, so it is parsed once."""
        documents = await self._store.documents(self._collection)
        known = self.values
        self.values = {key: known[key] if key in known else self._parse(key, body) for key, body in documents.items()}
        return self.values

    def _parse(self, debate: str, body: str) -> Any:  # noqa: ANN401 - as above
        try:
            document = json.loads(body)
            written = document["format"]
            if written <= _FORMAT:
                return self._adapter.validate_python(document["value"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._problem(debate, "cannot be read", error) from error
        raise self._problem(debate, f"was written by a newer version of flowdebate ({written}, known: {_FORMAT})")

    def _problem(self, debate: str, problem: str, error: Exception | None = None) -> StoreError:
        if isinstance(error, ValidationError):
            field, what = problems_of(error)[0]
            problem += f": `{field}` {what}" if field else f": {what}"
        elif error is not None:
            problem += f": {error_text(error)}"
        return StoreError(self._store.name, f"the document of debate {shown(debate)} in {self._collection} {problem}")
