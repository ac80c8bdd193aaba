"""Setup for docs/durable.md."""

from __future__ import annotations

import os
import tempfile
from typing import Any


def folder(_: dict[str, Any]) -> None:
    """Change to an empty folder."""
    os.chdir(tempfile.mkdtemp())
