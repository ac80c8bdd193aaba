"""The state of sequencers and its visibility."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowdebate import handler, sequencer
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.runs.context import Context


class Model(BaseModel):
    """A pydantic state."""

    count: int = 0


@dataclass(frozen=True)
class Data:
    """A dataclass state."""

    count: int = 0


def recording_block(states: list[Any]) -> Block[Any, Any]:
    """Create a block that records the state it sees."""
    return handler(lambda _, ctx: states.append((ctx.sequencer.name, ctx.sequencer.state)), name="note")


@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_blocks_see_the_nearest_state(owners: list[bool]) -> None:
    """A sequencer without a state is transparent, and a nested state hides the outer ones."""
    states: list[Any] = []
    block: Block[Any, Any] = recording_block(states)
    for level in reversed(range(len(owners))):
        state = (lambda level=level: level) if owners[level] else None
        block = sequencer(name=f"level {level}", state=state).tap(block)
    if True in owners:
        nearest = max(level for level, has_state in enumerate(owners) if has_state)
        block.run_sync(0)
        assert states == [(f"level {nearest}", nearest)]
    else:
        with pytest.raises(AttributeError, match="block 'note' is not inside a sequencer with a state"):
            block.run_sync(0)


@pytest.mark.parametrize("state", [Model, Data, lambda: {"count": 0}], ids=["model", "dataclass", "dict"])
def test_update_replaces_fields(state: Any) -> None:
    """Later blocks, conditions and functions see the new value, but old values are never modified."""
    first: list[Any] = []

    def count(ctx: Context) -> int:
        now = ctx.sequencer.state
        return int(now["count"] if isinstance(now, dict) else now.count)

    def bump(_: object, ctx: Context) -> None:
        first.append(ctx.sequencer.state)
        ctx.sequencer.update(count=count(ctx) + 1)

    block = (
        sequencer(name="s", state=state)
        .tap(handler(bump, name="bump"))
        .loop_back("bump", when=lambda _, ctx: count(ctx) < 3, max_iterations=5)
        .map(lambda _, ctx: count(ctx))
    )
    assert block.run_sync(0).output == 3
    assert first[0] == state()


@pytest.mark.parametrize("state", [Model, Data])
def test_unknown_fields_raise_an_error(state: Any) -> None:
    """A typo in a field name must not go unnoticed, even if the state accepts any field."""
    block = sequencer(name="s", state=state).tap(lambda _, ctx: ctx.sequencer.update(cuont=1))
    with pytest.raises(ConfigurationError, match=r"was called with an unknown field .got cuont.. Did you mean count"):
        block.run_sync(0)


def test_states_can_be_replaced_completely() -> None:
    block = sequencer(name="s", state=tuple).tap(lambda v, ctx: setattr(ctx.sequencer, "state", (v,)))
    assert block.map(lambda _, ctx: ctx.sequencer.state).run_sync(5).output == (5,)


@given(st.integers(1, 5), st.none() | st.integers(1, 3), st.integers(0, 3))
def test_each_execution_of_a_sequencer_gets_a_new_state(count: int, limit: int | None, pauses: int) -> None:
    async def bump(value: object, ctx: Context) -> object:
        ctx.sequencer.update(count=ctx.sequencer.state["count"] + 1)
        for _ in range(pauses):
            await asyncio.sleep(0)
        return value

    inner = sequencer(name="inner", state=lambda: {"count": 0}).tap(bump).tap(bump)
    block = inner.map(lambda _, ctx: ctx.sequencer.state["count"])
    outer = sequencer(name="outer", state=lambda: {"count": 100}).for_each(block, max_concurrency=limit)
    result = outer.map(lambda outputs, ctx: (outputs, ctx.sequencer.state)).run_sync(range(count)).output
    assert result == ([2] * count, {"count": 100})


def test_exceptions_in_a_state_factory_are_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        sequencer(name="s", state=lambda: 1 / 0).map(str).run_sync(0)
    assert caught.value.__notes__ == ["in block 's' (at s)"]


def test_input_can_be_converted_for_the_first_step() -> None:
    inner = sequencer(name="inner", accepts=int).map(lambda n: n + 1)
    assert inner.run_sync("4").output == 5
    assert sequencer(name="outer").for_each(inner).run_sync("12").output == [2, 3]
