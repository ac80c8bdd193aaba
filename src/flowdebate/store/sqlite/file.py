"""SQLite file: connections, schema, and the thread for syncing the file to disk."""

from __future__ import annotations

import json
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flowdebate._util.files import make_private_folder, open_private
from flowdebate.errors import StoreError
from flowdebate.store.base import decode_text, encode_text

_APPLICATION = 0x464C4F57
"""The `application_id` of a store file: "FLOW"."""
VERSION = 1
"""Schema version written by this version of the library."""
_SCHEMA = (
    """
    CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        block TEXT NOT NULL,
        question TEXT NOT NULL,
        folded TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        steps INTEGER NOT NULL DEFAULT 0,
        recoveries INTEGER NOT NULL DEFAULT 0,
        owner TEXT,
        header TEXT NOT NULL,
        outcome TEXT,
        brief TEXT
    ) STRICT
    """,
    """
    CREATE TABLE steps (
        run_id TEXT NOT NULL,
        key TEXT NOT NULL,
        kind TEXT NOT NULL,
        request TEXT,
        attempts INTEGER NOT NULL,
        failures TEXT NOT NULL DEFAULT '[]',
        seq INTEGER,
        at REAL,
        body TEXT,
        PRIMARY KEY (run_id, key)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE documents (
        number INTEGER PRIMARY KEY,
        collection TEXT NOT NULL,
        key TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (collection, key)
    ) STRICT
    """,
    # Searches read only this index.
    "CREATE INDEX runs_created ON runs (created_at DESC, run_id, folded)",
    "CREATE INDEX runs_status ON runs (status, created_at DESC, run_id)",
    "CREATE INDEX runs_block ON runs (block, created_at DESC, run_id)",
    "CREATE INDEX runs_block_status ON runs (block, status, created_at DESC, run_id)",
    """
    CREATE TABLE run_labels (
        label TEXT NOT NULL,
        created_at REAL NOT NULL,
        run_id TEXT NOT NULL,
        PRIMARY KEY (label, created_at DESC, run_id)
    ) STRICT, WITHOUT ROWID
    """,
    # Runs with damaged headers get no labels.
    """
    CREATE TRIGGER labels_added AFTER INSERT ON runs BEGIN
        INSERT OR IGNORE INTO run_labels SELECT key || '=' || atom, new.created_at, new.run_id
        FROM json_each(iif(json_valid(new.header), new.header, '{}'), '$.labels');
    END
    """,
    """
    CREATE TRIGGER labels_deleted AFTER DELETE ON runs BEGIN
        DELETE FROM run_labels WHERE created_at = old.created_at AND run_id = old.run_id AND label IN (
            SELECT key || '=' || atom FROM json_each(iif(json_valid(old.header), old.header, '{}'), '$.labels')
        );
    END
    """,
    # Trigrams of questions. Runs are numbered separately here, because VACUUM may renumber the rows of tables that have
    # no key.
    "CREATE TABLE run_numbers (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE) STRICT",
    """
    CREATE VIRTUAL TABLE run_texts
    USING fts5(text, content='', tokenize='trigram case_sensitive 1', detail='none', columnsize=0)
    """,
    """
    CREATE TRIGGER texts_added AFTER INSERT ON runs BEGIN
        INSERT INTO run_numbers (run_id) VALUES (new.run_id);
        INSERT INTO run_texts (rowid, text) SELECT number, new.folded FROM run_numbers WHERE run_id = new.run_id;
    END
    """,
    """
    CREATE TRIGGER texts_deleted AFTER DELETE ON runs BEGIN
        INSERT INTO run_texts (run_texts, rowid, text)
        SELECT 'delete', number, old.folded FROM run_numbers WHERE run_id = old.run_id;
        DELETE FROM run_numbers WHERE run_id = old.run_id;
    END
    """,
)
_LOG_PAGES = 4000
"""Size of the write-ahead log, in pages, at which it is checkpointed: 16 MB."""
_PAUSE = 0.01
"""Pause between attempts, in seconds."""
_creating = threading.Lock()
_HEAD = ("application_id", "user_version")


def connect(path: Path, patience: float, *, name: str) -> sqlite3.Connection:
    """Open the store at `path`; if it is missing, create it, accessible only to its owner.

    Error messages refer to the store as `name`. Raises StoreError for a file that is not a store, and for a file with
    several hard links, because SQLite would write a separate log for each link.
    """
    make_private_folder(path.parent)
    # Create a missing file, but do not open an existing one: closing it would release this process's locks on it.
    # Another process could then believe that it is the last one using the store, and delete the log while it is in use.
    # The thread lock keeps SQLite in another thread from locking the file before this descriptor is closed.
    with _creating, suppress(OSError):  # SQLite reports these errors itself
        os.close(open_private(os.path.realpath(path), os.O_RDWR | os.O_EXCL))
    connection = _open(path, patience)
    try:
        connection.create_function("flowdebate_found", 2, _contains, deterministic=True)
        connection.create_function("flowdebate_labeled", 2, _labeled, deterministic=True)
        _check_names(path, name)
        _prepare(connection, name, patience)
    except BaseException:
        connection.close()
        raise
    return connection


