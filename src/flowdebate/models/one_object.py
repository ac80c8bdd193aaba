"""Finds the JSON object that a model has put into prose or a code block."""

from __future__ import annotations

import json
import re

__all__ = ("one_object",)


def one_object(text: str) -> str | None:
    """The one JSON object in `text`, as it is written there; None if there is none, or more than one.

    A part of an object that is broken is none, and neither is one that has a field twice.

    >>> one_object('Sure: {"winner": null} - that is all.')
    '{"winner": null}'
    >>> one_object('{"winner": "for"} or {"winner": "against"}') is None
    True
    >>> one_object('{"draft": {"winner": "for"}, oh no') is None
    True
    """
    found: str | None = None
    begin = text.find("{")
    tried = 0
    while begin != -1:
        tried += 1
        if tried > _TRIES:
            return None
        try:
            _, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            if _OBJECT.match(text, begin):
                return None
            begin = text.find("{", begin + 1)
            continue
        if found is not None:
            return None
        found = text[begin:end]
        begin = text.find("{", end)
    return found


def _with_each_field_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError(pairs)
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_with_each_field_once)
_OBJECT = re.compile(r'\{\s*"')
"""How an object begins, whole or broken; other braces stand in prose."""
_TRIES = 200
"""Braces that are looked at: each can cost as much time as the text is long."""
