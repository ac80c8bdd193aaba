"""Helpers for testing durable runs."""

from __future__ import annotations

from tests.store.postgres import postgres_server

__all__ = ("postgres_server",)
