"""How a language model is asked: the `Model` protocol and what goes in and out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flowdebate.models.output import OutputSchema

__all__ = ("FinishReason", "Message", "Model", "ModelRequest", "ModelResponse", "ModelSettings", "ToolCall", "ToolSpec")

Message = dict[str, Any]
"""One chat message as the chat completions API knows it: `{"role": …, "content": …}`."""

FinishReason = Literal["stop", "length", "tool_calls"]
"""Why the model stopped: it was done, it ran out of room, or it wants tools to be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a call is made; None leaves the choice to the model."""

    temperature: float | None = None
    max_tokens: int | None = None
    """Room for the answer, in tokens."""
    timeout: float | None = 300.0
    """Deadline of one call as a whole, in seconds; None for no deadline."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the request, as the provider names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of its arguments: an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A model's wish to call a tool; `arguments` are JSON as the model wrote it, not yet looked at."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True, kw_only=True)
class ModelRequest:
    """One call of a model."""

    messages: Sequence[Message]
    block: str
    """The name of the block that asks."""
    output: OutputSchema | None = None
    """What the answer must be; None for text."""
    tools: Sequence[ToolSpec] = ()
    settings: ModelSettings = field(default_factory=ModelSettings)
    on_text: Callable[[str], None] | None = None
    """Takes pieces of text as they arrive; None where nobody listens."""

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of a structured answer; None for text."""
        return None if self.output is None else self.output.json_schema


@dataclass(slots=True, kw_only=True)
class ModelResponse:
    """One answer of a model: text, or data for a request with `output`, or tool calls."""

    text: str = ""
    data: object = None
    """The structured answer: an instance that `output` validated, plain data, or None (then `text` holds JSON)."""
    tool_calls: Sequence[ToolCall] = ()
    finish: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage.unknown)
    model: str | None = None
    """The name under which the endpoint says it answered."""


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests; nothing to inherit.

    What it raises reaches the caller of the run: errors of `flowdebate.errors` as such, all others as the
    application's own.
    """

    @property
    def name(self) -> str:
        """What errors, events and usage call it."""

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer once; no retries."""
