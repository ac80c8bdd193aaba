"""Structured answers through instructor, in the mode that the server knows.

This module is imported at the first structured answer, since instructor is slow to import. instructor is never given
`context=` (it would render debaters' texts as templates), and its own retries are off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import sys
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import instructor
from instructor.core.exceptions import IncompleteOutputException

from flowdebate._util.text import is_blank
from flowdebate.errors import FlowDebateError, SchemaViolation
from flowdebate.models.base import ToolCall
from flowdebate.models.openai.error_mapping import map_error
from flowdebate.models.output import OutputSchema, find_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pydantic import BaseModel

    from flowdebate.models.base import Flag, Message, ModelRequest, ModelResponse


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


_MODES = {
    "json_schema": instructor.Mode.JSON_SCHEMA,
    "tools": instructor.Mode.TOOLS,
    "json": instructor.Mode.JSON,
    "md_json": instructor.Mode.MD_JSON,
}

_asking: ContextVar[bool] = ContextVar("flowdebate_asking", default=False)


def prepare() -> None:
    """Trigger the imports of instructor's first call, by one that nobody is asked; run this in a thread."""

    async def send(_: object) -> tuple[object, ModelResponse]:
        raise FlowDebateError

    async def rehearse() -> None:
        with contextlib.suppress(FlowDebateError):
            await ask_structured(send, OutputSchema.of(dict), mode="json_schema", messages=(), tools=(), parameters={})

    asyncio.run(rehearse())


# instructor logs what failed in our calls; that is raised, and a model's text belongs in no log
logging.getLogger("instructor.v2.retry").addFilter(lambda _: not _asking.get())


class _Settled(IncompleteOutputException):
    """Ends instructor's work early: the one exception that it passes on unchanged and unlogged."""

    def __init__(self, outcome: ModelResponse | FlowDebateError) -> None:
        self.outcome = outcome
        super().__init__()


async def ask_structured(
    send: Callable[[dict[str, Any]], Awaitable[tuple[Any, ModelResponse]]],
    output: OutputSchema,
    *,
    mode: str,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    parameters: Mapping[str, Any],
    secrets: Sequence[str] = (),
) -> ModelResponse:
    """Ask for `output`: the response's text is fitting JSON, or it calls `tools`, or it was cut off (`length`).

    JSON in prose, or in the text instead of a tool call, counts if it is the only object there, and is flagged
    `json_in_text`. Two answers, or an object with a field twice, do not count.

    `send` takes the request's parameters and returns the raw completion and the response read from it.
    """
    seen: list[ModelResponse] = []
    during = sys.exception()

    async def create(**prepared: Any) -> Any:  # noqa: ANN401 - the completion of openai
        try:
            completion, response = await send(_request(prepared, mode, messages, tools))
        except FlowDebateError as error:
            raise _Settled(error) from None
        seen.append(response)
        _settle_early(response, mode, output.name, offered=bool(tools))
        return completion

    ask: Callable[..., Awaitable[object]] = instructor.patch(create=create, mode=_MODES[mode])
    asking = _asking.set(True)
    try:
        await ask(
            response_model=_prepared(output.model),
            max_retries=0,
            strict=False,
            # instructor takes a missing content, as beside tool calls, for a list
            messages=[m if m.get("content") is not None else {**m, "content": ""} for m in messages],
            **parameters,
        )
        outcome: ModelResponse | FlowDebateError = _with_json(seen[-1], mode)
    except _Settled as settled:
        outcome = settled.outcome
    except FlowDebateError as error:
        outcome = error
    except Exception as error:  # noqa: BLE001 - any exception of instructor's reading
        outcome = map_error(error, during=during, secrets=secrets)
    finally:
        _asking.reset(asking)
    if isinstance(outcome, SchemaViolation) and seen:
        outcome = _read_again(seen[-1], outcome, output, mode)
    if isinstance(outcome, FlowDebateError):
        raise outcome
    return outcome


@lru_cache(maxsize=256)
def _prepared(model: type[BaseModel]) -> type[BaseModel]:
    """Prepare `model` for instructor once; it would otherwise make a new class for each call."""
    return instructor.openai_schema(model)


def _request(
    prepared: dict[str, Any], mode: str, messages: Sequence[Message], tools: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Complete instructor's request: add the application's tools, and restore messages that it did not extend."""
    if mode in ("json_schema", "tools"):
        prepared["messages"] = list(messages)
    else:  # instructor makes an empty list of an empty text, which few servers accept
        prepared["messages"] = [
            {**message, "content": ""} if message["content"] == [] else message for message in prepared["messages"]
        ]
    if tools:
        prepared["tools"] = [*tools, *prepared.get("tools", ())]
        prepared["tool_choice"] = "required" if mode == "tools" else "auto"
    return prepared


def _settle_early(response: ModelResponse, mode: str, answer_tool: str, *, offered: bool) -> None:
    """Settle answers that instructor should not read: tool calls, text instead of a call, truncated answers."""
    if response.finish == "length":
        raise _Settled(response)
    calls = response.tool_calls
    answers = [call for call in calls if call.name == answer_tool] if mode == "tools" else []
    if calls and not answers:
        raise _Settled(response if offered else SchemaViolation([("", "a tool was called, and none was offered")]))
    if mode != "tools":
        return
    if not calls:
        found = find_object(response.text)  # JSON in the text of an answer that should have been a tool call
        if found is None and not is_blank(response.text):
            raise _Settled(SchemaViolation(_NOT_ONE, answer=response.text))
        raise _Settled(replace(response, text=found or "", flags=(*response.flags, "json_in_text")))
    if len(answers) > 1:
        raise _Settled(SchemaViolation([("", f"{len(answers)} answers came at once")]))
    if len(calls) > 1:  # an answer beside calls of tools is premature: the calls come first
        raise _Settled(replace(response, tool_calls=tuple(call for call in calls if call.name != answer_tool)))


def _with_json(response: ModelResponse, mode: str) -> ModelResponse:
    """Return `response` with the JSON that instructor accepted as its text."""
    if mode == "tools":
        response = replace(response, text=response.tool_calls[0].arguments, tool_calls=(), finish="stop")
    if mode != "md_json" and not response.text.lstrip().startswith("{"):
        return response
    found = find_object(response.text)
    if found is None:  # instructor takes the first or the last of several, and of one field's values
        raise SchemaViolation(_NOT_ONE)
    return replace(response, text=found) if mode == "md_json" else response


_NOT_ONE = (("", "the answer is not exactly one JSON object that has each of its fields once"),)


def _read_again(
    response: ModelResponse, violation: SchemaViolation, output: OutputSchema, mode: str
) -> ModelResponse | SchemaViolation:
    """Read JSON that instructor missed because of prose around it; else return `violation` with the answer's text."""
    answer = response.tool_calls[0].arguments if mode == "tools" and response.tool_calls else response.text
    violation.answer = answer
    found = None if mode == "tools" else find_object(answer)
    if found is None:
        return violation
    try:
        output.validate(found)
    except SchemaViolation as other:
        other.answer = answer
        return other
    odd: tuple[Flag, ...] = () if mode == "md_json" else ("json_in_text",)
    return replace(response, text=found, flags=(*response.flags, *odd))
