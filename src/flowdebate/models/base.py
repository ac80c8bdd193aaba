"""How a language model is asked: the `Model` protocol and what goes in and out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from flowdebate.models.attempts import Attempts
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flowdebate.models.output import OutputSchema

__all__ = (
    "FinishReason",
    "Flag",
    "Message",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "ToolCall",
    "ToolSpec",
)

Message = dict[str, Any]
"""One chat message as the chat completions API knows it: `{"role": …, "content": …}`."""

FinishReason = Literal["stop", "length", "tool_calls"]
"""Why the model stopped: it was done, it ran out of room, or it wants tools to be called."""

Flag = Literal["cleaned", "json_in_text", "more_choices", "other_model", "unknown_finish", "usage_unknown"]
"""What was odd: characters that no text may hold were replaced, the JSON stood in prose, there were several answers and
the first was taken, another model than the one asked for answered, the reason for the end is none that is known, tokens
were not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a call is made; None leaves the choice to the model."""

    temperature: float | None = None
    max_tokens: int | None = None
    """Room for the answer, in tokens."""
    timeout: float | None = 300.0
    """Deadline of one call as a whole, retries and their waits included, in seconds; None for no deadline."""
    max_chars: int = 200_000
    """Characters that an answer may have; a longer one is `ResponseTooLarge`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the request, as the provider names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of its arguments: an object."""

    def to_openai(self) -> dict[str, Any]:
        """The tool as the chat completions API wants it.

        >>> spec = ToolSpec(name="look_up", description="Look it up.", parameters={"type": "object"})
        >>> spec.to_openai()["function"]["name"]
        'look_up'
        """
        about = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": about}


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
    attempts: Attempts = field(default_factory=Attempts)
    """What was sent for this call so far; wrappers hand it on."""
    deadline: float | None = None
    """When the whole call must be over, by the event loop's clock; None for never."""
    retried: bool = False
    """Whether somebody outside repeats this call already: there is one retry loop, the outermost."""
    skipped_modes: int = 0
    """Structured modes that a model should skip, since their answers did not fit the schema."""

    @property
    def characters(self) -> int:
        """How long its messages are together."""
        return sum(len(str(message.get("content") or "")) for message in self.messages)

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
    asked_as: str | None = None
    """How a structured answer was asked for, where the model knows several ways."""
    flags: tuple[Flag, ...] = ()
    """What was odd about an answer that could be used all the same."""
    validated: OutputSchema | None = field(default=None, repr=False, compare=False)
    """The schema that `data` was validated by already; models leave it alone."""


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
