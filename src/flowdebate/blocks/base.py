"""Block: a named step that turns an input into an output.

A block declares its resources, can run on its own, and can be drawn as an outline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Unpack

from typing_extensions import TypeVar

from flowdebate._text import add_note
from flowdebate._util.validation import check_text
from flowdebate.errors import ConfigurationError, ReadOnly, ResourceConflict, RunExists, RunNotFound
from flowdebate.runs.context import Context, escape_path_segment
from flowdebate.runs.execute import (
    ForkOptions,
    IfExists,
    ResumeOptions,
    RunOptions,
    Seat,
    check_outside,
    make_run,
    run_block,
    run_sync,
    start_block,
)
from flowdebate.runs.session import SessionLike

if TYPE_CHECKING:
    from flowdebate.models.base import Model
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.resources.resource import Resource
    from flowdebate.runs.batch import Batch, BatchOptions, BatchResult
    from flowdebate.runs.durable.fork import Continuation
    from flowdebate.runs.header import StoreOptions
    from flowdebate.runs.limits import Limits
    from flowdebate.runs.observer import Observer
    from flowdebate.runs.result import RunHandle, RunResult
    from flowdebate.runs.run import Run
    from flowdebate.store.open import StoreChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A line of an outline, together with the lines nested below it."""

    text: str
    """Text of the line: a block's name, or a verb and its object, such as "map abs"."""
    kind: str = "block"
    """Kind of step: "handler", "generator", "router", "sequencer", or the name of a builder method, for
    example "then".
    """
    children: Sequence[Outline] = ()
    target: str | None = None
    """Name of the step that a loop jumps back to."""
    target_index: int | None = None
    """Index of the `target` step among this line's siblings."""

    note: str = ""
    """Note for readers, such as the condition that ends a loop; excluded from `structure`."""

    def __str__(self) -> str:
        return "\n".join(_lines(self, 0, notes=True))

    @property
    def structure(self) -> str:
        """The outline without notes. A stored run can be resumed only if its structure is unchanged."""
        return "\n".join(_lines(self, 0, notes=False))

    def texts_of(self, kind: str) -> Iterator[str]:
        """Yield the text of every line of the given kind, from top to bottom."""
        if self.kind == kind:
            yield self.text
        for child in self.children:
            yield from child.texts_of(kind)

    def mermaid(self) -> str:
        """Render the outline as a Mermaid flowchart."""
        return "\n".join(["flowchart TD", *_Mermaid().draw(self)])


def outline(block: Block[Any, Any]) -> Outline:
    """Return the outline of `block`; `str()` renders it as text, and `.mermaid()` as a flowchart.

    >>> from flowdebate import handler, sequencer
    >>> print(outline(sequencer(name="sum").map(abs).then(handler(lambda value, ctx: value + 1, name="add"))))
    sum
      → map abs
      → add
    """
    return block.outline()


def _lines(node: Outline, depth: int, *, notes: bool) -> Iterator[str]:
    arrow = "  " * depth + ("→ " if depth else "")
    back = f" ↺ {node.target}" if node.target else ""
    note = f", {node.note}" if notes and node.note else ""
    yield arrow + _escape_line_breaks(f"{node.text}{back}{note}")
    for child in node.children:
        yield from _lines(child, depth + 1, notes=notes)


class _Mermaid:
    """Renderer that numbers the nodes and draws steps in sequence; each step's children are drawn in a subgraph."""

    def __init__(self) -> None:
        self._count = 0

    def draw(self, node: Outline, indent: str = "  ") -> Iterator[str]:
        self._count += 1
        name = f"n{self._count}"
        if not node.children:
            text = _quoted(node.text)
            decides = node.kind in {"router", "loop_back", "branch"}
            yield f"{indent}{name}{{{{{text}}}}}" if decides else f"{indent}{name}[{text}]"
            return
        yield f"{indent}subgraph {name} [{_quoted(node.text)}]"
        ids: list[str] = []
        for child in node.children:
            before = self._count
            yield from self.draw(child, indent + "  ")
            ids.append(f"n{before + 1}")
        yield f"{indent}end"
        if node.kind == "sequencer":
            yield from (f"{indent}{one} --> {other}" for one, other in pairwise(ids))
            for child, key in zip(node.children, ids, strict=True):
                if child.target_index is not None:
                    yield f"{indent}{key} -. again .-> {ids[child.target_index]}"


