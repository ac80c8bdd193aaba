"""The service: followers miss nothing, wherever a run is executed, and nothing is paid for twice."""

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
from tests.workers.conftest import poll_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from flowdebate.models.base import ModelRequest
    from flowdebate.service.channel import Update
    from flowdebate.store.base import StoredStatus

pytestmark = pytest.mark.anyio

DEBATE = REGISTERED["debate"]
SIDES = [Debater("ann", "for"), Debater("bob", "against")]


def rent_debate(**options: Any) -> Any:
    """Create a two-round debate between two sides."""
    return debate(name="rent", debaters=SIDES, max_rounds=2, **options)


def constant_model() -> FunctionModel:
    """Return a model that gives the same answer to every request."""
    return FunctionModel(answer_to)


class Gate:
    """Model that streams words and pauses before call `at` until the gate is opened."""

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


async def read_updates(updates: AsyncIterator[Update]) -> list[Update]:
    """Return all updates for a reader."""
    return [update async for update in updates]


def kinds_and_paths(updates: list[Update]) -> list[tuple[str, str]]:
    """Return the kind and path of each recorded event."""
    return [(update.event.kind, update.event.path) for update in updates if update.mark is not None]


@pytest.mark.parametrize("name", PATTERNS)
async def test_readers_receive_everything_in_the_result(name: str) -> None:
    pattern = PATTERNS[name]()
    store = MemoryStore()
    expected = await pattern.run(QUESTION, model=constant_model(), store=MemoryStore(), seed=4)
    async with Service({"it": pattern}, store=store, model=constant_model()) as service:
        run = await service.begin("it", QUESTION, seed=4, run_id="r")
        live = await read_updates(service.follow("r"))
    async with Service({"it": pattern}, store=store, model=constant_model()) as service:
        stored_updates = await read_updates(service.follow(run.run_id))
    events = [(event.kind, event.path) for event in expected.events]
    assert sorted(kinds_and_paths(live)) == sorted(kinds_and_paths(stored_updates)) == sorted(events[:-1])
    assert [update.kind for update in (live[-1], stored_updates[-1])] == ["end", "end"]
    assert isinstance(live[-2].event, RunFinished)
    assert (live[-2].event.status, live[-2].event.usage) == (
        stored_updates[-2].event.status,
        stored_updates[-2].event.usage,
    )


@given(index=st.integers(0, 10**6), unknown=st.sampled_from(["", "1-x", "99-000000000000"]))
async def test_following_from_any_mark_returns_the_remaining_events(index: int, unknown: str) -> None:
    """A reader can continue from any mark, whether the events are in memory or in the journal.

    If the mark is unknown, the reader receives all events again.
    """
    store = MemoryStore()
    async with Service({"it": rent_debate()}, store=store, model=constant_model()) as service:
        await service.begin("it", QUESTION, run_id="r", seed=1)
        everything = await read_updates(service.follow("r"))
        marks = [update.mark for update in everything if update.mark is not None]
        number = index % len(marks)
        rest = await read_updates(service.follow("r", after=marks[number]))
        assert kinds_and_paths(rest) == kinds_and_paths(everything)[number + 1 :]
        remaining = await read_updates(service.follow("r", after=unknown))
        assert remaining[0].kind == "reset"
        assert kinds_and_paths(remaining) == kinds_and_paths(everything)
    async with Service({"it": rent_debate()}, store=store, model=constant_model()) as service:
        assert (
            kinds_and_paths(await read_updates(service.follow("r", after=marks[number])))
            == kinds_and_paths(everything)[number + 1 :]
        )


async def test_text_of_the_first_turn_is_streamed_live() -> None:
    model = Gate(at=0)
    async with Service({"it": rent_debate()}, store="memory:", model=model) as service:
        await service.begin("it", QUESTION, run_id="r")
        reader = asyncio.ensure_future(read_updates(service.follow("r")))
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


