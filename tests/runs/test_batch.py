"""Batches of runs of one block: each question is answered once, despite failures and interruptions."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdebate import DebateInput, Debater, Limits, Price, debate, handler
from flowdebate.errors import ConfigurationError, ProviderFailed, RunChanged, RunExists, StoreError
from flowdebate.models.base import Usage
from flowdebate.runs.batch import BatchSummary, seed_of_item
from flowdebate.runs.header import StoreOptions
from flowdebate.store.memory import MemoryStore
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing import FunctionModel
from tests.profiles import example_count
from tests.runs.durable.patterns import PATTERNS, answer_to
from tests.runs.durable.test_resume import result_without_times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.batch import Batch
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio

LAW = settings(max_examples=example_count(25), suppress_health_check=list(HealthCheck))
SIDES = [Debater("ann", "for"), Debater("bob", "against")]


def batch_tasks() -> list[asyncio.Task[Any]]:
    """Return the asyncio tasks on this loop that execute batches."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "flowdebate batch"]


def short_debate(**more: Any) -> Any:
    """Return a debate with three calls."""
    return debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, **more)


class Paid:
    """A model that records its answers and cancels a task at a chosen call."""

    def __init__(self, *, failing: float = 0.0, stop: int | None = None) -> None:
        self.answered: list[str] = []
        self.task: asyncio.Task[Any] | None = None
        self._asked = 0
        self._failing = failing
        self._stop = stop
        self.model = FunctionModel(self._answer)

    async def _answer(self, request: ModelRequest) -> Any:
        self._asked += 1
        if self._asked == self._stop:
            assert self.task is not None
            self.task.cancel()
        await asyncio.sleep(0)
        answer = answer_to(request, failing=self._failing)
        self.answered.append(str([request.block, request.messages]))
        return answer


@dataclass
class Busy:
    """A function block that counts its concurrent calls and makes some of them fail after a few loop iterations."""

    failing: frozenset[int] = frozenset()
    turns: tuple[int, ...] = (0,)
    now: int = 0
    peak: int = 0

    async def __call__(self, question: int, ctx: Context) -> int:
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            for _ in range(self.turns[question % len(self.turns)]):
                await asyncio.sleep(0)
            if question in self.failing:
                raise ValueError(question)
            return -question
        finally:
            self.now -= 1


@LAW
@given(
    count=st.integers(0, 12),
    concurrency=st.integers(1, 5),
    failing=st.frozensets(st.integers(0, 11)),
    turns=st.lists(st.sampled_from([0, 1, 2, 3, 30]), min_size=1, max_size=5).map(tuple),
    lazily=st.booleans(),
)
async def test_batch_has_one_item_per_question_and_limits_concurrency(
    count: int,
    concurrency: int,
    failing: frozenset[int],
    turns: tuple[int, ...],
    lazily: bool,  # noqa: FBT001 - drawn
) -> None:
    busy = Busy(failing, turns)
    questions = iter(range(count)) if lazily else range(count)
    result = await handler(busy, name="busy").batch(questions, max_concurrency=concurrency).all()
    assert [(item.index, item.row, item.question) for item in result] == [(n, n, n) for n in range(count)]
    assert [item.output for item in result] == [None if n in failing else -n for n in range(count)]
    assert {item.index for item in result.failed} == {n for n in range(count) if n in failing}
    assert all(isinstance(item.error, ValueError) and item.status == "failed" for item in result.failed)
    assert busy.peak <= concurrency
    assert busy.peak == min(concurrency, count) or min(turns) < 30
    summary = result.summary
    assert (summary.done, summary.failed, summary.running) == (count, len(result.failed), 0)
    assert summary.total == (None if lazily else count)
    assert batch_tasks() == []


