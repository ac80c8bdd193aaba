"""Replays of stored runs: at any point, the journal reproduces the events so far without making a call."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import (
    Debater,
    FailurePolicy,
    JudgeOptions,
    Limits,
    Persona,
    Retry,
    StandIn,
    debate,
    generator,
    handler,
    human,
    review,
    round_robin,
    sequencer,
    submit_answer,
)
from flowdebate.errors import FlowDebateError
from flowdebate.models import Retrying
from flowdebate.models.base import ToolCall
from flowdebate.models.codec import digest_of
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.runs.durable import replay as module
from flowdebate.runs.durable.replay import Follower, replay
from flowdebate.runs.events import CallFellBack, CallRetried, ModelCalled, RunFinished
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.runs.durable.patterns import PATTERNS, QUESTION, SKIP, answer_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.result import RunHandle
    from flowdebate.store.base import StepRow, StoredRun

pytestmark = pytest.mark.anyio

SIDES = [Debater("ann", "for"), Debater("bob", "against")]
IMPATIENT = FailurePolicy(on_failure="skip", turn_timeout=0.02)
PERSONAS = [Persona(name, role="expert") for name in ("ann", "bob", "cy")]
AT_ONCE = ("at once", "mirrored", "by letter", "reasons and letter", "deliberation", "consensus", "lookups", "people")
"""Patterns with concurrent calls."""


class Forbidden(Counter[str]):
    """Counts of side effects, which occur once in a run and never in a replay."""


def make_patterns(done: Forbidden) -> dict[str, Any]:
    """Return blocks that cover every pattern as well as side effects, tools, humans and conditions."""

    def read(request: object) -> str:
        done["human"] += 1
        return f"I have read {len(str(request))} characters."

    def enough(_: object) -> bool:
        done["condition"] += 1
        return False

    async def look_up(word: str) -> str:
        """Look up a word."""
        done["tool"] += 1
        await asyncio.sleep(0)
        return f"{word} is a word"

    async def save(value: Any, ctx: Any) -> Any:
        async def write() -> str:
            done["effect"] += 1
            await asyncio.sleep(0)
            return f"saved {value}"

        return await ctx.step(write)

    asking, waiting = human(name="ann", ask=read), human(name="bob")
    reader = generator(name="reader", prompt="Read.", tools=[look_up])
    branches = {
        name: sequencer(name=name).then(reader).then(handler(save, name=f"save-{name}")) for name in ("a", "b", "c")
    }
    helped = generator(name="ann", prompt="Argue.", tools=[look_up, generator(name="aide", prompt="Help.")])
    lenient = FailurePolicy(on_failure=StandIn(FunctionModel(answer_to)))
    return {
        **{name: make() for name, make in PATTERNS.items()},
        "asked": debate(name="rent", debaters=[Debater("ann", "for", block=asking), SIDES[1]], max_rounds=2),
        "suspended": debate(name="rent", debaters=[SIDES[0], Debater("bob", "against", block=waiting)], max_rounds=2),
        "people": sequencer(name="people").parallel([waiting, asking, reader]),
        "conditions": debate(name="rent", debaters=SIDES, max_rounds=2, terminate_when=enough),
        "stand-ins": debate(name="rent", debaters=SIDES, max_rounds=2, failures=lenient),
        "lookups": sequencer(name="lookups").parallel(branches),
        "panel": debate(
            name="rent",
            debaters=SIDES,
            max_rounds=1,
            judge=JudgeOptions(panel=[*map(make_juror, "abc")]),
            failures=SKIP,
        ),
        "review": review(name="change", reviewers=PERSONAS, failures=SKIP),
        "impatient": round_robin(name="panel", debaters=PERSONAS, max_rounds=2, failures=IMPATIENT),
        "strict": debate(name="rent", debaters=SIDES, max_rounds=2, failures=FailurePolicy(turn_timeout=0.02)),
        "tools": debate(
            name="rent",
            debaters=[Debater("ann", "for", block=helped), SIDES[1]],
            max_rounds=2,
            failures=SKIP,
        ),
    }


def make_juror(name: str) -> FunctionModel:
    """Return a model that fails about once in five requests."""
    model = FunctionModel(partial(answer_to, failing=0.2))
    model.name = name
    return model


@dataclass
class Life:
    """The settings for the first execution of a run, or for one after an interruption."""

    name: str
    seed: int = 0
    failing: float = 0.0
    retries: bool = False
    calls: int | None = None
    profile: str = "full"
    interrupted: int | None = None
    """The number of calls after which the run is cancelled and resumed."""


class Model:
    """A model that answers after a few iterations of the event loop and sometimes fails.

    It calls a tool if one is offered.
    """

    def __init__(self, life: Life, done: Forbidden) -> None:
        self._life = life
        self._done = done
        self.handle: RunHandle[Any] | None = None

    async def __call__(self, request: ModelRequest) -> Any:
        """Answer the request."""
        self._done["model"] += 1
        if self._done["model"] == self._life.interrupted and self.handle is not None:
            self.handle.cancel()
        draw = Random(digest_of(request))
        for _ in range(draw.randrange(6)):
            await asyncio.sleep(0)
        if self._life.name in ("impatient", "strict") and draw.random() < self._life.failing:
            await asyncio.sleep(60)
        if request.tools and not any(message["role"] == "tool" for message in request.messages):
            tool = draw.choice(request.tools)
            return ToolCall(
                id="1", name=tool.name, arguments=json.dumps(dict.fromkeys(tool.parameters["required"], "tram"))
            )
        return answer_to(request, failing=self._life.failing)


class ObservedStore(MemoryStore):
    """A store that records its contents after each write, with the number of events so far."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[tuple[StoredRun, Sequence[StepRow], int]] = []
        self.handle: RunHandle[Any] | None = None

    async def _look(self, run_id: str) -> None:
        count = 0 if self.handle is None else len(journaled_events(self.handle.events))
        self.looks.append((await self.run(run_id), await self.steps(run_id), count))

    async def create(self, header: Any) -> None:
        await super().create(header)
        await self._look(header.run_id)

    async def intend(self, run_id: str, *step: Any) -> int:
        attempts = await super().intend(run_id, *step)
        await self._look(run_id)
        return attempts

    async def commit(self, run_id: str, *step: Any) -> None:
        await super().commit(run_id, *step)
        await self._look(run_id)

    async def fail(self, run_id: str, *failure: Any) -> None:
        await super().fail(run_id, *failure)
        await self._look(run_id)

    async def finish(self, run_id: str, *end: Any) -> None:
        await super().finish(run_id, *end)
        await self._look(run_id)