async def test_readers_joining_at_any_time_get_the_same_events() -> None:
    """One reader joins at the beginning, one during a call, and one after the end."""
    model = Gate(at=2)
    async with Service({"it": rent_debate()}, store="memory:", model=model) as service:
        await service.begin("it", QUESTION, run_id="r")
        first = asyncio.ensure_future(read_updates(service.follow("r")))
        await model.reached.wait()
        second = asyncio.ensure_future(read_updates(service.follow("r")))
        async with aclosing(service.follow("r")) as third:  # leaves immediately without disturbing others
            assert (await anext(third)).kind == "event"
        model.opened.set()
        late = await read_updates(service.follow("r"))
        assert kinds_and_paths(await first) == kinds_and_paths(await second) == kinds_and_paths(late)


async def test_run_in_another_process_is_followed_live(tmp_path: Path) -> None:
    """Each read of the journal returns all events recorded so far, and the last read returns the complete run."""
    file = tmp_path / "runs.sqlite3"
    code = (
        "import asyncio, sys\n"
        "from flowdebate.testing import FunctionModel\n"
        "from tests.service.test_service import rent_debate, answer_to, QUESTION\n"
        "async def slow(request):\n"
        "    await asyncio.sleep(0.15)\n"
        "    return answer_to(request)\n"
        "model = FunctionModel(slow)\n"
        f"result = rent_debate().run_sync(QUESTION, model=model, store={str(file)!r}, run_id='r', seed=2)\n"
        "print(*[f'{event.kind} {event.path}' for event in result.events], sep='\\n')\n"
    )
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with Service({"it": rent_debate()}, store=file, model=constant_model(), poll=0.05) as service:
        while not (await service.runs()).runs:  # noqa: ASYNC110 - another process starts it
            await asyncio.sleep(0.02)
        updates = await read_updates(service.follow("r"))
        run = await service.run("r")
    out, errors = await asyncio.wait_for(other.communicate(), 60)
    assert other.returncode == 0, errors.decode()
    lines = [tuple(line.split(" ", 1)) for line in out.decode().splitlines()]
    assert [update.kind for update in updates].count("reset") == 0
    assert kinds_and_paths(updates) == lines[:-1]
    assert any(isinstance(update.event, CallStarted) for update in updates)
    assert (run.status, run.here) == ("complete", False)
    assert run.document is not None
    assert len(run.document.raw.transcript) == 4


async def test_document_of_a_run_in_progress_has_its_transcript() -> None:
    """The document is built from the journal, without making a call or changing anything."""
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
async def test_document_of_a_registered_pattern_has_its_output(synthesizer: Any) -> None:
    async with Service(
        {"it": rent_debate(synthesizer=synthesizer)}, store="memory:", model=constant_model()
    ) as service:
        run = await service.begin("it", QUESTION)
        document = (await service.wait(run.run_id)).document
        outcome = (await service.store.run(run.run_id)).outcome
    assert document is not None
    assert outcome is not None
    assert document.to_data()["output"] == (None if synthesizer is False else outcome["output"])


async def test_repeated_requests_with_the_same_id_start_one_run() -> None:
    """A different question, option or seed under the same id is rejected."""
    model = constant_model()
    async with Service({"it": rent_debate()}, store="memory:", model=model) as service:
        first = await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="r", seed=1)
        await service.wait("r")
        repeated = await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="r", seed=1)
        assert repeated.run_id == first.run_id
        assert len((await service.runs()).runs) == 1
        for question, options, seed in (
            ("Should we wait?", {"max_rounds": 1}, 1),
            ("Should we ship?", {"max_rounds": 2}, 1),
            ("Should we ship?", {"max_rounds": 1}, 2),
        ):
            with pytest.raises(RunChanged):
                await service.begin("debate", question, options=options, run_id="r", seed=seed)