@LAW
@given(
    cuts=st.lists(st.integers(1, 30), max_size=3),
    failing=st.sampled_from([0.0, 0.1, 0.3]),
    concurrency=st.integers(1, 4),
    name=st.sampled_from(["debate", "moderated", "deliberation", "handoff", "round_robin"]),
)
async def test_interrupted_batch_pays_for_each_answer_once(
    cuts: list[int], failing: float, concurrency: int, name: str
) -> None:
    pattern, questions = PATTERNS[name](), [f"Question {number}?" for number in range(4)]
    full = Paid(failing=failing)
    undisturbed = await pattern.batch(questions, model=full.model, batch_id="b").all()
    store = MemoryStore()
    answered: list[str] = []
    ended: Any = None
    for stop in [*cuts, None]:
        paid = Paid(failing=failing, stop=stop)
        batch = pattern.batch(questions, model=paid.model, batch_id="b", store=store, max_concurrency=concurrency)
        paid.task = asyncio.ensure_future(batch.all())
        await asyncio.wait({paid.task})
        ended = paid.task
        answered += paid.answered
        assert not any(run.owned for run in await store.runs())
        assert batch_tasks() == []
    assert [item_outcome(item) for item in ended.result()] == [item_outcome(item) for item in undisturbed]
    assert sorted(answered) == sorted(full.answered)


def item_outcome(item: Any) -> Any:
    """Return the result of an item without its times."""
    return result_without_times(item.result) if item.error is None else [type(item.error), str(item.error)]


@settings(LAW, max_examples=example_count(10))
@given(turns=st.lists(st.integers(0, 60), min_size=1, max_size=3))
async def test_interrupted_batch_releases_its_runs(tmp_path_factory: pytest.TempPathFactory, turns: list[int]) -> None:
    """If a batch is cancelled while it starts or resumes runs, the same process can still continue all of its runs."""
    store = SqliteStore(tmp_path_factory.mktemp("kept") / "runs.sqlite3")
    paid = Paid()
    for wait in turns:
        task = asyncio.ensure_future(short_debate().batch(list("abcd"), **stored_batch(store), model=paid.model).all())
        for _ in range(wait):
            await asyncio.sleep(0.0002)
        task.cancel()
        await asyncio.wait({task})
    result = await short_debate().batch(["a", "b", "c", "d"], **stored_batch(store), model=paid.model).all()
    assert (result.failed, len(paid.answered)) == ([], 12)
    await store.close()


def stored_batch(store: Any) -> dict[str, Any]:
    """Return the options of a stored batch with the id "b", whose questions are single letters."""
    return {"store": store, "batch_id": "b"}


async def test_complete_items_are_returned_without_a_call() -> None:
    store, paid = MemoryStore(), Paid()
    first = await short_debate().batch(["a", "b"], **stored_batch(store), model=paid.model).all()
    repeat = await short_debate().batch(["a", "b", "c"], **stored_batch(store), model=paid.model).all()
    assert len(paid.answered) == 9
    assert [item.replayed for item in repeat] == [True, True, False]
    assert [item_outcome(item) for item in repeat[:2]] == [item_outcome(item) for item in first]
    assert (repeat.summary.replayed, repeat.summary.usage.calls) == (2, 9)
    runs = {run.header.run_id: run for run in await store.runs(labels={"batch": "b"})}
    assert set(runs) == {"b-0", "b-1", "b-2"}
    assert [runs[item.run_id].header.seed for item in repeat] == [item.seed for item in repeat]


async def test_batch_result_can_be_converted_to_rows() -> None:
    questions = [{"question": "Rents?", "town": "Graz", "seed": "mine"}, {"question": "Buses?", "town": "Linz"}]

    def answer(request: ModelRequest) -> Any:
        if "Buses" in str(request.messages):
            message = "down"
            raise ProviderFailed(message, transient=False)
        return answer_to(request)

    result = (
        await short_debate().batch(questions, question=lambda row: row["question"], model=FunctionModel(answer)).all()
    )
    rows = result.to_rows()
    assert json.loads(json.dumps(rows)) == rows
    assert [(row["town"], row["status"], row["error"], row["calls"]) for row in rows] == [
        ("Graz", "complete", "", 3),
        ("Linz", "failed", "ProviderFailed", 1),
    ]
    assert rows[0]["seed"] == "mine"
    assert sum(row["decision"] is not None for row in rows) == sum(result.summary.decisions.values())
    assert await handler(lambda _: object(), name="odd").batch(["?"]).all()


