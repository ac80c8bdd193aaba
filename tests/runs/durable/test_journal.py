"""The journal of a run, and the conditions for resuming it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from flowdebate import (
    Debater,
    FailurePolicy,
    JudgeOptions,
    Limits,
    Persona,
    Session,
    StoreOptions,
    debate,
    escalate,
    generator,
    handler,
    review,
    sequencer,
)
from flowdebate.errors import (
    ConfigurationError,
    DeadLetter,
    FlowDebateWarning,
    JournalMismatch,
    LimitReached,
    NotRecordable,
    ProviderFailed,
    RunChanged,
    RunConflict,
    RunExists,
    RunNotFound,
    RunUncertain,
    StoreError,
)
from flowdebate.models import ModelSettings
from flowdebate.models.codec import failure_of, failure_text
from flowdebate.runs.durable.replay import replay
from flowdebate.runs.durable.resume import MAX_RECOVERIES
from flowdebate.runs.events import CallStarted, ModelCalled, RunFinished, RunStarted
from flowdebate.runs.journal import Journal
from flowdebate.service.evidence import evidence_in
from flowdebate.store import MemoryStore, RunHeader, SqliteStore, StepRow
from flowdebate.testing import FunctionModel, ScriptedModel, ToolCall
from tests.runs.durable.patterns import answer_to

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.runs.context import Context
    from flowdebate.runs.result import RunResult
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

SIDES = [Debater("ann", "for"), Debater("bob", "against")]
VERDICT = {"reasoning": "r", "winner": "for", "verdict": "v"}


class Counting:
    """A model that counts its calls and fails, or interrupts the run, at a chosen call."""

    def __init__(self, *, stop: int | None = None, failure: BaseException | None = None) -> None:
        self.calls = 0
        self._stop = stop
        self._failure = failure
        self.model = FunctionModel(self._answer)

    def _answer(self, request: ModelRequest) -> Any:
        self.calls += 1
        if self.calls == self._stop:
            raise self._failure or asyncio.CancelledError
        return VERDICT if request.output is not None else f"Point {len(request.messages)}."


def forbid_calls(request: ModelRequest) -> Any:
    """Fail the test: everything has been recorded."""
    pytest.fail(f"{request.block} called its model")


def rent_debate(**options: Any) -> Any:
    """Return a two-round debate with five calls."""
    return debate(**{"name": "rent", "debaters": SIDES, "max_rounds": 2, "synthesizer": False, **options})


async def interrupt_run(pattern: Any, store: Any, *, stop: int = 3, **options: Any) -> Counting:
    """Interrupt the run "it" of `pattern` at call number `stop`, and return the counter of its calls."""
    first = Counting(stop=stop)
    with pytest.raises(asyncio.CancelledError):
        await pattern.run("Cap rents?", model=first.model, store=store, run_id="it", seed=5, **options)
    return first


async def test_answered_calls_are_not_repeated() -> None:
    store = MemoryStore()
    await interrupt_run(rent_debate(), store)
    second = Counting()
    result = await rent_debate().resume("it", model=second.model, store=store)
    assert second.calls == 3
    assert (result.status, result.seed, result.run_id, result.usage.calls) == ("complete", 5, "it", 5)
    assert len([event for event in result.events if isinstance(event, ModelCalled)]) == 5
    run = await store.run("it")
    assert (run.status, run.steps, run.owned, run.recoveries) == ("complete", 5, False, 0)
    assert run.outcome is not None
    assert run.outcome["usage"]["calls"] == 5


async def test_replayed_answer_is_not_announced_as_a_call() -> None:
    store = MemoryStore()
    await interrupt_run(rent_debate(), store)
    handle = await rent_debate().start_resume("it", model=Counting().model, store=store)
    events = [event async for event in handle]
    called = [event.path for event in events if isinstance(event, ModelCalled)]
    assert [event.path for event in events if isinstance(event, CallStarted)] == called[2:]
    assert len(called) == 5


async def test_resumed_run_reports_the_original_times() -> None:
    store = MemoryStore()
    first = await rent_debate().run("Cap rents?", model=Counting().model, store=store)
    resumed = await rent_debate().resume(first.run_id, model=Counting().model, store=store)
    assert [task.to_wire() for task in resumed.tasks.list()] == [task.to_wire() for task in first.tasks.list()]
    starts = [event.at for result in (first, resumed) for event in result.events if isinstance(event, RunStarted)]
    assert starts[0] == starts[1] == (await store.run(first.run_id)).header.created_at


async def test_run_duration_is_reported_consistently() -> None:
    class Slow(MemoryStore):
        async def finish(self, run_id: str, status: Any, outcome: Any) -> None:
            await asyncio.sleep(0.05)
            await super().finish(run_id, status, outcome)

    store = Slow()
    result = await rent_debate().run("?", model=Counting().model, store=store, run_id="r")
    (finished,) = (event for event in result.events if isinstance(event, RunFinished))
    assert result.seconds == finished.seconds
    outcome = (await store.run("r")).outcome
    assert outcome is not None
    assert outcome["seconds"] == round(result.seconds, 3)


async def test_runs_can_be_found_by_question_block_label_or_status() -> None:
    store = MemoryStore()
    await rent_debate().run(
        "Cap  rents\nnow?", model=Counting().model, store=StoreOptions(store=store, labels={"series": "a"})
    )
    (run,) = await store.runs(text="RENTS NOW", labels={"series": "a"}, status="complete", block="rent")
    assert run.header.question == "Cap rents now?"
    assert run.header.input == "Cap  rents\nnow?"
    assert await store.runs(labels={"series": "b"}) == []


async def test_changed_configuration_is_rejected_with_the_differences() -> None:
    store = MemoryStore()
    await interrupt_run(rent_debate(), store)
    changed = rent_debate(debaters=[*SIDES, Debater("cy", "abstain")])
    with pytest.raises(RunChanged) as caught:
        await changed.resume("it", model=Counting().model, store=store)
    assert "+  → tap rent-turn-cy" in caught.value.differences["outline"]
    with pytest.raises(RunChanged, match=r"model:\n  -function\n  \+scripted"):
        await rent_debate().resume("it", model=ScriptedModel("x"), store=store)
    assert (await store.run("it")).status == "interrupted"
    assert (await rent_debate().resume("it", model=Counting().model, store=store)).status == "complete"


async def test_answer_is_not_reused_for_another_request() -> None:
    store = MemoryStore()
    await interrupt_run(rent_debate(), store)
    changed = Counting()
    with pytest.raises(
        JournalMismatch, match=r"rent/round\[1\]/rent-turn-ann/rent-debater-ann makes a different request"
    ):
        await rent_debate(instructions="Rhyme.").resume("it", model=changed.model, store=store)
    with pytest.raises(JournalMismatch):
        await rent_debate(settings=ModelSettings(temperature=1.5)).resume("it", model=changed.model, store=store)
    assert changed.calls == 0


async def test_calls_in_flight_can_be_treated_as_errors() -> None:
    store = MemoryStore()
    await interrupt_run(rent_debate(), store, stop=4)
    model = Counting()
    with pytest.raises(RunUncertain, match="started once") as caught:
        await rent_debate().resume("it", model=model.model, store=store, on_uncertain="raise")
    assert (caught.value.attempts, model.calls) == (1, 0)
    await rent_debate().resume("it", model=model.model, store=store)
    steps = {step.key: step.attempts for step in await store.steps("it")}
    assert steps.pop(caught.value.key) == 2
    assert set(steps.values()) == {1}


async def test_failed_call_is_retried_when_the_run_is_resumed() -> None:
    """The failure itself is recorded, so the outcome of the call is known.

    The call's requests still count toward the limits.
    """
    store, first = MemoryStore(), Counting(stop=2, failure=ProviderFailed("down", status=503))
    with pytest.raises(ProviderFailed):
        await rent_debate().run("Cap rents?", model=first.model, store=store, run_id="it")
    run = await store.run("it")
    assert (run.status, run.steps) == ("failed", 1)
    assert run.outcome is not None
    assert run.outcome["error"].startswith("ProviderFailed: down")
    (failed,) = [step for step in await store.steps("it") if step.failures]
    assert json.loads(failed.failures[0])["error"].startswith("ProviderFailed: down")
    result = await rent_debate().resume("it", model=Counting().model, store=store, on_uncertain="raise")
    assert result.usage.calls == 6
    assert result.raw.losses == []
    again = await rent_debate().resume("it", model=Counting().model, store=store)
    assert [call.error is None for call in called(again)] == [True, False, True, True, True, True]


async def test_limits_include_failed_calls_of_earlier_processes() -> None:
    store, limits = MemoryStore(), Limits(calls=4)
    failing = Counting(stop=2, failure=ProviderFailed("down", status=503))
    with pytest.raises(ProviderFailed):
        await rent_debate().run("Cap rents?", model=failing.model, store=store, run_id="it", limits=limits)
    second = Counting()
    result = await rent_debate().resume("it", model=second.model, store=store)
    assert (result.status, result.usage.calls, second.calls) == ("limit", 4, 2)


async def test_limits_include_recorded_calls_of_all_branches() -> None:
    """A branch may make new calls before another one has read its recorded calls."""

    def branch(name: str) -> Any:
        steps = sequencer(name=name)
        for number in range(3):
            steps = steps.then(generator(name=f"{name}-{number}"))
        return steps

    async def answer(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        made.append(request)
        return "Point."

    made: list[ModelRequest] = []
    store, model, pattern = MemoryStore(), FunctionModel(answer), sequencer(name="all").parallel([*map(branch, "abc")])
    with pytest.raises(LimitReached):
        await pattern.run("q", model=model, store=store, run_id="it", limits=Limits(calls=6))
    assert len(made) == 6
    handle = await pattern.start_resume("it", model=model, store=store)
    with pytest.raises(LimitReached):
        await handle
    assert len(made) == handle.usage.calls == 6


async def test_calls_of_a_block_used_as_a_tool_or_condition_remain_counted() -> None:
    """Their results are recorded as well, so a resumed run does not call the block again."""
    aide = generator(name="aide")

    async def has_enough(ctx: Context) -> bool:
        return await aide("Enough?", ctx.below(aide)) == "Yes."

    def answer(request: ModelRequest) -> Any:
        if request.tools and request.messages[-1]["role"] != "tool":
            return ToolCall(id="1", name="aide", arguments='{"input": "trams"}')
        return VERDICT if request.output is not None else "No."

    ann = generator(name="ann", tools=[aide])
    pattern = rent_debate(debaters=[Debater("ann", "for", block=ann), SIDES[1]], terminate_when=has_enough)
    store = MemoryStore()
    first = await pattern.run("Cap rents?", model=FunctionModel(answer), store=store, run_id="it")
    resumed = await pattern.resume("it", model=FunctionModel(forbid_calls), store=store)
    assert [call.block for call in called(first)].count("aide") == 3
    assert (resumed.output, resumed.usage) == (first.output, first.usage)


async def test_rescued_call_is_not_repeated() -> None:
    def answer(request: ModelRequest) -> str:
        if request.block == "first":
            raise ProviderFailed("down", status=503)
        return "Build."

    store = MemoryStore()
    pattern = sequencer(name="draft").then(generator(name="first")).rescue(generator(name="second"))
    first = await pattern.run("q", model=FunctionModel(answer), store=store, run_id="it")
    resumed = await pattern.resume("it", model=FunctionModel(forbid_calls), store=store)
    assert (resumed.output, resumed.usage) == (first.output, first.usage)
    assert [call.error is None for call in called(resumed)] == [False, True]


async def test_calls_of_an_escalation_condition_remain_counted() -> None:
    """The escalation reports how many calls its conditions took."""
    aide = generator(name="aide")

    async def is_enough(_: object, ctx: Context) -> bool:
        return await aide("Enough?", ctx.below(aide)) == "Yes."

    pattern = escalate(name="steps", steps=[generator(name=name) for name in "abc"], until=is_enough)
    store, model = MemoryStore(), FunctionModel(lambda _: "No.")
    first = await pattern.run("q", model=model, store=store, run_id="it")
    resumed = await pattern.resume("it", model=FunctionModel(forbid_calls), store=store)
    assert [step.check_calls for step in resumed.raw.steps] == [1, 1, 0]
    assert (resumed.raw.calls, resumed.usage) == (first.raw.calls, first.usage)


async def test_run_cancelled_while_it_ends_is_released() -> None:
    class Slow(MemoryStore):
        async def fail(self, *failure: Any) -> None:
            handle.cancel()
            await super().fail(*failure)

    async def answer(request: ModelRequest) -> str:
        await asyncio.sleep(0.01)
        return "Point."

    store, pattern = Slow(), sequencer(name="all").parallel([generator(name=name) for name in "abc"])
    handle = pattern.start("q", model=FunctionModel(answer), store=store, run_id="it", limits=Limits(calls=2))
    await handle.wait()
    with pytest.raises((LimitReached, asyncio.CancelledError)):
        await handle
    run = await store.run("it")
    assert (run.status, run.owned) == ("limit", False)


async def test_replay_reports_a_failed_tool_round_after_the_round_before_it() -> None:
    def look_up(word: str) -> str:
        """Look up a word."""
        return word

    def answer(request: ModelRequest) -> Any:
        if request.messages[-1]["role"] == "tool":
            raise ProviderFailed("down", status=503)
        return ToolCall(id="1", name="look_up", arguments='{"word": "tram"}')

    store, pattern = MemoryStore(), sequencer(name="draft").then(generator(name="ann", tools=[look_up]))
    with pytest.raises(ProviderFailed):
        await pattern.run("q", model=FunctionModel(answer), store=store, run_id="it")
    replayed = await replay(pattern, await store.run("it"), await store.steps("it"), model=FunctionModel(answer))
    paths = [event.path for event in replayed.events if isinstance(event, ModelCalled)]
    assert paths == ["draft/ann", "draft/ann#1"]


async def test_complete_run_with_an_incomplete_panel_is_only_read() -> None:
    def answer(request: ModelRequest, *, fails: bool = False) -> Any:
        if fails:
            raise ProviderFailed("down", status=503)
        return VERDICT if request.output is not None else "Build."

    jurors = [FunctionModel(partial(answer, fails=number == 0), name=f"juror-{number}") for number in range(3)]
    pattern = rent_debate(judge=JudgeOptions(panel=jurors), synthesizer=True, failures=FailurePolicy(on_failure="skip"))
    store = MemoryStore()
    first = await pattern.run("Cap rents?", model=FunctionModel(answer), store=store, run_id="it")
    run, steps = await store.run("it"), await store.steps("it")
    replayed = await replay(pattern, run, steps, model=FunctionModel(answer))
    assert (replayed.output, replayed.parked) == (first.output, [])
    assert (await pattern.resume("it", model=FunctionModel(forbid_calls), store=store)).output == first.output
    assert await store.steps("it") == steps


async def test_failed_call_of_a_reviewer_does_not_repeat_the_other_call() -> None:
    """An examination takes two calls, in both orders; if one fails, the answer to the other is recorded."""

    async def answer(request: ModelRequest) -> Any:
        if request.block == "change-examiner-bob":
            if not failed:
                failed.append(request)
                raise ProviderFailed("down", status=503)
            await asyncio.sleep(0.02)
        return answer_to(request)

    failed: list[ModelRequest] = []
    people = [Persona(name, role="reviewer") for name in ("ann", "bob", "cy")]
    pattern = review(name="change", reviewers=people, failures=FailurePolicy(on_failure="skip"))
    store = MemoryStore()
    first = await pattern.run("Is it right?", model=FunctionModel(answer), store=store, run_id="it")
    resumed = await pattern.resume("it", model=FunctionModel(forbid_calls), store=store)
    assert (first.status, len(failed)) == ("degraded", 1)
    assert (resumed.output, resumed.usage) == (first.output, first.usage)


async def test_call_that_exceeded_the_time_limit_for_turns_remains_counted() -> None:
    """The call was sent and may have been billed. The run continues without it, even if it is resumed."""

    async def answer(request: ModelRequest) -> Any:
        if request.block == "rent-debater-bob":
            await asyncio.sleep(60)
        return VERDICT if request.output is not None else "Build."

    store, sides = MemoryStore(), [*SIDES, Debater("cy", "neither")]
    pattern = rent_debate(debaters=sides, failures=FailurePolicy(on_failure="skip", turn_timeout=0.02))
    first = await pattern.run("Cap rents?", model=FunctionModel(answer), store=store, run_id="it")
    resumed = await pattern.resume("it", model=Counting().model, store=store, on_uncertain="raise")
    assert first.usage.calls == 7  # two of them by bob
    assert resumed.usage == first.usage
    assert [call.error for call in called(resumed) if call.block.endswith("bob")] == ["CancelledError"] * 2


def called(result: RunResult[Any]) -> list[ModelCalled]:
    """Return the events of all calls."""
    return [event for event in result.events if isinstance(event, ModelCalled)]


async def test_limits_include_earlier_usage() -> None:
    """The limits are stored in the run's header, and raising them lets the run continue."""
    store = MemoryStore()
    first = await rent_debate().run("Q?", model=Counting().model, store=store, run_id="it", limits=Limits(calls=3))
    assert (first.status, (await store.run("it")).status) == ("limit", "limit")
    assert (await rent_debate().resume("it", model=Counting().model, store=store)).status == "limit"
    second = Counting()
    result = await rent_debate().resume("it", model=second.model, store=store, limits=Limits(calls=5))
    assert (result.status, second.calls) == ("complete", 2)