async def test_simultaneous_starts_with_the_same_id_start_one_run() -> None:
    model = Gate()
    async with Service({"it": rent_debate()}, store="memory:", model=model) as service:
        runs = await asyncio.gather(*(service.begin("it", QUESTION, run_id="r", seed=1) for _ in range(4)))
        assert {run.run_id for run in runs} == {"r"}
        await service.wait("r")
        assert model.calls == 6


async def test_runs_above_the_concurrency_limit_are_queued() -> None:
    """Runs, forks and resumed runs start in the order in which they were queued.

    Once the queue is full, new requests are rejected and nothing is stored.
    """
    model = Gate(at=6)
    patterns = {"it": rent_debate()}
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
        assert (await service.begin("it", "Another?", run_id="s")).status == "queued"  # this is the same request
        with pytest.raises(TooManyRuns, match="1 in progress and 3 waiting") as raised:
            await service.begin("it", "One more?", run_id="u")
        assert raised.value.retry_after > 0
        assert (await service.cancel("s")).status == "interrupted"
        assert len((await service.runs()).runs) == 5
        following = asyncio.ensure_future(read_updates(service.follow("f")))
        model.opened.set()
        for run_id in ("r", "f", "t"):
            assert (await service.wait(run_id)).status == "complete"
        assert kinds_and_paths(await following)[-1] == kinds_and_paths(await read_updates(service.follow("f")))[-1]
        assert (await service.run("s")).status == "interrupted"
        ended = {run.run_id: run.updated_at for run in (await service.runs()).runs}
        assert ended["r"] < ended["f"] < ended["t"]
        assert model.calls == 3 * 6 + 2  # the fork's judge and synthesizer


async def test_owners_of_queued_runs_take_turns() -> None:
    """Runs with lower priority values start first, and recovered runs keep their order."""
    store, model, patterns = MemoryStore(), Gate(at=0), {"it": rent_debate()}

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
        assert [name for name in await order() if name[0] in "de" and name[1:] in "01"] == ["e0", "e1", "d0", "d1"]


async def test_queued_run_starts_when_the_local_run_ends() -> None:
    """The queued run does not wait for the next poll."""
    store, patterns, model = MemoryStore(), {"it": rent_debate()}, Gate(at=0)
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


async def test_runs_per_owner_are_limited() -> None:
    """The runs of other owners use the remaining slots without waiting."""
    model, patterns = Gate(at=0), {"it": rent_debate()}
    async with Service(patterns, store="memory:", model=model, max_concurrency=3, owner_concurrency=1) as service:
        states = {}
        for run_id in ("a0", "a1", "b0", "a2", "b1", "c0", "d0"):
            state = await service.begin("it", QUESTION, run_id=run_id, labels={"owner": run_id[0]})
            states[run_id] = state.status
            if run_id == "a0":
                await model.reached.wait()
                model.at = model.calls  # the first call of the next run waits too
        waiting = {run_id for run_id, status in states.items() if status == "queued"}
        assert {"a1", "a2"} <= waiting
        assert states["b0"] == "running"
        model.opened.set()
        for run_id in states:
            assert (await service.wait(run_id)).status == "complete"


async def test_resumed_run_is_queued() -> None:
    """Repeating the request does not resume the run twice."""
    model = Gate(at=0)
    async with Service({"it": rent_debate()}, store="memory:", model=model, max_concurrency=1) as service:
        await service.begin("it", QUESTION, run_id="r")
        await model.reached.wait()
        await service.begin("it", "Another?", run_id="s")
        await service.cancel("s")
        assert [(await service.resume("s")).status for _ in range(3)] == ["queued"] * 3
        model.opened.set()
        assert (await service.wait("s")).status == "complete"
        assert model.calls == 2 * 6


@pytest.mark.parametrize("recover", [True, False])
async def test_waiting_runs_are_kept_when_a_service_closes(*, recover: bool) -> None:
    """If the next service recovers runs, it starts the waiting ones.

    Otherwise, they are marked as interrupted and can be resumed.
    """
    store, model = MemoryStore(), Gate(at=0)
    patterns = {"it": rent_debate()}
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