async def test_failed_items_are_retried() -> None:
    """Only the failed call is retried, and all other answers are kept."""
    store, down, up = MemoryStore(), Paid(failing=1.0), Paid()
    failed = await short_debate().batch(["a", "b"], **stored_batch(store), model=down.model).all()
    assert failed.summary.failures == {"ProviderFailed": 2}
    assert isinstance(failed[0].error, ProviderFailed)
    assert failed[0].run is not None
    assert failed[0].run.status == "failed"
    with pytest.raises(ProviderFailed):
        failed[0].unwrap()
    result = await short_debate().batch(["a", "b"], **stored_batch(store), model=up.model).all()
    assert result.summary.statuses == {"complete": 2}
    assert result[1].unwrap().output == result[1].output
    assert len(up.answered) == 6


@pytest.mark.parametrize("make", [list, iter])
async def test_changed_question_is_an_error(make: Any) -> None:
    """Questions in a list are all checked before any call is made; those from an iterator are checked one by one."""
    store, paid = MemoryStore(), Paid()
    await short_debate().batch(["a", "b"], **stored_batch(store), model=paid.model).all()
    changed = ["a", "B", "c"]
    with pytest.raises(RunChanged) as caught:
        await short_debate().batch(make(changed), **stored_batch(store), model=paid.model).all()
    assert caught.value.differences == {"question": ("-b", "+B")}
    assert caught.value.run_id == "b-1"
    assert len(paid.answered) == 6 or make is iter
    assert not any(run.owned for run in await store.runs())


async def test_changed_pattern_or_seed_is_an_error_by_default() -> None:
    """All items in a batch must have the same configuration, and the seed can never be changed."""
    store, paid = MemoryStore(), Paid()
    await short_debate().batch(["a"], **stored_batch(store), model=paid.model).all()
    longer = debate(name="rent", debaters=SIDES, max_rounds=2, synthesizer=False)
    with pytest.raises(RunChanged, match="outline"):
        await longer.batch(["a", "b"], **stored_batch(store), model=paid.model).all()
    with pytest.raises(RunChanged, match="seed"):
        await short_debate().batch(["a", "b"], **stored_batch(store), model=paid.model, seed=1).all()
    assert len(paid.answered) == 3
    result = await longer.batch(["a"], **stored_batch(store), model=paid.model, allow_changes=True).all()
    assert result.summary.done == 1


async def test_id_used_by_a_run_outside_the_batch_is_rejected() -> None:
    store, paid = MemoryStore(), Paid()
    seed = (await short_debate().batch(["a"], batch_id="b", model=paid.model).all())[0].seed
    await short_debate().run("a", store=store, run_id="b-0", seed=seed, model=paid.model)
    with pytest.raises(RunChanged) as caught:
        await short_debate().batch(["a"], **stored_batch(store), model=paid.model).all()
    assert caught.value.differences == {"batch": ("+b",)}


async def test_run_started_by_another_process_is_resumed() -> None:
    """A complete run is returned.

    If another process is still executing the run, the item fails.
    """
    store, paid = MemoryStore(), Paid()
    late = short_debate().batch(
        gated_questions(["a", "b"], gate := asyncio.Event()), **stored_batch(store), model=paid.model
    )
    task = asyncio.ensure_future(late.all())
    await asyncio.sleep(0)
    await short_debate().batch(["a", "b"], **stored_batch(store), model=paid.model).all()
    await store.take("b-1")
    gate.set()
    result = await task
    assert [item.status for item in result] == ["complete", "failed"]
    assert isinstance(result[1].error, StoreError)
    assert len(paid.answered) == 6