def _quoted(text: str) -> str:
    return f'"{_escape_line_breaks(text).translate(_ENTITIES)}"'


def _escape_line_breaks(text: str) -> str:
    """Escape line breaks and invisible characters in `text`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# Characters that Mermaid interprets even inside quotes: entities, HTML, Markdown, directives.
_ENTITIES = {ord(character): f"#{ord(character)};" for character in '"#&<>%`\\'}


InT_contra = TypeVar("InT_contra", contravariant=True)
OutT_co = TypeVar("OutT_co", covariant=True)
RawT_co = TypeVar("RawT_co", covariant=True, default=Any)
"""Type of a pattern's raw output, available as `result.raw`."""

_NONE: Mapping[str, Resource] = MappingProxyType({})  # immutable, because all blocks without resources share it


class Block(ABC, Generic[InT_contra, OutT_co, RawT_co]):
    """A step of a debate; it holds only configuration, so a single block can serve a thousand runs at the same time.

    Applications create blocks with `handler`, `generator`, `router` and `sequencer`, or pass plain functions; they do
    not need to subclass anything.
    """

    keeps: str | None = None
    """Substring that identifies steps to keep: a fork reuses the recorded answer of every step whose key contains it,
    even if the request has changed.
    """
    with_continuation: Callable[[Continuation], Block[Any, Any]] | None = None
    """Function that prepares a pattern to continue a finished run; None if the pattern does not support continuing
    runs.
    """

    def __init__(
        self,
        name: str,
        *,
        resources: Mapping[str, Resource] | None = None,
        hidden: Mapping[str, Resource] | None = None,
    ) -> None:
        check_text(type(self).__name__.lower(), name=name)
        self.name = name
        self.place: str = escape_path_segment(name)
        """Name of the block, escaped for use in paths."""
        self.resources: Mapping[str, Resource] = _NONE if resources is None else resources
        """Resources shared with the surrounding blocks, by key."""
        self.hidden: Mapping[str, Resource] = _NONE if hidden is None else hidden
        """Private resources, by key; no other block may use a different object under the same key."""

    role: str | None = None
    """Role of the block in its pattern, for example "judge", set by the pattern that creates the block; None if it has
    no role.
    """

    def in_role(self, role: str) -> Block[InT_contra, OutT_co, RawT_co]:
        """Return this block with `role` assigned, for use by the pattern that it was passed to.

        The block itself is not modified, because the application may use it in another role or pattern.
        """
        return self if self.role == role else InRole(self, role)

    @abstractmethod
    async def act(self, value: InT_contra, ctx: Context, /) -> OutT_co:
        """Compute the output; `ctx` is the block's own context."""

    @abstractmethod
    def outline(self) -> Outline:
        """Return the block's outline."""

    def seats(self, around: tuple[ModelChoice, ...] = ()) -> list[Seat]:
        """List all model-calling blocks within this block, except those called only from inside functions."""
        inner_seats: list[Seat] = []
        values: list[Any] = [*vars(self).values()]
        for log in values:  # this list grows while the loop runs
            kind: type = type(log)
            if _is_kind_of_block(kind):
                inner_seats += log.seats(around)
            elif isinstance(log, (list, tuple, dict)):
                values += log.values() if isinstance(log, dict) else log
        return inner_seats

    async def __call__(self, value: InT_contra, ctx: Context, /) -> OutT_co:
        """Run `act`, adding a note with the block's name to any exception."""
        if self.role is not None:
            ctx.role = self.role
        try:
            return await self.act(value, ctx)
        except Exception as error:
            if isinstance(error, ReadOnly):  # the resource that raised the error may not know which block used it
                error.block = error.block or self.name
            notes = getattr(error, "__notes__", None)
            if not isinstance(notes, list) or not any(str(note).startswith("in block ") for note in notes):
                # enclosing blocks do not add a second note
                add_note(error, f"in block {self.name!r} (at {ctx.path})")
            raise

    async def run(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        value: InT_contra,
        *,
        session: SessionLike = None,
        model: ModelChoice = None,
        override_model: Model | str | None = None,
        seed: int | None = None,
        limits: Limits | None = None,
        store: StoreChoice | StoreOptions = None,
        run_id: str | None = None,
        if_exists: IfExists = "raise",
        observe: Observer | None = None,
    ) -> RunResult[OutT_co, RawT_co]:
        """Run the block to completion.

        `model` is the default model (a `Model`, a string such as `"openai/gpt-5-mini"`, or a mapping with one model per
        intent: `{"chat": …, "synthesize": …}`); `override_model` replaces every model and is meant for tests. `seed`
        makes all random draws reproducible; `limits` bounds calls, tokens, cost and time. With a `store` (a path,
        `"postgresql://…"`, or a `Store`; None means FLOWDEBATE_STORE, False means no store) the run is durable: every
        answer is committed before it is used, and `resume(run_id)` continues after a crash. If the store already
        contains a run `run_id`, RunExists is raised. With `if_exists="resume"` this call instead resumes that run, or
        returns its result if it is complete, and raises RunChanged if it was started with a different question,
        pattern, model or seed. RunConflict is raised while another process is executing the run; `if_exists="wait"`
        waits for that process and then returns the run's result, or takes over the run. `observe` is an observer of the
        run, its agents, calls and tools, for tracing: see docs/telemetry.md. Exceptions from the application's code are
        raised unchanged; the library's own exceptions derive from `flowdebate.errors.FlowDebateError`, and their `run`
        attribute contains the transcript, events and raw output so far.
        """
        run = make_run(
            self,
            value,
            session=session,
            model=model,
            override_model=override_model,
            seed=seed,
            limits=limits,
            store=store,
            run_id=run_id,
            observe=observe,
        )
        if if_exists == "raise":
            return await run_block(self, value, run)
        if if_exists not in ("resume", "wait") or run.journal is None or run_id is None:
            problem = "must be raise, resume or wait; resume and wait require a store and a run_id"
            raise ConfigurationError(f"{self.name}.run()", "if_exists", if_exists, problem)
        from flowdebate.models.resolve import choose_model
        from flowdebate.runs.durable.resume import load_existing

        async def resume() -> RunResult[OutT_co, RawT_co]:
            wait = if_exists == "wait"
            same = await load_existing(
                run,
                seed=seed,
                session=session,
                model=choose_model(model, override_model),
                limits=limits,
                observe=observe,
                wait=wait,
            )
            return await run_block(self, value, same)

        try:
            return await resume()
        except RunNotFound:
            try:
                return await run_block(self, value, run)
            except RunExists as error:
                if error.run_id != run_id:
                    raise
            return await resume()  # another process created the run in the meantime

    def start(self, value: InT_contra, **options: Unpack[RunOptions]) -> RunHandle[OutT_co, RawT_co]:
        """Start a run in the background; return a handle for following, awaiting, cancelling and inspecting it.

        Must be called in a running event loop.
        """
        return start_block(self, value, make_run(self, value, **options))

    def run_sync(
        self, value: InT_contra, *, if_exists: IfExists = "raise", **options: Unpack[RunOptions]
    ) -> RunResult[OutT_co, RawT_co]:
        """Call `run` synchronously, for example in scripts and notebooks."""
        return run_sync(lambda: self.run(value, if_exists=if_exists, **options))

    async def resume(self, run_id: str, **options: Unpack[ResumeOptions]) -> RunResult[OutT_co, RawT_co]:
        """Resume a stored run, however it ended; the result covers the whole run.

        Recorded answers are replayed without new calls, so a complete run makes no calls. `model`, `limits` and
        `session` default to their values when the run was first started; model objects must be passed again, and limits
        may differ. A call that was started but has no recorded result is retried, or raises RunUncertain if
        `on_uncertain` is "raise". Raises RunChanged if the block or the models differ from the stored ones, unless
        `allow_changes` is set; JournalMismatch if a recorded answer belongs to another request; RunNotFound;
        RunConflict while another process is executing the run; DeadLetter if the run has repeatedly crashed its
        process, unless `retry_dead_letter` is set.
        """
        check_outside(self)
        run, value = await self._load(run_id, **options)
        return await run_block(self, value, run)

    async def start_resume(self, run_id: str, **options: Unpack[ResumeOptions]) -> RunHandle[OutT_co, RawT_co]:
        """Resume a run in the background; return a handle for following, awaiting, cancelling and inspecting it."""
        run, value = await self._load(run_id, **options)
        return start_block(self, value, run)

    def resume_sync(self, run_id: str, **options: Unpack[ResumeOptions]) -> RunResult[OutT_co, RawT_co]:
        """Call `resume` synchronously, for example in scripts and notebooks."""
        return run_sync(lambda: self.resume(run_id, **options))

    async def fork(self, run_id: str, **options: Unpack[ForkOptions]) -> RunResult[OutT_co, RawT_co]:
        """Run a stored run again as a new run, calling models only where the new run differs from the stored one.

        A call with the same request and model as in the stored run reuses the recorded answer at no cost. `edits` maps
        the paths of steps to the answers that replace theirs. `at` is the path of a step: from that step on, new
        answers are requested. This block may differ from the stored run's original block, except in its name: if only
        the judge has changed, only the judge is called. `model`, `seed`, `session` and `limits` default to the stored
        run's values; the stored run never changes and may still be in progress.

        The fork is a durable run in the same store, under `fork_id`; it can be resumed like any other. Up to the first
        difference, tools and `ctx.step` return the results recorded in the stored run; after it, they are executed
        again. Stop conditions are always evaluated again. Raises RunNotFound, any error that `run` raises, and
        ConfigurationError if the run belongs to another block or if `edits` contains an unknown path or an unusable
        answer; the edits are replayed before anything is stored.
        """
        check_outside(self)
        run, value = await self._load_fork(run_id, **options)
        return await run_block(self, value, run)

    async def start_fork(self, run_id: str, **options: Unpack[ForkOptions]) -> RunHandle[OutT_co, RawT_co]:
        """Fork a run in the background; return a handle for following, awaiting, cancelling and inspecting the fork."""
        run, value = await self._load_fork(run_id, **options)
        return start_block(self, value, run)

    def fork_sync(self, run_id: str, **options: Unpack[ForkOptions]) -> RunResult[OutT_co, RawT_co]:
        """Call `fork` synchronously, for example in scripts and notebooks."""
        return run_sync(lambda: self.fork(run_id, **options))

    async def continue_run(
        self, run_id: str, *, rounds: int = 1, ask: str | None = None, **options: Unpack[ForkOptions]
    ) -> RunResult[OutT_co, RawT_co]:
        """Continue a finished debate for `rounds` more rounds, in a fork that calls models only for new answers.

        `ask` is a reader's question, to be answered by the debaters in the first new round. Earlier contributions are
        reused unchanged; judges and other decision-makers are called again. Raises ConfigurationError for an unfinished
        run or a pattern that cannot be continued, and any error that `fork` raises.
        """
        from flowdebate.runs.durable.fork import plan_continuation_of

        location = f"{self.name}.continue_run()"
        if self.with_continuation is None:
            raise ConfigurationError(location, "pattern", self, "must be a debate; other patterns cannot be continued")
        more = await plan_continuation_of(location, run_id, rounds=rounds, ask=ask, store=options.get("store"))
        return await self.with_continuation(more).fork(run_id, **options)

    def batch(
        self, questions: Iterable[Any] | AsyncIterable[Any], **options: Unpack[BatchOptions]
    ) -> Batch[OutT_co, RawT_co]:
        """Run the block for each of `questions`; use `async for item in …`, or `await ….all()` for all results.

        At most `max_concurrency` runs are in progress at once, and questions are read as slots become free, so the
        iterable may be endless; `question(row)` extracts the question from a row. `limits` apply to each run; each
        run's seed is derived from `seed` and the run's index. A failed run yields an item with its error, or ends the
        batch if `on_error` is "raise". With a `store`, the run IDs have the form "{batch_id}-{index}". If `batch` is
        called again with the same `batch_id`, the results of complete runs are returned without calling a model, and
        the other runs are resumed; RunChanged is raised if a stored run has a different question, pattern, model or
        seed. `progress(summary)` is called after each run; once `until(summary)` returns true, no further questions are
        read.
        """
        from flowdebate.runs.batch import Batch

        return Batch(self, questions, **options)

    def batch_sync(
        self, questions: Iterable[Any] | AsyncIterable[Any], **options: Unpack[BatchOptions]
    ) -> BatchResult[OutT_co, RawT_co]:
        """Run a batch synchronously and return all results, for example in scripts and notebooks."""
        return run_sync(lambda: self.batch(questions, **options).all())

    async def _load(self, run_id: str, **options: Unpack[ResumeOptions]) -> tuple[Run, Any]:
        from flowdebate.runs.durable.resume import load_run

        return await load_run(run_id, block=self.name, outline=self.outline(), **options)

    async def _load_fork(self, run_id: str, **options: Unpack[ForkOptions]) -> tuple[Run, Any]:
        from flowdebate.runs.durable.resume import load_fork

        return await load_fork(run_id, block=self, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Wrapped(Block[Any, Any]):
    """Base class for blocks that wrap `inner` and share its name, resources and outline."""

    def __init__(self, inner: Block[Any, Any]) -> None:
        super().__init__(inner.name, resources=inner.resources, hidden=inner.hidden)
        self.role: str | None = inner.role
        self._inner = inner

    def outline(self) -> Outline:
        return self._inner.outline()


class InRole(Wrapped):
    """Wrapper that assigns `role` to `inner`; the block is not copied, because a custom block may keep state."""

    def __init__(self, inner: Block[Any, Any], role: str) -> None:
        super().__init__(inner)
        self.role: str | None = role

    async def act(self, value: object, ctx: Context, /) -> object:
        # `self._inner(…)` would set the block's own role again, but a judge used as a debater must act as a debater
        return await self._inner.act(value, ctx)


def merge_resources(
    location: str,
    blocks: Iterable[Block[Any, Any]],
    *,
    declared: Mapping[str, Resource] | None = None,
    owned: Collection[Resource] = (),
    closed: Collection[Block[Any, Any]] = (),
) -> tuple[dict[str, Resource], dict[str, Resource]]:
    """Collect the shared and the private resources of `blocks`, each keyed by resource key.

    Raises ResourceConflict if two blocks share different objects under the same key, or if one shares an object under a
    key that is private to another block. Two private objects under the same key do not conflict. Resources in `owned`
    become private. The private resources of blocks in `closed` are ignored: a debate acting as a debater has its own
    transcript, separate from that of the enclosing debate.
    """
    shared: dict[str, Resource] = {}
    hidden: dict[str, Resource] = {}
    owner: dict[str, str] = {}
    for key, resource in (declared or {}).items():
        shared[key], owner[key] = resource, location
    members = list(blocks)
    for block in members:
        for key, resource in block.resources.items():
            if shared.setdefault(key, resource) != resource:
                raise ResourceConflict(location, key, [owner[key], block.name])
            owner.setdefault(key, block.name)
    for resource in owned:
        if shared.setdefault(resource.key, resource) != resource:
            raise ResourceConflict(location, resource.key, [location, owner[resource.key]])
    for block in members:
        for key, resource in block.hidden.items() if block not in closed else ():
            if key in shared and shared[key] not in owned:
                raise ResourceConflict(location, key, [owner[key], block.name])
            hidden[key] = resource
    hidden.update({key: resource for key, resource in shared.items() if resource in owned})
    return {key: resource for key, resource in shared.items() if resource not in owned}, hidden


@lru_cache(maxsize=1024)  # cached: `isinstance` with an abstract class is slow, and each run checks hundreds of values
def _is_kind_of_block(kind: type[object]) -> bool:
    return issubclass(kind, Block)
