"""Persistent archive: records of past debates among the documents of a store.

Each debate adds one immutable document under its id, so writing twice changes nothing, and concurrent processes cannot
overwrite each other. Reads aggregate the documents in the order in which they were added, as `Archive` does in memory.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from flowdebate.errors import ConfigurationError, StoreError, error_text, problems_of, shown
from flowdebate.measures import Ballot, Position
from flowdebate.resources.archive import (
    Archive,
    CritiquePattern,
    PastDebate,
    PersonaRecord,
    VerdictOutcome,
    forecasts,
)
from flowdebate.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flowdebate.resources.archive import (
        CritiquePatterns,
        Forecast,
        PastDebates,
        Personas,
        Positions,
        Rating,
        Ratings,
    )
    from flowdebate.store.base import Store
    from flowdebate.store.open import StoreChoice


PartT = TypeVar("PartT")
_Add: TypeAlias = Callable[[PartT, str, Any], Awaitable[None]]

_FORMAT = 1
"""Format number of documents; older formats stay readable."""
_LONGEST_NAME = 100


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
    prefix = f"archive/{name}"
    return Archive(
        past_debates=_StoredDebates(opened, prefix),
        critique_patterns=_StoredPatterns(opened, prefix),
        ratings=_StoredRatings(opened, prefix),
        positions=_StoredPositions(opened, prefix),
        personas=_StoredPersonas(opened, prefix),
        outcomes=_StoredOutcomes(opened, prefix),
        patience=patience,
    )


class _Log(Generic[PartT]):
    """One part of an archive: its documents by debate, aggregated into a part in memory."""

    def __init__(self, store: Store, collection: str, kind: Any, part: Callable[[], PartT], add: _Add[PartT]) -> None:  # noqa: ANN401
        self._store = store
        self._collection = collection
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self._part = part
        self._add = add
        self._debates: list[str] = []
        self._total = part()

    async def record(self, debate: str, value: object) -> None:
        """Add the document of `debate`, unless it has one already."""
        try:
            plain = self._adapter.dump_python(self._adapter.validate_python(value), mode="json")
            body = json.dumps({"format": _FORMAT, "value": plain}, allow_nan=False)
        except ValueError as error:
            raise self._problem(debate, "cannot be stored", error) from error
        await self._store.put(self._collection, debate, body)

    async def aggregate(self) -> PartT:
        """Return the aggregate of all documents; known ones are not parsed again."""
        documents = await self._store.documents(self._collection)
        debates = list(documents)
        if debates[: len(self._debates)] != self._debates:  # another process's was put in between
            self._debates, self._total = [], self._part()
        for debate in debates[len(self._debates) :]:
            await self._add(self._total, debate, self._read(debate, documents[debate]))
            self._debates.append(debate)
        return self._total

    def _read(self, debate: str, body: str) -> Any:  # noqa: ANN401 - of the kind that the adapter checks
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


class _StoredDebates:
    def __init__(self, store: Store, prefix: str) -> None:
        async def add_to(part: PastDebates, _: str, debate: PastDebate) -> None:
            await part.add(debate)

        self._log = _Log(store, f"{prefix}/debates", PastDebate, lambda: Archive().past_debates, add_to)

    async def recent(self, task: str, /, *, limit: int) -> Sequence[PastDebate]:
        return await (await self._log.aggregate()).recent(task, limit=limit)

    async def add(self, debate: PastDebate, /) -> None:
        await self._log.record(debate.id, debate)


class _StoredPatterns:
    def __init__(self, store: Store, prefix: str) -> None:
        async def add_to(part: CritiquePatterns, debate: str, patterns: list[CritiquePattern]) -> None:
            await part.record(debate, patterns)

        kind = list[CritiquePattern]
        self._log = _Log(store, f"{prefix}/patterns", kind, lambda: Archive().critique_patterns, add_to)

    async def successful(self, *, limit: int) -> Sequence[CritiquePattern]:
        return await (await self._log.aggregate()).successful(limit=limit)

    async def record(self, debate: str, patterns: Iterable[CritiquePattern], /) -> None:
        await self._log.record(debate, list(patterns))


class _StoredRatings:
    def __init__(self, store: Store, prefix: str) -> None:
        async def add_to(part: Ratings, debate: str, changes: dict[str, float]) -> None:
            await part.apply(debate, changes)

        self._log = _Log(store, f"{prefix}/ratings", dict[str, float], lambda: Archive().ratings, add_to)

    async def of(self, names: Sequence[str], /) -> Mapping[str, Rating]:
        return await (await self._log.aggregate()).of(names)

    async def apply(self, debate: str, changes: Mapping[str, float], /) -> None:
        await self._log.record(debate, dict(changes))


class _StoredPositions:
    def __init__(self, store: Store, prefix: str) -> None:
        async def add_to(part: Positions, debate: str, positions: list[Position]) -> None:
            await part.add(debate, positions)

        self._log = _Log(store, f"{prefix}/positions", list[Position], lambda: Archive().positions, add_to)

    async def of(self, agent: str, /) -> Sequence[Position]:
        return await (await self._log.aggregate()).of(agent)

    async def add(self, debate: str, positions: Iterable[Position], /) -> None:
        await self._log.record(debate, list(positions))


class _StoredPersonas:
    def __init__(self, store: Store, prefix: str) -> None:
        async def add_to(part: Personas, debate: str, records: dict[str, PersonaRecord]) -> None:
            await part.record(debate, records)

        self._log = _Log(store, f"{prefix}/personas", dict[str, PersonaRecord], lambda: Archive().personas, add_to)

    async def of(self, agent: str, /) -> PersonaRecord:
        return await (await self._log.aggregate()).of(agent)

    async def record(self, debate: str, records: Mapping[str, PersonaRecord], /) -> None:
        await self._log.record(debate, dict(records))


class _StoredOutcomes:
    def __init__(self, store: Store, prefix: str) -> None:
        async def add_to(part: dict[str, Any], debate: str, value: object) -> None:
            part[debate] = value

        made: Callable[[], dict[str, Any]] = dict
        self._votes = _Log(store, f"{prefix}/votes", list[Ballot], made, add_to)
        self._outcomes = _Log(store, f"{prefix}/outcomes", VerdictOutcome, made, add_to)

    async def add(self, debate: str, ballots: Iterable[Ballot], /) -> None:
        await self._votes.record(debate, list(ballots))

    async def ballots(self, debate: str, /) -> Sequence[Ballot]:
        found: Sequence[Ballot] = (await self._votes.aggregate()).get(debate, ())
        return found

    async def resolve(self, debate: str, outcome: VerdictOutcome, /) -> None:
        await self._outcomes.record(debate, outcome)

    async def of(self, names: Sequence[str], /) -> Mapping[str, Sequence[Forecast]]:
        return forecasts(await self._votes.aggregate(), await self._outcomes.aggregate(), names)