async def test_run_that_raised_a_limit_error_can_be_resumed_with_a_higher_limit() -> None:
    store = MemoryStore()
    pair: Any = sequencer(name="pair").then(generator(name="one")).then(generator(name="two"))
    with pytest.raises(LimitReached):
        await pair.run("q", model=Counting().model, store=store, run_id="it", limits=Limits(calls=1))
    assert (await pair.resume("it", model=Counting().model, store=store, limits=Limits(calls=2))).output == "Point 1."


async def test_resumed_run_restores_the_session() -> None:
    """Both state and history are restored. If they could not be stored, the caller must pass the session again."""
    store = MemoryStore()
    block = generator(name="ask", history=True)

    async def one(session: Any) -> list[Any]:
        model = ScriptedModel("Yes.")
        result = await block.run("q", model=model, session=session, store=store, run_id="it")
        resumed = await block.resume("it", model=ScriptedModel(), store=store)
        await store.delete("it")
        assert resumed.output == result.output
        return resumed.session.history

    earlier_message = {"role": "user", "content": "before"}
    assert [message["content"] for message in await one(Session(history=[earlier_message]))] == ["before", "Yes."]
    assert await one({"n": 1})
    with pytest.raises(ConfigurationError, match="`session` cannot be restored"):
        await one({"n": object()})


