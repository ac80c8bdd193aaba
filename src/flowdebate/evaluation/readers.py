"""Readers' votes for the better argument in a run, public links to the run, and the note on it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidationError

from flowdebate._text import join_choices
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError, NotAwaited
from flowdebate.store.base import COMPLETE, Store, StoredRun, documents_of
from flowdebate.store.export import GONE

_WHERE = "vote"
_PREFIX = "votes/"
_NOTE, _MAX_NOTE_LENGTH = "note", 2_000
"""Key of the document that contains a run's note, and the note's maximum length in characters."""
_MAX_VOTES = 10_000
"""Maximum number of votes on a run; necessary because every vote without a reader ID counts as a new reader's."""


class Vote(WireModel):
    """A reader's vote."""

    winner: str | None
    """Side with the better argument; None if the reader chose neither."""
    why: str | None = None
    order: list[str] | None = None
    """Sides in the order shown to the reader; None if unknown."""
    at: float
    """Time of the vote, in seconds since the epoch."""
    begun_at: float
    """Start time of the run; stored so that the vote does not carry over to a later run with the same ID."""


class Votes(WireModel):
    """Number of readers' votes for each side."""

    readers: Annotated[int, Field(ge=0)]
    sides: dict[str, int]
    neither: Annotated[int, Field(ge=0)]

    @classmethod
    def of(cls, votes: Sequence[Vote], sides: Sequence[str]) -> Votes:
        """Count the votes for each side; ignore votes for unknown sides."""
        winners = [vote.winner for vote in votes if vote.winner is None or vote.winner in sides]
        counts = {side: winners.count(side) for side in sides}
        return cls(readers=len(winners), sides=counts, neither=winners.count(None))

    @property
    def leader(self) -> str | None:
        """Side with the most votes; None if there is a tie, including a tie with "neither".

        >>> Votes(readers=3, sides={"yes": 2, "no": 1}, neither=0).leader
        'yes'
        """
        highest = max([*self.sides.values(), self.neither], default=0)
        first = [side for side, votes in self.sides.items() if votes == highest]
        return first[0] if highest and len(first) == 1 and self.neither < highest else None


