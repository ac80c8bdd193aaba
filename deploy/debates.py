"""What the containers of compose.yaml serve and execute. Replace the patterns by yours."""

from __future__ import annotations

import os
from pathlib import Path

from flowdebate import Debater, Limits, debate
from flowdebate.service import Service
from flowdebate.workers import Workers

if (password_file := os.environ.get("FLOWDEBATE_PASSWORD_FILE")) is not None:
    os.environ.setdefault(
        "PGPASSWORD", Path(password_file).read_text("utf-8").strip()
    )  # which PostgreSQL's library reads

PATTERNS = {
    "city": debate(
        name="city",
        debaters=[Debater("ann", "build trams"), Debater("bob", "build roads")],
        synthesizer=False,
    )
}


def workers() -> Workers:
    """Each process has its own; all of them share the queue and the store in PostgreSQL."""
    return Workers(os.environ["FLOWDEBATE_STORE"], PATTERNS, limits=Limits(calls=60), version="1")


def service() -> Service:
    """Workers execute `PATTERNS`; patterns with options of their own are executed by the server itself."""
    return Service(workers=workers(), limits=Limits(calls=60), recover=True)