async def test_run_has_one_executor_at_a_time(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "runs.db") for _ in range(2)]
    await interrupt_run(rent_debate(), stores[0])
    started, end = asyncio.Event(), asyncio.Event()

    async def slow(request: ModelRequest) -> Any:
        started.set()
        await end.wait()
        return VERDICT if request.output is not None else f"Point {len(request.messages)}."

    first = asyncio.create_task(rent_debate().resume("it", model=FunctionModel(slow), store=stores[0]))
    await started.wait()
    for store in stores:
        with pytest.raises(RunConflict, match="is being run by another process"):
            await rent_debate().resume("it", model=Counting().model, store=store)
        with pytest.raises(RunConflict):
            await store.delete("it")
    end.set()
    assert (await first).status == "complete"
    for store in stores:
        await store.close()


async def test_run_that_keeps_crashing_its_process_is_abandoned() -> None:
    """An abandoned run can still be read, and even revived."""
    store = MemoryStore()
    await interrupt_run(rent_debate(), store)
    for _ in range(MAX_RECOVERIES + 1):
        await store.take("it")
        await store.release("it")
    for _ in range(2):
        with pytest.raises(DeadLetter, match="has crashed its process"):
            await rent_debate().resume("it", model=Counting().model, store=store)
        assert (await store.run("it")).status == "dead_letter"
    assert len(await store.steps("it")) == 3
    assert (
        await rent_debate().resume("it", model=Counting().model, store=store, retry_dead_letter=True)
    ).status == "complete"


