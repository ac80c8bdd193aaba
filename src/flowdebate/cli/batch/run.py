"""Running a batch: its plans, its progress on stderr, its results in a file, and a clean end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import counted
from flowdebate.cli.batch.results import line_of, open_out
from flowdebate.cli.batch.view import view_of
from flowdebate.cli.patterns import known_options
from flowdebate.cli.terminal.process import Interrupts, tell
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.patterns import PATTERNS, find_pattern
from flowdebate.patterns.debate.proposer import create_side_proposer
from flowdebate.patterns.debate.sides import yes_no_sides
from flowdebate.runs.batch.batch import Batch
from flowdebate.service.plans.models import models_line
from flowdebate.service.plans.options import misuse
from flowdebate.service.plans.plan import make_plan, stored_plan, with_shared_models, with_sides
from flowdebate.service.plans.policies import with_policies

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.batch.rows import Row
    from flowdebate.cli.batch.view import BatchView
    from flowdebate.patterns.roster import Debater
    from flowdebate.runs.batch.result import BatchSummary
    from flowdebate.service.plans.plan import Plan
    from flowdebate.store.base import Store


_TICK = 0.5
"""Seconds between two updates of the progress."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Limits of a whole batch: when one is reached, no further question is started."""

    calls: int | None = None
    tokens: int | None = None

    def reached(self, summary: BatchSummary) -> bool:
        """Whether a limit is reached."""
        usage = summary.usage
        over_calls = self.calls is not None and usage.calls >= self.calls
        return over_calls or (self.tokens is not None and (usage.total_tokens or 0) >= self.tokens)


@dataclass(frozen=True, kw_only=True)
class FinishedBatch:
    """A batch that ended or was interrupted."""

    summary: BatchSummary
    missing: int
    """Runs that ended without a result and without an error."""
    signal: signal.Signals | None
    """The signal that interrupted it."""


async def run_batch(
    plans: Plans, rows: Sequence[Row], *, name: str, store: Store, concurrency: int, totals: Totals, out: str | None
) -> FinishedBatch:
    """Run all `rows` and write each result to `out`; raises WriteFailed and the errors of `Block.batch`."""
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
            await plans.propose_sides(rows, name=name, store=store, concurrency=concurrency)
            async with batch:
                async for item in batch:
                    line = line_of(plans.of(item.row), item)
                    missing += item.error is None and not line.has_result
                    writer.write(line)
                    view.item(item)

    with view_of(sys.stderr, calls=base.usual_calls) as view:
        view.begin(plans.models)
        received = await _interruptible(read(view), batch, view)
    return FinishedBatch(summary=batch.summary, missing=missing, signal=received)


async def _interruptible(reading: Any, batch: Batch[Any], view: BatchView) -> signal.Signals | None:  # noqa: ANN401 - a coroutine
    """Await `reading` and show the progress; returns the signal that interrupted it."""
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
    """Inside, repeated warnings of the runs are shown once."""
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


# Plans


_BOUNDS = ("max_calls", "max_tokens", "max_seconds", "attempts", "fallback")
"""Options that may change when a batch is continued."""


class Plans:
    """Plans of a batch: one set of options, from the front end and a plan file, and a subject for each row.

    ConfigurationError or BadFile for invalid options; it names the option, or the file and its key.
    """

    def __init__(self, pattern: str, options: Mapping[str, Any], file: str | None, *, first: str) -> None:
        info = find_pattern(pattern)
        if info is None or pattern in info.former_names:
            close = get_close_matches(pattern, PATTERNS, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise misuse(
                "--pattern", pattern, f"There is no pattern {pattern!r}.{hint} Patterns: {', '.join(PATTERNS)}."
            )
        self._info = info
        planned = make_plan(info, known_options(info, {**options, info.subject: first}), file=file)
        for key in ("record", "replay"):
            if getattr(planned.policies, key) is not None:
                where, field = planned.options.place(key)
                raise ConfigurationError(where, field, getattr(planned.options, key), "left out in a batch")
        self.stored: dict[str, Any] = stored_plan(planned)
        """The plan as the store has it, without what depends on the question."""
        for key in info.load_page().settled(planned):
            self.stored["options"].pop(key)
        if not planned.speakers:  # any sides will do to check the options
            planned = with_sides(planned, yes_no_sides(first))
        self._proposed: dict[str, Sequence[Debater]] = {}
        """Sides that the model has proposed, by question."""
        self.models: str = models_line(planned)
        """The line about the models."""
        self.base: Plan = with_policies(planned)
        """The plan of the first question."""
        self.base.pattern()  # refuses invalid options before a model is called

    def name(self, rows: Sequence[Row]) -> str:
        """Default name of the batch: the same for the same plan and rows."""
        options = {
            key: value for key, value in self.stored["options"].items() if key not in (*_BOUNDS, self._info.subject)
        }
        about = [self.stored["pattern"], options, [[row.question, dict(row.others)] for row in rows]]
        return f"batch-{hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=5).hexdigest()}"

    def of(self, row: Row) -> Plan:
        """The plan of a row; all rows share their models."""
        plan = self.plan_for(self.options_of(row))
        return plan if plan.speakers else with_sides(plan, self._proposed[row.question])

    async def propose_sides(self, rows: Sequence[Row], *, name: str, store: Store, concurrency: int) -> None:
        """Let the model propose sides where a question does not say what they are.

        The proposals are a batch of their own, so that continuing does not ask again.
        """
        plans = {row.question: self.plan_for(self.options_of(row)) for row in rows}
        needy = [question for question, plan in plans.items() if not plan.speakers]
        if needy:
            tell(f"The model proposes sides for {counted(len(needy), 'question')} …")
            from flowdebate.runs.durable.resume import StoreOptions

            proposals: Batch[Any] = Batch(
                create_side_proposer(),
                needy,
                max_concurrency=concurrency,
                store=StoreOptions(store=store),
                model=self.base.models,
                seed=self.base.seed,
                batch_id=f"{name}-sides",
                on_error="raise",
            )
            async with proposals:
                async for item in proposals:
                    self._proposed[item.question] = item.output or ()

    def each(self, row: Row) -> tuple[Sequencer[Any, Any], Mapping[str, Any]]:
        """The pattern for a row, and its stored plan."""
        plan = self.of(row)
        options = {**self.options_of(row), **plan.info.load_page().settled(plan)}
        return plan.pattern(), {**self.stored, "options": options}

    def plan_for(self, options: Mapping[str, Any]) -> Plan:
        """The plan of other `options`, as a stored plan has them, with the models of the batch."""
        return with_shared_models(make_plan(self._info, {}, file=options), self.base)

    def options_of(self, row: Row) -> dict[str, Any]:
        """The options of a row."""
        return self.options_for(row.question)

    def options_for(self, question: str) -> dict[str, Any]:
        """The options of the batch with another subject."""
        return {**self.stored["options"], self._info.subject: question}
