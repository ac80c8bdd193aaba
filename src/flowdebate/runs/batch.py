"""Batches: run one block on many questions with bounded concurrency, never paying for a run twice.

The worker pool in this module knows nothing about runs: it executes jobs concurrently, staying only slightly ahead of
its reader.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Generic, Literal, Self, SupportsIndex, TypeAlias, overload

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from flowdebate._text import add_note, pickles
from flowdebate._util.cancellation import wait_uncancelled
from flowdebate._util.importing import InNotebooks
from flowdebate._util.validation import check_choice, check_count, check_text
from flowdebate.errors import ConfigurationError, RunChanged, RunExists
from flowdebate.models.base import Usage
from flowdebate.models.resolve import ModelChoice, ModelSpec, choose_model
from flowdebate.runs.durable.resume import load_run
from flowdebate.runs.events import RunStatus
from flowdebate.runs.execute import CommonOptions, Runnable, make_run, run_block
from flowdebate.runs.header import StoreOptions, changes_of, check_unchanged
from flowdebate.runs.journal import OnUncertain
from flowdebate.runs.limits import Limits
from flowdebate.runs.observer import Observer
from flowdebate.runs.result import RunResult, RunView
from flowdebate.runs.run import Run
from flowdebate.store.base import COMPLETE, StoredRun
from flowdebate.store.open import STORE_VARIABLE, StoreChoice, open_store

OutT = TypeVar("OutT")
RawT = TypeVar("RawT", default=Any)

OnError: TypeAlias = Literal["collect", "raise"]
"""Policy for failed runs in a batch."""


class BatchControls(CommonOptions, total=False):
    """Options shared by all kinds of batches."""

    max_concurrency: int
    """Maximum number of concurrent runs; the default is 8."""
    store: StoreChoice | StoreOptions
    on_error: OnError
    progress: Callable[[BatchSummary], object] | None
    """Callback that receives the summary after each run."""
    until: Callable[[BatchSummary], bool] | None
    """Predicate called with the summary; once it returns True, no more questions are read."""
    on_uncertain: OnUncertain
    allow_changes: bool


class BatchOptions(BatchControls, total=False):
    """Options for `Block.batch()`."""

    question: Callable[[Any], Any] | None
    """Function that extracts the question from a row."""
    seed: int | None
    batch_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem(Generic[OutT, RawT]):
    """Outcome for one question: either `result` or `error` is set, and the other is None."""

    index: int
    """Index of the question in the batch, starting at 0."""
    row: Any
    """The original row, as passed to the batch."""
    question: Any
    """The run's question: the row itself, or the value extracted from it by `question=`."""
    run_id: str
    seed: int
    status: RunStatus
    """Status of the run; "failed" if it could not even start."""
    result: RunResult[OutT, RawT] | None = None
    error: BaseException | None = None
    """Error that ended the run."""
    run: RunView | None = None
    """The run with its transcript, events and usage, even if it failed; None if no run was created."""
    replayed: bool = False
    """True if the run was already complete in the store and therefore cost nothing."""

    @property
    def output(self) -> OutT | None:
        """The block's output; None if the run failed."""
        return None if self.result is None else self.result.output

    @property
    def raw(self) -> Any:  # noqa: ANN401 - each pattern has a raw output of its own type
        """The pattern's raw output, even if the run failed; None if there is none."""
        return None if self.run is None else self.run.raw

    def to_row(self) -> dict[str, Any]:
        """Convert the item to one flat row: the question, the outcome, and, if the row is a mapping, its columns.

        `decision` is computed as in the summary, and is None for patterns without a decision; `output` is text or JSON
        data. Tokens and seconds are None if unknown. If names clash, the original row's columns take precedence.
        """
        usage = Usage.unknown() if self.run is None else self.run.usage
        row_values: dict[str, Any] = {
            "index": self.index,
            "question": self.question,
            "run_id": self.run_id,
            "seed": self.seed,
            "status": self.status,
            "decision": getattr(self.raw, "decision_word", None),
            "output": to_jsonable_python(self.output, fallback=str),
            # An empty string rather than None, because polars needs a type for each column.
            "error": "" if self.error is None else type(self.error).__name__,
            "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "seconds": None if self.run is None else self.run.seconds,
            "replayed": self.replayed,
        }
        return {**row_values, **self.row} if isinstance(self.row, Mapping) else row_values

    def unwrap(self) -> RunResult[OutT, RawT]:
        """Return the result, or raise the item's error."""
        if self.result is None:
            assert self.error is not None  # noqa: S101 - one of them is set
            raise self.error
        return self.result


