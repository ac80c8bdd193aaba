"""Resources: sharing and lifetime."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Session, generator, handler, router, sequencer
from flowdebate.errors import ConfigurationError, ResourceConflict
from flowdebate.resources.resource import StateResource
from flowdebate.testing import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.resources.resource import Resource
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio


def counter(key: str = "counter") -> StateResource[int]:
    """Create a shared counter."""
    return StateResource(key=key, initial=int)


def bump_block(resource: StateResource[int], name: str = "bump", *, by: int = 1) -> Block[Any, int]:
    """Create a block that increments the counter and returns the new value."""

    def add(_: object, ctx: Context) -> int:
        handle = ctx.resources[resource.key]
        handle.set(handle.state + by)
        return int(handle.state)

    return handler(add, name=name, resources={resource.key: resource})


def empty(name: str = "all", **options: Any) -> Sequencer[Any, Any]:
    """Create a sequencer to build on."""
    return sequencer(name=name, **options)


def wrap(block: Block[Any, Any], how: str) -> Block[Any, Any]:
    """Create a block that contains `block`."""
    ways: dict[str, Callable[[], Block[Any, Any]]] = {
        "then": lambda: empty().then(block),
        "tap": lambda: empty().tap(block),
        "then_if": lambda: empty().then_if(lambda _: True, block),
        "parallel": lambda: empty().parallel({"x": block}),
        "for_each": lambda: empty().for_each(block, over=lambda _: [1]),
        "branch": lambda: empty().branch((lambda _: True, block)),
        "otherwise": lambda: empty().branch((lambda _: False, str), otherwise=block),
        "do_until": lambda: empty().do_until(block, lambda _: True, max_iterations=1),
        "rescue": lambda: empty().map(lambda _: 1 / 0).rescue(block),
        "router": lambda: router(name="r", choose=lambda _: "x", routes={"x": block}),
        "router otherwise": lambda: router(name="r", choose=lambda _: "?", routes={"x": str}, otherwise=block),
        "tool": lambda: generator(name="g", tools=[block]),
    }
    return ways[how]()


HOLDERS = ("then", "tap", "then_if", "parallel", "for_each", "branch", "otherwise", "do_until", "rescue", "router",
           "router otherwise", "tool")  # fmt: skip


@given(st.lists(st.sampled_from(HOLDERS), min_size=1, max_size=3))
def test_containers_declare_the_resources_of_their_blocks(nesting: list[str]) -> None:
    """A block must find its resources whether it runs on its own or is nested at any depth."""
    shared = counter()
    block: Block[Any, Any] = bump_block(shared)
    for how in nesting:
        block = wrap(block, how)
    assert dict(block.resources) == {"counter": shared}
    session = Session()
    block.run_sync("1", session=session, model=TOOL_USER)
    assert session.resources == {"counter": 1}


class ToolUser:
    """A model that calls its only tool once."""

    name = "tool user"

    async def request(self, request: Any, /) -> Any:
        """Call the tool, then answer."""
        if request.messages[-1]["role"] == "tool":
            return await ScriptedModel("done").request(request)
        return await ScriptedModel(ToolCall(id="1", name=request.tools[0].name, arguments='{"input": "x"}')).request(
            request
        )


TOOL_USER: Any = ToolUser()


@pytest.mark.parametrize("how", HOLDERS)
def test_two_objects_under_one_key_are_rejected(how: str) -> None:
    first_block = wrap(bump_block(counter(), "mine"), how)
    with pytest.raises(ResourceConflict) as caught:
        empty("both").then(first_block).then(bump_block(counter(), "yours"))
    assert caught.value.key == "counter"
    assert caught.value.owners == (first_block.name, "yours")
    assert "Create the counter once and pass the same reference to every block" in str(caught.value)
    assert isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize("order", [0, 1])
def test_owned_objects_conflict_with_shared_ones(order: int) -> None:
    """If two objects had the same key, a block that declares the resource could receive either of them."""
    shared = counter()
    blocks = [empty("keeps", owns=[shared]).then(bump_block(shared, "inner")), bump_block(counter(), "shares")]
    first, second = blocks[order], blocks[1 - order]
    with pytest.raises(ResourceConflict):
        empty("both").then(first).then(second)


def test_two_owners_of_different_objects_do_not_conflict() -> None:
    one, two = counter(), counter()
    a = empty("a", owns=[one]).then(bump_block(one, by=1)).then(bump_block(one, by=1))
    b = empty("b", owns=[two]).then(bump_block(two, by=10)).then(bump_block(two, by=10))
    parallel = empty("both").parallel([a, b])
    assert parallel.run_sync(0).output == {"a": 2, "b": 20}
    assert not parallel.resources


def test_same_object_can_be_declared_repeatedly() -> None:
    shared = counter()
    block = empty(resources={"counter": shared}).then(bump_block(shared, "one")).then(bump_block(shared, "two"))
    assert block.run_sync(0).output == 2


def test_owners_and_their_blocks_must_use_the_same_object() -> None:
    with pytest.raises(ResourceConflict):
        empty(owns=[counter()]).then(bump_block(counter()))


def test_owned_resources_are_available_to_all_blocks() -> None:
    private = counter()
    block = empty(owns=[private]).then(lambda _, ctx: ctx.resources.counter.state).map(lambda n: n + 1)
    assert block.run_sync(0).output == 1
    assert not block.resources


@given(st.integers(1, 5), st.none() | st.integers(1, 5), st.integers(0, 3), st.integers(0, 5))
def test_owned_resources_are_opened_for_each_execution(count: int, limit: int | None, pauses: int, saved: int) -> None:
    """Two executions by the same owner share no resources, and each of them starts from the session's state."""
    private = counter()

    async def pause(value: object) -> object:
        for _ in range(pauses):
            await asyncio.sleep(0)
        return value

    owner = empty("owner", owns=[private]).tap(bump_block(private)).then(pause).then(bump_block(private, "again"))
    session = Session(resources={"counter": saved} if saved else {})
    outputs = empty().for_each(owner, max_concurrency=limit).run_sync(range(count), session=session).output
    assert outputs == [saved + 2] * count
    assert session.resources == {"counter": saved + 2}