async def gated_questions(questions: list[str], gate: asyncio.Event) -> AsyncIterator[str]:
    """Yield the questions once the gate is open."""
    await gate.wait()
    for question in questions:
        yield question


async def test_repeating_a_batch_gives_the_same_seeds() -> None:
    """The batch's seed is derived from the batch id, and each item's seed from the batch's seed.

    A single item can be repeated as an ordinary run by passing its seed.
    """
    paid = Paid()
    by_id = await short_debate().batch(["a", "b"], batch_id="b", model=paid.model).all()
    repeat = await short_debate().batch(["a", "b"], batch_id="b", model=paid.model).all()
    by_seed = await short_debate().batch(["a", "b"], seed=7, model=paid.model).all()
    drawn = await short_debate().batch(["a", "b"], model=paid.model).all()
    assert [item.seed for item in by_id] == [item.seed for item in repeat]
    assert [item.seed for item in by_seed] == [seed_of_item(7, 0), seed_of_item(7, 1)]
    assert len({item.seed for result in (by_id, by_seed, drawn) for item in result}) == 6
    alone = await short_debate().run("b", seed=by_id[1].seed, model=paid.model)
    assert result_without_times(alone) == result_without_times(by_id[1].unwrap())


async def test_questions_are_read_only_as_needed() -> None:
    """The iterator may be endless.

    Even if the reader is slow, only a limited number of items may be running or unread at any time.
    """
    pulled = 0

    def endless() -> Iterator[int]:
        nonlocal pulled
        for number in itertools.count():
            pulled += 1
            yield number

    async with handler(Busy(), name="busy").batch(endless(), max_concurrency=3) as batch:
        read = 0
        async for _ in batch:
            read += 1
            for _ in range(20):
                await asyncio.sleep(0)
            assert pulled <= read + 2 * 3
            if read == 10:
                break
    assert pulled <= 16
    assert batch.summary.total is None
    assert batch.summary.remaining is None


async def test_leaving_a_batch_early_ends_it() -> None:
    """After `break`, no call continues, and all runs are stored as interrupted.

    Garbage collection has the same effect.
    """
    store = MemoryStore()
    hanging = asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        if "Left early" in str(request.messages) and request.block.endswith("bob"):
            hanging.set()
            await asyncio.Event().wait()
        return answer_to(request)

    async for item in short_debate().batch(
        ["a", "Left early?", "Left early!"], **stored_batch(store), model=FunctionModel(answer)
    ):
        assert item.index == 0
        await hanging.wait()
        break
    await asyncio.wait(batch_tasks())
    await asyncio.sleep(0)
    assert {run.header.run_id: run.status for run in await store.runs()} == {
        "b-0": "complete",
        "b-1": "interrupted",
        "b-2": "interrupted",
    }


async def test_error_in_the_question_iterator_is_raised() -> None:
    busy = Busy(turns=(0, 1000))

    def broken() -> Iterator[int]:
        yield from (0, 1)
        raise LookupError

    items = aiter(handler(busy, name="busy").batch(broken()))
    read = [(await anext(items)).index]
    with pytest.raises(LookupError):
        await anext(items)
    assert (read, busy.now) == ([0], 0)


async def test_on_error_raise_ends_the_batch_at_the_first_failure() -> None:
    """The failure is raised with a note, and the remaining runs can be resumed."""
    busy = Busy(failing=frozenset({1}), turns=(1000, 2))
    with pytest.raises(ValueError, match="1") as caught:
        await handler(busy, name="busy").batch(range(4), on_error="raise", batch_id="b").all()
    assert caught.value.__notes__[-1] == "in run b-1, question 1 of the batch"
    assert busy.now == 0


