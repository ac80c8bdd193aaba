"""Structured answers: how they are asked for in each mode, and how they are read."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from flowdebate._text import is_blank
from flowdebate.errors import SchemaViolation
from flowdebate.models.base import Flag, Message, ModelRequest, ModelResponse, ToolCall, ToolSpec
from flowdebate.models.output import OutputSchema, drop_titles, find_object

_BLOCK = re.compile(r"```(?:json|xml)?\s*(.*?)```|<tool_call>(.*?)</tool_call>|<tools>(.*?)</tools>", re.DOTALL)


def with_tool_calls(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """Read tool calls from the text of `response`; unchanged if it has anything but calls of offered tools."""
    if response.tool_calls or not request.tools:
        return response
    text = response.text.strip()
    blocks = ["".join(groups) for groups in _BLOCK.findall(text)]
    if not blocks or _BLOCK.sub("", text).strip():
        blocks = [text]
    offered = {tool.name for tool in request.tools}
    calls: list[ToolCall] = []
    for index, block in enumerate(blocks):
        value: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(block)
        called = value if isinstance(value, dict) else {}
        name, arguments = called.get("name"), called.get("arguments", called.get("parameters"))
        if not isinstance(name, str) or name not in offered or not isinstance(arguments, dict):
            return response  # all of it is the answer: one that only shows a call as an example is text
        calls.append(ToolCall(id=f"call_{index}", name=name, arguments=json.dumps(arguments, ensure_ascii=False)))
    return replace(response, text="", tool_calls=tuple(calls), finish="tool_calls")


def parameters_of(
    output: OutputSchema, *, mode: str, messages: Sequence[Message], tools: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Write the part of a request that asks for `output` in `mode`, or for calls of `tools` instead."""
    written: dict[str, Any] = {"messages": list(messages)}
    if tools:
        written |= {"tools": list(tools), "tool_choice": "auto"}
    schema = output.json_schema
    if mode == "json_schema":
        form = {"name": output.name, "schema": schema}
        written["response_format"] = {"type": "json_schema", "json_schema": form}
    elif mode == "tools":
        about = schema.get("description", "Give the answer.")
        answer = ToolSpec(name=output.name, description=about, parameters=schema).to_openai()
        alone = {"type": "function", "function": {"name": output.name}}
        written |= {"tools": [*tools, answer], "tool_choice": "required" if tools else alone}
    else:
        # at the end: what stands before it is the same in every mode, and in a provider's cache
        asks = instruction(output, mode)
        last = messages[-1] if messages else {}
        if last.get("role") == "user" and isinstance(last.get("content"), str):  # some refuse two messages in a row
            written["messages"][-1] = {**last, "content": f"{last['content']}\n\n{asks}"}
        else:
            written["messages"].append({"role": "user", "content": asks})
        if mode == "json":
            written["response_format"] = {"type": "json_object"}
    return written


@lru_cache(maxsize=256)
def instruction(output: OutputSchema, mode: str) -> str:
    """Ask for JSON that fits `output`, in instructor's words where it is installed. Its import is slow: in a thread."""
    try:
        from instructor import Mode, openai_schema
        from instructor.processing import handle_response_model
    except ImportError:
        schema = json.dumps(drop_titles(output.json_schema), ensure_ascii=False)
        where = " in a ```json block" if mode == "md_json" else ""
        return (
            f"Answer with one JSON object{where} and nothing else. It must fit this JSON Schema:\n\n{schema}\n\n"
            "Answer with the data that the schema describes, not with the schema."
        )
    empty = [{"role": "user", "content": ""}]
    _, written = handle_response_model(openai_schema(output.model), mode=Mode[mode.upper()], messages=empty)
    return "\n\n".join(text for each in written["messages"] if (text := str(each["content"] or "").strip()))


def read(response: ModelResponse, output: OutputSchema, *, mode: str, offered: bool) -> ModelResponse:
    """Read the answer to such a request: its text is one JSON object, not validated yet, or it calls `offered` tools.

    JSON in prose, or in the text instead of a tool call, counts if it is the only object there, and is flagged
    `json_in_text`. Two answers, or an object with a field twice, do not count. A truncated answer (`length`) stays as
    it is.
    """
    calls = response.tool_calls
    answers = [call for call in calls if call.name == output.name] if mode == "tools" else []
    if response.finish == "length":
        return response
    if calls and not answers:
        if not offered:
            raise SchemaViolation([("", "a tool was called, and none was offered")])
        return response
    if len(answers) > 1:
        raise SchemaViolation([("", f"{len(answers)} answers came at once")])
    if len(calls) > 1:  # an answer beside calls of tools is premature: the calls come first
        return replace(response, tool_calls=tuple(call for call in calls if call.name != output.name))
    text = answers[0].arguments if answers else response.text
    found = find_object(text)
    if found is None and not (
        mode == "tools" and is_blank(text)
    ):  # a model that calls nothing and says nothing is silent
        raise SchemaViolation(_NOT_ONE, answer=text)
    # a code block is what was asked for in "md_json", and a call in "tools"
    odd = mode != "md_json" and (found != text.strip() or (mode == "tools" and not answers))
    flags: tuple[Flag, ...] = ("json_in_text",) if odd else ()
    return replace(response, text=found or "", tool_calls=(), finish="stop", flags=(*response.flags, *flags))


_NOT_ONE = (("", "the answer is not exactly one JSON object that has each of its fields once"),)
