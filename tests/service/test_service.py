"""The service: nobody who follows a run misses anything, wherever it is executed, and nothing is paid for twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, Limits, debate, human
from flowdebate.errors import (
    ConfigurationError,
    NotAwaited,
    RunChanged,
    RunConflict,
    RunNotFound,
    SchemaViolation,
    TooManyRuns,
)
from flowdebate.models.base import ModelResponse
from flowdebate.patterns import PATTERNS as REGISTERED
from flowdebate.runs.events import BlockAnswered, CallStarted, ModelCalled, RunFinished, TextDelta
from flowdebate.service.channel import Channel
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.store.base import StoredRun
from flowdebate.store.export import export_run, import_runs
from flowdebate.testing import FunctionModel
from flowdebate.testing.store import header
from flowdebate.ui.plan import make_plan
from tests.runs.durable.patterns import PATTERNS, QUESTION, answer_to
from tests.workers.conftest import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from flowdebate.models.base import ModelRequest
    from flowdebate.service.channel import Update
    from flowdebate.store.base import StoredStatus

pytestmark = pytest.mark.anyio

DEBATE = REGISTERED["debate"]
SIDES = [Debater("ann", "for"), Debater("bob", "against")]


def rent(**options: Any) -> Any:
    """A debate of two rounds between two sides."""
    return debate(name="rent", debaters=SIDES, max_rounds=2, **options)


def answering() -> FunctionModel:
    """A model that answers anything, always alike."""
    return FunctionModel(answer_to)


class Gate:
    """A model that writes word by word, and stops before the call `at` until it is opened."""

    name = "gate"

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.calls = 0
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        self.calls += 1
        if self.calls - 1 == self.at:
            self.reached.set()
            await self.opened.wait()
        answer = answer_to(request)
        if not isinstance(answer, str):
            return ModelResponse(data=answer)
        for piece in (answer[:3], answer[3:]):
            if request.on_text is not None:
                request.on_text(piece)
            await asyncio.sleep(0)
        return ModelResponse(text=answer)


async def all_of(updates: AsyncIterator[Update]) -> list[Update]:
    """Everything that a reader is told."""
    return [update async for update in updates]


def told(updates: list[Update]) -> list[tuple[str, str]]:
    """Kind and place of the recorded events."""
    return [(update.event.kind, update.event.path) for update in updates if update.mark is not None]


@pytest.mark.parametrize("name", PATTERNS)
async def test_a_reader_is_told_what_the_result_has(name: str) -> None:
    """All events in order, from the run itself and from its journal alone."""
    pattern = PATTERNS[name]()
    store = MemoryStore()
    expected = await pattern.run(QUESTION, model=answering(), store=MemoryStore(), seed=4)
    async with Service({"it": pattern}, store=store, model=answering()) as service:
        run = await service.begin("it", QUESTION, seed=4, run_id="r")
        live = await all_of(service.follow("r"))
    async with Service({"it": pattern}, store=store, model=answering()) as service:
        stored = await all_of(service.follow(run.run_id))
    events = [(event.kind, event.path) for event in expected.events]
    assert sorted(told(live)) == sorted(told(stored)) == sorted(events[:-1])
    assert [update.kind for update in (live[-1], stored[-1])] == ["end", "end"]
    assert isinstance(live[-2].event, RunFinished)
    assert (live[-2].event.status, live[-2].event.usage) == (stored[-2].event.status, stored[-2].event.usage)


@given(drawn=st.integers(0, 10**6), unknown=st.sampled_from(["", "1-x", "99-000000000000"]))
async def test_behind_any_mark_comes_exactly_the_rest(drawn: int, unknown: str) -> None:
    """While the run is in memory, and from its journal; behind an unknown mark everything comes again."""
    store = MemoryStore()
    async with Service({"it": rent()}, store=store, model=answering()) as service:
        await service.begin("it", QUESTION, run_id="r", seed=1)
        everything = await all_of(service.follow("r"))
        marks = [update.mark for update in everything if update.mark is not None]
        number = drawn % len(marks)
        rest = await all_of(service.follow("r", after=marks[number]))
        assert told(rest) == told(everything)[number + 1 :]
        again = await all_of(service.follow("r", after=unknown))
        assert again[0].kind == "reset"
        assert told(again) == told(everything)
    async with Service({"it": rent()}, store=store, model=answering()) as service:
        assert told(await all_of(service.follow("r", after=marks[number]))) == told(everything)[number + 1 :]


async def test_the_first_turns_text_is_told_as_it_is_written() -> None:
    """The pieces of each call add up to its answer, and come between its start and its end."""
    model = Gate(at=0)
    async with Service({"it": rent()}, store="memory:", model=model) as service:
        await service.begin("it", QUESTION, run_id="r")
        reader = asyncio.ensure_future(all_of(service.follow("r")))
        await model.reached.wait()
        model.opened.set()
        updates = await reader
    texts: dict[str, str] = {}
    for update in updates:
        if update.kind == "text":
            assert isinstance(update.event, TextDelta)
            so_far = texts.setdefault(update.event.path, "")
            assert update.start == len(so_far)
            texts[update.event.path] += update.event.text
        elif isinstance(update.event, BlockAnswered) and isinstance(update.event.output, str):
            assert texts[update.event.path] == update.event.output
    assert "rent/round[1]/rent-turn-ann/rent-debater-ann" in texts
    started = [update.event.path for update in updates if isinstance(update.event, CallStarted)]
    assert started[0] == "rent/round[1]/rent-turn-ann/rent-debater-ann"


async def test_readers_who_come_at_any_time_get_the_same_events() -> None:
    """One from the beginning, one in the middle of a call, one after the end."""
    model = Gate(at=2)
    async with Service({"it": rent()}, store="memory:", model=model) as service:
        await service.begin("it", QUESTION, run_id="r")
        first = asyncio.ensure_future(all_of(service.follow("r")))
        await model.reached.wait()
        second = asyncio.ensure_future(all_of(service.follow("r")))
        async with aclosing(service.follow("r")) as third:  # leaves at once, which disturbs nobody
            assert (await anext(third)).kind == "event"
        model.opened.set()
        late = await all_of(service.follow("r"))
        assert told(await first) == told(await second) == told(late)


async def test_a_run_of_another_process_is_followed_while_it_goes_on(tmp_path: Path) -> None:
    """Every look at its journal gives a prefix of its events; at the end there are all of them."""
    file = tmp_path / "runs.sqlite3"
    code = (
        "import asyncio, sys\n"
        "from flowdebate.testing import FunctionModel\n"
        "from tests.service.test_service import rent, answer_to, QUESTION\n"
        "async def slow(request):\n"
        "    await asyncio.sleep(0.15)\n"
        "    return answer_to(request)\n"
        f"result = rent().run_sync(QUESTION, model=FunctionModel(slow), store={str(file)!r}, run_id='r', seed=2)\n"
        "print(*[f'{event.kind} {event.path}' for event in result.events], sep='\\n')\n"
    )
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with Service({"it": rent()}, store=file, model=answering(), poll=0.05) as service:
        while not (await service.runs()).runs:  # noqa: ASYNC110 - another process starts it
            await asyncio.sleep(0.02)
        updates = await all_of(service.follow("r"))
        run = await service.run("r")
    out, errors = await asyncio.wait_for(other.communicate(), 60)
    assert other.returncode == 0, errors.decode()
    theirs = [tuple(line.split(" ", 1)) for line in out.decode().splitlines()]
    assert [update.kind for update in updates].count("reset") == 0
    assert told(updates) == theirs[:-1]
    assert any(isinstance(update.event, CallStarted) for update in updates)
    assert (run.status, run.here) == ("complete", False)
    assert run.document is not None
    assert len(run.document.raw.transcript) == 4


async def test_the_document_of_a_run_in_progress_has_what_was_said() -> None:
    """From its journal: without a call, and without touching it."""
    model = Gate(at=2)
    async with Service(store="memory:", model=model) as service:
        run = await service.begin("debate", "Should we ship?", options={"max_rounds": 2})
        await model.reached.wait()
        now = await service.run(run.run_id)
        assert (now.status, now.here, now.steps) == ("running", True, 2)
        assert now.document is not None
        assert (now.document.status, now.document.raw.status) == ("running", "running")
        assert [entry.agent_name for entry in now.document.raw.transcript] == ["pro", "con"]
        assert model.calls == 3
        model.opened.set()
        assert (await service.wait(run.run_id)).status == "complete"


@pytest.mark.parametrize("synthesizer", [None, False], ids=["an output", "none"])
async def test_the_document_of_a_registered_pattern_has_its_output(synthesizer: Any) -> None:
    """As that of a plan: what a synthesizer wrote; nothing where the output is the raw output itself."""
    async with Service({"it": rent(synthesizer=synthesizer)}, store="memory:", model=answering()) as service:
        run = await service.begin("it", QUESTION)
        document = (await service.wait(run.run_id)).document
        stored = (await service.store.run(run.run_id)).outcome
    assert document is not None
    assert stored is not None
    assert document.to_data()["output"] == (None if synthesizer is False else stored["output"])


async def test_the_same_request_under_the_same_id_is_one_run() -> None:
    """Another one is refused; so are other options and other seeds."""
    model = answering()
    async with Service({"it": rent()}, store="memory:", model=model) as service:
        first = await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="r", seed=1)
        await service.wait("r")
        again = await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="r", seed=1)
        assert again.run_id == first.run_id
        assert len((await service.runs()).runs) == 1
        for question, options, seed in (
            ("Should we wait?", {"max_rounds": 1}, 1),
            ("Should we ship?", {"max_rounds": 2}, 1),
            ("Should we ship?", {"max_rounds": 1}, 2),
        ):
            with pytest.raises(RunChanged):
                await service.begin("debate", question, options=options, run_id="r", seed=seed)


async def test_two_who_begin_the_same_run_at_once_get_one() -> None:
    """However close together."""
    model = Gate()
    async with Service({"it": rent()}, store="memory:", model=model) as service:
        both = await asyncio.gather(*(service.begin("it", QUESTION, run_id="r", seed=1) for _ in range(4)))
        assert {run.run_id for run in both} == {"r"}
        await service.wait("r")
        assert model.calls == 6


async def test_runs_beyond_those_in_progress_wait_for_their_turn() -> None:
    """In order: new runs, forks and resumed ones; one more than may wait is refused, and nothing of it is stored."""
    model = Gate(at=6)
    patterns = {"it": rent()}
    async with Service(patterns, store="memory:", model=model, max_concurrency=1, max_queued=3) as service:
        await service.begin("it", QUESTION, run_id="old")
        await service.wait("old")
        await service.begin("it", QUESTION, run_id="r")
        await model.reached.wait()
        states = [
            await service.begin("it", "Another?", run_id="s"),
            await service.fork("old", at="rent/rent-judge", fork_id="f"),
            await service.begin("it", "And now?", run_id="t"),
        ]
        assert [state.status for state in states] == ["queued"] * 3
        assert (await service.begin("it", "Another?", run_id="s")).status == "queued"  # it is the same request
        with pytest.raises(TooManyRuns, match="1 in progress and 3 waiting") as refused:
            await service.begin("it", "One more?", run_id="u")
        assert refused.value.retry_after > 0
        assert (await service.cancel("s")).status == "interrupted"
        assert len((await service.runs()).runs) == 5
        following = asyncio.ensure_future(all_of(service.follow("f")))
        model.opened.set()
        for run_id in ("r", "f", "t"):
            assert (await service.wait(run_id)).status == "complete"
        assert told(await following)[-1] == told(await all_of(service.follow("f")))[-1]
        assert (await service.run("s")).status == "interrupted"
        ended = {run.run_id: run.updated_at for run in (await service.runs()).runs}
        assert ended["r"] < ended["f"] < ended["t"]
        assert model.calls == 3 * 6 + 2  # of the fork the judge and the synthesizer


async def test_owners_of_runs_that_wait_take_turns() -> None:
    """Lower priorities come first, also where a run was refused its place once; recovered runs keep their order."""
    store, model, patterns = MemoryStore(), Gate(at=0), {"it": rent()}

    async def order() -> list[str]:
        ended = sorted(await store.runs(labels={}), key=lambda run: run.updated_at)
        return [run.header.run_id for run in ended]

    async def begin(service: Service, owner: str, numbers: range, **options: Any) -> None:
        for number in numbers:
            await service.begin("it", QUESTION, run_id=f"{owner}{number}", labels={"owner": owner}, **options)

    async with Service(patterns, store=store, model=model, max_concurrency=1, recover=True) as service:
        await begin(service, "a", range(1))
        await model.reached.wait()
        await begin(service, "late", range(2), priority=7)
        await begin(service, "a", range(1, 4))
        await begin(service, "b", range(1))
        model.opened.set()
        await service.wait("late1")
        assert await order() == ["a0", "a1", "b0", "a2", "a3", "late0", "late1"]
        for wrong in (-1, 101, True):
            with pytest.raises(ConfigurationError, match="priority"):
                await service.begin("it", QUESTION, priority=wrong)
    model.at, model.calls, model.opened = 0, 0, asyncio.Event()
    model.reached.clear()
    async with Service(patterns, store=store, model=model, max_concurrency=1, recover=True) as service:
        await begin(service, "c", range(1))
        await model.reached.wait()
        await begin(service, "d", range(2), priority=3)
        await begin(service, "e", range(2))
        closing = asyncio.ensure_future(service.close())
        await asyncio.sleep(0)
        model.opened.set()
        await closing
    async with Service(patterns, store=store, model=model, max_concurrency=1, recover=True) as service:
        await service.recover()
        await service.wait("d1")
        assert [each for each in await order() if each[0] in "de" and each[1:] in "01"] == ["e0", "e1", "d0", "d1"]


async def test_who_waits_behind_a_run_that_is_executed_here_goes_on_when_it_ends() -> None:
    """And not at the next poll: whoever waits for a run in the queue, and the recovery of what was left."""
    store, patterns, model = MemoryStore(), {"it": rent()}, Gate(at=0)
    async with asyncio.timeout(60), Service(patterns, store=store, model=model, max_concurrency=1, poll=300) as service:
        for number in range(3):
            await service.begin("it", QUESTION, run_id=f"r{number}")
        await model.reached.wait()
        waiting = asyncio.ensure_future(service.wait("r1"))
        await asyncio.sleep(0.1)
        model.opened.set()
        assert (await waiting).status == "complete"
    options: dict[str, Any] = {"max_concurrency": 1, "poll": 300, "recover": True}
    model = Gate(at=0)
    async with Service(patterns, store=store, model=model, **options) as service:
        for number in range(3):
            await service.begin("it", QUESTION, run_id=f"left{number}")
        await model.reached.wait()
        await service.close(patience=0.1)
    async with asyncio.timeout(60), Service(patterns, store=store, model=Gate(), **options) as service:
        await service.recover()
        for number in range(3):
            assert (await service.wait(f"left{number}")).status == "complete"


async def test_an_owner_has_so_many_runs_in_progress_at_most() -> None:
    """The rest of what may run at once is for others, who need not wait, however many of theirs do."""
    model, patterns = Gate(at=0), {"it": rent()}
    async with Service(patterns, store="memory:", model=model, max_concurrency=3, owner_concurrency=1) as service:
        states = {}
        for run_id in ("a0", "a1", "b0", "a2", "b1", "c0", "d0"):
            state = await service.begin("it", QUESTION, run_id=run_id, labels={"owner": run_id[0]})
            states[run_id] = state.status
            if run_id == "a0":
                await model.reached.wait()
                model.at = model.calls  # the first call of the next one waits as well
        waiting = {run_id for run_id, status in states.items() if status == "queued"}
        assert {"a1", "a2"} <= waiting
        assert states["b0"] == "running"
        model.opened.set()
        for run_id in states:
            assert (await service.wait(run_id)).status == "complete"


async def test_a_resumed_run_waits_for_its_turn() -> None:
    """It is asked for as often as anybody likes, and resumed once."""
    model = Gate(at=0)
    async with Service({"it": rent()}, store="memory:", model=model, max_concurrency=1) as service:
        await service.begin("it", QUESTION, run_id="r")
        await model.reached.wait()
        await service.begin("it", "Another?", run_id="s")
        await service.cancel("s")
        assert [(await service.resume("s")).status for _ in range(3)] == ["queued"] * 3
        model.opened.set()
        assert (await service.wait("s")).status == "complete"
        assert model.calls == 2 * 6


@pytest.mark.parametrize("recover", [True, False])
async def test_runs_that_wait_when_a_service_ends_are_not_lost(*, recover: bool) -> None:
    """The next service that recovers begins them by itself; else they are interrupted, and can be resumed."""
    store, model = MemoryStore(), Gate(at=0)
    patterns = {"it": rent()}
    async with Service(patterns, store=store, model=model, max_concurrency=1, recover=recover) as service:
        await service.begin("it", QUESTION, run_id="r")
        await model.reached.wait()
        await service.begin("it", "Another?", run_id="s")
        model.opened.set()
    status = (await store.run("s")).status
    assert status == ("queued" if recover else "interrupted")
    async with Service(patterns, store=store, model=model, recover=recover) as service:
        await (service.recover() if recover else service.resume("s"))
        assert (await service.wait("s")).status == "complete"


async def test_the_services_limits_bound_those_of_each_run() -> None:
    """A caller can lower them, and cannot raise them."""
    async with Service({"it": rent()}, store="memory:", model=answering(), limits=Limits(calls=3)) as service:
        for given_limits, calls in ((None, 3), (Limits(calls=2), 2), (Limits(calls=50), 3)):
            run = await service.begin("it", QUESTION, limits=given_limits)
            done = await service.wait(run.run_id)
            assert done.status == "limit"
            assert done.usage is not None
            assert done.usage.calls == calls


async def test_a_person_answers_and_the_run_goes_on() -> None:
    """A reader who comes back is told the rest, or everything again, since the task was suspended in between."""
    asked = debate(
        name="rent", debaters=[Debater("ann", "for", block=human(name="ann")), Debater("bob", "against")], max_rounds=1
    )
    async with Service({"it": asked}, store="memory:", model=answering()) as service:
        await service.begin("it", QUESTION, run_id="r")
        before = await all_of(service.follow("r"))
        waiting = await service.run("r")
        assert waiting.status == "awaiting"
        assert [request.block for request in waiting.pending] == ["ann"]
        with pytest.raises(NotAwaited):
            await service.answer("r", "Homes first.", place="elsewhere")
        await service.answer("r", "Homes first.", place=waiting.pending[0].place)
        mark = [update.mark for update in before if update.mark is not None][-1]
        after = await all_of(service.follow("r", after=mark))
        assert after[0].kind == "reset"
        assert told(after) == told(await all_of(service.follow("r")))
        done = await service.wait("r")
        assert done.status == "complete"
        assert done.document is not None
        assert done.document.raw.transcript[0].text == "Homes first."


async def test_a_cancelled_run_is_resumed_and_no_call_is_repeated() -> None:
    """Its answers so far are told as replayed ones."""
    model = Gate(at=2)
    async with Service({"it": rent()}, store="memory:", model=model) as service:
        await service.begin("it", QUESTION, run_id="r")
        await model.reached.wait()
        assert (await service.cancel("r")).status == "interrupted"
        assert (await service.cancel("r")).status == "interrupted"
        model.opened.set()
        await service.resume("r")
        updates = await all_of(service.follow("r"))
        calls = [update.event for update in updates if isinstance(update.event, ModelCalled)]
        assert [event.replayed for event in calls] == [True, True, False, False, False, False]
        assert model.calls == 3 + 4
        assert (await service.resume("r")).status == "complete"


async def test_a_reader_may_come_back_at_any_moment_of_a_resume() -> None:
    """However far a new process has got with resuming the run, the reader gets exactly the rest, and no reset."""
    store, model = MemoryStore(), Gate(at=3)
    async with Service({"it": rent()}, store=store, model=model) as service:
        await service.begin("it", QUESTION, run_id="r", seed=1)
        await model.reached.wait()
        seen = len(await service.events("r"))
        killed = [line async for line in export_run(store, "r")]
        model.opened.set()
        everything = await all_of(service.follow("r"))
    mark = [update.mark for update in everything if update.mark is not None][seen - 1]
    for turns in range(25):
        store = MemoryStore()
        await import_runs(store, killed, trusted=True)
        async with Service({"it": rent()}, store=store, model=Gate()) as service:
            resuming = asyncio.ensure_future(service.resume("r"))
            for _ in range(turns):
                await asyncio.sleep(0)
            rest = await all_of(service.follow("r", after=mark))
            await resuming
        assert "reset" not in {update.kind for update in rest}, turns
        assert told(rest) == told(everything)[seen:], turns


async def test_a_run_that_another_process_executes_is_not_cancelled_or_deleted() -> None:
    """The error says that it is executed elsewhere."""
    store, model = MemoryStore(), Gate(at=0)
    handle = rent().start(QUESTION, model=model, store=store, run_id="r")
    await model.reached.wait()
    async with Service({"it": rent()}, store=store, model=answering()) as service:
        for call in (service.cancel, service.delete, service.resume):
            with pytest.raises(RunConflict):
                await call("r")
        model.opened.set()
        await handle
        await service.delete("r")
        for unknown in (service.run, service.cancel, service.resume, service.delete):
            with pytest.raises(RunNotFound):
                await unknown("r")
        with pytest.raises(RunNotFound):
            await all_of(service.follow("r"))


async def test_what_a_service_leaves_unfinished_the_next_one_carries_to_its_end() -> None:
    """The call in flight is finished first, and is not repeated."""
    store, model = MemoryStore(), Gate(at=1)
    service = Service({"it": rent()}, store=store, model=model, recover=True)
    await service.begin("it", QUESTION, run_id="r")
    await model.reached.wait()
    reader = asyncio.ensure_future(all_of(service.follow("r")))
    closing = asyncio.ensure_future(service.close())
    await asyncio.sleep(0.05)
    model.opened.set()
    await closing
    assert (await reader)[-1].kind == "end"
    assert ((await store.run("r")).status, (await store.run("r")).steps, model.calls) == ("queued", 2, 2)
    await rent().run("A program's own run.", model=answering(), store=store, run_id="own")
    async with Service({"it": rent()}, store=store, model=model, recover=True) as following:
        await following.recover()
        assert (await following.wait("r")).status == "complete"
        assert model.calls == 6


async def _are_left(store: MemoryStore, number: int) -> bool:
    return len(await store.runs()) == number


async def test_runs_are_deleted_once_nothing_has_changed_for_so_many_days() -> None:
    """Whatever became of them, unless a process executes them; younger ones stay."""
    store, model = MemoryStore(), FunctionModel(lambda request: "x")
    now = time.time()
    for name, days in (("old", 31), ("waits", 40), ("young", 29)):
        stored = header(name, created_at=now - 86_400 * days)
        status: StoredStatus = "awaiting" if name == "waits" else "complete"
        await store.add(StoredRun(header=stored, status=status, updated_at=stored.created_at, steps=0), ())
    await store.create(header("in progress", created_at=now - 86_400 * 50))
    async with Service({"it": rent()}, store=store, model=model, recover=True, keep_days=30) as service:
        await service.recover()
        await until(lambda: _are_left(store, 2))
        assert {run.header.run_id for run in await store.runs()} == {"young", "in progress"}


async def test_a_reader_waits_for_a_run_that_is_still_to_be_recovered() -> None:
    """The first reader may be there before its run is resumed: it is told the rest, and no end before it."""
    store = MemoryStore()
    for run_id in ("first", "second"):
        killed, model = MemoryStore(), Gate(at=2)
        async with Service({"it": rent()}, store=killed, model=model, recover=True) as service:
            await service.begin("it", QUESTION, run_id=run_id)
            await model.reached.wait()
            await import_runs(store, [line async for line in export_run(killed, run_id)], trusted=True)
            model.opened.set()
    model = Gate(at=0)
    async with Service({"it": rent()}, store=store, model=model, recover=True, max_concurrency=1, poll=0.01) as service:
        await service.recover()
        await model.reached.wait()
        (waiting,) = [run.run_id for run in (await service.runs(status="left_behind")).runs]
        reader = asyncio.ensure_future(all_of(service.follow(waiting)))
        await asyncio.sleep(0.1)
        assert not reader.done()
        model.opened.set()
        assert [getattr(update.event, "status", None) for update in await reader][-2] == "complete"
        assert model.calls == 2 * 4


async def test_forks_say_what_they_took_and_what_they_asked() -> None:
    """Of a plan with other options, and of a registered pattern with an edit."""
    async with Service({"it": rent()}, store="memory:", model=answering()) as service:
        plan = await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="plan")
        await service.begin("it", QUESTION, run_id="own")
        await service.wait(plan.run_id)
        await service.wait("own")
        judged = await service.fork("plan", options={"schedule": "cyclic"}, fork_id="judged")
        done = await service.wait(judged.run_id)
        assert done.status == "complete"
        assert done.fork is not None
        assert (done.fork.parent, done.fork.reused >= 2, done.parent) == ("plan", True, "plan")
        place = "rent/round[2]/rent-turn-bob/rent-debater-bob"
        edited = await service.wait((await service.fork("own", edits={place: "I agree."})).run_id)
        assert edited.fork is not None
        assert (edited.fork.reused, edited.fork.edited, edited.fork.asked) == (3, (place,), 2)
        with pytest.raises(ConfigurationError):
            await service.fork("own", options={"max_rounds": 3})


async def test_a_fork_has_the_question_the_seed_and_the_models_of_its_run() -> None:
    """Unless its options change them, which they cannot for the question."""
    asked = {"one": 0, "two": 0}

    def named(name: str) -> FunctionModel:
        def answer(request: ModelRequest) -> Any:
            asked[name] += 1
            return answer_to(request)

        model = FunctionModel(answer)
        model.name = name
        return model

    store = MemoryStore()
    options = {"max_rounds": 1, "synthesizer": False}
    async with Service(store=store, model=named("one")) as service:
        await service.begin("debate", "Should we ship?", options=options, run_id="run", seed=5)
        await service.wait("run")
        again = await service.wait((await service.fork("run", seed=6)).run_id)
        third = await service.wait((await service.fork(again.run_id)).run_id)
        assert (again.seed, third.seed) == (6, 6)
        with pytest.raises(ConfigurationError, match="cannot be set: a fork has the question of its run"):
            await service.fork("run", options={"question": "Should we wait?"})
        with pytest.raises(ConfigurationError, match="options: `max_rounds`"):
            await service.fork("run", options={"max_rounds": 0})
    assert asked == {"one": 4, "two": 0}
    async with Service(store=store, model=named("two")) as service:
        judged = await service.wait((await service.fork("run", options={"max_rounds": 1})).run_id)
    assert judged.fork is not None
    assert (judged.fork.reused, judged.fork.asked, asked["two"]) == (0, 4, 4)


async def test_a_run_is_resumed_and_forked_as_a_given_plan() -> None:
    """In place of the stored one: here with a limit that lets it end."""
    store = MemoryStore()
    given = {"question": "Should we ship?", "max_rounds": 1}
    short, whole = (make_plan(DEBATE, {**given, "max_calls": number}) for number in (1, 9))
    async with Service(store=store, model=answering()) as service:
        run = await service.begin(short)
        assert (await service.wait(run.run_id)).status == "limit"
        fork = await service.wait((await service.fork(run.run_id, pattern=whole)).run_id)
        assert (fork.status, fork.parent) == ("complete", run.run_id)
        resumed = await service.resume(run.run_id, plan=whole)
        handle = service.handle(resumed.run_id)
        assert handle is not None
        assert (await handle).status == "complete"
        assert service.handle("nobody") is None


async def test_nobody_waits_for_a_run_whose_process_is_gone() -> None:
    """It is told as it is."""
    store = MemoryStore()
    await store.create(header("r"))
    await store.release("r")
    async with Service({"it": rent()}, store=store) as service:
        assert (await service.wait("r")).status == "left_behind"
        assert [update.kind for update in await all_of(service.follow("r"))] == ["end"]


@pytest.mark.parametrize(
    ("pattern", "question", "options", "words"),
    [
        ("nothing", "Q?", {}, "one of it, debate"),
        ("it", "Q?", {"max_rounds": 1}, "registered"),
        ("it", " ", {}, "question.*not be blank"),
        ("debate", 5, {}, "question"),
        ("debate", "Should we ship?", {"roundz": 1}, "options"),
        ("debate", "Should we ship?", {"max_rounds": 0}, "max_rounds"),
        ("debate", "Which database?", {"humans": ["pro"]}, "name them"),
    ],
)
async def test_requests_that_cannot_be_are_refused_before_anything_is_stored(
    pattern: str, question: Any, options: dict[str, Any], words: str
) -> None:
    """The error names the field, what was given, and what is allowed."""
    async with Service({"it": rent()}, store="memory:", model=answering()) as service:
        with pytest.raises(ConfigurationError, match=words):
            await service.begin(pattern, question, options=options)
        assert (await service.runs()).runs == ()


async def test_a_failed_proposal_of_sides_begins_no_run() -> None:
    """The error is that of the model, and nothing is stored."""
    async with Service(store="memory:", model=FunctionModel(lambda _: {"sides": []})) as service:
        with pytest.raises(SchemaViolation, match="sides"):
            await service.begin("debate", "Which database?")
        assert (await service.runs()).runs == ()


async def test_a_run_whose_pattern_is_unknown_is_told_with_the_reason() -> None:
    """Its end is followed all the same."""
    store = MemoryStore()
    await rent().run(QUESTION, model=answering(), store=store, run_id="r")
    async with Service(store=store) as service:
        run = await service.run("r")
        assert run.document is not None  # its output is stored
        assert [update.kind for update in await all_of(service.follow("r"))] == ["end"]


async def test_pages_of_runs_add_up_to_the_list() -> None:
    """Filters hold on every page."""
    async with Service({"it": rent()}, store="memory:", model=answering(), max_concurrency=20) as service:
        for number in range(7):
            await service.begin("it", f"Question {number}?", run_id=f"r-{number}", labels={"even": str(number % 2)})
        found, before = [], None
        while True:
            page = await service.runs(limit=2, before=before, labels={"even": "0"}, pattern="it")
            found += [run.run_id for run in page.runs]
            before = page.next
            if before is None:
                break
        assert found == ["r-6", "r-4", "r-2", "r-0"]
        with pytest.raises(ConfigurationError, match="before"):
            await service.runs(before="x")
        for run in found:
            await service.wait(run)


@pytest.mark.parametrize("began", [(1e-05, 2e-05, 3e-05), (-3.5, -2.0, 0.0), (1e18, 1e300, 1.5e9)], ids=str)
async def test_pages_hold_at_any_time_and_any_id(began: tuple[float, ...]) -> None:
    """Imported runs may have started whenever their file says."""
    store = MemoryStore()
    for number, created_at in enumerate(began):
        await store.create(header(f"run-{number}:a", created_at=created_at))
    async with Service(store=store) as service:
        found: list[float] = []
        before = None
        while not found or before is not None:
            page = await service.runs(limit=1, before=before)
            found += [run.created_at for run in page.runs]
            before = page.next
    assert found == sorted(began, reverse=True)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5), st.booleans()), max_size=30), st.integers(0, 30))
async def test_every_reader_gets_each_calls_text_once_and_whole(
    pieces: list[tuple[str, str, bool]], joins: int
) -> None:
    """However slowly it reads, and whenever it comes while the text is written."""
    channel = Channel()
    readers = []
    for number, (path, text, pauses) in enumerate(pieces):
        if number == joins:
            readers.append(asyncio.ensure_future(all_of(channel.read())))
            await asyncio.sleep(0)
        channel.put(TextDelta(block="b", text=text, path=path))
        if pauses:
            await asyncio.sleep(0)
    if not readers:
        readers.append(asyncio.ensure_future(all_of(channel.read())))
        await asyncio.sleep(0)
    for path in "abc":
        channel.put(ModelCalled(block="b", model="m", usage=None, seconds=0.0, path=path))  # type: ignore[arg-type]
    channel.end()
    (updates,) = await asyncio.gather(*readers)
    for path in "abc":
        whole = "".join(text for place, text, _ in pieces if place == path)
        got = [update for update in updates if update.kind == "text" and update.event.path == path]
        assert "".join(update.event.text for update in got) == whole
        assert [update.start for update in got] == [
            sum(len(before.event.text) for before in got[:number]) for number in range(len(got))
        ]
