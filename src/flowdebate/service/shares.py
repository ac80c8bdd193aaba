"""Public links of runs: which there are, and what each of them shows. The server signs them."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import ValidationError

from flowdebate._util.wire import WireModel
from flowdebate.errors import NotAwaited
from flowdebate.service.votes import sides_of
from flowdebate.store.export import GONE

if TYPE_CHECKING:
    from flowdebate.store.base import Store, StoredRun


Shown: TypeAlias = Literal["run", "vote"]
"""What a public link shows: what was said and what came out; or that without names, to vote on first."""

_MOST = 20
"""Public links of a run at a time."""


class Share(WireModel):
    """A public link of a run."""

    id: str
    shows: Shown
    expires_at: float
    """Seconds since the epoch."""
    begun_at: float
    """When the run began: a later run with the same id does not have this link."""


def shares_in(run_id: str) -> str:
    """The collection of a run's public links: unlike its other documents, no export has them.

    >>> shares_in("rents")
    'shares/rents'
    """
    return f"shares/{run_id}"


async def shares_of(store: Store, run: StoredRun) -> dict[str, Share]:
    """The public links of a run that are good now, by id."""
    found = dict[str, Share]()
    for key, body in (await store.documents(shares_in(run.header.run_id))).items():
        if body != GONE:
            try:
                share = Share.model_validate_json(body)
            except ValidationError:
                continue
            if share.begun_at == run.header.created_at and share.expires_at > time.time():
                found[key] = share
    return found


async def make_share(store: Store, run: StoredRun, shows: Shown, seconds: float) -> Share:
    """Make a public link; NotAwaited for a vote on what is no debate that is over, and for one link too many."""
    run_id = run.header.run_id
    if shows == "vote" and not sides_of(run):
        raise NotAwaited(store.name, run_id, "is no debate of several sides that is over, so nobody can vote on it")
    if len(await shares_of(store, run)) >= _MOST:
        raise NotAwaited(store.name, run_id, f"has {_MOST} public links, as many as a run may have: revoke one first")
    expires_at = time.time() + seconds
    share = Share(id=f"link-{secrets.token_hex(8)}", shows=shows, expires_at=expires_at, begun_at=run.header.created_at)
    await store.put(shares_in(run_id), share.id, share.model_dump_json(by_alias=True))
    return share


async def end_shares(store: Store, run_id: str, share_id: str | None = None) -> bool:
    """Revoke a public link of a run, or all of them; False where there is none."""
    found = [
        (key, body)
        for key, body in (await store.documents(shares_in(run_id))).items()
        if share_id in (None, key) and body != GONE
    ]
    for key, body in found:
        await store.put(shares_in(run_id), key, GONE, expected=body)
    return bool(found)
