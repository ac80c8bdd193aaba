"""Sessions: objects that outlive a run."""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Session, handler
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.runs.context import Context


def counting_block(_: object, ctx: Context) -> int:
    """Increase the count in the session's state and return it."""
    ctx.session.state["count"] = ctx.session.state.get("count", 0) + 1
    return int(ctx.session.state["count"])


def test_session_is_shared_by_its_runs() -> None:
    session = Session(state={"count": 5})
    assert [handler(counting_block).run_sync(0, session=session).output for _ in range(2)] == [6, 7]
    session.state["count"] = 0
    assert handler(counting_block).run_sync(0, session=session).output == 1


def test_session_state_can_be_a_dict() -> None:
    state: dict[str, Any] = {"count": 5}
    result = handler(counting_block).run_sync(0, session=state)
    assert (result.output, state) == (6, {"count": 6})
    assert result.session.state is state


def test_each_run_gets_a_new_session_by_default() -> None:
    assert [handler(counting_block).run_sync(0).output for _ in range(2)] == [1, 1]


def test_session_state_can_be_any_mutable_mapping() -> None:
    state: Any = UserDict(count=1)
    assert handler(counting_block).run_sync(0, session=state).output == 2
    assert state["count"] == 2


@pytest.mark.parametrize("session", [5, "session", [], (), frozenset(), Session, object()])
def test_invalid_sessions_are_rejected(session: Any) -> None:
    acted: list[object] = []
    with pytest.raises(
        ConfigurationError, match=r"run: `session` must be a Session, or a dict to use as a session's state"
    ):
        handler(acted.append).run_sync(0, session=session)
    assert acted == []


def test_session_has_state_history_and_resources() -> None:
    session = Session()
    assert (session.state, session.history, session.resources) == ({}, [], {})
    with pytest.raises(TypeError):
        Session({})  # type: ignore[call-arg]
