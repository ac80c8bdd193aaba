"""Store of the runs of front ends."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError
from flowdebate.service.options import COMMAND, is_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.store.base import Store

__all__ = ("Place", "opened")


@dataclass(frozen=True, kw_only=True)
class Place:
    """An open store."""

    store: Store
    named: bool
    """Whether the user has said where it is."""
    option: str = ""
    """What another command needs to find it: "", or " --store WHERE"."""


@contextmanager
def opened(where: str | None) -> Iterator[Place]:
    """Open the store `where` (a file, an address); None: FLOWDEBATE_STORE, or the user's data directory.

    ConfigurationError for what is no store. Nothing is read or made yet.
    """
    from flowdebate.store.open import STORE_VARIABLE, close_store, default_store_path, open_store

    if where is not None and not is_text(where):
        raise ConfigurationError(COMMAND, "--store", where, "the path of a file, or postgresql://…")
    named = where or os.environ.get(STORE_VARIABLE) or None
    store = open_store(named or default_store_path(), where=COMMAND)
    assert store is not None  # noqa: S101 - only False means none
    try:
        yield Place(store=store, named=named is not None, option=_option(where, store))
    finally:
        asyncio.run(close_store(store))


def _option(where: str | None, store: Store) -> str:
    if where is None:
        return ""
    is_address = where.startswith(("postgresql:", "postgres:"))
    return f" --store {shlex.quote(store.name if is_address else where)}"
