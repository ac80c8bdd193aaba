"""State of runs as reported by a service to its front ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError, field_serializer

from flowdebate._text import error_text
from flowdebate._util.validation import check_count
from flowdebate._util.wire import WireModel
from flowdebate.errors import BudgetReached, ConfigurationError, FlowDebateError, TooManyRuns
from flowdebate.evaluation.readers import RunReaders
from flowdebate.runs.header import read_question
from flowdebate.runs.suspend import HumanRequest
from flowdebate.service.runs import requests_in, state_of
from flowdebate.sources.source import Source, SourceInfo, listed
from flowdebate.store.base import RunHeader, StepRow, StoredRun
from flowdebate.ui.document import Document, Tokens, read_models
from flowdebate.ui.steps import Fork


class PendingInput(WireModel):
    """A suspended run's request for human input."""

    block: str
    """Name of the block that made the request."""
    role: str | None = None
    """Role of the block in its pattern, such as "judge"; None if it has no role."""
    place: str
    """Path of the request in the run, to be passed as `place=` when submitting the answer."""
    shown: str
    """Text to show to the human; text written by models is fenced."""
    expects: str
    """Description of the expected answer."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema for the answer; None if the answer is text."""
    problem: str | None = None
    """Problem with the previous answer; None if there was none."""
    sources: tuple[Source, ...] = ()
    """Sources available for quotes in the answer. JSON omits their text; it is available at
    `/runs/{run_id}/sources/{name}`.
    """

    @field_serializer("sources")
    def _listed(self, sources: tuple[Source, ...]) -> list[SourceInfo]:
        return [source.info for source in sources]

    @property
    def to_read(self) -> str:
        """Render `shown` and the sources as plain text.

        Short sources are included in full, long ones only by name and length.
        """
        return f"{self.shown}\n\n{listed(self.sources)}" if self.sources else self.shown

    @classmethod
    def of(cls, request: HumanRequest) -> Self:
        """Convert a stored request to the form shown to humans."""
        return cls(
            block=request.block,
            role=request.role,
            place=request.place,
            shown=request.shown,
            expects=request.expects,
            answer_schema=None if request.schema is None else dict(request.schema),
            problem=request.problem,
            sources=request.sources,
        )


class RunSummary(WireModel):
    """Summary of a run's result, short enough for a single line."""

    speakers: tuple[str, ...] = ()
    """Speakers, in the order of their first turns."""
    decision: str | None = None
    """One-line decision: the winner and the winning stance, or another kind of decision; None if there is none."""
    models: tuple[str, ...] = ()
    """Names of the models called in this run."""
    cost: float | None = None
    """Cost based on the prices in the run's limits or on the built-in prices; None if the prices are unknown."""
    prices: str | None = None
    """Currency of `cost` and source of the prices, as far as they are known; None if neither is known."""

    @classmethod
    def read(cls, data: object) -> Self | None:
        """Read a stored summary; return None if it is invalid."""
        try:
            return cls.model_validate(data)
        except ValidationError:  # the summary was imported or written by another version
            return None


class RunState(WireModel):
    """State of a run as shown in lists."""

    run_id: str
    pattern: str | None
    """Name of the pattern; None if neither a plan nor this service can identify it."""
    block: str
    """Name of the run's block."""
    question: str
    status: str
    """Status as stored, or "left_behind" for a run in progress whose process is gone."""
    created_at: float
    """Time at which the run was created, in seconds since the epoch."""
    updated_at: float
    steps: int
    """Number of finished steps."""
    seed: int
    labels: dict[str, str]
    parent: str | None
    """Id of the run that this one was forked from; None if it is not a fork."""
    models: dict[str, list[str]] | None
    """Models that gave the recorded answers, keyed by seat; None until the run has ended."""
    usage: Tokens | None
    """Tokens used by the run; None until the run has ended."""
    seconds: float | None
    error: str | None
    summary: RunSummary | None
    """Summary of the run's speakers, decision and models; None until the run has ended."""
    owned: bool
    """True if a live process is executing the run."""
    here: bool
    """True if this service is executing the run."""

    @classmethod
    def of(cls, run: StoredRun, *, pattern: str | None, is_here: bool, **more: Any) -> Self:  # noqa: ANN401 - further fields
        """Build the state of a stored run."""
        header, outcome = run.header, run.outcome or {}
        seconds, error = outcome.get("seconds"), outcome.get("error")
        return cls(
            run_id=header.run_id,
            pattern=pattern,
            block=header.block,
            question=cls._read_question(header),
            status=state_of(run),
            created_at=header.created_at,
            updated_at=run.updated_at,
            steps=run.steps,
            seed=header.seed,
            labels=dict(header.labels),
            parent=None if header.parent is None else str(header.parent.get("run")),
            models=read_models(outcome.get("models")),
            usage=Tokens.read(outcome.get("usage")),
            seconds=seconds if isinstance(seconds, (int, float)) else None,
            error=None if error is None else str(error),
            summary=RunSummary.read(outcome.get("summary")),
            owned=run.owned,
            here=is_here,
            **more,
        )

    @staticmethod
    def _read_question(header: RunHeader) -> str:
        return header.question


