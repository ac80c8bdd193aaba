"""Markers and helpers for tests that need another framework."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ("needs",)


def needs(module: str, library: str) -> pytest.MarkDecorator:
    """Skip tests whose framework is not installed. `make test-adapters` installs all frameworks."""
    return pytest.mark.skipif(find_spec(module) is None, reason=f"needs {library}: make test-adapters")
