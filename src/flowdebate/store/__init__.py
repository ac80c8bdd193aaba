"""Stores of durable runs: a recorded call is never paid for twice.

>>> from flowdebate.store import MemoryStore, SqliteStore
>>> SqliteStore("runs.sqlite3").name
'runs.sqlite3'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names
from flowdebate.store.base import RunHeader, StepKind, StepRow, Store, StoredRun, StoredStatus
from flowdebate.store.memory import MemoryStore
from flowdebate.store.open import StoreChoice, close_store, default_store_path, open_store

if TYPE_CHECKING:
    from flowdebate.store.archive import stored_archive
    from flowdebate.store.export import Imported, export_run, export_schema, import_runs, read_export, write_export
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
    "Imported": "export",
    "PostgresStore": "postgres.store",
    "SqliteStore": "sqlite.store",
    "export_run": "export",
    "export_schema": "export",
    "import_runs": "export",
    "read_export": "export",
    "stored_archive": "archive",
    "write_export": "export",
}
"""Imported at first use: they bring databases and schemas with them."""

__getattr__ = lazy_names(__name__, _LAZY)
