"""Promises of the store port, which all stores in the package must keep."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, TypeVar

import psycopg
import pytest

from flowdebate.store.memory import MemoryStore
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flowdebate.testing.store import MakeStore
    from tests.store.postgres import Server

T = TypeVar("T")


class TestMemoryStore(StoreConformance):
    """In-memory stores: each object is a separate location."""

    shared = False

    @pytest.fixture
    def make(self) -> MakeStore:
        """Return a new location each time."""
        return MemoryStore


class TestSqliteStore(StoreConformance):
    """Stores in a file."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> MakeStore:
        """Return the same file within a test."""
        return lambda: SqliteStore(tmp_path / "runs.sqlite3")


class TestPostgresStore(StoreConformance):
    """Stores in a database, with one schema per test."""

    examples = 10

    @pytest.fixture
    def make(self, postgres_server: Server) -> MakeStore:
        """Return a store on the server of the test session."""
        schema = f"t {secrets.token_hex(8)}"
        return lambda: PostgresStore(postgres_server.url, schema=schema, connections=2, grace=0)


class LossyStore(PostgresStore):
    """Store that loses its server's answers, so that every operation except `intend` is executed twice."""

    async def _do(self, operation: str, work: Callable[[psycopg.Connection[tuple[object, ...]]], T]) -> T:
        failures: list[bool] = []

        def twice(session: psycopg.Connection[tuple[object, ...]]) -> T:
            result = work(session)
            if not failures and type(result) is not int:
                failures.append(True)
                raise psycopg.errors.SerializationFailure
            return result

        return await super()._do(operation, twice)


class TestPostgresStoreWhoseAnswersAreLost(StoreConformance):
    """Stores whose operations are repeated after a lost answer, yet take effect only once."""

    examples = 5

    @pytest.fixture
    def make(self, postgres_server: Server) -> MakeStore:
        """Return a new location each time."""
        schema = f"t {secrets.token_hex(8)}"
        return lambda: LossyStore(postgres_server.url, schema=schema, connections=2, grace=0)