class Fact(BaseModel):
    """A value returned by a step."""

    text: str


@pytest.mark.parametrize(
    ("value", "returns"),
    [("x", None), (None, None), ({"a": [1, 2.5, True, None]}, None), (Fact(text="x"), Fact), ((1, 2), tuple[int, int])],
)
async def test_replayed_step_returns_its_recorded_value(value: Any, returns: Any) -> None:
    done: list[int] = []

    async def act(_: object, ctx: Context) -> bool:
        async def do() -> Any:
            done.append(1)
            return value

        return bool(await ctx.step(do, returns=returns) == value)

    store = MemoryStore()
    block = handler(act, name="act")
    assert (await block.run(1, store=store, run_id="it")).output
    assert (await block.resume("it", store=store)).output
    assert done == [1]


async def test_values_that_cannot_be_stored_raise_errors() -> None:
    async def act(_: object, ctx: Context) -> Any:
        async def do() -> Any:
            return Fact(text="x")

        return await ctx.step(do)

    with pytest.raises(NotRecordable, match=r"the result of act#step is not JSON data.*returns=TYPE"):
        await handler(act, name="act").run(1, store=MemoryStore())
    with pytest.raises(ConfigurationError, match=r"act\.run\(\): `value` must be JSON data"):
        await handler(act, name="act").run(object(), store=MemoryStore())


