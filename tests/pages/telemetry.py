"""Setup for docs/telemetry.md."""

from __future__ import annotations

import logging
from typing import Any


def quiet(page: dict[str, Any]) -> None:
    """Remove the page's handler from the logger."""
    logging.getLogger("flowdebate").removeHandler(page["handler"])
    logging.getLogger("flowdebate").setLevel(logging.NOTSET)
