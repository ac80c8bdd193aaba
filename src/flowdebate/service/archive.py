"""Archives of a service: one for each user, beside the runs."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from flowdebate.runs.account import OWNER
from flowdebate.store.archive import stored_archive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.store.archive import StoredArchive
    from flowdebate.store.base import Store


def archive_of(store: Store, labels: Mapping[str, str]) -> StoredArchive:
    """The archive of runs with these labels: that of their owner, or the one of all runs without an owner."""
    if OWNER not in labels:
        return stored_archive(store)
    # a name in a store is short and printable, and those of users are what the application makes them
    digest = sha256(labels[OWNER].encode(errors="surrogatepass")).hexdigest()
    return stored_archive(store, name=f"{OWNER} {digest}")