def sides_of(run: StoredRun) -> list[str]:
    """Return the stances in a finished debate, in the order they were first argued; return [] for other runs."""
    raw = (run.outcome or {}).get("raw")
    entries = raw.get("transcript") if isinstance(raw, dict) and run.status in COMPLETE and "verdict" in raw else None
    stances = [entry.get("stance") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    sides = list(dict.fromkeys(stance for stance in stances if isinstance(stance, str)))
    return sides if len(sides) > 1 else []  # with only one side, there is nothing to vote on


async def votes_in(store: Store, run: StoredRun) -> dict[str, Vote]:
    """Read the votes on a run, keyed by reader."""
    return votes_of(run, await store.documents(documents_of(run.header.run_id)))


async def votes_on(store: Store, runs: Sequence[StoredRun]) -> list[dict[str, Vote]]:
    """Read the votes on each of `runs`, keyed by reader, in a single query."""
    documents = await store.documents_in([documents_of(run.header.run_id) for run in runs])
    return [votes_of(run, documents.get(documents_of(run.header.run_id), {})) for run in runs]


def votes_of(run: StoredRun, documents: Mapping[str, str]) -> dict[str, Vote]:
    """Read the votes in a run's documents; skip invalid ones, because an import may contain anything."""
    votes = dict[str, Vote]()
    for key, body in documents.items():
        if key.startswith(_PREFIX) and body != GONE:
            try:
                vote = Vote.model_validate_json(body)
            except ValidationError:
                continue
            if vote.begun_at == run.header.created_at:  # the ID of a deleted run may have been reused
                votes[key.removeprefix(_PREFIX)] = vote
    return votes


async def cast_vote(
    store: Store,
    run: StoredRun,
    reader: str,
    winner: str | None,
    *,
    why: str | None = None,
    order: Sequence[str] | None = None,
) -> None:
    """Record a reader's vote; only the first vote counts.

    Raise ConfigurationError for an unknown side, or NotAwaited if the reader has already voted or the run is not a
    finished debate.
    """
    run_id, sides = run.header.run_id, sides_of(run)
    if not sides:
        raise NotAwaited(store.name, run_id, "is not a finished debate with several sides, so it does not accept votes")
    if winner is not None and winner not in sides:
        problem = f"must be {join_choices(sides)}, or null for neither"
        raise ConfigurationError(_WHERE, "winner", winner, problem)
    if order is not None and sorted(order) != sorted(sides):
        raise ConfigurationError(
            _WHERE, "order", list(order), f"must contain each side exactly once: {join_choices(sides, word='and')}"
        )
    begun = run.header.created_at
    vote = Vote(winner=winner, why=why, order=None if order is None else list(order), at=time.time(), begun_at=begun)
    key, body = f"{_PREFIX}{reader}", vote.model_dump_json(by_alias=True)
    collection = documents_of(run_id)
    if len(await store.documents(collection)) >= _MAX_VOTES:
        raise NotAwaited(store.name, run_id, f"already has {_MAX_VOTES:,} votes, the maximum per run")
    # fails if the document exists, so only one of two simultaneous votes counts
    if await store.put(collection, key, body):
        return
    # A document exists. It may be replaced if it is a vote on an earlier run with this ID, or the tombstone of a vote.
    before = (await store.documents(collection)).get(key, GONE)
    if reader in await votes_in(store, run) or not await store.put(collection, key, body, expected=before):
        raise NotAwaited(store.name, run_id, "already has a vote from this reader")


Shown: TypeAlias = Literal["run", "vote"]
"""Content shown by a public link: all arguments and the outcome, or just unattributed arguments until the
reader votes.
"""

_MAX_SHARES = 20
"""Maximum number of public links to a run at any one time."""


class Share(WireModel):
    """Public link to a run."""

    id: str
    shows: Shown
    expires_at: float
    """Expiry time, in seconds since the epoch."""
    begun_at: float
    """Start time of the run; stored so that the link does not carry over to a later run with the same ID."""


def shares_in(run_id: str) -> str:
    """Return the name of the collection for a run's public links; exports leave this collection out.

    >>> shares_in("rents")
    'shares/rents'
    """
    return f"shares/{run_id}"


async def shares_of(store: Store, run: StoredRun) -> dict[str, Share]:
    """Read a run's valid public links, keyed by ID."""
    shares = dict[str, Share]()
    for key, body in (await store.documents(shares_in(run.header.run_id))).items():
        if body != GONE:
            try:
                share = Share.model_validate_json(body)
            except ValidationError:
                continue
            if share.begun_at == run.header.created_at and share.expires_at > time.time():
                shares[key] = share
    return shares


async def make_share(store: Store, run: StoredRun, shows: Shown, seconds: float) -> Share:
    """Create a public link.

    Raises NotAwaited if the run has too many links, or if the link is for voting and the run cannot accept votes.
    """
    run_id = run.header.run_id
    if shows == "vote" and not sides_of(run):
        raise NotAwaited(store.name, run_id, "is not a finished debate with several sides, so it does not accept votes")
    if len(await shares_of(store, run)) >= _MAX_SHARES:
        raise NotAwaited(
            store.name, run_id, f"already has {_MAX_SHARES} public links, the maximum per run: revoke one first"
        )
    expires_at = time.time() + seconds
    share = Share(id=f"link-{secrets.token_hex(8)}", shows=shows, expires_at=expires_at, begun_at=run.header.created_at)
    await store.put(shares_in(run_id), share.id, share.model_dump_json(by_alias=True))
    return share


async def end_shares(store: Store, run_id: str, share_id: str | None = None) -> bool:
    """Revoke one or all of a run's public links; return False if there are none."""
    shares = [
        (key, body)
        for key, body in (await store.documents(shares_in(run_id))).items()
        if share_id in (None, key) and body != GONE
    ]
    for key, body in shares:
        await store.put(shares_in(run_id), key, GONE, expected=body)
    return bool(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReaders:
    """A run's reader votes, note and public links."""

    votes: Mapping[str, Vote]
    """Votes, keyed by reader."""
    counted: Votes
    note: str
    shares: Sequence[Share]
    """Valid public links, oldest first."""


async def readers_of(store: Store, run: StoredRun) -> RunReaders:
    """Read a run's votes, links and note."""
    documents = await store.documents(documents_of(run.header.run_id))
    votes = votes_of(run, documents)
    return RunReaders(
        votes=votes,
        counted=Votes.of(list(votes.values()), sides_of(run)),
        note=_read_note(documents.get(_NOTE, GONE)),
        shares=list((await shares_of(store, run)).values()),
    )


class Readership:
    """Service for the readers of runs: votes, notes and public links."""

    store: Store

    async def vote(
        self,
        run_id: str,
        reader: str,
        winner: str | None,
        *,
        why: str | None = None,
        order: Sequence[str] | None = None,
    ) -> Votes:
        """Record a reader's vote for the better argument in a debate, or for neither (None).

        Return the new vote counts. `order` lists the sides in the order shown to this reader. Raise ConfigurationError
        for an unknown side, or NotAwaited if the reader has already voted.
        """
        await cast_vote(self.store, await self.store.run(run_id), reader, winner, why=why, order=order)
        return await self.votes(run_id)

    async def vote_of(self, run_id: str, reader: str) -> Vote | None:
        """Return a reader's vote, or None if the reader has not voted."""
        return (await votes_in(self.store, await self.store.run(run_id))).get(reader)

    async def note(self, run_id: str) -> str:
        """Return the note on a run, or "" if there is none."""
        return (await self.notes_on([run_id]))[run_id]

    async def notes_on(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the notes on several runs, keyed by run; the value is "" for a run without a note."""
        documents = await self.store.documents_in([documents_of(run_id) for run_id in run_ids], key=_NOTE)
        return {run_id: _read_note(documents.get(documents_of(run_id), {}).get(_NOTE, GONE)) for run_id in run_ids}

    async def write_note(self, run_id: str, note: str) -> None:
        """Write the note on a run, to be included in exports; an empty string deletes the note.

        Raise ConfigurationError if the note is too long.
        """
        await self.store.run(run_id)
        if len(note) > _MAX_NOTE_LENGTH:
            raise ConfigurationError(
                "Service.write_note()", "note", note, f"must have at most {_MAX_NOTE_LENGTH:,} characters"
            )
        store, collection, body = self.store, documents_of(run_id), json.dumps(note) if note.strip() else GONE
        while not await store.put(collection, _NOTE, body, expected=(await store.documents(collection)).get(_NOTE)):
            pass  # another writer came first, so try again: the last write wins

    async def share(self, run_id: str, shows: Shown, *, seconds: float = 86_400) -> Share:
        """Create a public, read-only link, either to all of a run's content ("run") or to a blind vote ("vote").

        The link is valid for `seconds` on the server that signs it. Raise NotAwaited if a blind vote is requested for
        anything but a finished debate.
        """
        return await make_share(self.store, await self.store.run(run_id), shows, seconds)

    async def shares(self, run_id: str) -> list[Share]:
        """List a run's valid public links, oldest first."""
        return list((await shares_of(self.store, await self.store.run(run_id))).values())

    async def unshare(self, run_id: str, share_id: str) -> bool:
        """Revoke one of a run's public links immediately; return False for an unknown ID."""
        await self.store.run(run_id)
        return await end_shares(self.store, run_id, share_id)

    async def votes(self, run_id: str) -> Votes:
        stored = await self.store.run(run_id)
        return Votes.of(list((await votes_in(self.store, stored)).values()), sides_of(stored))


def _read_note(body: str) -> str:
    """Read a note; return "" if there is none, or if an import put something other than text in its place."""
    with suppress(ValueError):
        return "" if body == GONE else str(json.loads(body))
    return ""