def journaled_events(events: Sequence[Any]) -> list[tuple[str, str]]:
    """Return the kind and path of the events that a journal reproduces.

    These do not include the end of the run, retries, fallbacks and judges' views. A view belongs to a call, and a call
    is not repeated once its failure is recorded.
    """
    dropped = (RunFinished, CallRetried, CallFellBack, JudgeViewMade)
    return [(event.kind, event.path) for event in events if not isinstance(event, dropped)]


def paid_calls(events: Sequence[Any]) -> Counter[tuple[object, ...]]:
    """Return the path, caller, model and usage of each call."""
    calls = [event for event in events if isinstance(event, ModelCalled)]
    return Counter((call.path, call.block, call.role, call.model, call.usage, call.error) for call in calls)


async def live_out(life: Life, done: Forbidden) -> tuple[Any, ObservedStore, RunHandle[Any], dict[str, Any]]:
    """Return the pattern, the store and the replay options of a run, as they are after its last execution.

    A run that was interrupted or waits for a human is resumed, and its store then records only the last execution.
    """
    pattern, store, model = make_patterns(done)[life.name], ObservedStore(), Model(life, done)
    used_model: Any = FunctionModel(model)
    used_model.profile = life.profile
    if life.retries:
        used_model = Retrying(used_model, Retry(attempts=2, first_wait=0.0))
    limits = None if life.calls is None else Limits(calls=life.calls, seconds=60)
    options = {"model": used_model, "limits": limits}
    store.handle = model.handle = handle = pattern.start(QUESTION, store=store, run_id="r", seed=life.seed, **options)
    await handle.wait()
    while life.interrupted is not None and handle.status in ("interrupted", "awaiting"):
        for request in handle.pending:
            await submit_answer(store, "r", "I have thought about it.", place=request.place)
        store.looks.clear()
        store.handle = handle = await pattern.start_resume("r", store=store, **options)
        await handle.wait()
    with suppress(FlowDebateError, asyncio.CancelledError):
        await handle
    return pattern, store, handle, options


