"""Single runs: result, events, randomness and usage."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, Session, debate, generator, handler, sequencer
from flowdebate.blocks.functions import result_of
from flowdebate.errors import ConfigurationError, FlowDebateWarning, ModelUnavailable
from flowdebate.models.base import Usage
from flowdebate.runs.events import ModelCalled, RunFinished, RunStarted
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel, ModelResponse, ScriptedModel
from tests.blocks.pipelines import SMALL, Boom, Journal, Pipeline, pipelines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flowdebate.blocks.base import Block
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


@given(pipelines(), SMALL)
def test_every_run_has_start_and_finish_events(recipe: Pipeline, value: int) -> None:
    listened: list[Any] = []
    peek = handler(lambda _, ctx: listened.append(ctx.run), name="peek")
    block = sequencer(name="all").tap(peek).then(recipe.build(Journal()))
    status = "complete"
    try:
        result = block.run_sync(value)
    except Boom:
        status = "failed"
    else:
        assert result.events == listened[0].records.events
    events = listened[0].records.events
    assert [type(event) for event in events if isinstance(event, (RunStarted, RunFinished))] == [
        RunStarted,
        RunFinished,
    ]
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == status
    assert (events[-1].error is None) is (status == "complete")
    assert events[0].run_id == events[-1].run_id


def test_result_describes_its_run() -> None:
    session = Session()
    result = generator(name="ask").run_sync("?", model=ScriptedModel("yes"), session=session, seed=7)
    assert result.output == "yes"
    assert result.session is session
    assert result.seed == 7
    assert result.usage.calls == 1
    assert result.seconds >= 0
    assert result.raw is None
    assert isinstance(result.events[0], RunStarted)
    assert (result.events[0].run_id, result.events[0].seed, result.events[0].block) == (result.run_id, 7, "ask")
    assert result.status == "complete"
    assert result.cost is None
    assert repr(result) == f"<RunResult {result.run_id} complete output='yes'>"


def test_reading_missing_parts_of_a_run_raises_lookup_error() -> None:
    """An application that reads a missing part gets a clear error instead of an unexpected `None`."""
    result = handler(str).run_sync(5)
    assert result.task_collections == []
    for attempt in (lambda: result.tasks, lambda: result.transcript):
        with pytest.raises(LookupError, match=result.run_id):
            attempt()


def test_each_run_has_its_own_id_and_seed() -> None:
    """The caller may choose the seed."""
    results = [handler(str).run_sync(5) for _ in range(20)]
    assert len({result.run_id for result in results}) == 20
    assert len({result.seed for result in results}) == 20


@pytest.mark.parametrize("seed", ["7", 7.0, True, b"7"])
def test_seed_must_be_an_integer(seed: Any) -> None:
    """A bool is rejected, although Python counts it as an integer."""
    with pytest.raises(ConfigurationError, match="run: `seed` must be a whole number"):
        handler(str).run_sync(5, seed=seed)


def drawing_block(name: str = "draw") -> Block[Any, Any]:
    """Return a block that draws random numbers after letting other blocks go first."""

    async def draw(pauses: int, ctx: Context) -> tuple[str, list[float]]:
        for _ in range(pauses):
            await asyncio.sleep(0)
        return ctx.path, [ctx.random.random() for _ in range(3)]

    return handler(draw, name=name)


@given(
    st.integers(),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
def test_same_seed_repeats_the_random_draws_of_each_path(
    seed: int, pauses: list[int], second_pauses: list[int]
) -> None:
    """The order of the blocks does not matter, but different paths or seeds give different numbers."""
    block = sequencer(name="all").for_each(drawing_block())
    first = dict(block.run_sync(pauses, seed=seed).output)
    second = dict(block.run_sync(second_pauses[: len(pauses)], seed=seed).output)
    assert first == second
    assert len({tuple(drawn) for drawn in first.values()}) == len(pauses)
    assert dict(block.run_sync(pauses, seed=seed + 1).output) != first


def test_drawing_does_not_touch_the_global_random_state() -> None:
    """Draws neither change the global random state nor depend on it."""
    random.seed(1)
    before = random.getstate()
    drawing_block().run_sync(0, seed=1)
    assert random.getstate() == before


USAGES = st.builds(
    Usage,
    calls=st.just(1),
    prompt_tokens=st.none() | st.integers(0, 99),
    cached_tokens=st.none() | st.integers(0, 99),
    completion_tokens=st.none() | st.integers(0, 99),
    reasoning_tokens=st.none() | st.integers(0, 99),
    cache_written_tokens=st.none() | st.integers(0, 99),
)


@given(st.lists(USAGES, max_size=4), st.booleans())
def test_usage_is_summed_and_unknown_usage_is_not_zero(usages: list[Usage], max_concurrency: bool) -> None:  # noqa: FBT001
    """One call with an unknown token count makes the sum unknown, and a run without calls has a sum of zero."""
    remaining = iter(usages)
    model = FunctionModel(lambda _: ModelResponse(text="x", usage=next(remaining)))
    block = sequencer(name="all").for_each(generator(name="ask"), max_concurrency=None if max_concurrency else 1)
    result = block.run_sync("?" * len(usages), model=model)

    def total(field: str) -> int | None:
        values = [getattr(usage, field) for usage in usages]
        return None if None in values else sum(values)

    assert result.usage == Usage(
        calls=len(usages),
        prompt_tokens=total("prompt_tokens"),
        cached_tokens=total("cached_tokens"),
        completion_tokens=total("completion_tokens"),
        reasoning_tokens=total("reasoning_tokens"),
        cache_written_tokens=total("cache_written_tokens"),
    )
    finished = result.events[-1]
    assert isinstance(finished, RunFinished)
    assert finished.usage == result.usage


async def test_failed_and_cancelled_calls_are_reported_and_counted() -> None:
    """The usage of a cancelled call is unknown, whereas a call to an unreachable endpoint has used nothing."""
    call_started = asyncio.Event()

    async def hang(_: ModelRequest) -> str:
        call_started.set()
        await asyncio.Event().wait()
        return "never"

    handle = generator(name="ask").start("?", model=FunctionModel(hang, name="slow"))
    await call_started.wait()
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    failing = generator(name="ask").start("?", model=ScriptedModel(ModelUnavailable("down"), name="down"))
    with pytest.raises(ModelUnavailable):
        await failing
    nothing = replace(Usage.zero(), calls=1)
    for run, error, model, usage in (
        (handle, "CancelledError", "slow", Usage.unknown()),
        (failing, "ModelUnavailable: down", "down", nothing),
    ):
        (called,) = [event for event in run.events if isinstance(event, ModelCalled)]
        assert called.error is not None
        assert called.error.startswith(error)
        assert (called.block, called.path, called.model) == ("ask", "ask", model)
        assert run.usage == called.usage == usage
        assert len(called.attempts) == 1


def test_no_event_is_added_after_a_run_has_ended() -> None:
    """Leftover tasks may still emit events, but `result.events` does not change."""
    contexts: list[Any] = []
    result = handler(lambda _, ctx: contexts.append(ctx)).run_sync(0)
    before = list(result.events)
    contexts[0].emit("late")
    assert result.events == before


def test_custom_events_are_part_of_the_stream() -> None:
    result = handler(lambda _, ctx: [ctx.emit(event) for event in ("one", 2, None)]).run_sync(0)
    assert result.events[1:-1] == ["one", 2, None]


def test_run_emits_each_warning_once() -> None:
    block = sequencer(name="all").for_each(lambda item, ctx: ctx.run.warn_once(f"key {item % 2}", f"odd {item % 2}"))
    for _ in range(2):
        with pytest.warns(FlowDebateWarning) as warned:
            block.run_sync(range(6))
        assert sorted(str(warning.message) for warning in warned) == ["odd 0", "odd 1"]


def test_context_describes_its_run_and_block() -> None:
    session = Session(state={"a": 1})

    def look(_: object, ctx: Context) -> tuple[Any, ...]:
        return ctx.run_id, ctx.seed, ctx.session, ctx.usage, ctx.block, ctx.path, ctx.now()

    result = handler(look).run_sync(0, session=session, seed=3)
    *facts, now = result.output
    assert facts == [result.run_id, 3, session, Usage.zero(), "look", "look"]
    started = result.events[0]
    assert isinstance(started, RunStarted)
    assert 0 <= now - started.at < 60


class Held:
    """A model that must be open while a run calls it."""

    def __init__(self, *, leaves: bool = True) -> None:
        self.name = "held"
        self.log: list[str] = []
        self._leaves = leaves

    @contextlib.asynccontextmanager
    async def open_connections(self) -> AsyncIterator[None]:
        """Stay open until the run ends."""
        self.log.append("hold")
        yield
        self.log.append("let go")
        if not self._leaves:
            raise OSError("the socket is stuck")

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer, or fail."""
        self.log.append("ask")
        if request.messages[-1]["content"] == "fail":
            raise RuntimeError("boom")
        return ModelResponse(text="yes")


