"""What came of one question of a batch, and of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from flowdebate.runs.batch_summary import BatchSummary
    from flowdebate.runs.events import RunStatus
    from flowdebate.runs.result import RunResult, RunView

__all__ = ("BatchItem", "BatchResult")

OutT = TypeVar("OutT")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem(Generic[OutT]):
    """What came of one question: either `result` or `error`, the other one is None."""

    index: int
    """Its place among the questions, from 0."""
    row: Any
    """What the batch was given for it."""
    question: Any
    """What was asked: the row, or what `question=` made of it."""
    run_id: str
    seed: int
    status: RunStatus
    """How its run ended; "failed" where it could not even begin."""
    result: RunResult[OutT] | None = None
    error: BaseException | None = None
    """What ended its run."""
    run: RunView | None = None
    """The run, also of a failed one: what was argued, told and used; None where there was none."""
    replayed: bool = False
    """Whether the store had it as complete, so that nothing was paid."""

    @property
    def output(self) -> OutT | None:
        """What the block returned; None where it failed."""
        return None if self.result is None else self.result.output

    @property
    def raw(self) -> Any:  # noqa: ANN401 - each pattern has a raw output of its own type
        """The pattern's raw output, also of a run that failed; None where there is none."""
        return None if self.run is None else self.run.raw

    def unwrap(self) -> RunResult[OutT]:
        """The result; raises the error where there is none."""
        if self.result is None:
            assert self.error is not None  # noqa: S101 - one of them is there
            raise self.error
        return self.result


class BatchResult(Sequence[BatchItem[OutT]]):
    """All items of a batch, in the order of its questions, and their summary."""

    def __init__(self, items: Sequence[BatchItem[OutT]], summary: BatchSummary) -> None:
        self._items = tuple(items)
        self.summary = summary
        """What they came to, counted."""

    @property
    def failed(self) -> list[BatchItem[OutT]]:
        """Those items whose runs an error has ended."""
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