async def test_run_that_cancels_itself_still_yields_an_item() -> None:
    def give_up(question: int, ctx: Context) -> int:
        if question == 1:
            raise asyncio.CancelledError
        return question

    result = await handler(give_up, name="gives up").batch(range(3)).all()
    assert [item.status for item in result] == ["complete", "interrupted", "complete"]
    assert isinstance(result[1].error, asyncio.CancelledError)


async def test_question_that_cannot_be_stored_becomes_a_failed_item() -> None:
    result = await handler(lambda value, ctx: None, name="any").batch([1, object()], store=MemoryStore()).all()
    assert [item.status for item in result] == ["complete", "failed"]
    assert isinstance(result[1].error, ConfigurationError)
    assert (result[1].run, result[1].raw) == (None, None)


async def test_conflicting_run_id_becomes_a_failed_item() -> None:
    def clash(question: str, ctx: Context) -> None:
        raise RunExists("elsewhere", "another")

    result = await handler(clash, name="clashes").batch(["a"], store=MemoryStore()).all()
    assert result.summary.failures == {"RunExists": 1}


async def test_closing_waits_for_slow_cleanup_despite_cancellation() -> None:
    """Closing must not abandon a block that is still cleaning up after its cancellation."""
    started, cleaned, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def tidy(question: int, ctx: Context) -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            cleaned.set()

    task = asyncio.ensure_future(handler(tidy, name="tidy").batch([1]).all())
    await started.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()


async def test_closing_a_batch_ends_it_for_its_reader() -> None:
    """A batch must end if one of its workers is cancelled from outside, since that worker's item will never arrive."""
    started = asyncio.Event()

    async def hang(question: int, ctx: Context) -> None:
        started.set()
        await asyncio.Event().wait()

    batch: Batch[None] = handler(hang, name="hangs").batch(range(3))
    await batch.aclose()
    reading = asyncio.ensure_future(batch.all())
    await started.wait()
    await batch.aclose()
    assert list(await reading) == []
    started.clear()
    second = asyncio.ensure_future(handler(hang, name="hangs").batch(range(3)).all())
    await started.wait()
    batch_tasks()[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert batch_tasks() == []


async def test_batch_can_be_iterated_only_once() -> None:
    batch = handler(Busy(), name="busy").batch(range(2))
    await batch.all()
    with pytest.raises(ConfigurationError, match="possible only once"):
        await batch.all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"questions": "Cap rents?"}, "`questions` must be an iterable"),
        ({"questions": 3}, "`questions` must be an iterable"),
        ({"questions": {"question": "a"}}, "`questions` must be an iterable"),
        ({"questions": DebateInput(question="a")}, "`questions` must be an iterable"),
        ({"max_concurrency": 0}, "`max_concurrency` must be at least 1 \\(got 0\\)"),
        ({"max_concurrency": True}, "`max_concurrency` must be a whole number of at least 1 \\(got true\\)"),
        ({"batch_id": " "}, "`batch_id` must not be blank"),
        ({"on_error": "ignore"}, "`on_error` must be collect or raise"),
        ({"on_uncertain": "maybe"}, "`on_uncertain` must be retry or raise"),
        ({"seed": 1.5}, "`seed` must be"),
        ({"limits": 3}, "`limits` must be"),
        ({"store": 3}, "`store` must be"),
    ],
)
def test_invalid_options_are_rejected_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        short_debate().batch(**{"questions": ["a"], **wrong})


async def test_batch_rows_keep_their_fields_and_runs_get_labels() -> None:
    """The question is extracted from each row by the function passed as `question`.

    Labels in `StoreOptions` are added to the runs.
    """
    store, paid = MemoryStore(), Paid()
    rows = [{"id": "x", "ask": "a"}, {"id": "y", "ask": "b"}]
    keeping = StoreOptions(store=store, labels={"of": "me"})
    batch = short_debate().batch(rows, question=lambda row: row["ask"], store=keeping, model=paid.model)
    result = await batch.all()
    assert [(item.row["id"], item.question) for item in result] == [("x", "a"), ("y", "b")]
    runs = await store.runs()
    assert all(run.header.labels == {"of": "me", "batch": batch.batch_id} for run in runs)