@pytest.mark.parametrize("leaves", [True, False])
def test_model_is_opened_once_per_run_and_closed_at_its_end(
    leaves: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The model is closed whatever the outcome, and a failure to close it hides neither an output nor an error."""
    block = sequencer(name="all").tap(generator(name="a")).then(generator(name="b"))
    model = Held(leaves=leaves)
    assert block.run_sync("?", model=model).output == "yes"
    assert model.log == ["hold", "ask", "ask", "let go"]
    failing = Held(leaves=leaves)
    with pytest.raises(RuntimeError, match="boom"):
        block.run_sync("fail", model=failing)
    assert failing.log == ["hold", "ask", "let go"]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == (0 if leaves else 2)


async def test_concurrent_runs_of_one_block_do_not_mix() -> None:
    """A block contains only configuration, and everything else belongs to the run."""
    together = asyncio.Event()
    arrived: list[int] = []

    async def meet(value: int, ctx: Context) -> int:
        ctx.sequencer.update(mine=value)
        ctx.session.state["mine"] = value
        ctx.emit(("mine", value))
        arrived.append(value)
        if len(arrived) == 1_000:
            together.set()
        await together.wait()
        return value

    def check(value: int, ctx: Context) -> tuple[int, int, int]:
        return value, ctx.sequencer.state["mine"], ctx.session.state["mine"]

    block = sequencer(name="all", state=dict).then(meet).then(check)
    handles = [block.start(number, seed=number) for number in range(1_000)]
    for number, handle in enumerate(handles):
        result = await handle
        assert result.output == (number, number, number)
        assert result.events[1:-1] == [("mine", number)]
        assert result.seed == number


@given(pipelines(pauses=2), st.lists(SMALL, min_size=2, max_size=4))
def test_runs_of_a_block_are_independent(recipe: Pipeline, values: list[int]) -> None:
    async def scenario() -> None:
        block = recipe.build(Journal())
        handles = [block.start(value) for value in values]
        for value, handle in zip(values, handles, strict=True):
            try:
                expected: object = recipe.expected(value)
            except Boom as boom:
                with pytest.raises(type(boom)):
                    await handle
            else:
                assert (await handle).output == expected

    asyncio.run(scenario())


async def test_unreferenced_run_is_freed_at_once() -> None:
    """A run must not be part of a reference cycle, or only the garbage collector would free its memory."""
    rent = debate(name="rent", debaters=[Debater("a", "for"), Debater("b", "against")], max_rounds=1, synthesizer=False)
    verdict = {"verdict": "v", "winner": "for", "reasoning": "r"}
    result = await rent.run("Q?", model=ScriptedModel("one", "two", verdict), session={"held": (witness := Boom())})
    freed = weakref.ref(witness)
    gc.disable()
    try:
        del result, witness
        assert freed() is None
    finally:
        gc.enable()


_SHOUT = handler(str.upper, name="shout")
_INSIDE: dict[str, Any] = {
    "run": _SHOUT.run,
    "run_sync": _SHOUT.run_sync,
    "start": _SHOUT.start,
    "resume": lambda value: _SHOUT.resume(value, store=MemoryStore()),
    "batch": lambda value: _SHOUT.batch([value]).all(),
}


@pytest.mark.parametrize("way", _INSIDE)
async def test_block_inside_a_run_cannot_start_a_nested_run(way: str) -> None:
    """The nested run would escape the outer run's limits, store and model. The error explains what to do instead."""

    async def wrong(value: str, ctx: Context) -> Any:
        return await result_of(_INSIDE[way](value))

    with pytest.raises(ConfigurationError, match=r"'shout'.*inside the run of 'outer'.*await block\(value, ctx\)"):
        await sequencer(name="outer").then(wrong).run("for")

    async def right(value: str, ctx: Context) -> Any:
        return await _SHOUT(value, ctx)

    assert (await sequencer(name="outer").then(right).run("for")).output == "FOR"
    assert (await _SHOUT.run("for")).output == "FOR"  # allowed, since the outer run is over


async def test_model_can_start_nested_runs() -> None:
    """Unlike a block, a model has no context through which to call other blocks."""
    inner = generator(name="inner", prompt="Say it.")

    async def answer(_: ModelRequest) -> str:
        result = await inner.run("x", model=ScriptedModel("from within"))
        return str(result.output)

    assert (await generator(name="outer", prompt="Ask.").run("x", model=FunctionModel(answer))).output == "from within"
