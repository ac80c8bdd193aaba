"""All rows about single calls, grouped and ordered as in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .content_rows import CONTENT
from .further_rows import FURTHER
from .stream_rows import STREAMING
from .structured_rows import STRUCTURED
from .transport_rows import TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .fault import Fault

__all__ = ("FAULTS", "ROWS")

ROWS: Mapping[str, tuple[Fault, ...]] = {
    "The connection, and what HTTP says": TRANSPORT,
    "200 OK, and the wrong content": CONTENT,
    "Structured answers": STRUCTURED,
    "Streams": STREAMING,
    "What else servers do": FURTHER,
}

FAULTS: tuple[Fault, ...] = tuple(fault for faults in ROWS.values() for fault in faults)
