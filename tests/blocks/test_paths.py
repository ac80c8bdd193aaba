"""Paths: the keys used to look up the steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowdebate import generator, handler, router, sequencer
from flowdebate.runs.context import escape_path_segment
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel, ScriptedModel, ToolCall
from tests.blocks.pipelines import NAMES, SMALL, Journal, Pipeline, outcome_of, pipelines

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model, ModelResponse
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


async def keys_of(block: Block[Any, Any], model: Model) -> list[str]:
    """Return the keys of a run's steps in order."""
    store = MemoryStore()
    result = await block.run("q", model=model, store=store)
    return [step.key for step in await store.steps(result.run_id)]


@given(pipelines(depth=3), SMALL)
def test_paths_within_a_run_are_unique(recipe: Pipeline, value: int) -> None:
    journal = Journal()
    paths = outcome_of(recipe.build(journal), value, journal).paths
    assert len(set(paths)) == len(paths)


@given(pipelines(failing=False, pauses=3), SMALL, st.data())
def test_paths_do_not_depend_on_the_order_of_completion(recipe: Pipeline, value: int, data: st.DataObject) -> None:
    journal, other = Journal(), Journal()
    slow = recipe.build(journal)
    hasty = change_pauses(recipe, data).build(other)
    assert sorted(outcome_of(slow, value, journal).paths) == sorted(outcome_of(hasty, value, other).paths)


def change_pauses(recipe: Any, data: st.DataObject) -> Any:
    """Return `recipe` with different pauses."""
    if isinstance(recipe, tuple):
        return tuple(change_pauses(part, data) for part in recipe)
    fields = getattr(recipe, "__dataclass_fields__", None)
    if fields is None:
        return recipe
    changed = {name: change_pauses(getattr(recipe, name), data) for name in fields}
    if "pauses" in fields:
        changed["pauses"] = data.draw(st.integers(0, 3))
    return type(recipe)(**changed)


@given(st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
@example(["a/b"], ["a%2Fb"])
@example(["a[1]/b"], ["a", "b"])
def test_different_names_have_different_paths(names: list[str], other_names: list[str]) -> None:
    """Escaping must keep different names distinct, even if they contain separators."""

    def path(parts: list[str]) -> str:
        return "/".join(f"{escape_path_segment(part)}[1]" for part in parts)

    assert (path(names) == path(other_names)) is (names == other_names)


@pytest.mark.parametrize("name", NAMES)
async def test_steps_in_one_block_have_distinct_keys(name: str) -> None:
    """Each `ctx.step` in a block has a key that differs from the block's path and from the keys of its model calls."""

    async def context(_: str, ctx: Context) -> list[str]:
        return [
            await ctx.step(fetch),
            await ctx.step(fetch),
            await ctx.step(fetch, key="1"),
            await ctx.step(fetch, key=name),
        ]

    async def fetch() -> str:
        return "facts"

    answers = ScriptedModel(
        ToolCall(id="1", name="look", arguments="{}"), ToolCall(id="1", name="look", arguments="{}"), "done"
    )
    block = generator(name=name, context=context, tools=[look])
    await keys_of(sequencer(name="two").then(block).tap(generator(name=name)), FunctionModel(lambda _: "x"))
    keys = await keys_of(block, answers)
    assert len(set(keys)) == len(keys) == 9


def look() -> str:
    """Look."""
    return "seen"


async def test_generators_with_the_same_name_do_not_share_keys() -> None:
    calls = [ToolCall(id="", name="look", arguments="{}")] * 3
    model = ScriptedModel(calls[:2], calls, "one", calls, "two")
    twice: Sequencer[Any, Any] = sequencer(name="twice")
    for _ in range(2):
        twice = twice.tap(generator(name="ask", tools=[look]))
    keys = await keys_of(twice, model)
    model.assert_complete()
    assert len(set(keys)) == len(keys)
    assert "twice/ask/look[2.3]" in keys


async def test_blocks_used_as_tools_have_a_path_per_call() -> None:
    paths: list[str] = []
    note = handler(lambda value, ctx: paths.append(ctx.path), name="note")
    inner: Sequencer[Any, Any] = sequencer(name="note-it").then(note)
    call = ToolCall(id="same", name="note-it", arguments='{"input": "x"}')
    await generator(name="ask", tools=[inner]).run("q", model=ScriptedModel([call, call], call, "done"))
    assert paths == ["ask/note-it[1.1]/note", "ask/note-it[1.2]/note", "ask/note-it[2.1]/note"]


async def test_paths_are_readable() -> None:
    paths: list[str] = []

    def note(name: str) -> Block[Any, Any]:
        return handler(lambda value, ctx: paths.append(ctx.path), name=name)

    choose = router(name="pick", choose=lambda _: "yes", routes={"yes": note("route")})
    pipeline: Sequencer[Any, Any] = (
        sequencer(name="all")
        .tap(note("first"))
        .tap(choose)
        .tap(sequencer(name="spread").parallel({"for/against": note("p")}))
        .tap_each(note("each"), over=lambda _: "ab")
        .tap(sequencer(name="pick-one").branch((bool, note("yes")), otherwise=note("no")))
        .tap(sequencer(name="round").tap(note("turn")).loop_back("turn", when=bool, max_iterations=2, label="pass"))
    )
    await pipeline.run(1)
    assert paths == [
        "all/first",
        "all/pick/route",
        "all/spread/p[for%2Fagainst]/p",
        "all/each[0]",
        "all/each[1]",
        "all/pick-one/branch/yes",
        "all/round/pass[1]/turn",
        "all/round/pass[2]/turn",
    ]


async def test_model_answers_do_not_affect_paths() -> None:
    """The model chooses the name and the id of a tool call, so neither may be part of a path."""

    def answer(request: ModelRequest) -> ModelResponse | str | ToolCall:
        if len(request.messages) > 1:
            return "done"
        return ToolCall(id="../x", name="a/b#1", arguments="{}")

    assert await keys_of(generator(name="ask", tools=[look]), FunctionModel(answer)) == ["ask", "ask#1"]
