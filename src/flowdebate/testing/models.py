"""Models for tests: `ScriptedModel` and `FunctionModel`."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from flowdebate._text import short_repr
from flowdebate.blocks.functions import result_of
from flowdebate.errors import MalformedResponse, ScriptError
from flowdebate.models.base import Message, Usage
from flowdebate.models.base import ModelRequest as ModelRequest
from flowdebate.models.base import ModelResponse as ModelResponse
from flowdebate.models.base import ToolCall as ToolCall
from flowdebate.models.call import allow_real_models as allow_real_models
from flowdebate.models.call import forbid_real_models as forbid_real_models

Reply: TypeAlias = "str | Mapping[str, Any] | BaseModel | ModelResponse | ToolCall | Sequence[ToolCall] | BaseException"
"""A test model's answer: text, a structured answer, a complete response, tool calls, or an exception to raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """Record of a request, unaffected by later changes to the request itself."""

    block: str
    """Name of the block that made the call."""
    messages: Sequence[Message]
    output_schema: Mapping[str, Any] | None
    tools: Sequence[str]
    """Names of the tools offered to the model."""
    begins: str = ""
    """Words with which the answer must begin, for models that support this."""
    sentences: int | None = None
    """Maximum number of sentences in the answer, for models that support this."""

    @property
    def prompt(self) -> str:
        """All messages joined into one string, for use in assertions."""
        return "\n".join(str(message.get("content") or "") for message in self.messages)


class FunctionModel:
    """Model that answers with `function(request)`, which may be sync or async.

    `request.messages` are the chat messages as dicts, `request.output_schema` is the JSON Schema for a structured
    answer (None for text), and `request.block` is the name of the calling block. The function returns a `str`, a dict
    (a structured answer, validated like any model's), one or more `ToolCall` objects, or a complete `ModelResponse`;
    its exceptions reach the caller unchanged.

    >>> from flowdebate import generator
    >>> echo = FunctionModel(lambda request: request.messages[-1]["content"].upper())
    >>> generator(name="echo").run_sync("for", model=echo).output
    'FOR'
    """

    takes_images: bool = True

    def __init__(self, function: Callable[[ModelRequest], Reply | Awaitable[Reply]], *, name: str = "function") -> None:
        self.name = name
        self._function = function

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the function's result as the answer."""
        return response_of(await result_of(self._function(request)), request, self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class ScriptedModel:
    """Model that answers with `replies` in order, one per call.

    A reply is text, a dict or pydantic model (a structured answer), one or more `ToolCall` objects, a `ModelResponse`,
    or an exception to raise. A call after the last reply raises `ScriptError`, as does `assert_complete()` if there are
    replies left. `calls` records the requests.

    >>> model = ScriptedModel("one", "two")
    >>> model.remaining
    2
    """

    takes_images: bool = True

    def __init__(self, *replies: Reply, name: str = "scripted") -> None:
        self.name = name
        self.calls: list[RecordedCall] = []
        self._replies = replies

    @property
    def remaining(self) -> int:
        """Number of replies left."""
        return max(len(self._replies) - len(self.calls), 0)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the next reply as the answer."""
        self.calls.append(
            RecordedCall(
                block=request.block,
                messages=copy.deepcopy(list(request.messages)),
                output_schema=copy.deepcopy(request.output_schema),
                tools=[tool.name for tool in request.tools],
                begins=request.begins,
                sentences=request.sentences,
            )
        )
        number = len(self.calls)
        if number > len(self._replies):
            replies = "1 reply" if len(self._replies) == 1 else f"{len(self._replies)} replies"
            message = f"call {number} is not in the script, which has {replies}"
            raise ScriptError(message, model=self.name, block=request.block)
        return response_of(self._replies[number - 1], request, self.name)

    def assert_complete(self) -> None:
        """Raise ScriptError if any replies are left."""
        if self.remaining:
            remaining = self._replies[len(self.calls) :]
            count = f"{len(remaining)} of {len(self._replies)}"
            message = f"{count} replies of the script were not used; the next is {short_repr(remaining[0])}"
            raise ScriptError(message, model=self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.calls)} of {len(self._replies)} replies given>"


def response_of(reply: object, request: ModelRequest, name: str) -> ModelResponse:
    """Convert any kind of reply to a response from the model `name`; if the reply is an exception, raise it.

    A dict is either a structured answer or the log-probabilities of the request's choices.
    """
    if isinstance(reply, BaseException):
        raise reply
    if isinstance(reply, ModelResponse):
        return reply
    if isinstance(reply, str):
        if request.on_text is not None:
            for piece in reply.splitlines(keepends=True):
                request.on_text(piece)
        return ModelResponse(text=reply, usage=Usage.unknown())
    reply = [reply] if isinstance(reply, ToolCall) else reply
    if isinstance(reply, (list, tuple)) and reply and all(isinstance(call, ToolCall) for call in reply):
        return ModelResponse(tool_calls=tuple(reply), finish="tool_calls")
    if (
        isinstance(reply, Mapping)
        and request.choices
        and all(isinstance(value, (int, float)) for value in reply.values())
    ):
        return ModelResponse(text=max(reply, key=reply.__getitem__, default=""), logprobs=reply)
    if isinstance(reply, (Mapping, BaseModel)) and request.output is not None:
        plain = reply.model_dump(warnings=False) if isinstance(reply, BaseModel) else reply
        return ModelResponse(data=plain)
    expected = "text" if request.output is None else "text (JSON), a dict or a pydantic model"
    if request.choices:
        expected = f"one of {', '.join(map(repr, request.choices))}, a dict of their log-probabilities"
    message = f"the reply must be {expected}, tool calls or a ModelResponse, got {short_repr(reply)}"
    raise MalformedResponse(message, model=name, block=request.block)
