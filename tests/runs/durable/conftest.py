"""What the tests of kept runs share."""

from __future__ import annotations

from tests.store.postgres import a_server

__all__ = ("a_server",)
