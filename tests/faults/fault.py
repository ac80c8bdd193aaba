"""A row of the table: the fault, its outcome, and the number of requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.errors import ModelError
    from flowdebate.models import Model, ModelRequest, ModelResponse, Retry
    from flowdebate.models.base import Message
    from tests.models.server import ChatServer, Greeter, Handler

__all__ = ("VERDICT", "Asked", "Fault", "Played", "Verdict")

Asked: TypeAlias = 'Literal["text", "stream", "structured"]'

VERDICT = '{"reasoning": "r", "winner": "for", "score": 7}'


class Verdict(BaseModel):
    """Schema that structured rows request."""

    model_config = ConfigDict(extra="forbid")

    reasoning: str
    winner: Literal["for", "against"] | None
    score: float = Field(ge=0, le=100)


@dataclass(frozen=True, kw_only=True)
class Played:
    """Result of a row, for the row's own checks."""

    server: ChatServer
    request: ModelRequest
    response: ModelResponse | None
    error: ModelError | None
    waits: tuple[float, ...]
    pieces: tuple[str, ...]
    """Text streamed to the listener."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, its `handlers` and its outcome.

    The n-th handler gets the n-th request, and the last one all later requests.
    """

    id: str
    """Number of the row in the catalogue of faults, with a suffix for variants."""
    title: str
    description: str
    """Description of the fault in words."""
    attempts: tuple[str | None, ...]
    """Error of each request, or None for an answer."""
    handlers: tuple[Handler, ...] = ()
    mode: Asked = "text"

    error: type[ModelError] | None = None
    """Error of the call, or None for an answer."""
    says: str = ""
    """Text that the error's message contains."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Expected attributes of the error or the answer."""
    flags: frozenset[str] = frozenset()
    """Flags of the answer except `other_model`, since the test server never reports the requested model."""
    waits: tuple[tuple[float, float], ...] | None = None
    """Bounds of each wait in seconds, or None for the defaults of `Retry`."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `OpenAIModel`."""
    retry: Callable[[Retry], Retry] | None = None
    """Function that changes the default retry policy."""
    wrapped: Callable[[Model], Model] | None = None
    """Function that wraps the model."""
    messages: tuple[Message, ...] = ({"role": "user", "content": "hello"},)
    tools: bool = False
    """Whether a tool `lookup` is offered."""
    max_tokens: int | None = None
    timeout: float = 20
    """Deadline in seconds; rows that end by the deadline have `error` set accordingly."""

    greet: Greeter | None = None
    tls: bool = False
    base_url: str | None = None
    """Base URL that replaces the server's."""
    counted: Literal["posts", "connections", "nothing"] = "posts"
    """What the server counts as requests: connections where none arrives whole."""
    pause: float = 0.0
    """Seconds before the same model is called again."""
    works_again: bool = True
    """Whether a later call of the same model succeeds."""
    check: Callable[[Played], None] | None = None

    def __str__(self) -> str:
        return self.id
