"""Holding a batch: shown while it goes on, written down as it comes, and left so that it can go on."""

from __future__ import annotations

import asyncio
import sys
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.cli.batch.lines import line_of
from flowdebate.cli.batch.out import open_out
from flowdebate.cli.interrupt import Interrupts
from flowdebate.cli.pages.batch import view_of
from flowdebate.errors import FlowDebateWarning
from flowdebate.runs.batch.batch import Batch

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence

    from flowdebate.cli.batch.plans import Plans
    from flowdebate.cli.batch.rows import Row
    from flowdebate.cli.pages.batch import BatchView
    from flowdebate.runs.batch.result import BatchSummary
    from flowdebate.store.base import Store

__all__ = ("HeldBatch", "Totals", "hold_batch", "warned_once")

_TICK = 0.5
"""Seconds between two looks at how far it is."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What the batch may take as a whole: once it is used up, no further question is begun."""

    calls: int | None = None
    tokens: int | None = None

    def reached(self, summary: BatchSummary) -> bool:
        """Whether it is used up."""
        usage = summary.usage
        over_calls = self.calls is not None and usage.calls >= self.calls
        return over_calls or (self.tokens is not None and (usage.total_tokens or 0) >= self.tokens)


@dataclass(frozen=True, kw_only=True)
class HeldBatch:
    """A batch that is over, or was interrupted."""

    summary: BatchSummary
    missing: int
    """Runs that ended without what was asked for, and without an error."""
    signal: signal.Signals | None
    """What interrupted it."""


async def hold_batch(
    plans: Plans, rows: Sequence[Row], *, name: str, store: Store, concurrency: int, totals: Totals, out: str | None
) -> HeldBatch:
    """Ask all `rows`, and write what comes of each to `out`; WriteFailed, and the errors of `Block.batch`."""
    from flowdebate.runs.durable.resume import StoreOptions

    base = plans.base
    batch: Batch[Any] = Batch(
        base.pattern(),
        rows,
        question=lambda row: row.question,
        max_concurrency=concurrency,
        store=StoreOptions(store=store),
        model=base.models,
        seed=base.seed,
        limits=base.limits,
        batch_id=name,
        on_error="collect",
        progress=None,
        until=totals.reached,
        on_uncertain="retry",
        allow_changes=False,
        each=plans.each,
    )
    missing = 0

    async def read(view: BatchView) -> None:
        nonlocal missing
        with open_out(out, name, rows) as writer:
            async with batch:
                async for item in batch:
                    line = line_of(plans.of(item.row), item)
                    missing += item.error is None and not line.found
                    writer.write(line)
                    view.item(item)

    with view_of(sys.stderr) as view:
        received = await _interruptible(read(view), batch, view)
    return HeldBatch(summary=batch.summary, missing=missing, signal=received)


async def _interruptible(reading: Any, batch: Batch[Any], view: BatchView) -> signal.Signals | None:  # noqa: ANN401 - a coroutine
    """Wait for `reading`, and show meanwhile how far it is; gives the signal that ended it early."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(reading)
    with Interrupts(lambda: loop.call_soon_threadsafe(task.cancel)) as interrupts:
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_TICK)
                view.progress(batch.summary)
            with suppress(asyncio.CancelledError):
                await task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
    return interrupts.received if task.cancelled() else None


@contextmanager
def warned_once() -> Iterator[None]:
    """Inside, what many runs would warn of is said once."""
    said: set[str] = set()
    show = warnings.showwarning

    def show_new(message: Warning | str, category: type[Warning], *place: Any) -> None:  # noqa: ANN401 - where it was
        if str(message) not in said or not issubclass(category, FlowDebateWarning):
            said.add(str(message))
            show(message, category, *place)

    warnings.showwarning = show_new  # type: ignore[assignment]  # as it is called
    try:
        yield
    finally:
        warnings.showwarning = show