def check_version(version: int, name: str) -> None:
    """Raise StoreError if the schema was written by another version of the library."""
    if version != VERSION:
        problem = f"was written by another version of flowdebate (schema {version}; this version supports {VERSION})"
        raise StoreError(name, f"{problem}: open it with that version, or use another file")


def _check_names(path: Path, name: str) -> None:
    names = path.stat().st_nlink
    if names > 1:
        raise StoreError(name, f"has {names} hard links, which can make SQLite lose data: keep only one")


def connect_quick(path: Path) -> sqlite3.Connection:
    """Open a connection that never waits for a lock, a sync or a checkpoint."""
    connection = _open(path, 0.0)
    try:
        # This connection is used in the event loop; `Disk` syncs the file in a thread.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _open(path: Path, patience: float) -> sqlite3.Connection:
    # The writer begins transactions explicitly, and event loops in several threads share one quick connection.
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False, factory=_Connection
    )
    connection.text_factory = _decode
    return connection


def _with_wal(connection: sqlite3.Connection, patience: float) -> None:
    """Switch the file to WAL mode; retry while another process is doing the same, because SQLite does not wait."""
    end = time.monotonic() + patience
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            break
    if mode != "wal":
        raise sqlite3.OperationalError("a write-ahead log is not supported here")


def _prepare(connection: sqlite3.Connection, name: str, patience: float) -> None:
    """Create the tables in a new file; if the file belongs to another program or version, raise StoreError instead."""
    # Use one transaction, so that a file being created by another process appears either empty or complete.
    connection.execute("BEGIN")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application, version = (connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in _HEAD)
    connection.execute("COMMIT")
    if application != _APPLICATION and (tables or application):
        raise StoreError(name, "belongs to another program, or to a version before 0.1.0: use another file")
    if tables or version:
        check_version(version, name)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    _with_wal(connection, patience)
    if version == VERSION:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        # Another process may have created the tables in the meantime.
        is_new = connection.execute("PRAGMA user_version").fetchone()[0] == 0
        for statement in _SCHEMA if is_new else ():
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class _Connection(sqlite3.Connection):
    """Connection that encodes strings, because SQLite cannot store every string; its `text_factory` decodes them."""

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:  # noqa: ANN401 - what sqlite3 takes
        return super().execute(statement, _encode(values))

    def executemany(self, statement: str, rows: Any, /) -> sqlite3.Cursor:  # noqa: ANN401 - as above
        return super().executemany(statement, [_encode(row) for row in rows])


def _encode(values: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(values, dict):
        return {name: encode_text(value) if isinstance(value, str) else value for name, value in values.items()}
    return tuple(encode_text(value) if isinstance(value, str) else value for value in values)


def _decode(data: bytes) -> str:
    try:
        return decode_text(data.decode())
    except UnicodeDecodeError as error:  # the file is damaged, so report a store error
        raise sqlite3.DatabaseError(f"it contains invalid text: {error}") from error


def _contains(question: str, text: str) -> bool:
    return decode_text(text).casefold() in decode_text(question).casefold()


def _labeled(header: str, labels: str) -> bool:
    labels_wanted, labels_found = (json.loads(decode_text(text)) for text in (labels, header))
    return bool(labels_wanted.items() <= labels_found.get("labels", {}).items())


_GONE = "was deleted, moved or replaced while it was in use"


class Disk:
    """Database file at `path`: a thread syncs the write-ahead log, and `check` detects a missing file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self._waiting: queue.SimpleQueue[Callable[[OSError | None], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._file: tuple[int, int] | None = None
        """Device and inode of the file, once it is open."""
        self.lost: OSError | None = None
        """Error from a failed sync, or FileNotFoundError if the file is gone.

        Once it is set, the state of the disk is unknown and nothing more is written.
        """

    def check(self) -> OSError | None:
        """Update `lost` if the file has been removed or replaced, and return `lost`."""
        try:
            status = self._path.stat()
        except OSError as error:
            if self._file is not None and isinstance(error, (FileNotFoundError, NotADirectoryError)):
                self.lost = self.lost or FileNotFoundError(_GONE)
            return self.lost
        file = (status.st_dev, status.st_ino)
        if self._file not in (None, file):
            self.lost = self.lost or FileNotFoundError(_GONE)
        self._file = file
        return self.lost

    def sync(self, finish: Callable[[OSError | None], None]) -> None:
        """Have the thread call `finish` once all earlier writes are on disk.

        `finish` receives the error if one occurred, and None otherwise.
        """
        if self._thread is None:
            with self._lock:  # two event loops may get here at the same time
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="flowdebate-disk", daemon=True)
                    self._thread.start()
        self._waiting.put(finish)

    def close(self) -> None:
        """Wait until every `finish` callback has been called, then end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _work(self) -> None:
        while (finish := self._waiting.get()) is not None:
            if self.lost is None:
                try:
                    # SQLite creates this file on the first write and names it after the real file
                    if self._handle is None:
                        self._handle = os.open(f"{os.path.realpath(self._path)}-wal", os.O_RDWR)
                    _sync(self._handle)
                except OSError as error:  # remembered, because a second sync may succeed even though data has been lost
                    self.lost = error
            finish(self.lost)


_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS lacks fdatasync