async def test_service_limits_apply_to_every_run() -> None:
    """A caller can lower the service's limits but not raise them."""
    async with Service(
        {"it": rent_debate()}, store="memory:", model=constant_model(), limits=Limits(calls=3)
    ) as service:
        for given_limits, calls in ((None, 3), (Limits(calls=2), 2), (Limits(calls=50), 3)):
            run = await service.begin("it", QUESTION, limits=given_limits)
            finished = await service.wait(run.run_id)
            assert finished.status == "limit"
            assert finished.usage is not None
            assert finished.usage.calls == calls


async def test_run_continues_after_a_human_answer() -> None:
    """A reader that returns after the answer is told to start over and receives all events again."""
    pattern = debate(
        name="rent", debaters=[Debater("ann", "for", block=human(name="ann")), Debater("bob", "against")], max_rounds=1
    )
    async with Service({"it": pattern}, store="memory:", model=constant_model()) as service:
        await service.begin("it", QUESTION, run_id="r")
        before = await read_updates(service.follow("r"))
        waiting = await service.run("r")
        assert waiting.status == "awaiting"
        assert [request.block for request in waiting.pending] == ["ann"]
        with pytest.raises(NotAwaited):
            await service.answer("r", "Homes first.", place="elsewhere")
        await service.answer("r", "Homes first.", place=waiting.pending[0].place)
        mark = [update.mark for update in before if update.mark is not None][-1]
        after = await read_updates(service.follow("r", after=mark))
        assert after[0].kind == "reset"
        assert kinds_and_paths(after) == kinds_and_paths(await read_updates(service.follow("r")))
        finished = await service.wait("r")
        assert finished.status == "complete"
        assert finished.document is not None
        assert finished.document.raw.transcript[0].text == "Homes first."


async def test_cancelled_run_is_resumed_and_no_call_is_repeated() -> None:
    """The answers already recorded are marked as replayed."""
    model = Gate(at=2)
    async with Service({"it": rent_debate()}, store="memory:", model=model) as service:
        await service.begin("it", QUESTION, run_id="r")
        await model.reached.wait()
        assert (await service.cancel("r")).status == "interrupted"
        assert (await service.cancel("r")).status == "interrupted"
        model.opened.set()
        await service.resume("r")
        updates = await read_updates(service.follow("r"))
        calls = [update.event for update in updates if isinstance(update.event, ModelCalled)]
        assert [event.replayed for event in calls] == [True, True, False, False, False, False]
        assert model.calls == 3 + 4
        assert (await service.resume("r")).status == "complete"


async def test_readers_can_reconnect_at_any_time_during_a_resume() -> None:
    """No matter when a reader reconnects, it receives exactly the remaining events, without a reset."""
    store, model = MemoryStore(), Gate(at=3)
    async with Service({"it": rent_debate()}, store=store, model=model) as service:
        await service.begin("it", QUESTION, run_id="r", seed=1)
        await model.reached.wait()
        length = len(await service.events("r"))
        killed = [line async for line in export_run(store, "r")]
        model.opened.set()
        everything = await read_updates(service.follow("r"))
    mark = [update.mark for update in everything if update.mark is not None][length - 1]
    for turns in range(25):
        store = MemoryStore()
        await import_runs(store, killed, trusted=True)
        async with Service({"it": rent_debate()}, store=store, model=Gate()) as service:
            resuming = asyncio.ensure_future(service.resume("r"))
            for _ in range(turns):
                await asyncio.sleep(0)
            rest = await read_updates(service.follow("r", after=mark))
            await resuming
        assert "reset" not in {update.kind for update in rest}, turns
        assert kinds_and_paths(rest) == kinds_and_paths(everything)[length:], turns


