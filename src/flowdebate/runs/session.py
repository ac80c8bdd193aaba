"""Sessions: state shared by several runs."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.models.base import Message


@dataclass(slots=True, kw_only=True)
class Session:
    """State that outlives a run; pass the same session to several runs to share it between them.

    >>> Session(state={"budget_exhausted": False}).state["budget_exhausted"]
    False
    """

    state: dict[str, Any] = field(default_factory=dict)
    """The application's state, which blocks read and write as `ctx.session.state`."""
    history: list[Message] = field(default_factory=list)
    """Messages from blocks whose visibility includes `history`, in order; generators read them through their `history`
    slot.
    """
    resources: dict[str, Any] = field(default_factory=dict)
    """Latest state of each session-scoped resource, by key."""


SessionLike: TypeAlias = Session | dict[str, Any] | None
"""A session, a dict to use as a session's `state` (the same object, not a copy), or None for a new session."""


def as_session(value: SessionLike) -> Session:
    """Return `value` as a session; raise ConfigurationError unless it is a `SessionLike`."""
    if value is None:
        return Session()
    if isinstance(value, Session):
        return value
    if isinstance(value, MutableMapping):
        return Session(state=value)
    raise ConfigurationError("run", "session", value, "must be a Session, or a dict to use as a session's state")
