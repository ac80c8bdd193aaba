"""A row of the table: the fault, its outcome, and the expected number of requests."""

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
    """The schema requested by structured rows."""

    model_config = ConfigDict(extra="forbid")

    reasoning: str
    winner: Literal["for", "against"] | None
    score: float = Field(ge=0, le=100)


@dataclass(frozen=True, kw_only=True)
class Played:
    """The result of a row, for the row's own checks."""

    server: ChatServer
    request: ModelRequest
    response: ModelResponse | None
    error: ModelError | None
    waits: tuple[float, ...]
    pieces: tuple[str, ...]
    """The text streamed to the listener."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault with its `handlers` and its outcome.

    The n-th handler gets the n-th request. The last one also gets all later requests.
    """

    id: str
    """The row number in the catalog of faults, with a suffix for variants."""
    title: str
    description: str
    """A description of the fault."""
    attempts: tuple[str | None, ...]
    """Error class per request; None for a request that is answered."""
    handlers: tuple[Handler, ...] = ()
    mode: Asked = "text"

    error: type[ModelError] | None = None
    """Error class that the call raises; None if it is answered."""
    says: str = ""
    """Text that the error message contains."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The expected attributes of the error or the answer."""
    flags: frozenset[str] = frozenset()
    """Flags of the answer except `other_model`, since the test server never reports the requested model."""
    waits: tuple[tuple[float, float], ...] | None = None
    """Bounds of each wait in seconds; None for the defaults of `Retry`."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of `OpenAIModel`."""
    retry: Callable[[Retry], Retry] | None = None
    """A function that modifies the default retry policy."""
    wrapped: Callable[[Model], Model] | None = None
    """A function that wraps the model."""
    messages: tuple[Message, ...] = ({"role": "user", "content": "hello"},)
    tools: bool = False
    """True if a tool `lookup` is offered."""
    max_tokens: int | None = None
    timeout: float = 20
    """Deadline in seconds. Rows that end at the deadline set `error` accordingly."""

    greet: Greeter | None = None
    tls: bool = False
    base_url: str | None = None
    """A base URL that replaces the server's."""
    counted: Literal["posts", "connections", "nothing"] = "posts"
    """Events that the server counts: complete requests, connections if no request arrives completely, or nothing."""
    pause: float = 0.0
    """The number of seconds before the same model is called again."""
    works_again: bool = True
    """True if a later call to the same model succeeds."""
    check: Callable[[Played], None] | None = None

    def __str__(self) -> str:
        return self.id
