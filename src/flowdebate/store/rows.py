"""Headers as text, and back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from flowdebate.errors import StoreError
from flowdebate.store.port import ROW_FORMAT, RunHeader

__all__ = ("header_of", "header_text")

_FIELDS = tuple(field.name for field in fields(RunHeader))


def header_text(header: RunHeader) -> str:
    """`header` as JSON."""
    return json.dumps({name: getattr(header, name) for name in _FIELDS})


def header_of(text: str, store: str) -> RunHeader:
    """The header that `header_text` made into `text`; StoreError for one of a newer format."""
    try:
        values: dict[str, Any] = json.loads(text)
        written = values.get("format", 0)
        if isinstance(written, int) and written <= ROW_FORMAT:
            return RunHeader(**{name: values[name] for name in _FIELDS if name in values})
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(store, f"holds a run whose header cannot be read: {error}") from error
    raise StoreError(store, f"holds a run of a newer format ({written}, known: {ROW_FORMAT})")
