"""Set-up of docs/judges.md."""

from __future__ import annotations

import os
import tempfile
from typing import Any


def folder(page: dict[str, Any]) -> None:  # noqa: ARG001 - all set-up takes the page
    """Go to an empty folder."""
    os.chdir(tempfile.mkdtemp())