LOSSY = ("panel", "review", "impatient", "strict", "tools")
"""Patterns in which calls fail or are cancelled while others are in flight."""


def lives(names: Iterable[str]) -> st.SearchStrategy[Life]:
    """Generate executions of the patterns with these names."""
    return st.builds(
        Life,
        name=st.sampled_from(sorted(names)),
        seed=st.integers(0, 5),
        failing=st.sampled_from([0.0, 0.0, 0.2]),
        retries=st.booleans(),
        calls=st.sampled_from([None, None, None, 3]),
        profile=st.sampled_from(["full", "full", "concise"]),
        interrupted=st.none() | st.integers(1, 8),
    )


LIVES = lives(set(make_patterns(Forbidden())).difference(LOSSY))


@given(LIVES, st.data())
async def test_replaying_a_journal_up_to_any_point_gives_the_events_so_far(life: Life, data: st.DataObject) -> None:
    """Events may appear in a different order only if they come from concurrent calls.

    The replay makes no calls and repeats no side effects.
    """
    done = Forbidden()
    pattern, store, handle, options = await live_out(life, done)
    before, tasks = done.copy(), asyncio.all_tasks()
    everything = journaled_events(handle.events)
    run, steps, count = store.looks[data.draw(st.integers(0, len(store.looks) - 1))]
    replayed = await replay(pattern, run, steps, **options)
    assert (done, asyncio.all_tasks()) == (before, tasks)
    events = journaled_events(replayed.events)
    assert not Counter(events) - Counter(everything)
    if not (life.failing or life.calls):  # a block's reaction to a failure that ends the run is not recorded
        assert not Counter(everything[:count]) - Counter(events)
    # otherwise the judge is called for all orders at once
    in_turn = life.name not in AT_ONCE and life.profile == "full"
    # the judge's failures are reported before the debater's
    if in_turn and not (life.name == "stand-ins" and life.calls):
        assert events == everything[: len(events)]
    assert isinstance(replayed.events[-1], RunFinished) is (run.status != "running")
    assert all(event.replayed for event in replayed.events if isinstance(event, ModelCalled))


@given(lives(make_patterns(Forbidden())))
async def test_replay_counts_every_call_that_was_paid_for(life: Life) -> None:
    """This includes failed and cancelled calls, and the answers that a role received before it failed."""
    pattern, store, handle, options = await live_out(life, Forbidden())
    run, steps, _ = store.looks[-1]
    replayed = await replay(pattern, run, steps, **options)
    if run.status == "interrupted":  # calls in flight are uncertain
        assert not paid_calls(replayed.events) - paid_calls(handle.events)
    else:
        assert paid_calls(replayed.events) == paid_calls(handle.events)


@given(lives(LOSSY), st.integers(1, 9))
async def test_limit_holds_for_all_executions_of_a_run_together(life: Life, limit: int) -> None:
    life = replace(life, calls=limit, interrupted=None, failing=0.2, retries=False)
    done = Forbidden()
    pattern, store, handle, options = await live_out(life, done)
    for _ in range(3):
        if handle.status not in ("failed", "limit"):
            break
        handle = await pattern.start_resume("r", store=store, **options)
        with suppress(FlowDebateError):
            await handle
    jurors = [call for call in paid_calls(handle.events) if call[3] in ("a", "b", "c")]
    assert done["model"] + len(jurors) <= limit
    if handle.status in ("complete", "degraded", "no_verdict"):
        made = done.copy()
        await pattern.resume("r", store=store, **options)
        assert done == made