async def test_run_in_another_process_is_not_cancelled_or_deleted() -> None:
    """The error says that another process is executing the run."""
    store, model = MemoryStore(), Gate(at=0)
    handle = rent_debate().start(QUESTION, model=model, store=store, run_id="r")
    await model.reached.wait()
    async with Service({"it": rent_debate()}, store=store, model=constant_model()) as service:
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
            await read_updates(service.follow("r"))


async def test_next_service_finishes_the_runs_of_the_previous_one() -> None:
    """Before a service closes, it waits for the call in flight, so the next service does not repeat that call."""
    store, model = MemoryStore(), Gate(at=1)
    service = Service({"it": rent_debate()}, store=store, model=model, recover=True)
    await service.begin("it", QUESTION, run_id="r")
    await model.reached.wait()
    reader = asyncio.ensure_future(read_updates(service.follow("r")))
    closing = asyncio.ensure_future(service.close())
    await asyncio.sleep(0.05)
    model.opened.set()
    await closing
    assert (await reader)[-1].kind == "end"
    assert ((await store.run("r")).status, (await store.run("r")).steps, model.calls) == ("queued", 2, 2)
    await rent_debate().run("A program's own run.", model=constant_model(), store=store, run_id="own")
    async with Service({"it": rent_debate()}, store=store, model=model, recover=True) as following:
        await following.recover()
        assert (await following.wait("r")).status == "complete"
        assert model.calls == 6


async def _are_left(store: MemoryStore, number: int) -> bool:
    return len(await store.runs()) == number


async def test_inactive_runs_are_deleted_after_the_retention_period() -> None:
    """A run is deleted whatever its status, unless it is still running. Newer runs are kept."""
    store, model = MemoryStore(), FunctionModel(lambda request: "x")
    now = time.time()
    for name, days in (("old", 31), ("waits", 40), ("young", 29)):
        row = header(name, created_at=now - 86_400 * days)
        status: StoredStatus = "awaiting" if name == "waits" else "complete"
        await store.add(StoredRun(header=row, status=status, updated_at=row.created_at, steps=0), ())
    await store.create(header("in progress", created_at=now - 86_400 * 50))
    async with Service({"it": rent_debate()}, store=store, model=model, recover=True, keep_days=30) as service:
        await service.recover()
        await poll_until(lambda: _are_left(store, 2))
        assert {run.header.run_id for run in await store.runs()} == {"young", "in progress"}


async def test_readers_can_wait_for_a_run_before_its_recovery() -> None:
    """A reader who arrives before the recovery receives the remaining events rather than a premature end."""
    store = MemoryStore()
    for run_id in ("first", "second"):
        killed, model = MemoryStore(), Gate(at=2)
        async with Service({"it": rent_debate()}, store=killed, model=model, recover=True) as service:
            await service.begin("it", QUESTION, run_id=run_id)
            await model.reached.wait()
            await import_runs(store, [line async for line in export_run(killed, run_id)], trusted=True)
            model.opened.set()
    model = Gate(at=0)
    async with Service(
        {"it": rent_debate()}, store=store, model=model, recover=True, max_concurrency=1, poll=0.01
    ) as service:
        await service.recover()
        await model.reached.wait()
        (waiting,) = [run.run_id for run in (await service.runs(status="left_behind")).runs]
        reader = asyncio.ensure_future(read_updates(service.follow(waiting)))
        await asyncio.sleep(0.1)
        assert not reader.done()
        model.opened.set()
        assert [getattr(update.event, "status", None) for update in await reader][-2] == "complete"
        assert model.calls == 2 * 4


