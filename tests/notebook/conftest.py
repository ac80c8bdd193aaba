"""Fixtures for the notebook tests, including a real Chromium."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import chromium

__all__ = ("EXAMPLE", "chromium")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
