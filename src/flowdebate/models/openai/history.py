"""Original messages with tool calls; their reasoning and signatures must be sent back along with the tool results.

Each server uses different fields, so messages are kept in full, and streamed chunks are merged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flowdebate._text import clean_text, redact
from flowdebate.models.base import Message, ToolCall

Json = Any  # an object that a client constructed from a server's JSON without validation

_PLAIN_FIELDS = frozenset({"role", "content", "tool_calls"})
_PLAIN_CALL = frozenset({"id", "type", "function", "index"})
_ONE_WORD = frozenset({"role", "id", "type", "name", "format", "index"})
_MAX_LENGTH = 1_000_000  # maximum length of a message in characters, because every later request repeats the message


def fields_of(message: Json) -> Mapping[str, Json]:
    """Return a message's fields, regardless of which client parsed it."""
    if isinstance(message, dict):
        return message
    if message is None:
        return {}
    return {**vars(message), **(getattr(message, "model_extra", None) or {})}


def merge(merged: dict[str, Json], piece: Mapping[str, Json]) -> None:
    """Merge a chunk of a streamed message into the fields collected so far."""
    for name, raw in piece.items():
        value, before = _plain(raw), merged.get(name)
        if value is None or (name in _ONE_WORD and not value and before):
            continue
        if isinstance(value, str) and isinstance(before, str) and name not in _ONE_WORD:
            merged[name] = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            merge(before, value)
        elif isinstance(value, list):
            merged[name] = _merge_items(before if isinstance(before, list) else [], value)
        else:
            merged[name] = value


def _merge_items(items: list[Json], pieces: list[Json]) -> list[Json]:
    """Merge the items of a streamed list, matching them by their index."""
    for piece in pieces:
        index = piece.get("index") if isinstance(piece, dict) else None
        same = [item for item in items if isinstance(item, dict) and item.get("index") == index]
        if same and index is not None:
            merge(same[0], piece)
        else:
            items.append(piece)
    return items


def _plain(value: Json, clean: Callable[[str], str] = str) -> Json:
    """Convert part of a message to plain JSON data, passing every string through `clean`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): _plain(item, clean) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, clean) for item in value]
    if value is None or isinstance(value, (int, float, bool)):
        return value
    return {name: _plain(item, clean) for name, item in fields_of(value).items() if not name.startswith("_")}


def history_of(fields: Mapping[str, Json], calls: Sequence[ToolCall], secrets: Sequence[str]) -> Message | None:
    """Return the original message containing the `calls`, or None if it contains no fields worth keeping."""
    try:
        plain_message: Message = _plain(dict(fields), lambda text: redact(clean_text(text), secrets))
        message = {name: value for name, value in plain_message.items() if value not in (None, "", [], {})}
        raw = sorted(message.get("tool_calls", ()), key=lambda call: call.get("index") or 0)
        if message.keys() <= _PLAIN_FIELDS and all(call.keys() <= _PLAIN_CALL for call in raw):
            return None
        if len(raw) != len(calls) or len(json.dumps(message, allow_nan=False)) > _MAX_LENGTH:
            return None
        message["tool_calls"] = [
            {
                **{name: value for name, value in raw_call.items() if name != "index"},
                "id": call.id,
                "type": "function",
                "function": {**raw_call["function"], "name": call.name, "arguments": call.arguments},
            }
            for raw_call, call in zip(raw, calls, strict=True)
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # the fields do not match the calls
        return None
    return {**message, "role": "assistant"}
