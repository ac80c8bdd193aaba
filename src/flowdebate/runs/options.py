"""Options of runs as keywords: those that `Block.run`, `resume`, `fork`, `batch` and their siblings pass on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.batch import BatchSummary
    from flowdebate.runs.context import SessionLike
    from flowdebate.runs.durable.resume import StoreOptions
    from flowdebate.runs.limits import Limits
    from flowdebate.runs.observer import Observer
    from flowdebate.store.open import StoreChoice


IfExists: TypeAlias = Literal["raise", "resume", "wait"]
"""What a run does whose id the store has already; "wait" resumes it too, once no other process runs it."""
OnUncertain: TypeAlias = Literal["retry", "raise"]
"""What a resumed run does with a call that was started and never recorded."""
OnError: TypeAlias = Literal["collect", "raise"]
"""What a batch does with a run that fails."""


class CommonOptions(TypedDict, total=False):
    """Options of every run, however it begins."""

    model: ModelChoice
    """A `Model`, a string such as "openai/gpt-5-mini", or a mapping of intents."""
    limits: Limits | None
    """Limits of calls, tokens, cost and time."""
    observe: Observer | None
    """Sees the run, its agents, calls and tools while they last, for tracing."""


class SessionOptions(CommonOptions, total=False):
    """Options of a run of its own: batches have no session, which their runs would share."""

    session: SessionLike


class RunOptions(SessionOptions, total=False):
    """The options of `Block.run()`."""

    seed: int | None
    store: StoreChoice | StoreOptions
    run_id: str | None


class ResumeOptions(SessionOptions, total=False):
    """The options of `Block.resume()`."""

    store: StoreChoice
    on_uncertain: OnUncertain
    allow_changes: bool
    retry_dead_letter: bool


class ForkOptions(SessionOptions, total=False):
    """The options of `Block.fork()`."""

    seed: int | None
    store: StoreChoice | StoreOptions
    fork_id: str | None
    edits: Mapping[str, Any] | None
    """Other answers, by the places of their steps."""
    at: str | None
    """The place of a step: it and all later ones are asked anew."""


class BatchOptions(CommonOptions, total=False):
    """The options of `Block.batch()`."""

    question: Callable[[Any], Any] | None
    """Extracts the question from a row."""
    max_concurrency: int
    """How many runs go on at once; default 8."""
    seed: int | None
    store: StoreChoice | StoreOptions
    batch_id: str | None
    on_error: OnError
    progress: Callable[[BatchSummary], object] | None
    """Called after each run."""
    until: Callable[[BatchSummary], bool] | None
    """Once it is true, no further question is read."""
    on_uncertain: OnUncertain
    allow_changes: bool