async def test_fork_reports_reused_and_new_calls() -> None:
    async with Service({"it": rent_debate()}, store="memory:", model=constant_model()) as service:
        plan = await service.begin("debate", "Should we ship?", options={"max_rounds": 1}, run_id="plan")
        await service.begin("it", QUESTION, run_id="own")
        await service.wait(plan.run_id)
        await service.wait("own")
        judged = await service.fork("plan", options={"schedule": "cyclic"}, fork_id="judged")
        finished = await service.wait(judged.run_id)
        assert finished.status == "complete"
        assert finished.fork is not None
        assert (finished.fork.parent, finished.fork.reused >= 2, finished.parent) == ("plan", True, "plan")
        place = "rent/round[2]/rent-turn-bob/rent-debater-bob"
        edited = await service.wait((await service.fork("own", edits={place: "I agree."})).run_id)
        assert edited.fork is not None
        assert (edited.fork.reused, edited.fork.edited, edited.fork.asked) == (3, (place,), 2)
        with pytest.raises(ConfigurationError):
            await service.fork("own", options={"max_rounds": 3})


async def test_fork_keeps_question_seed_and_models() -> None:
    """A fork can be given another seed or another model, but not another question."""
    calls = {"one": 0, "two": 0}

    def named_model(name: str) -> FunctionModel:
        def answer(request: ModelRequest) -> Any:
            calls[name] += 1
            return answer_to(request)

        model = FunctionModel(answer)
        model.name = name
        return model

    store = MemoryStore()
    options = {"max_rounds": 1, "synthesizer": False}
    async with Service(store=store, model=named_model("one")) as service:
        await service.begin("debate", "Should we ship?", options=options, run_id="run", seed=5)
        await service.wait("run")
        second = await service.wait((await service.fork("run", seed=6)).run_id)
        third = await service.wait((await service.fork(second.run_id)).run_id)
        assert (second.seed, third.seed) == (6, 6)
        with pytest.raises(ConfigurationError, match="cannot be changed: a fork keeps its run's question"):
            await service.fork("run", options={"question": "Should we wait?"})
        with pytest.raises(ConfigurationError, match="options: `max_rounds`"):
            await service.fork("run", options={"max_rounds": 0})
    assert calls == {"one": 4, "two": 0}
    async with Service(store=store, model=named_model("two")) as service:
        judged = await service.wait((await service.fork("run", options={"max_rounds": 1})).run_id)
    assert judged.fork is not None
    assert (judged.fork.reused, judged.fork.asked, calls["two"]) == (0, 4, 4)


async def test_run_is_resumed_and_forked_with_an_explicit_plan() -> None:
    store = MemoryStore()
    options = {"question": "Should we ship?", "max_rounds": 1}
    short, unlimited = (make_plan(DEBATE, {**options, "max_calls": number}) for number in (1, 9))
    async with Service(store=store, model=constant_model()) as service:
        run = await service.begin(short)
        assert (await service.wait(run.run_id)).status == "limit"
        fork = await service.wait((await service.fork(run.run_id, pattern=unlimited)).run_id)
        assert (fork.status, fork.parent) == ("complete", run.run_id)
        resumed = await service.resume(run.run_id, plan=unlimited)
        handle = service.handle(resumed.run_id)
        assert handle is not None
        assert (await handle).status == "complete"
        assert service.handle("nobody") is None


async def test_abandoned_run_is_not_awaited() -> None:
    store = MemoryStore()
    await store.create(header("r"))
    await store.release("r")
    async with Service({"it": rent_debate()}, store=store) as service:
        assert (await service.wait("r")).status == "left_behind"
        assert [update.kind for update in await read_updates(service.follow("r"))] == ["end"]


@pytest.mark.parametrize(
    ("pattern", "question", "options", "words"),
    [
        ("nothing", "Q?", {}, "must be it, debate"),
        ("it", "Q?", {"max_rounds": 1}, "registered"),
        ("it", " ", {}, "question.*not be blank"),
        ("debate", 5, {}, "question"),
        ("debate", "Should we ship?", {"roundz": 1}, "options"),
        ("debate", "Should we ship?", {"max_rounds": 0}, "max_rounds"),
        ("debate", "Which database?", {"humans": ["pro"]}, "define them with --debater"),
    ],
)
async def test_invalid_requests_are_rejected_before_anything_is_stored(
    pattern: str, question: Any, options: dict[str, Any], words: str
) -> None:
    async with Service({"it": rent_debate()}, store="memory:", model=constant_model()) as service:
        with pytest.raises(ConfigurationError, match=words):
            await service.begin(pattern, question, options=options)
        assert (await service.runs()).runs == ()