@given(LIVES, st.data())
async def test_follower_always_agrees_with_a_replay(life: Life, data: st.DataObject) -> None:
    done = Forbidden()
    pattern, store, _, options = await live_out(life, done)
    before, tasks = done.copy(), asyncio.all_tasks()
    follower, events = Follower(pattern, **options), list[object]()
    indices = sorted(data.draw(st.sets(st.integers(0, len(store.looks) - 1), min_size=1, max_size=6)))
    for run, steps, _ in [store.looks[index] for index in indices]:
        news = await follower.read(run, [row for row in steps if row.seq is None or row.seq > follower.steps])
        events = [*([] if news.anew else events), *news.events]
        full = await replay(pattern, run, steps, **options)
        if not life.failing:  # a failure reported during an open step is not reported again once the step ends
            assert Counter(journaled_events(events)) == Counter(journaled_events(full.events))
            assert Counter(call.path for call in news.calls) == Counter(call.path for call in full.calls)
        assert isinstance(events[-1], RunFinished) is (run.status != "running")
    follower.close()
    await asyncio.sleep(0.01)
    assert (done, asyncio.all_tasks()) == (before, tasks)


async def test_follower_replays_no_step_twice_in_a_debate_without_failures() -> None:
    """It makes no difference how often the follower polls the journal."""
    done = Forbidden()
    pattern, store, _, options = await live_out(Life("debate"), done)
    follower = Follower(pattern, **options)
    looks = [
        await follower.read(run, [row for row in steps if row.seq is None or row.seq > follower.steps])
        for run, steps, _ in store.looks
    ]
    assert [news.anew for news in looks] == [True, *[False] * (len(looks) - 1)]
    follower.close()


@pytest.mark.filterwarnings("ignore:.*debaters tend to agree")
async def test_replay_memory_is_linear_in_text_length() -> None:
    """A replay must not render prompts, because each of them contains the whole transcript so far."""
    # the lower of two measurements, because threads of other tests may allocate memory at the same time
    peaks = [min([await measure_replay(rounds) for _ in range(2)]) for rounds in (20, 80)]
    assert peaks[1] < 5 * peaks[0]
    assert peaks[1] < 10 * 80 * 2 * 4_000


async def measure_replay(rounds: int) -> int:
    """Return the peak memory, in bytes, of replaying a debate with `rounds` rounds."""
    speaking = FunctionModel(lambda request: answer_to(request) if request.output_schema else "Homes. " * 570)
    store, block = MemoryStore(), debate(name="rent", debaters=SIDES, max_rounds=rounds, judge="single")
    await block.run(QUESTION, store=store, model=speaking, run_id="r")
    run, steps = await store.run("r"), await store.steps("r")
    tracemalloc.start()
    try:
        await replay(block, run, steps)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:.*debaters tend to agree")
async def test_long_replay_does_not_block_the_loop() -> None:
    """The event loop regains control at least once per call."""
    turns, (store, block) = 0, (MemoryStore(), debate(name="rent", debaters=SIDES, max_rounds=30))
    await block.run(QUESTION, store=store, model=FunctionModel(answer_to), run_id="r")

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await replay(block, await store.run("r"), await store.steps("r"))
    counting.cancel()
    assert turns > 60


def rent() -> Any:
    return debate(name="rent", debaters=SIDES, max_rounds=1)


async def replay_run(block: Any, **options: Any) -> tuple[Any, Any]:
    """Return the replay of a complete run of `block`, and the run."""
    store, model = MemoryStore(), FunctionModel(answer_to)
    result = await block.run(QUESTION, store=store, model=model, run_id="r")
    return await replay(block, await store.run("r"), await store.steps("r"), **options), result