async def test_step_failure_can_be_recorded() -> None:
    class Broken(Exception):
        """An application error raised by a step."""

    done: list[int] = []

    async def act(_: object, ctx: Context) -> str:
        async def do() -> str:
            done.append(1)
            message = "no such fact"
            raise Broken(message)

        try:
            await ctx.step(do, failures=True)
        except Exception as error:  # noqa: BLE001 - it is of another class when it is read back
            return f"{type(error).__name__}: {error}"
        return "none"

    store = MemoryStore()
    block = handler(act, name="act")
    first = await block.run(1, store=store, run_id="it")
    assert first.output == (await block.resume("it", store=store)).output == "Broken: no such fact"
    assert done == [1]


def test_errors_survive_storage() -> None:
    """All fields of an error are restored, so a pattern treats it like the original."""
    error = ProviderFailed("down", status=503, retry_after=2.0, model="m", block="b")
    error.add_note("in block 'b'")
    decoded = failure_of(failure_text(error))
    assert type(decoded) is ProviderFailed
    assert (str(decoded), vars(decoded)) == (str(error), vars(error))


async def test_resumed_run_does_not_call_a_tool_again() -> None:
    """A tool call and its result are stored as a single step, so the resumed run reuses the result."""
    topics: list[str] = []

    def look(topic: str) -> str:
        topics.append(topic)
        return "facts"

    store = MemoryStore()
    block = generator(name="ask", tools=[look])
    call = ToolCall(id="1", name="look", arguments='{"topic": "rents"}')
    with pytest.raises(asyncio.CancelledError):
        await block.run("q", model=FunctionModel(lambda r: _then_cancelled(r, call)), store=store, run_id="it")
    result = await block.resume("it", model=FunctionModel(lambda _: "Done."), store=store)
    assert (result.output, topics) == ("Done.", ["rents"])


