"""Results of a batch: items, the summary, and the running tally."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from flowdebate._util.importing import InNotebooks
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from flowdebate.runs.events import RunStatus
    from flowdebate.runs.result import RunResult, RunView

OutT = TypeVar("OutT")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem(Generic[OutT]):
    """The outcome of one question: either `result` or `error`; the other one is None."""

    index: int
    """Its place among the questions, from 0."""
    row: Any
    """Its row, as given to the batch."""
    question: Any
    """The question: the row, or the result of `question=`."""
    run_id: str
    seed: int
    status: RunStatus
    """The status of its run; "failed" if it could not even start."""
    result: RunResult[OutT] | None = None
    error: BaseException | None = None
    """The error that ended its run."""
    run: RunView | None = None
    """The run, also a failed one, with its transcript, events and usage; None if there was none."""
    replayed: bool = False
    """Whether it was complete in the store already, so that nothing was paid."""

    @property
    def output(self) -> OutT | None:
        """The block's output; None if it failed."""
        return None if self.result is None else self.result.output

    @property
    def raw(self) -> Any:  # noqa: ANN401 - each pattern has a raw output of its own type
        """The pattern's raw output, also of a run that failed; None if there is none."""
        return None if self.run is None else self.run.raw

    def unwrap(self) -> RunResult[OutT]:
        """Return the result, or raise the error."""
        if self.result is None:
            assert self.error is not None  # noqa: S101 - one of them is there
            raise self.error
        return self.result


class BatchResult(InNotebooks, Sequence[BatchItem[OutT]]):
    """All items of a batch, in the order of its questions, and their summary."""

    def __init__(self, items: Sequence[BatchItem[OutT]], summary: BatchSummary) -> None:
        self._items = tuple(items)
        self.summary = summary
        """The counts."""

    @property
    def failed(self) -> list[BatchItem[OutT]]:
        """The items whose runs ended with an error."""
        return [item for item in self._items if item.error is not None]

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> BatchItem[OutT]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[BatchItem[OutT]]: ...
    def __getitem__(self, index: int | slice) -> BatchItem[OutT] | Sequence[BatchItem[OutT]]:
        return self._items[index]

    def __repr__(self) -> str:
        return f"<BatchResult of {len(self)}, {len(self.failed)} failed>"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """Counts of a batch, so far or at the end."""

    total: int | None
    """The number of questions; None if it is unknown in advance."""
    done: int = 0
    """Runs that have ended, with any status."""
    running: int = 0
    """Runs in progress."""
    replayed: int = 0
    """Of `done`, those that were complete in the store already."""
    statuses: Mapping[RunStatus, int] = field(default_factory=dict)
    """Runs by status."""
    decisions: Mapping[str, int] = field(default_factory=dict)
    """Runs by decision, for patterns that decide: by the `decision_word` of their raw outputs."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Errors that ended runs, by their class."""
    usage: Usage = Usage.none()  # noqa: RUF009 - a frozen value
    """Calls and tokens, including runs in progress and replayed answers."""
    cost: float | None = None
    """By the `prices` of the limits; None without prices."""
    seconds: float = 0.0
    """Since the first question was taken."""

    @property
    def failed(self) -> int:
        """Runs that ended with an error."""
        return sum(self.failures.values())

    @property
    def rate(self) -> float:
        """Runs a second, without those that were complete before: reading them says nothing about the others."""
        return (self.done - self.replayed) / self.seconds if self.seconds else 0.0

    @property
    def remaining(self) -> float | None:
        """Estimated seconds for the remaining runs; None while there is no estimate."""
        if self.total is None or not (self.rate or self.done == self.total):
            return None
        return 0.0 if self.done == self.total else (self.total - self.done) / self.rate


class BatchTally:
    """Running counts of one batch."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._began: float | None = None
        self._ended: float | None = None
        self._done = self._replayed = 0
        self._statuses: Counter[RunStatus] = Counter()
        self._decisions: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._usage = Usage.none()
        self._cost: float | None = None

    def begin(self) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """Stop the clock."""
        if self._ended is None:
            self._ended = time.perf_counter()

    def add(self, item: BatchItem[Any]) -> None:
        """Count a run that has ended."""
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

    def summary(self, in_progress: Iterable[RunView]) -> BatchSummary:
        """The counts so far, including the runs in progress."""
        running = list(in_progress)
        usage, cost = self._usage, self._cost
        for run in running:
            usage += run.usage
            cost = _sum(cost, run.cost)
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
            seconds=0.0 if self._began is None else (self._ended or time.perf_counter()) - self._began,
        )


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
