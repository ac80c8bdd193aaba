"""Finds the JSON object that a model has put into prose or a code block."""

from __future__ import annotations

import json

__all__ = ("one_object",)

_DECODER = json.JSONDecoder()


def one_object(text: str) -> str | None:
    """The one JSON object in `text`, as it is written there; None if there is none, or more than one.

    >>> one_object('Sure: {"winner": null} - that is all.')
    '{"winner": null}'
    >>> one_object('{"winner": "for"} or {"winner": "against"}') is None
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
            begin = text.find("{", begin + 1)
            continue
        if found is not None:
            return None
        found = text[begin:end]
        begin = text.find("{", end)
    return found


_TRIES = 200
"""Braces that are looked at: each can cost as much time as the text is long."""
