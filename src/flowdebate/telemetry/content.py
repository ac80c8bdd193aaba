"""Content of calls as attributes: messages in the JSON form of the conventions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from flowdebate.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flowdebate.models.base import Message, ModelRequest, ModelResponse


def request_attributes(request: ModelRequest) -> dict[str, str]:
    """The messages of a request, its system message apart."""
    system = [_text(message.get("content")) for message in request.messages if message.get("role") == "system"]
    others = [message for message in request.messages if message.get("role") != "system"]
    attributes = {names.INPUT_MESSAGES: _json([_message(message) for message in others])}
    return attributes | ({names.SYSTEM_INSTRUCTIONS: _json(system)} if system else {})


def response_attributes(response: ModelResponse) -> dict[str, str]:
    """The answer of a model: its text or data, and the tools that it calls."""
    text = response.text
    if response.data is not None and not text:
        text = to_json(response.data, fallback=str, inf_nan_mode="strings").decode()
    calls = [_call(call.id, call.name, call.arguments) for call in response.tool_calls]
    parts = [*([_text(text)] if text else []), *calls]
    return {names.OUTPUT_MESSAGES: _json([{"role": "assistant", "parts": parts, "finish_reason": response.finish}])}


def _message(message: Message) -> dict[str, Any]:
    if message.get("role") == "tool":
        answered = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}
        return {"role": "tool", "parts": [answered]}
    parts = [_text(message["content"])] if message.get("content") else []
    return {"role": message.get("role"), "parts": [*parts, *_calls(message.get("tool_calls") or ())]}


def _calls(calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    functions = [(call.get("id"), call.get("function") or {}) for call in calls]
    return [_call(key, function.get("name"), function.get("arguments")) for key, function in functions]


def _call(key: object, name: object, arguments: object) -> dict[str, Any]:
    return {"type": "tool_call", "id": key, "name": name, "arguments": arguments}


def _text(content: object) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
