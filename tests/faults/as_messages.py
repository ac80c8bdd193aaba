"""Responses of the servers in the fault rows, converted to the format of Anthropic's API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.models.server import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ("MessagesExchange",)

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


class MessagesExchange(Exchange):
    """An exchange that sends completions as messages, whole or streamed, and everything else unchanged."""

    async def json(self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        body = _message(value) if status == 200 and isinstance(value, dict) else value
        await super().json(body, status=status, headers=headers)

    async def events(self, events: Iterable[Any], *, done: bool = True) -> None:
        await self.begin_events()
        for event in events:
            await self.event(event)
        if done:
            await self.raw(_encode({"type": "message_stop"}))
        self.close = True

    def encode(self, event: Any) -> bytes:
        if not isinstance(event, dict):
            return _encode({"type": "ping"})
        if "error" in event:
            return _encode({"type": "error", **event})
        return b"".join(map(_encode, _events(event)))


def _encode(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _message(completion: dict[str, Any]) -> Any:
    """Convert a completion to a message; other values are unchanged."""
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return completion
    message = choices[0].get("message")
    if not isinstance(message, dict):
        return completion
    reason = choices[0].get("finish_reason")
    text, refused = message.get("content"), message.get("refusal")
    content: Any = [{"type": "text", "text": text}] if text else []
    if not isinstance(text, (str, type(None))):
        content = text
    if isinstance(content, list):
        content = [*content, *map(_called, message.get("tool_calls") or ())]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": completion.get("model"),
        "content": content,
        "stop_reason": "refusal" if refused else _REASONS.get(reason, reason) if isinstance(reason, str) else reason,
        "stop_details": {"type": "refusal", "explanation": refused} if refused else None,
        "usage": _counts(completion.get("usage")),
    }


def _called(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = function["arguments"]
    return {"type": "tool_use", "id": call.get("id"), "name": function["name"], "input": arguments}


def _counts(usage: Any) -> Any:
    if not isinstance(usage, dict) or not isinstance(usage.get("prompt_tokens"), int):
        return usage and {"input_tokens": usage} if not isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens", 0)
    counts = {"input_tokens": usage["prompt_tokens"] - cached, "output_tokens": usage.get("completion_tokens")}
    return {**counts, "cache_read_input_tokens": cached} if "cached_tokens" in details else counts


def _events(chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if usage := chunk.get("usage"):
        counts = _counts(usage)
        yield {"type": "message_delta", "delta": {"stop_reason": None}, "usage": counts}
        return
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        yield {"type": "ping"}
        return
    delta, reason = choices[0].get("delta") or {}, choices[0].get("finish_reason")
    if "content" in delta:
        yield {"type": "message_start", "message": {"model": chunk.get("model"), "content": []}}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": delta["content"]}}
    if reason:
        ends = {"stop_reason": _REASONS.get(reason, reason)}
        yield {"type": "message_delta", "delta": ends}