def test_nested_owners_have_their_own_object() -> None:
    shared_counter = counter()
    inner = empty("inner", owns=[shared_counter]).then(bump_block(shared_counter))
    outer = (
        empty("outer", owns=[shared_counter])
        .then(bump_block(shared_counter))
        .tap(inner)
        .tap(inner)
        .then(bump_block(shared_counter))
    )
    assert outer.run_sync(0).output == 2


@given(st.integers(1, 4), st.none() | st.integers(1, 4), st.integers(0, 2))
def test_isolated_resources_start_from_and_update_the_outer_state(count: int, limit: int | None, pauses: int) -> None:
    """Concurrent executions do not see each other's changes. One execution's final state becomes the outer state."""
    shared = counter()

    async def pause(value: object) -> object:
        for _ in range(pauses):
            await asyncio.sleep(0)
        return value

    def look(_: object, ctx: Context) -> int:
        return int(ctx.resources.counter.state)

    def pair(start: int, ctx: Context) -> tuple[int, int]:
        return start, ctx.resources.counter.state

    isolated = (
        empty("isolated", isolates=[shared])
        .map(look)
        .tap(bump_block(shared))
        .then(pause)
        .tap(bump_block(shared, "again"))
        .map(pair)
    )
    block = (
        empty().tap(bump_block(shared, by=10)).for_each(isolated, over=lambda _: range(count), max_concurrency=limit)
    )
    session = Session()
    pairs, after = block.map(lambda value, ctx: (value, look(value, ctx))).run_sync(0, session=session).output
    assert all(end == start + 2 for start, end in pairs)
    assert pairs[0][0] == 10
    assert session.resources == {"counter": after}
    assert after in {end for _, end in pairs}
    if limit == 1:
        assert [start for start, _ in pairs] == [10 + 2 * index for index in range(count)]
    assert block.resources == {"counter": shared}


def test_only_resources_can_be_isolated_or_owned() -> None:
    for options in ({"isolates": [5]}, {"owns": [None]}):
        with pytest.raises(ConfigurationError, match="a hashable resource"):
            empty(**options)


