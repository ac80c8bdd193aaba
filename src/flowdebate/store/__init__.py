"""Stores of durable runs: a recorded call is never paid for twice.

>>> from flowdebate.store import MemoryStore, SqliteStore
>>> SqliteStore("runs.sqlite3").name
'runs.sqlite3'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.store.archive import stored_archive
    from flowdebate.store.base import RunHeader, StepKind, StepRow, Store, StoredRun, StoredStatus, check_page
    from flowdebate.store.export import Imported, export_run, export_schema, import_runs, read_export, write_export
    from flowdebate.store.memory import MemoryStore
    from flowdebate.store.open import StoreChoice, close_store, default_store_path, open_store
    from flowdebate.store.postgres.store import PostgresStore
    from flowdebate.store.sqlite.store import SqliteStore

__all__ = (
    "Imported",
    "MemoryStore",
    "PostgresStore",
    "RunHeader",
    "SqliteStore",
    "StepKind",
    "StepRow",
    "Store",
    "StoreChoice",
    "StoredRun",
    "StoredStatus",
    "check_page",
    "close_store",
    "default_store_path",
    "export_run",
    "export_schema",
    "import_runs",
    "open_store",
    "read_export",
    "stored_archive",
    "write_export",
)

_LAZY = {
    **dict.fromkeys(("RunHeader", "StepKind", "StepRow", "Store", "StoredRun", "StoredStatus", "check_page"), "base"),
    **dict.fromkeys(
        ("Imported", "export_run", "export_schema", "import_runs", "read_export", "write_export"), "export"
    ),
    **dict.fromkeys(("StoreChoice", "close_store", "default_store_path", "open_store"), "open"),
    "MemoryStore": "memory",
    "PostgresStore": "postgres.store",
    "SqliteStore": "sqlite.store",
    "stored_archive": "archive",
}
"""Imported at first use: a debate that is not stored needs none of them."""

__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
