"""`flowdebate batch`: run one pattern on many questions, report progress on stderr, and handle interruptions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from signal import Signals
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flowdebate._text import counted, did_you_mean, typed
from flowdebate.cli import options as opt
from flowdebate.cli.asking import Ending, ProgressLines, Totals, ask, store_for_asking
from flowdebate.cli.patterns import select_options
from flowdebate.cli.terminal.process import open_page, print_message
from flowdebate.errors import ConfigurationError
from flowdebate.patterns import DEFAULT, PATTERNS, find_pattern
from flowdebate.ui.options import FilePath, Option, misuse

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.roster import Debater
    from flowdebate.cli.batch_files import Row
    from flowdebate.cli.terminal.page import Page
    from flowdebate.runs.batch import BatchSummary
    from flowdebate.store.base import Store
    from flowdebate.ui.plan import Plan


@opt.command(
    "model", "base_url", "seed", "max_calls", "max_tokens", "max_seconds", "price", "attempts",
    "fallback", "on_failure", "quorum", "sources",
)  # fmt: skip
def batch(  # noqa: PLR0913 - the options of the command
    questions: Annotated[
        str,
        Option(help='CSV or JSON Lines with a "question" column, or text with a question on each line; "-" is stdin.'),
    ],
    *,
    pattern: Annotated[str, Option(metavar="PATTERN", help=f"{', '.join(PATTERNS)}.")] = DEFAULT,
    out: Annotated[
        FilePath | None,
        Option(
            metavar="FILE",
            help='Write each result to this .jsonl or .csv file as soon as its run is done; "-" is stdout.',
        ),
    ] = None,
    max_concurrency: opt.Concurrency = 8,
    name: opt.BatchName = None,
    limit: opt.FirstOnly = None,
    form: Annotated[
        Literal["csv", "jsonl", "text"] | None,
        Option(flag="--format", help="Format of the questions. Default: inferred from the file name."),
    ] = None,
    file: opt.File = None,
    max_rounds: Annotated[int | None, Option(help="Maximum number of rounds (of turns for a handoff).")] = None,
    synthesizer: Annotated[bool | None, Option(help="A synthesizer writes each output.")] = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    store: opt.StoreName = None,
    **values: object,
) -> None:
    """Run a pattern on each question in a file, several at once.

    Set the pattern's other options in --file, as for the pattern's own command. Limits apply to each question;
    --max-total-calls and --max-total-tokens apply to all questions together.
    """
    from flowdebate.cli.batch_files import read_rows
    from flowdebate.cli.terminal.page import Page

    rows = read_rows(questions, form)
    with store_for_asking(store) as place:
        options = {"max_rounds": max_rounds, "synthesizer": synthesizer, **values}
        plans = Plans(pattern, options, file, first=rows[0].question, store=place.store)
        name = name or plans.name(rows)
        finished = asyncio.run(
            run_batch(
                plans,
                rows[:limit],
                name=name,
                store=place.store,
                concurrency=max_concurrency,
                totals=Totals(calls=max_total_calls, tokens=max_total_tokens),
                out=out,
            )
        )
    summary = finished.summary
    page = Page(sys.stderr, ()) if out == "-" else open_page()
    show_summary(page, name, summary, models=plans.models, out=None if out == "-" else out)
    finished.ending(incomplete=bool(finished.missing)).leave()


# Running


@dataclass(frozen=True, kw_only=True)
class FinishedBatch:
    """A finished or interrupted batch."""

    name: str
    summary: BatchSummary
    missing: int = 0
    """Number of runs with neither a result nor an error."""
    used_up: bool = False
    """True if a total limit was reached before all questions had been asked."""
    signal: Signals | None = None
    """Signal that interrupted the batch."""

    def ending(self, *, incomplete: bool) -> Ending:
        """Return the command's `Ending`; `incomplete` is set if a result is missing."""
        return Ending(
            signal=self.signal,
            failed=self.summary.failed,
            used_up=self.used_up,
            incomplete=incomplete,
            batch_id=self.name,
        )


async def run_batch(
    plans: Plans, rows: Sequence[Row], *, name: str, store: Store, concurrency: int, totals: Totals, out: str | None
) -> FinishedBatch:
    """Run the pattern on all `rows`, and write each result to `out`.

    Raises WriteFailed, and any error that `Block.batch` raises.
    """
    from flowdebate.cli.batch_files import Line, open_out
    from flowdebate.runs.batch import Batch
    from flowdebate.runs.header import StoreOptions

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
        # with hundreds of questions, nobody can decide case by case whether to retry an uncertain call
        on_uncertain="retry",
        allow_changes=False,
        plan_item=plans.plan_row,
    )

    async def read(progress: ProgressLines) -> int:
        missing = 0
        progress.begin(plans.models)
        for line in plans.sources:
            progress.show_message(line)
        progress.watch(lambda: batch.summary)
        with open_out(out, name, rows) as writer:
            await plans.propose_sides(rows, name=name, store=store, concurrency=concurrency)
            async with batch:
                async for item in batch:
                    result = Line.of(plans.of(item.row), item)
                    missing += item.error is None and not result.has_result
                    writer.write(result)
                    progress.item(item)
        return missing

    missing = await ask(read, usual_calls=base.usual_calls)
    if isinstance(missing, Signals):
        return FinishedBatch(name=name, summary=batch.summary, signal=missing)
    return FinishedBatch(name=name, summary=batch.summary, missing=missing, used_up=totals.used_up)


# Plans

