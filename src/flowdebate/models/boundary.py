"""The one function through which every model is called: deadline, checks of what came back, names in errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import (
    EmptyResponse,
    FlowDebateError,
    MalformedResponse,
    ModelError,
    OutputTruncated,
    SchemaViolation,
    shown,
)
from flowdebate.models.base import ModelResponse, ToolCall
from flowdebate.models.deadline import within
from flowdebate.models.text import clean_text, is_blank
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.models.base import Model, ModelRequest

__all__ = ("ask",)

_FINISHES = frozenset({"stop", "length", "tool_calls"})


async def ask(model: Model, request: ModelRequest) -> ModelResponse:
    """Call `model` once and give back an answer that can be used as it is.

    The text is valid Unicode; a text answer is not blank; `data` of a structured answer is what
    `request.output.validate` made of it (where the model calls tools instead, `data` is left alone).

    Errors: ModelTimeout when `request.settings.timeout` passes, whatever the model is doing then;
    MalformedResponse, EmptyResponse, SchemaViolation and OutputTruncated for answers that cannot be used; what the
    model raises passes as it is, a ModelError with `model` and `block` filled in.
    """
    try:
        response = await within(request.settings.timeout, model.request(request))
        return _checked(response, request)
    except FlowDebateError as error:
        if isinstance(error, ModelError):
            error.model = error.model or model.name
            error.block = error.block or request.block
        raise


def _checked(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """`response`, or a cleaned copy of it: a model may hand out the same object twice."""
    if not isinstance(response, ModelResponse):
        raise _malformed("the answer", response, "a ModelResponse")
    if not isinstance(response.usage, Usage):
        raise _malformed("usage", response.usage, "a Usage")
    if response.finish not in _FINISHES:
        raise _malformed("finish", response.finish, "'stop', 'length' or 'tool_calls'")
    text = _text_of(response)
    calls = response.tool_calls
    if calls:
        _check_calls(calls)
    elif request.output is not None:
        return _copy(response, text, _data_of(response, text, request))
    elif is_blank(text):
        raise EmptyResponse("the answer has no text")
    return response if text is response.text else _copy(response, text, response.data)


def _text_of(response: ModelResponse) -> str:
    text = response.text
    if not isinstance(text, str):
        raise _malformed("text", text, "a str")
    # what a subclass of str does when it is formatted or compared is its own: only the characters are taken
    return clean_text(text if type(text) is str else "".join((text,)))  # noqa: FLY002


def _data_of(response: ModelResponse, text: str, request: ModelRequest) -> object:
    assert request.output is not None  # noqa: S101 - the caller has looked
    if response.data is None and not text.strip():
        raise EmptyResponse("the answer is empty")
    try:
        return request.output.validate(text if response.data is None else response.data)
    except SchemaViolation as violation:
        if response.finish == "length":
            raise OutputTruncated(
                "the answer was cut off before its end: give it more room (max_tokens)"
            ) from violation
        raise


def _check_calls(calls: Sequence[ToolCall]) -> None:
    """Tools that nobody offered are the caller's to answer; here only the types count."""
    if not isinstance(calls, (tuple, list)):
        raise _malformed("tool_calls", calls, "a sequence of ToolCall")
    for call in calls:
        if not isinstance(call, ToolCall):
            raise _malformed("tool_calls", call, "ToolCall objects")
        for name, value in (("id", call.id), ("name", call.name), ("arguments", call.arguments)):
            if not isinstance(value, str):
                raise _malformed(f"a tool call's {name}", value, "a str")


def _copy(response: ModelResponse, text: str, data: object) -> ModelResponse:
    return ModelResponse(
        text=text,
        data=data,
        tool_calls=response.tool_calls,
        finish=response.finish,
        usage=response.usage,
        model=response.model,
    )


def _malformed(what: str, got: object, allowed: str) -> MalformedResponse:
    return MalformedResponse(f"{what} of a model must be {allowed}, got {shown(got)}")