async def test_cancelled_replay_leaves_nothing_behind() -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    life = Life("lookups", interrupted=3)
    pattern, store, _, options = await live_out(life, Forbidden())
    tasks = asyncio.all_tasks()
    try:
        for turns in range(40):
            run, steps, _ = store.looks[turns % len(store.looks)]
            replaying = asyncio.create_task(replay(pattern, run, steps, **options))
            for _ in range(turns):
                await asyncio.sleep(0)
            replaying.cancel()
            await asyncio.wait({replaying})
            assert asyncio.all_tasks() == tasks
        del replaying
        gc.collect()
    finally:
        asyncio.get_running_loop().set_exception_handler(None)
    assert problems == []


async def test_replay_waits_for_work_in_a_thread() -> None:
    async def measured(value: str) -> str:
        await asyncio.to_thread(time.sleep, 0.05)
        return value

    replay_result, result = await replay_run(sequencer(name="s").then(handler(measured, name="measure")).then(rent()))
    assert journaled_events(replay_result.events) == journaled_events(result.events)


async def test_replay_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a block waits for something that does not happen during the replay, the replay stops there.

    The events before that point remain available.
    """
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    waits = asyncio.Event()
    waits.set()

    async def later(value: str) -> str:
        await waits.wait()
        return value

    second = debate(name="again", debaters=SIDES, max_rounds=1)
    pipeline = sequencer(name="s").tap(rent()).then(handler(later, name="later")).then(second)
    store, model = MemoryStore(), FunctionModel(answer_to)
    result = await pipeline.run(QUESTION, store=store, model=model, run_id="r")
    waits.clear()
    tasks = asyncio.all_tasks()
    replayed_run = await replay(pipeline, await store.run("r"), await store.steps("r"), model=model)
    assert asyncio.all_tasks() == tasks
    paths = [path for _, path in journaled_events(result.events)]
    assert (
        journaled_events(replayed_run.events)
        == journaled_events(result.events)[: next(i for i, path in enumerate(paths) if "again" in path)]
    )


async def test_exception_in_a_block_ends_only_its_replay() -> None:
    def wrong(_: object) -> str:
        raise ValueError

    block = sequencer(name="s").then(rent()).then(handler(wrong, name="wrong"))
    store, model = MemoryStore(), FunctionModel(answer_to)
    with pytest.raises(ValueError):  # noqa: PT011 - the application's own
        await block.run(QUESTION, store=store, model=model, run_id="r")
    replayed_run = await replay(block, await store.run("r"), await store.steps("r"), model=model)
    assert (replayed_run.output, replayed_run.failure) == (None, None)
    end = replayed_run.events[-1]
    assert isinstance(end, RunFinished)
    assert end.status == "failed"


async def test_run_with_a_time_limit_is_replayed_completely() -> None:
    """The time limit does not cut off the replay, however long it takes or however busy the machine is."""
    replayed_run, result = await replay_run(rent(), limits=Limits(seconds=1e-9))
    assert journaled_events(replayed_run.events) == journaled_events(result.events)


async def test_replay_uses_the_prompt_profile_of_the_model_object() -> None:
    """The replay needs the model object because its prompt profile affects which steps follow.

    The model's name alone might suggest a different profile.
    """
    repeating = FunctionModel(lambda request: answer_to(request) if request.output_schema else "Homes first. " * 20)
    store, block = MemoryStore(), debate(name="rent", debaters=SIDES, max_rounds=2)
    result = await block.run(QUESTION, store=store, model=repeating, run_id="r")
    replayed_run = await replay(block, await store.run("r"), await store.steps("r"))
    assert journaled_events(replayed_run.events) == journaled_events(result.events)
    assert {event.model for event in replayed_run.events if isinstance(event, ModelCalled)} == {"function"}


async def test_replaying_a_suspended_run_makes_no_call() -> None:
    done = Forbidden()
    pattern, store, handle, options = await live_out(Life("people"), done)
    run, steps, _ = store.looks[-1]
    before = done.copy()
    replayed_run = await replay(pattern, run, steps, **options)
    assert (run.status, done) == ("awaiting", before)
    assert [request.place for request in replayed_run.handle.pending] == [request.place for request in handle.pending]
    assert Counter(journaled_events(replayed_run.events)) == Counter(journaled_events(handle.events))
