"""Setup for docs/compare.md."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from flowdebate.testing import SimJudge


def judges(page: dict[str, Any]) -> None:
    """Replace the judges on the page with simulated ones, and change to an empty folder."""
    os.chdir(tempfile.mkdtemp())
    page["fair"] = SimJudge(quality=_mentions_scattering, name="fair", noise=0.3)
    page["hasty"] = SimJudge(quality=_mentions_scattering, name="hasty", slot=5.0, noise=0.3)


def _mentions_scattering(text: str) -> float:
    return 2.0 * ("scatter" in text)
