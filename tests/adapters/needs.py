"""Marks of tests that need another framework, and what they share."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ("needs",)


def needs(module: str, library: str) -> pytest.MarkDecorator:
    """Skip where the framework is missing: `make test-adapters` installs all of them."""
    return pytest.mark.skipif(find_spec(module) is None, reason=f"needs {library}: make test-adapters")
