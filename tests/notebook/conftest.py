"""A real Chromium, and fixtures for the notebook tests."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import chromium

__all__ = ("EXAMPLE", "chromium")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