@given(st.integers(1, 4), st.integers(1, 4))
def test_shared_resources_are_opened_once_per_run(count: int, depth: int) -> None:
    opened: list[int] = []

    @dataclass(frozen=True, eq=False)
    class Cache:
        """A custom resource."""

        key: str = "cache"

        def open(self, scope: object) -> list[int]:
            opened.append(1)
            return []

    cache: Resource = Cache()
    block: Block[Any, Any] = handler(
        lambda _, ctx: ctx.resources.cache.append(1), name="add", resources={"cache": cache}
    )
    for level in range(depth):
        block = empty(f"level {level}").tap(block)
    total = handler(lambda _, ctx: len(ctx.resources.cache), name="total", resources={"cache": cache})
    pipeline = empty().tap_each(block, over=lambda _: range(count)).then(total)
    assert pipeline.run_sync(0).output == count
    assert pipeline.run_sync(0).output == count
    assert len(opened) == 2


def test_sessions_keep_state_between_runs() -> None:
    """Without a session, every run starts from the initial state."""
    block = bump_block(counter())
    session = Session()
    assert [block.run_sync(0, session=session).output for _ in range(3)] == [1, 2, 3]
    assert session.resources == {"counter": 3}
    assert [block.run_sync(0).output for _ in range(2)] == [1, 1]


@given(st.integers(1, 5), st.integers(0, 3), st.permutations(range(5)))
def test_concurrent_runs_in_a_session_are_isolated(count: int, saved: int, order: list[int]) -> None:
    shared = counter()

    async def scenario() -> None:
        gates = [asyncio.Event() for _ in range(count)]

        async def wait(value: int) -> int:
            await gates[value].wait()
            return value

        block = empty().tap(bump_block(shared)).tap(handler(wait)).then(bump_block(shared, "again"))
        session = Session(resources={"counter": saved})
        handles = [block.start(index, session=session) for index in range(count)]
        for index in order:
            if index < count:
                await asyncio.sleep(0)
                gates[index].set()
        assert [(await handle).output for handle in handles] == [saved + 2] * count
        assert session.resources == {"counter": saved + 2}

    asyncio.run(scenario())


async def test_transcripts_can_be_read_during_and_after_a_run() -> None:
    shared = counter("transcript")
    block = empty().tap(bump_block(shared)).map(lambda _: 1 / 0)
    handle = block.start(0)
    with pytest.raises(ZeroDivisionError):
        await handle
    state: Any = handle.transcript
    assert state == 1


@dataclass
class Unhashable:
    """An object that cannot be a dictionary key."""

    key: str = "counter"

    def open(self, scope: object) -> None:
        """Return nothing."""


@pytest.mark.parametrize(
    "resources",
    [{"a": counter("b")}, {"a": 5}, {"a": None}, {"counter": Unhashable()}],
    ids=["another key", "int", "None", "unhashable"],
)
def test_non_resources_are_rejected(resources: Any) -> None:
    for make in (
        lambda: handler(str, resources=resources),
        lambda: sequencer(name="s", resources=resources),
        lambda: generator(name="g", resources=resources),
    ):
        with pytest.raises(ConfigurationError, match="resources"):
            make()


def test_errors_for_unknown_resources_list_the_available_ones() -> None:
    block = handler(lambda _, ctx: ctx.resources.transcript, resources={"counter": counter()}, name="reads")
    with pytest.raises(
        AttributeError, match=r"no resource 'transcript' is available here \(available: 'counter'\); declare it"
    ):
        block.run_sync(0)
    with pytest.raises(KeyError, match=r"no resource 'x' is available here \(available: none"):
        handler(lambda _, ctx: ctx.resources["x"]).run_sync(0)


def test_resources_behave_like_a_mapping() -> None:
    look = handler(lambda _, ctx: ("counter" in ctx.resources, list(ctx.resources), len(ctx.resources)), name="look")
    assert look.run_sync(0).output == (False, [], 0)
    assert empty().tap(bump_block(counter())).then(look).run_sync(0).output == (True, ["counter"], 1)