_BOUNDS = ("max_calls", "max_tokens", "max_seconds", "attempts", "fallback")
"""Options that may change when a batch is continued, and are therefore not part of its default name."""


class Plans:
    """Plans for a batch.

    Each row has its own subject, and all rows share the options from the front end and a plan file.

    Raises ConfigurationError or BadFile for invalid options. The error names the invalid option, or the file and the
    key.
    """

    def __init__(
        self, pattern: str, options: Mapping[str, Any], file: str | None, *, first: str, store: Store | None = None
    ) -> None:
        from flowdebate.service.runs import archive_of
        from flowdebate.ui.models import models_line, sources_lines, with_policies
        from flowdebate.ui.plan import make_plan, stored_plan, with_sides

        info = find_pattern(pattern)
        if info is None:
            hint = f" {meant}" if (meant := did_you_mean(pattern, PATTERNS)) else ""
            raise misuse("--pattern", pattern, f"There is no pattern {pattern}.{hint} Patterns: {', '.join(PATTERNS)}.")
        self._info = info
        planned = make_plan(info, select_options(info, {**options, info.subject: first}), file=file, begins=True)
        for key in ("record", "replay"):  # a recording contains the answers from only one run
            if getattr(planned.policies, key) is not None:
                location, field = planned.options.place(key)
                raise ConfigurationError(location, field, None, "cannot be set for a batch")
        self.stored: dict[str, Any] = stored_plan(planned)
        """Plan in stored form, without values that depend on the question."""
        for key in info.load_page().settled(planned):
            self.stored["options"].pop(key)
        if planned.dealt is not None:  # the models in `dealt` were assigned to the first question's sides only
            self.stored["options"]["model"] = planned.options.model
        if not planned.speakers:  # the options can be checked with any sides, so use placeholders
            planned = with_sides(planned, info.load_page().any_speakers(first))
        self._proposed: dict[str, Sequence[Debater]] = {}
        """Sides proposed by the model, keyed by question."""
        self.models: str = models_line(planned)
        self.sources: list[str] = sources_lines(planned)
        """Notes on the shared sources, for rows that name no sources."""
        self.base: Plan = with_policies(planned)
        """Plan for the first question."""
        if store is not None and getattr(
            planned.options, "archive", None
        ):  # archives are used only on request, because each row would otherwise see the debates of earlier rows
            self.base = replace(self.base, archive=archive_of(store, {}))
        self.base.pattern()  # rejects invalid options before any model is called

    def name(self, rows: Sequence[Row]) -> str:
        """Default name of the batch, derived from the plan and the rows."""
        options = {
            key: value for key, value in self.stored["options"].items() if key not in (*_BOUNDS, self._info.subject)
        }
        return hash_name(
            "batch", [self.stored["pattern"], options, [[row.question, dict(row.columns)] for row in rows]]
        )

    def of(self, row: Row) -> Plan:
        """Return the plan for a row; the plans for all rows use the same models."""
        from flowdebate.ui.plan import with_sides

        plan = self._plan_for(row)
        return plan if plan.speakers else with_sides(plan, self._proposed[row.question])

    async def propose_sides(self, rows: Sequence[Row], *, name: str, store: Store, concurrency: int) -> None:
        """Have the model propose sides for questions that have none.

        The proposals are stored as a separate batch, so that they are not requested again when the batch is continued.
        """
        from flowdebate.runs.batch import Batch
        from flowdebate.runs.header import StoreOptions

        plans = {row.question: self._plan_for(row) for row in rows}
        needy = [question for question, plan in plans.items() if not plan.speakers]
        if not needy:
            return
        print_message(f"The model proposes sides for {counted(len(needy), 'question')} …")
        proposals: Batch[Any] = Batch(
            self._info.load_page().create_proposer(),
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

    def plan_row(self, row: Row) -> tuple[Sequencer[Any, Any], Mapping[str, Any]]:
        """Return the pattern and the plan to store for a row."""
        plan = self.of(row)
        dealt = {} if plan.dealt is None else {"model": plan.dealt}
        options = {**self.options_of(row), **plan.info.load_page().settled(plan), **dealt}
        if plan.options.sources:  # store the sources' text instead of their file names
            options["sources"] = plan.options.stored()["sources"]
        return plan.pattern(), {**self.stored, "options": options}

    def _plan_for(self, row: Row) -> Plan:
        from flowdebate.ui.plan import make_plan, with_shared_models

        location = f"the row of {typed(row.question)}"
        return with_shared_models(make_plan(self._info, {}, file=self.options_of(row), location=location), self.base)

    def options_of(self, row: Row) -> dict[str, Any]:
        """Return a row's options in stored-plan format. A row may specify its own sources."""
        from flowdebate.ui.plan import with_stored_sources

        return {**with_stored_sources(self.stored["options"]), **row.options, self._info.subject: row.question}


def hash_name(kind: str, content: object) -> str:
    """Derive a batch name from the JSON data `content`; equal data yields the same name."""
    return f"{kind}-{hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=5).hexdigest()}"


# Summary


def show_summary(page: Page, name: str, summary: BatchSummary, *, models: str = "", out: str | None = None) -> None:
    """Print the summary of a batch."""
    from flowdebate.evaluation.documents import batch_facts
    from flowdebate.ui.sections import Fact

    model, _, models = models.partition(": ")
    facts = [
        Fact(label="Batch", text=name, tone="strong", short=True),
        Fact(label=model, text=models, short=True),
        *batch_facts(summary),
        Fact(label="Results", text=out or "", short=True),
    ]
    page.card("Summary", [fact for fact in facts if fact.text])
