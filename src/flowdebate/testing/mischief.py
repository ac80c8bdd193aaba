"""Hypothesis strategies for what models and blocks give at their worst."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from flowdebate.errors import ConnectionLost, ProviderFailed, Refused
from flowdebate.models.base import ModelResponse, ToolCall
from flowdebate.patterns.debate.schemas import DebateModeratorOutput
from flowdebate.testing.hostile import Sabotage, Unprintable, Unreadable

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from pydantic import BaseModel

__all__ = (
    "hostile_replies",
    "hostile_values",
    "spoiled",
    "unvalidated",
)


@cache
def hostile_values() -> SearchStrategy[Any]:
    """What a block may return that is not what it should; exceptions among them are to be raised."""
    odd = [
        None,
        0,
        True,
        float("nan"),
        "",
        b"\xff",
        [],
        [["anna"]],
        {},
        {None: None},
        {"text": None},
        {"text": Unprintable()},
        Unprintable(),
        Unreadable(),
        Sabotage("out of ideas"),
        "\ud800\0",
        "x" * 1000,
        unvalidated(DebateModeratorOutput, next_speakers=None, briefing=0, new_angle=b"", done=False),
        unvalidated(DebateModeratorOutput, next_speakers=[], briefing=None, new_angle=None, done=False),
    ]
    return st.sampled_from(odd) | st.integers() | st.text(max_size=8)


@cache
def hostile_replies() -> SearchStrategy[Any]:
    """What a model may reply that nobody asked for: see `FunctionModel`; exceptions among them are raised."""
    broken = [
        ToolCall(id="1", name="no_such_tool", arguments="{"),
        [ToolCall(id="", name="", arguments="null"), ToolCall(id="", name="", arguments="[]")],
        ModelResponse(text="cut off in the mid", finish="length"),
        ModelResponse(text='{"verdict": "', finish="length"),
        ModelResponse(text="{}", finish="nonsense"),  # type: ignore[arg-type]
        ModelResponse(text=None),  # type: ignore[arg-type]
        ModelResponse(tool_calls="nonsense"),  # type: ignore[arg-type]
        ModelResponse(data=Unreadable()),
        ModelResponse(data=Unprintable(), usage=None),  # type: ignore[arg-type]
        ProviderFailed("the endpoint answered 503", status=503),
        ConnectionLost("the connection broke"),
        Refused("not that again"),
    ]
    return st.sampled_from(broken) | hostile_values()


def spoiled(value: dict[str, Any], required: str) -> SearchStrategy[Any]:
    """`value` without its `required` key, with one too many, with anything under one; or anything instead of it."""
    another = st.tuples(st.sampled_from(list(value)), hostile_values()).map(lambda item: {**value, item[0]: item[1]})
    without = {key: kept for key, kept in value.items() if key != required}
    return st.sampled_from([without, {**value, "mood": "angry"}]) | another | hostile_values()


def unvalidated(model: type[BaseModel], **fields: Any) -> BaseModel:  # noqa: ANN401 - that is the mischief
    """An instance of `model` that never was validated."""
    return model.model_construct(**fields)
