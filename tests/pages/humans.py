"""Setup for docs/humans.md."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from flowdebate.testing import ScriptedModel


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that makes one argument, and change to an empty folder."""
    os.chdir(tempfile.mkdtemp())
    page["model"] = ScriptedModel("Homes come first.")
