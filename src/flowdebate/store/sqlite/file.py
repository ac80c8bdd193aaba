"""The file of a SQLite store: how it is opened, its tables, and texts in it."""

from __future__ import annotations

import json
import os
import queue
import re
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = (
    "Disk",
    "connect",
    "connect_quick",
    "given",
    "kept",
)

_MARK = "\x1a"
"""The control character "substitute"; what follows it is a character's number, in four digits."""
_UNFIT = re.compile("[\x00\x1a\ud800-\udfff]")
_MARKED = re.compile("\x1a([0-9a-f]{4})")


def kept(text: str) -> str:
    r"""`text` as it is written; different texts stay different, and most are written as they are.

    >>> kept("no\x00 end")
    'no\x1a0000 end'
    """
    if "\x00" not in text and _MARK not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNFIT.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def given(text: str) -> str:
    r"""The text that `kept` made into `text`.

    >>> given(kept("a\x00\x1a\ud800"))
    'a\x00\x1a\ud800'
    """
    return _MARKED.sub(lambda found: chr(int(found[1], 16)), text) if _MARK in text else text


_APPLICATION = 0x464C4442
"""What says in the file's head that it is a store: "FLDB"."""
_VERSION = 1
"""The schema that this version of the library writes."""
_SCHEMA = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    block TEXT NOT NULL,
    question TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    steps INTEGER NOT NULL DEFAULT 0,
    recoveries INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    header TEXT NOT NULL,
    outcome TEXT
) STRICT;
CREATE INDEX runs_created ON runs (created_at DESC, run_id);
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
) STRICT, WITHOUT ROWID;
CREATE TABLE documents (
    number INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (collection, key)
) STRICT;
"""
_LOG_PAGES = 4000
"""How long the write-ahead log gets before its pages are put into the file: 16 MB."""
_PAUSE = 0.01
"""Seconds between two attempts."""
_HEAD = ("application_id", "user_version")


def connect(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to the store at `path`, which is made where there is none; StoreError for a file that is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = _opened(path, patience)
    try:
        _prepare(connection, str(path), patience)
    except BaseException:
        connection.close()
        raise
    connection.create_function("flowdebate_found", 2, _found, deterministic=True)
    connection.create_function("flowdebate_labelled", 2, _labelled, deterministic=True)
    return connection


def connect_quick(path: Path) -> sqlite3.Connection:
    """A connection that waits for nothing: not for locks, the disk, or a checkpoint."""
    connection = _opened(path, 0.0)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(path: Path, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False, factory=_Connection
    )
    connection.text_factory = _given
    return connection


def _with_wal(connection: sqlite3.Connection, patience: float) -> None:
    """Let the file have a write-ahead log; SQLite itself does not wait while another process does the same."""
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
        raise sqlite3.OperationalError("it can have no write-ahead log here")


def _prepare(connection: sqlite3.Connection, name: str, patience: float) -> None:
    """Make the tables where there are none; StoreError, and nothing written, for a file that is none of ours."""
    connection.execute("BEGIN")  # another process may be making it: before or after that, not in between
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application, version = (connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in _HEAD)
    connection.execute("COMMIT")
    if application != _APPLICATION and (tables or application):
        raise StoreError(name, "is the database of another program")
    if version > _VERSION:
        raise StoreError(
            name, f"was written by a newer version of flowdebate (its schema is {version}, known: {_VERSION})"
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    _with_wal(connection, patience)
    if tables:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class _Connection(sqlite3.Connection):
    """One that writes texts as a database can hold them; its `text_factory` gives them back as they were."""

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:  # noqa: ANN401 - what sqlite3 takes
        return super().execute(statement, _kept(values))

    def executemany(self, statement: str, rows: Any, /) -> sqlite3.Cursor:  # noqa: ANN401 - as above
        return super().executemany(statement, [_kept(row) for row in rows])


def _kept(values: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(values, dict):
        return {name: kept(value) if isinstance(value, str) else value for name, value in values.items()}
    return tuple(kept(value) if isinstance(value, str) else value for value in values)


def _given(data: bytes) -> str:
    try:
        return given(data.decode())
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(f"it holds text that is none: {error}") from error


def _found(question: str, text: str) -> bool:
    return given(text).casefold() in given(question).casefold()


def _labelled(header: str, labels: str | None) -> bool:
    return labels is None or json.loads(given(labels)).items() <= json.loads(given(header)).get("labels", {}).items()


_Told: TypeAlias = "Callable[[OSError | None], None]"


class Disk:
    """Puts on the disk what SQLite has written to the log of the database at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self._waiting: queue.SimpleQueue[_Told | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.lost: OSError | None = None
        """Why the disk did not take what was written. What it has of it nobody knows: nothing more may follow."""

    def sync(self, told: _Told) -> None:
        """Call `told` from the thread, once all that has been written is on the disk, or with why it may not be."""
        if self._thread is None:
            with self._lock:  # two loops may come to it at once
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="flowdebate-disk", daemon=True)
                    self._thread.start()
        self._waiting.put(told)

    def close(self) -> None:
        """End the thread when all were told, and wait for it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _work(self) -> None:
        while (told := self._waiting.get()) is not None:
            if self.lost is None:
                try:
                    if self._handle is None:
                        self._handle = os.open(f"{os.path.realpath(self._path)}-wal", os.O_RDWR)
                    _sync(self._handle)
                except OSError as error:
                    self.lost = error
            told(self.lost)


_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