class BatchResult(InNotebooks, Sequence[BatchItem[OutT, RawT]]):
    """All items in a batch, in question order, and the batch's summary."""

    def __init__(self, items: Sequence[BatchItem[OutT, RawT]], summary: BatchSummary) -> None:
        self._items = tuple(items)
        self.summary = summary

    @property
    def failed(self) -> list[BatchItem[OutT, RawT]]:
        """Items whose runs failed."""
        return [item for item in self._items if item.error is not None]

    def to_rows(self) -> list[dict[str, Any]]:
        """Convert each item to one flat row, for `csv.DictWriter`, `pandas.DataFrame` or `polars.DataFrame`.

        >>> from flowdebate import handler
        >>> result = handler(str.upper, name="shout").batch_sync(["rents"], batch_id="b")
        >>> {key: result.to_rows()[0][key] for key in ("index", "question", "status", "output")}
        {'index': 0, 'question': 'rents', 'status': 'complete', 'output': 'RENTS'}
        """
        return [item.to_row() for item in self]

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> BatchItem[OutT, RawT]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[BatchItem[OutT, RawT]]: ...
    def __getitem__(self, index: int | slice) -> BatchItem[OutT, RawT] | Sequence[BatchItem[OutT, RawT]]:
        return self._items[index]

    def __repr__(self) -> str:
        return f"<BatchResult of {len(self)}, {len(self.failed)} failed>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        if not pickles(vars(self)):
            raise TypeError(
                "this BatchResult cannot be copied or pickled, because its runs contain objects that cannot be "
                "pickled. Use its to_rows(), or run the batch with a store"
            )
        return super().__reduce_ex__(protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """Counts for a running or finished batch."""

    total: int | None
    """Number of questions; None if it is not known in advance."""
    done: int = 0
    """Number of finished runs, whatever their status."""
    running: int = 0
    """Number of runs in progress."""
    replayed: int = 0
    """Number of runs in `done` that were already complete in the store."""
    statuses: Mapping[RunStatus, int] = field(default_factory=dict)
    decisions: Mapping[str, int] = field(default_factory=dict)
    """Number of runs that reached each decision (`decision_word` of the raw output); empty without decisions."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Number of failed runs for each error class."""
    usage: Usage = Usage.zero()  # noqa: RUF009 - a frozen value
    """Calls made and tokens used by all runs, including runs in progress and replayed answers."""
    cost: float | None = None
    """Cost based on the `prices` in the limits or on the built-in prices; None if the prices are unknown."""
    prices: str | None = None
    """Currency of `cost` and source of the prices, as far as they are known; None if neither is known."""
    seconds: float = 0.0
    """Seconds since the first question was read."""

    @property
    def failed(self) -> int:
        """Number of runs that ended with an error."""
        return sum(self.failures.values())

    @property
    def rate(self) -> float:
        """Number of runs per second, excluding runs replayed from the store, which take no time."""
        return (self.done - self.replayed) / self.seconds if self.seconds else 0.0

    @property
    def remaining(self) -> float | None:
        """Estimated time in seconds until all runs are done; None if there is no estimate yet."""
        if self.total is None or not (self.rate or self.done == self.total):
            return None
        return 0.0 if self.done == self.total else (self.total - self.done) / self.rate


class BatchTally:
    """Running counts for one batch."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._began: float | None = None
        self._ended: float | None = None
        self._done = self._replayed = 0
        self._statuses: Counter[RunStatus] = Counter()
        self._decisions: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._usage = Usage.zero()
        self._cost: float | None = None
        self._prices: str | None = None

    def begin(self) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """Stop the clock."""
        if self._ended is None:
            self._ended = time.perf_counter()

    def add(self, item: BatchItem[Any]) -> None:
        """Count a finished run."""
        self._done += 1
        self._replayed += item.replayed
        self._statuses[item.status] += 1
        if item.error is not None:
            self._failures[type(item.error).__name__] += 1
        elif (decision := getattr(item.raw, "decision_word", None)) is not None:
            self._decisions[decision] += 1
        if item.run is not None:
            self._usage += item.run.usage
            self._cost = _sum(self._cost, item.run.cost)
            self._prices = item.run.prices or self._prices

    def summary(self, in_progress: Iterable[RunView]) -> BatchSummary:
        """Return the counts so far, including the runs in progress."""
        running = list(in_progress)
        usage, cost, prices = self._usage, self._cost, self._prices
        for run in running:
            usage += run.usage
            cost, prices = _sum(cost, run.cost), run.prices or prices
        return BatchSummary(
            total=self._total,
            done=self._done,
            running=len(running),
            replayed=self._replayed,
            statuses=dict(self._statuses),
            decisions=dict(self._decisions.most_common()),
            failures=dict(self._failures.most_common()),
            usage=usage,
            cost=cost,
            prices=prices,
            seconds=0.0 if self._began is None else (self._ended or time.perf_counter()) - self._began,
        )


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


BATCH_LABEL = "batch"
"""Label under which each run stores the id of its batch."""

JobT = TypeVar("JobT")
DoneT = TypeVar("DoneT")
Questions = Iterable[Any] | AsyncIterable[Any]


@dataclass(frozen=True, slots=True)
class _Job:
    """A question in the batch."""

    index: int
    row: object
    question: object
    run_id: str
    seed: int
    block: Runnable[Any]
    plan: Mapping[str, Any] | None


class Batch(Generic[OutT, RawT]):
    """Runs of one block on many questions: iterate to get items as they complete, or await `all()`.

    Batches are created by `Block.batch` and can be consumed only once. If the block and the stored plan depend on the
    row, `each` returns both for a given row. Leaving the iteration early (by `break`, an error, or a cancellation)
    cancels the remaining runs; `async with` also waits until they have ended.
    """

    def __init__(  # noqa: PLR0913 - the options of Block.batch
        self,
        block: Runnable[OutT],
        questions: Questions,
        *,
        question: Callable[[Any], Any] | None = None,
        max_concurrency: int = 8,
        store: StoreChoice | StoreOptions = None,
        model: ModelChoice = None,
        override_model: ModelSpec | None = None,
        seed: int | None = None,
        limits: Limits | None = None,
        batch_id: str | None = None,
        on_error: OnError = "collect",
        progress: Callable[[BatchSummary], object] | None = None,
        until: Callable[[BatchSummary], bool] | None = None,
        on_uncertain: OnUncertain = "retry",
        allow_changes: bool = False,
        observe: Observer | None = None,
        plan_item: Callable[[Any], tuple[Runnable[OutT], Mapping[str, Any] | None]] | None = None,
    ) -> None:
        _check(f"{block.name}.batch()", questions, max_concurrency, batch_id, on_error, on_uncertain)
        self.batch_id: str = os.urandom(8).hex() if batch_id is None else batch_id
        """Prefix of the run ids; passing it again resumes the batch."""
        self.seed: int = _derive_number(self.batch_id) if seed is None else seed
        """Seed from which the runs' seeds are derived."""
        self._block = block
        self._questions = questions
        self._question = question
        self._each = plan_item
        self._max_concurrency = max_concurrency
        model = choose_model(model, override_model)
        self._common: CommonOptions = {"model": model, "limits": limits, "observe": observe}
        self._raises = on_error == "raise"
        self._progress = progress
        self._until = until
        self._on_uncertain = on_uncertain
        self._allow_changes = allow_changes
        self._options = _store_options(store, self.batch_id, f"{block.name}.batch()")
        # Raise errors about options here rather than once per item in the batch.
        make_run(block, None, seed=seed, store=self._options or False, **self._common)
        self._store = None if self._options is None else open_store(self._options.store)
        self._stored: dict[str, StoredRun] = {}
        """The batch's stored runs as last read, keyed by id."""
        self._tally = BatchTally(len(questions) if isinstance(questions, Sized) else None)
        self._in_progress: dict[int, RunView] = {}
        self._pool: WorkerPool[_Job, BatchItem[OutT, RawT]] | None = None

    @property
    def summary(self) -> BatchSummary:
        """Current counts for the batch; final once the batch has ended."""
        return self._tally.summary(self._in_progress.values())

    async def all(self) -> BatchResult[OutT, RawT]:
        """Wait for all runs, and return their items in question order along with a summary."""
        items = [item async for item in self]
        return BatchResult(sorted(items, key=lambda item: item.index), self.summary)

    async def __aiter__(self) -> AsyncGenerator[BatchItem[OutT, RawT]]:
        if self._pool is not None:
            raise ConfigurationError(f"{self._block.name}.batch()", "iteration", None, "is possible only once")
        self._pool = WorkerPool(self._make_jobs(), self._run_job, size=self._max_concurrency)
        from flowdebate.models.openai.clients import keep_connections

        self._tally.begin()
        results = self._pool.results()
        async with keep_connections():
            try:
                await self._read_stored()
                async for item in results:
                    yield item
            finally:
                await results.aclose()
                await self.aclose()

    async def aclose(self) -> None:
        """Cancel the remaining runs, and wait until they have ended."""
        if self._pool is not None:
            await self._pool.end()
        self._tally.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # Questions

    async def _make_jobs(self) -> AsyncGenerator[_Job]:
        index = 0
        async for row in _iterate(self._questions):
            if self._until is not None and self._until(self.summary):
                return
            yield self._make_job(index, row)
            index += 1

    def _make_job(self, index: int, row: object) -> _Job:
        question = row if self._question is None else self._question(row)
        block, plan = (self._block, None) if self._each is None else self._each(row)
        return _Job(index, row, question, self._run_id(index), seed_of_item(self.seed, index), block, plan)

    def _run_id(self, index: int) -> str:
        return f"{self.batch_id}-{index}"

    # Stored runs

    async def _read_stored(self) -> None:
        """Read the stored runs; if all questions are known in advance, check the runs before any call is made.

        Raises RunChanged if a stored run was started with a different question, seed or header.
        """
        if self._store is None:
            return
        runs = await self._store.runs(labels={BATCH_LABEL: self.batch_id})
        self._stored = {run.header.run_id: run for run in runs}
        if isinstance(self._questions, Sequence):  # reading an iterator here would exhaust it, and it may be infinite
            for index, row in enumerate(self._questions):
                if self._run_id(index) in self._stored:
                    self._check_stored(self._make_run(self._make_job(index, row)))

    def _check_stored(self, run: Run) -> None:
        """Raise RunChanged if the stored run's header differs from the header of `run`."""
        assert self._store is not None  # noqa: S101 - `run` is durable
        assert run.journal is not None  # noqa: S101 - as above
        then, now = self._stored[run.run_id].header, run.journal.header
        pairs = changes_of(then, now)
        # A different pattern or model may be intentional, but a different question points to a mistake in the rows.
        if self._allow_changes:
            pairs = {name: pairs[name] for name in ("question", "seed")}
        check_unchanged(
            self._store, run.run_id, {BATCH_LABEL: (then.labels.get(BATCH_LABEL, ""), self.batch_id), **pairs}
        )

    # Execution

    def _make_run(self, job: _Job) -> Run:
        options = self._options
        if options is not None and job.plan is not None:
            options = replace(options, plan=job.plan)
        store = False if options is None else options
        return make_run(job.block, job.question, seed=job.seed, store=store, run_id=job.run_id, **self._common)

    async def _run_job(self, job: _Job) -> BatchItem[OutT, RawT]:
        replayed = job.run_id in self._stored and self._stored[job.run_id].status in COMPLETE
        result: RunResult[OutT, RawT] | None = None
        error: BaseException | None = None
        try:
            result = await self._run(job)
        except asyncio.CancelledError as failure:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            error = failure  # the job was cancelled from within the run, so the item counts as failed
        except Exception as failure:
            if self._raises or (isinstance(failure, RunChanged) and failure.run_id == job.run_id):
                add_note(failure, f"in run {job.run_id}, question {job.index} of the batch")
                raise
            error = failure
        finally:
            run = self._in_progress.pop(job.index, None)
        item = _make_item(job, result, error, run, replayed=replayed and error is None)
        self._tally.add(item)
        if self._progress is not None:
            self._progress(self.summary)
        return item

    async def _run(self, job: _Job) -> RunResult[OutT, RawT]:
        run = self._make_run(job)
        if self._store is None:
            return await self._act(job, run)
        if job.run_id not in self._stored:
            try:
                return await self._act(job, run)
            # the run was started by another process in the meantime, or not as part of a batch
            except RunExists as error:
                if error.run_id != job.run_id:
                    raise
                self._in_progress.pop(job.index)
                self._stored[job.run_id] = await self._store.run(job.run_id)
        self._check_stored(run)
        stored, _ = await load_run(
            job.run_id,
            block=job.block.name,
            outline=job.block.outline(),
            store=self._store,
            on_uncertain=self._on_uncertain,
            allow_changes=self._allow_changes,
            # A debate without a verdict counts as failed, so its judge is called again; a complete answer that lacks
            # only optional extras is left as it is.
            asks_again=self._stored[job.run_id].status == "no_verdict",
            **self._common,
        )
        return await self._act(job, stored)

    async def _act(self, job: _Job, run: Run) -> RunResult[OutT, RawT]:
        self._in_progress[job.index] = RunView(run)
        return await run_block(job.block, job.question, run)


def seed_of_item(seed: int, index: int) -> int:
    """Derive the seed for one run in a batch: it is reproducible, and differs for each index.

    >>> seed_of_item(1, 0) == seed_of_item(1, 0) != seed_of_item(1, 1)
    True
    """
    return _derive_number(f"{seed}/{index}")


def _derive_number(text: str) -> int:
    """Hash `text` to a 53-bit integer, which any JSON parser can represent exactly."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 11


async def _iterate(questions: Questions) -> AsyncGenerator[Any]:
    if isinstance(questions, AsyncIterable):
        async for row in questions:
            yield row
    else:
        for row in questions:
            yield row


def _make_item(
    job: _Job, result: RunResult[OutT, RawT] | None, error: BaseException | None, run: RunView | None, *, replayed: bool
) -> BatchItem[OutT, RawT]:
    run = run if result is None else result
    return BatchItem(
        index=job.index,
        row=job.row,
        question=job.question,
        run_id=job.run_id,
        seed=job.seed,
        status="failed" if run is None or run.status == "running" else run.status,
        result=result,
        error=error,
        run=run,
        replayed=replayed,
    )


def _store_options(store: StoreChoice | StoreOptions, batch_id: str, location: str) -> StoreOptions | None:
    """Return the options for durable runs, including an open store and the batch's label; None if there is no store."""
    # All runs share one store object, so that this object owns all of them and can group their commits.
    if store is False or (store is None and STORE_VARIABLE not in os.environ):
        return None
    options = store if isinstance(store, StoreOptions) else StoreOptions(store=store)
    opened = open_store(options.store, location=location)
    if opened is None:
        return None
    return replace(options, store=opened, labels={**options.labels, BATCH_LABEL: batch_id})


def _check(
    location: str, questions: object, max_concurrency: object, batch_id: object, on_error: object, on_uncertain: object
) -> None:
    one = isinstance(questions, (str, bytes, Mapping, BaseModel))
    if one or not isinstance(questions, (Iterable, AsyncIterable)):
        raise ConfigurationError(
            location, "questions", questions, "must be an iterable or an async iterable of questions"
        )
    check_count(location, max_concurrency=max_concurrency)
    check_text(location, optional=True, batch_id=batch_id)
    check_choice(location, ("collect", "raise"), on_error=on_error)
    check_choice(location, ("retry", "raise"), on_uncertain=on_uncertain)


class WorkerPool(Generic[JobT, DoneT]):
    """Pool that runs at most `size` jobs at once; `results` yields their return values as they complete.

    A job starts when a worker is free and at most `size` results are unread. The first failure, whether in a job or in
    the iterator that supplies the jobs, cancels all other jobs, and is raised after the results that preceded it.
    """

    def __init__(self, jobs: AsyncGenerator[JobT], run: Callable[[JobT], Awaitable[DoneT]], *, size: int) -> None:
        self._jobs = jobs
        self._run = run
        self._free = asyncio.Semaphore(size)
        # Otherwise, complete results including transcripts would pile up behind a slow reader.
        self._room = asyncio.Semaphore(2 * size)
        self._ready: asyncio.Queue[DoneT | None] = asyncio.Queue()
        """Results waiting to be read; a final None marks the end."""
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._ended = False

    async def results(self) -> AsyncGenerator[DoneT]:
        """Yield the jobs' results as they complete; stopping the iteration early cancels all jobs in progress."""
        self._task = asyncio.create_task(self._run_jobs(), name="flowdebate batch")
        self._task.add_done_callback(self._check_cancelled)
        self._task.add_done_callback(lambda _: self._ready.put_nowait(None))
        try:
            while (result := await self._ready.get()) is not None:
                self._room.release()
                yield result
            if self._failure is not None:
                raise self._failure
        finally:
            await self.end()

    async def end(self) -> None:
        """Cancel all jobs, and wait until they have ended, even if the caller is cancelled repeatedly."""
        self._ended = True
        cancelled = None
        if self._task is not None:
            self._task.cancel()
            cancelled = await wait_uncancelled(self._task)
        await self._jobs.aclose()
        if cancelled is not None:
            raise cancelled

    async def _run_jobs(self) -> None:
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    await self._room.acquire()
                    await self._free.acquire()
                    job = await anext(self._jobs, None)
                    if job is None:
                        break
                    task = group.create_task(self._run_job(job), name="flowdebate batch")
                    task.add_done_callback(self._check_cancelled)
                    await asyncio.sleep(0)  # let the job start before the next one is taken
            except Exception as failure:  # noqa: BLE001 - raised where results are read
                self._fail(failure)

    async def _run_job(self, job: JobT) -> None:
        try:
            self._ready.put_nowait(await self._run(job))
        except Exception as failure:  # noqa: BLE001 - as above
            self._fail(failure)
        else:
            self._free.release()

    def _check_cancelled(self, task: asyncio.Task[None]) -> None:
        """End all jobs if one of them was cancelled from outside the pool, because it will never deliver a result."""
        if task.cancelled():
            self._fail(asyncio.CancelledError())

    def _fail(self, failure: BaseException) -> None:
        """Record the first failure, and end all jobs."""
        if not self._ended and self._task is not None:
            self._ended = True
            self._failure = failure
            self._task.cancel()
