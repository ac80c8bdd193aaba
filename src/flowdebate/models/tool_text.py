"""Tool calls that a small model writes as text, because its server does not know its way to write them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdebate.models.base import ToolCall

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest, ModelResponse

__all__ = ("with_tool_calls",)

_BLOCK = re.compile(r"```(?:json|xml)?\s*(.*?)```|<tool_call>(.*?)</tool_call>|<tools>(.*?)</tools>", re.DOTALL)


def with_tool_calls(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """`response` with the calls that its text consists of; itself if that holds anything but calls of offered tools."""
    if response.tool_calls or not request.tools:
        return response
    text = response.text.strip()
    blocks = ["".join(groups) for groups in _BLOCK.findall(text)]
    if not blocks or _BLOCK.sub("", text).strip():
        blocks = [text]
    offered = {tool.name for tool in request.tools}
    calls = [call for index, block in enumerate(blocks) if (call := _call(block, index, offered))]
    if len(calls) != len(blocks):
        return response
    return replace(response, text="", tool_calls=tuple(calls), finish="tool_calls")


def _call(block: str, index: int, offered: set[str]) -> ToolCall | None:
    try:
        value = json.loads(block)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    name, arguments = value.get("name"), value.get("arguments", value.get("parameters"))
    if not isinstance(name, str) or name not in offered or not isinstance(arguments, dict):
        return None
    return ToolCall(id=f"call_{index}", name=name, arguments=json.dumps(arguments, ensure_ascii=False))