async def test_environment_selects_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOWDEBATE_STORE", "memory:")
    paid = Paid()
    batch = short_debate().batch(["a"], model=paid.model)
    assert (await batch.all()).summary.statuses == {"complete": 1}
    assert (await short_debate().batch(["a"], model=paid.model, store=False).all())[0].run_id.endswith("-0")
    monkeypatch.setenv("FLOWDEBATE_STORE", "")
    assert len(await short_debate().batch(["a"], model=paid.model).all()) == 1


async def test_progress_is_reported_per_run_and_the_batch_can_end_early() -> None:
    """Once `until` returns true, no more questions are read, but runs already in progress are completed."""
    told_of: list[BatchSummary] = []
    paid = Paid()
    batch = short_debate().batch(
        ["a", "b", "c", "d"],
        model=paid.model,
        max_concurrency=1,
        progress=told_of.append,
        until=lambda summary: summary.usage.calls >= 6,
        limits=Limits(prices=lambda model, usage: 0.5),
    )
    result = await batch.all()
    assert [summary.done for summary in told_of] == [1, 2]
    assert (len(result), result.summary.total, result.summary.usage.calls) == (2, 4, 6)
    assert result.summary.cost == pytest.approx(3.0)


async def test_summary_includes_runs_in_progress() -> None:
    summaries: list[BatchSummary] = []

    async def answer(request: ModelRequest) -> Any:
        summaries.append(batch.summary)
        return answer_to(request)

    prices = {"function": Price(prompt=1, completion=1)}
    batch = short_debate().batch(["a"], model=FunctionModel(answer), limits=Limits(prices=prices))
    assert batch.summary.seconds == 0.0
    await batch.all()
    assert [(summary.running, summary.usage.calls) for summary in summaries] == [(1, 0), (1, 1), (1, 2)]
    assert all(summary.cost is not None for summary in summaries)


async def test_batch_summary_counts_outcomes() -> None:
    """Debates are counted by winner, deliberations by settlement, and consensuses by proposer.

    Other patterns are not counted.
    """
    counted = {}
    for name, make in PATTERNS.items():
        result = await make().batch([f"{number}?" for number in range(6)], model=Paid().model, batch_id="b").all()
        assert sum(result.summary.decisions.values()) in (0, 6)
        counted[name] = set(result.summary.decisions)
    assert counted["debate"] <= {"ann", "bob"}
    assert counted["deliberation"] <= {"settled", "not settled"}
    assert counted["consensus"] <= {"ann", "bob", "cy", "no consensus"}
    assert counted["handoff"] == counted["round_robin"] == set()
    nobody = FunctionModel(
        lambda request: {"reasoning": "r", "winner": None, "verdict": "v"} if request.output_schema else "An argument."
    )
    assert (await short_debate().batch(["a"], model=nobody).all()).summary.decisions == {"no winner": 1}


def test_summary_estimates_the_remaining_time() -> None:
    """The estimate is based on the rate of newly finished runs and is `None` until one has finished."""
    summary = BatchSummary(total=10, done=6, replayed=2, seconds=8.0)
    assert (summary.rate, summary.remaining) == (0.5, 8.0)
    assert BatchSummary(total=10, done=2, replayed=2, seconds=8.0).remaining is None
    assert BatchSummary(total=2, done=2, replayed=2, seconds=8.0).remaining == 0.0
    assert (BatchSummary(total=None).rate, BatchSummary(total=3).usage) == (0.0, Usage.zero())


def test_batch_sync_needs_no_running_event_loop() -> None:
    result = handler(Busy(), name="busy").batch_sync(range(3), max_concurrency=2)
    assert ([item.output for item in result], len(result), result[0].index) == ([0, -1, -2], 3, 0)
    assert repr(result) == "<BatchResult of 3, 0 failed>"
