"""A row of the table: what goes wrong, what comes of it, and how many requests that takes."""

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
    """Result of a row, for its own checks."""

    server: ChatServer
    request: ModelRequest
    response: ModelResponse | None
    error: ModelError | None
    waits: tuple[float, ...]
    pieces: tuple[str, ...]
    """Text that was streamed to the listener."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, its `handlers` (the n-th gets the n-th request, the last all later ones), and the outcome."""

    id: str
    """The number of its row in the catalogue of faults, and which of several variants it is."""
    title: str
    description: str
    """What happens, in words."""
    attempts: tuple[str | None, ...]
    """The errors that the requests end in; None for an answer."""
    handlers: tuple[Handler, ...] = ()
    mode: Asked = "text"

    error: type[ModelError] | None = None
    """None for an answer."""
    says: str = ""
    """What stands in the error's message."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the error, or of the answer."""
    flags: frozenset[str] = frozenset()
    """What the answer is marked with, `other_model` aside: the test server never is the model that was asked for."""
    waits: tuple[tuple[float, float], ...] | None = None
    """Between which seconds each wait was; None for those of `Retry`'s defaults."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `OpenAIModel`."""
    retry: Callable[[Retry], Retry] | None = None
    """Another policy than the default one."""
    wrapped: Callable[[Model], Model] | None = None
    """What is put around the model."""
    messages: tuple[Message, ...] = ({"role": "user", "content": "hello"},)
    tools: bool = False
    """Whether a tool `lookup` is offered."""
    max_tokens: int | None = None
    timeout: float = 20
    """The deadline; rows that end by it say so in `error`."""

    greet: Greeter | None = None
    tls: bool = False
    base_url: str | None = None
    """Instead of the server's."""
    counted: Literal["posts", "connections", "nothing"] = "posts"
    """What the server's own count of requests is: where none arrives whole, that of connections."""
    pause: float = 0.0
    """Seconds until the same model is asked again."""
    works_again: bool = True
    """Whether the same model can be asked again afterwards."""
    check: Callable[[Played], None] | None = None

    def __str__(self) -> str:
        return self.id