async def test_no_run_starts_if_proposing_sides_fails() -> None:
    async with Service(store="memory:", model=FunctionModel(lambda _: {"sides": []})) as service:
        with pytest.raises(SchemaViolation, match="sides"):
            await service.begin("debate", "Which database?")
        assert (await service.runs()).runs == ()


async def test_run_with_an_unknown_pattern_can_still_be_read() -> None:
    """The stored output can still be read, and readers are told that the run has ended."""
    store = MemoryStore()
    await rent_debate().run(QUESTION, model=constant_model(), store=store, run_id="r")
    async with Service(store=store) as service:
        run = await service.run("r")
        assert run.document is not None  # the output is stored nevertheless
        assert [update.kind for update in await read_updates(service.follow("r"))] == ["end"]


async def test_pages_together_list_every_run() -> None:
    async with Service({"it": rent_debate()}, store="memory:", model=constant_model(), max_concurrency=20) as service:
        for number in range(7):
            await service.begin("it", f"Question {number}?", run_id=f"r-{number}", labels={"even": str(number % 2)})
        names, before = [], None
        while True:
            page = await service.runs(limit=2, before=before, labels={"even": "0"}, pattern="it")
            names += [run.run_id for run in page.runs]
            before = page.next
            if before is None:
                break
        assert names == ["r-6", "r-4", "r-2", "r-0"]
        with pytest.raises(ConfigurationError, match="before"):
            await service.runs(before="x")
        for run in names:
            await service.wait(run)


@pytest.mark.parametrize("start_times", [(1e-05, 2e-05, 3e-05), (-3.5, -2.0, 0.0), (1e18, 1e300, 1.5e9)], ids=str)
async def test_pages_list_each_run_once_whatever_its_start_time(start_times: tuple[float, ...]) -> None:
    """Imported runs can have any start time."""
    store = MemoryStore()
    for number, created_at in enumerate(start_times):
        await store.create(header(f"run-{number}:a", created_at=created_at))
    async with Service(store=store) as service:
        times: list[float] = []
        before = None
        while not times or before is not None:
            page = await service.runs(limit=1, before=before)
            times += [run.created_at for run in page.runs]
            before = page.next
    assert times == sorted(start_times, reverse=True)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5), st.booleans()), max_size=30), st.integers(0, 30))
async def test_every_reader_gets_the_text_of_each_call_exactly_once(
    pieces: list[tuple[str, str, bool]], joins: int
) -> None:
    """Readers may be slow, and they may join in the middle of the text."""
    channel = Channel()
    readers = []
    for number, (path, text, pauses) in enumerate(pieces):
        if number == joins:
            readers.append(asyncio.ensure_future(read_updates(channel.read())))
            await asyncio.sleep(0)
        channel.publish(TextDelta(block="b", text=text, path=path))
        if pauses:
            await asyncio.sleep(0)
    if not readers:
        readers.append(asyncio.ensure_future(read_updates(channel.read())))
        await asyncio.sleep(0)
    for path in "abc":
        channel.publish(ModelCalled(block="b", model="m", usage=None, seconds=0.0, path=path))  # type: ignore[arg-type]
    channel.end()
    (updates,) = await asyncio.gather(*readers)
    for path in "abc":
        full_text = "".join(text for place, text, _ in pieces if place == path)
        received = [update for update in updates if update.kind == "text" and update.event.path == path]
        assert "".join(update.event.text for update in received) == full_text
        assert [update.start for update in received] == [
            sum(len(before.event.text) for before in received[:number]) for number in range(len(received))
        ]