class RunPage(WireModel):
    """One page of a run list, newest first."""

    runs: tuple[RunState, ...]
    next: str | None
    """Value to pass as `before=` to get the next page; None on the last page."""

    @classmethod
    def of(cls, runs: Iterable[RunState], *, more: bool) -> Self:
        """Build one page of a run list; the page has a `next` value if there are `more` runs."""
        run_list = tuple(runs)
        # !r: every digit, as the store compares
        return cls(runs=run_list, next=f"{run_list[-1].created_at!r}:{run_list[-1].run_id}" if more else None)

    @staticmethod
    def cursor(text: str) -> tuple[float, str]:
        """Parse a page's `next` value; raise ConfigurationError for any other string."""
        created_at, _, run_id = text.partition(":")
        try:
            return float(created_at), run_id
        except ValueError:
            raise ConfigurationError("Service.runs()", "before", text, "must be the `next` value of a page") from None


class RunDetails(RunState):
    """A run with its document so far and its pending requests for human input."""

    document: Document | None
    """Current document of the run, with all contributions so far; None if there is none. Its JSON form is identical to
    the output of `--json`.
    """
    problem: str | None
    """Reason why there is no document, or why workers rejected the run."""
    pending: tuple[PendingInput, ...]
    """Unanswered requests of a suspended run, sorted by path."""
    fork: Fork | None
    """Details of how the run was forked; None if the run is not a fork."""

    @staticmethod
    def _read_question(header: RunHeader) -> str:
        return read_question(header.input)  # not truncated, because voters must be able to read what they are voting on

    # Use the same form as `--json`, which omits some fields and orders the others differently from pydantic's dump.
    @field_serializer("document")
    def _document_data(self, document: Document | None) -> dict[str, Any] | None:
        return None if document is None else document.to_data()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything shown on a run's page, read at one point in time."""

    details: RunDetails
    stored: StoredRun
    steps: Sequence[StepRow]
    events: Sequence[object]
    """Recorded events so far; empty if this service does not know the run's pattern."""
    people: Sequence[str]
    """Names of the run's human blocks: those defined by the pattern, and any others that have made requests so far."""
    readers: RunReaders


class Changed(WireModel):
    """Outcome of resuming or cancelling all runs that match a set of filters."""

    runs: tuple[RunState, ...]
    """The runs that were changed."""
    refused: dict[str, str]
    """Reasons why other runs were not changed, keyed by run id."""
    more: bool
    """True if more runs match; repeat the request to change them too."""


class BudgetState(WireModel):
    """One limit of a budget, and the amount used so far by all processes that share the budget."""

    budget: str
    """Scope of the budget: "all runs", or the quoted name of an owner; an owner's budget is per day."""
    kind: str
    """Kind of limit: "calls", "tokens" or "cost"."""
    used: int | float
    limit: int | float
    until: float | None = None
    """Time at which the budget is next reset, in seconds since the epoch; None if it is never reset."""


def pending_in(run: StoredRun, steps: Sequence[StepRow], *, store: str) -> tuple[PendingInput, ...]:
    """Return the requests for human input that a suspended run is waiting for."""
    return tuple(map(PendingInput.of, requests_in(run, steps, store=store)))


async def change_all(
    find: Callable[..., Awaitable[RunPage]],
    statuses: Sequence[str],
    change: Callable[[str], Awaitable[RunState]],
    *,
    pattern: str | None = None,
    text: str | None = None,
    labels: Mapping[str, str] | None = None,
    limit: int = 200,
) -> Changed:
    """Apply `change` to runs that match all filters, as listed by `find`: at most `limit` runs per status."""
    check_count("Service", limit=limit)
    changed, refused = list[RunState](), dict[str, str]()
    for status in statuses:
        runs = await find(status=status, pattern=pattern, text=text, labels=labels, limit=limit)
        for run_id in [run.run_id for run in runs.runs]:
            try:
                changed.append(await change(run_id))
            except (TooManyRuns, BudgetReached) as error:
                return Changed(runs=tuple(changed), refused=refused | {run_id: error_text(error)}, more=True)
            except FlowDebateError as error:
                refused[run_id] = error_text(error)
        if runs.next is not None:
            return Changed(runs=tuple(changed), refused=refused, more=True)
    return Changed(runs=tuple(changed), refused=refused, more=False)