def _then_cancelled(request: ModelRequest, call: ToolCall) -> ToolCall:
    if len(request.messages) > 1:
        raise asyncio.CancelledError
    return call


async def test_environment_selects_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWDEBATE_STORE", str(tmp_path / "deep" / "runs.db"))
    await generator(name="ask").run("q", model=ScriptedModel("a"), run_id="kept")
    await generator(name="ask").run("q", model=ScriptedModel("a"), run_id="not", store=False)
    store = SqliteStore(tmp_path / "deep" / "runs.db")
    assert [run.header.run_id for run in await store.runs()] == ["kept"]
    await store.close()


@pytest.mark.parametrize(("variable", "model"), [("intent-free", "intent-free"), (" ", None)])
async def test_default_model_is_recorded_by_name(
    variable: str, model: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thanks to the recorded name, the run can be resumed elsewhere with the same model."""
    monkeypatch.setenv("FLOWDEBATE_MODEL", variable)
    store = MemoryStore()
    await handler(lambda value, ctx: value, name="same").run("q", store=store, run_id="it")
    header = (await store.run("it")).header
    assert (header.model, header.fingerprint["model"]) == (model, model or "the default")


@pytest.mark.parametrize("store", [3, True, " ", ["x"]])
async def test_invalid_stores_are_rejected(store: Any) -> None:
    with pytest.raises(ConfigurationError, match="`store` must be a Store, a path"):
        await generator(name="ask").run("q", model=ScriptedModel(), store=store)


async def test_run_ids_are_unique() -> None:
    store = MemoryStore()
    block = generator(name="ask")
    await block.run("q", model=ScriptedModel("a"), store=store, run_id="it")
    with pytest.raises(RunExists):
        await block.run("q", model=ScriptedModel(), store=store, run_id="it")
    with pytest.raises(RunNotFound):
        await block.resume("that", store=store)
    with pytest.raises(ConfigurationError, match="`run_id` must not be blank"):
        await block.run("q", model=ScriptedModel(), run_id=" ")
    with pytest.raises(ConfigurationError, match="`on_uncertain` must be retry or raise"):
        await block.resume("it", store=store, on_uncertain="maybe")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"ask\.resume\(\): `store` must be the run's store"):
        await block.resume("it")


async def test_answer_that_cannot_be_stored_is_not_used() -> None:
    class Full(MemoryStore):
        async def commit(self, *_: Any) -> None:
            raise StoreError(self.name, "is full")

    with pytest.raises(StoreError, match="is full"):
        await generator(name="ask").run("q", model=ScriptedModel("a"), store=Full())


async def test_run_survives_a_failure_to_store_its_end() -> None:
    class Full(MemoryStore):
        async def finish(self, *_: Any) -> None:
            raise StoreError(self.name, "is full")

    with pytest.warns(FlowDebateWarning, match="could not be recorded"):
        result = await generator(name="ask").run("q", model=ScriptedModel("a"), store=Full())
    assert result.output == "a"


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "{}", '{"kind": "told", "name": "X"}', '{"text": 1, "finish": "stop"}']
)
async def test_unreadable_record_is_reported_with_its_path(body: str) -> None:
    """A resumed run must neither repeat the call nor invent an answer to replace the unreadable record."""
    store, copy = MemoryStore(), MemoryStore()
    await generator(name="ask").run("q", model=ScriptedModel("a"), store=store, run_id="it")
    (step,) = await store.steps("it")
    await copy.add(await store.run("it"), [replace(step, body=body)])
    with pytest.raises(JournalMismatch, match="ask has a record that cannot be read"):
        await generator(name="ask").resume("it", model=ScriptedModel("a"), store=copy)
    assert (await copy.run("it")).owned is False


@pytest.mark.parametrize("kind", ["told", "annotations", "no such error", "FlowDebateWarning"])
def test_stored_failure_of_any_kind_becomes_an_exception(kind: str) -> None:
    record = {"kind": kind, "name": "Odd", "said": "x", "facts": {}, "tuples": []}
    error = failure_of(json.dumps(record))
    assert (type(error).__name__, str(error)) == ("Odd", "x")


@pytest.mark.parametrize(("place", "expected"), [("a/ann", True), ("a", True), ("a/an", False), ("a/ann/b", False)])
def test_journal_has_steps_for_a_path_if_a_subpath_has_any(place: str, expected: bool) -> None:  # noqa: FBT001
    header = RunHeader(run_id="r", block="a", seed=1, created_at=0.0, question="q", input="q", fingerprint={})
    for row in (StepRow(key="a/ann#1", kind="call"), StepRow(key="a/ann/x", kind="call", body="1", seq=1)):
        assert Journal(MemoryStore(), header, rows=[row]).has_steps(place) is expected


async def test_unchanged_run_with_a_skipped_turn_is_verified() -> None:
    """The replay makes no requests for the turn, not even for those of its calls that were answered."""

    def look_up(word: str) -> str:
        """Look up a word."""
        return word

    def answer(request: ModelRequest) -> Any:
        if request.block == "ann" and request.messages[-1]["role"] == "tool":
            raise ProviderFailed("down", status=503)
        if request.block == "ann":
            return ToolCall(id="1", name="look_up", arguments='{"word": "tram"}')
        return VERDICT if request.output is not None else "Build."

    ann = Debater("ann", "for", block=generator(name="ann", tools=[look_up]))
    store, model = MemoryStore(), FunctionModel(answer)
    pattern = rent_debate(debaters=[ann, SIDES[1], Debater("cy", "neither")], failures=FailurePolicy(on_failure="skip"))
    await pattern.run("Cap rents?", model=model, store=store, run_id="it")
    _, evidence = await evidence_in(store, "it", block=pattern, model=model)
    finding = await evidence.check(same_version=True)
    assert (finding.outcome, finding.problems) == ("verified", ())
