"""Functions for opening stores by path, address or name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from flowdebate._text import hide_credentials
from flowdebate.errors import ConfigurationError
from flowdebate.store.address import parse_address

if TYPE_CHECKING:
    from flowdebate.store.base import Store


StoreChoice: TypeAlias = "Store | str | Path | bool | None"
"""Choice of store: a Store object; the path of a SQLite file; "postgresql://…"; "memory:"; False for no store; None to
use FLOWDEBATE_STORE if it is set.

Addresses in formats used by other programs are accepted too: "postgresql+psycopg://…", "host=… dbname=…",
"sqlite:///PATH".
"""

STORE_VARIABLE = "FLOWDEBATE_STORE"
_KNOWN: dict[tuple[int, str], Store] = {}
"""Stores opened by name in this process; opening a name again returns the same object, with the same connection.

The process id is part of the key, because no connection survives a fork.
"""


def default_store_path() -> Path:
    """Return the command line's default store: a file in the user's data directory."""
    from platformdirs import user_data_path

    return user_data_path("flowdebate", appauthor=False) / "runs.sqlite3"


def open_store(choice: StoreChoice = None, *, location: str = "run") -> Store | None:
    """Return the store described by `choice`, or None if `choice` means no store.

    Raises ConfigurationError for an invalid choice.

    >>> open_store("memory:").name
    'memory'
    """
    field = "store"
    if choice is None:
        choice, field = os.environ.get(STORE_VARIABLE) or False, STORE_VARIABLE
    if choice is False:
        return None
    if isinstance(choice, Path):
        choice = str(choice)
    if isinstance(choice, str) and choice.strip():
        # SQLite would report a damaged file, or create a database with this name.
        if choice.lower().endswith((".jsonl", ".ndjson")):
            name = hide_credentials(choice)
            hint = f"To import exported runs into a store, use `flowdebate import {name}` or import_runs()"
            raise ConfigurationError(location, field, name, "must be a Store, a SQLite file or an address", hint=hint)
        return _open_by_name(parse_address(choice, location=location, field=field))
    if not isinstance(choice, (bool, str)):
        from flowdebate.store.base import Store

        # For a protocol, `isinstance` checks every method; this recognizes declared subclasses without those checks.
        if Store in type(choice).__mro__ or isinstance(choice, Store):
            return choice
    problem = 'must be a Store, a path, "postgresql://…", "memory:", False for no store, or None for FLOWDEBATE_STORE'
    raise ConfigurationError(location, field, choice, problem)


async def close_store(store: Store) -> None:
    """Close `store`; opening it again by name creates a new object."""
    for key in [key for key, open_store_ in _KNOWN.items() if open_store_ is store]:
        del _KNOWN[key]
    await store.close()


def _open_by_name(place: str) -> Store:
    if place == "memory:":
        from flowdebate.store.memory import MemoryStore

        return MemoryStore()
    is_remote = place.startswith("postgresql://")
    place = place if is_remote else str(Path(place).expanduser().absolute())
    key = (os.getpid(), place)
    existing = _KNOWN.get(key)
    if existing is not None and not getattr(
        existing, "lost", False
    ):  # a lost store no longer accepts writes, so the file must be opened again
        return existing
    if is_remote:
        from flowdebate.store.postgres.store import PostgresStore

        store: Store = PostgresStore(place)
    else:
        from flowdebate.store.sqlite.store import SqliteStore

        store = SqliteStore(place)
    _KNOWN[key] = store
    return store
