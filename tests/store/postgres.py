"""PostgreSQL server for the tests: started on first use, and stopped when the process ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from postgres_server import Server, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("Server", "postgres_server")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Return this process's only server. If there is none, skip the test and give the reason."""
    try:
        server = Server().__enter__()
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.__exit__(None, None, None)
