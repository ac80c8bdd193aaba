"""Fixtures for the store tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.store.postgres import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("open_umask", "postgres_server")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Set a umask that makes new files readable and writable by everybody."""
    before = os.umask(0)
    yield
    os.umask(before)
