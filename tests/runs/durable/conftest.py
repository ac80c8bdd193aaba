"""Helpers for the tests of durable runs."""

from __future__ import annotations

from tests.store.postgres import a_server

__all__ = ("a_server",)
