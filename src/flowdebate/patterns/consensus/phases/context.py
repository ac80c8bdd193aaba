"""Phase 0: what agents are told from before, what was looked up, and what was left out and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flowdebate._util.text import clean_text, one_line
from flowdebate.blocks.handler import Handler, handler, result_of
from flowdebate.errors import LimitReached, told
from flowdebate.patterns.consensus.phases.feedback import answer_of
from flowdebate.patterns.consensus.schemas import ConsensusContext, SkippedContext
from flowdebate.resources.archive import CritiquePattern, PastDebate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from flowdebate.patterns.consensus.options import Options
    from flowdebate.resources.archive import Archive
    from flowdebate.runs.context import Context

__all__ = ("gather_context",)

T = TypeVar("T")
KnownT = TypeVar("KnownT", PastDebate, CritiquePattern)

_FROM_ARCHIVE: tuple[Literal["history"], Literal["patterns"]] = ("history", "patterns")
LONGEST_RESEARCH = 20_000
"""Characters: every call of every agent is shown it."""


def gather_context(options: Options) -> Handler[Any, None]:
    """A tap that puts past debates, points of critics and research into the debate's state.

    A source that fails is skipped, and the reason kept: a debate does not need its past.
    """

    @handler(name=f"{options.name}-context")
    async def gather(_: object, ctx: Context) -> None:
        skipped: list[SkippedContext] = []
        archive, limit = options.archive, options.history_limit
        task = ctx.sequencer.state.question
        past: list[PastDebate] = []
        patterns: list[CritiquePattern] = []
        if archive is None:
            skipped += [SkippedContext(source=source, reason="there is no archive") for source in _FROM_ARCHIVE]
        elif limit == 0:
            skipped += [SkippedContext(source=source, reason="history_limit is 0") for source in _FROM_ARCHIVE]
        else:
            stored = _Stored(archive, limit, ctx)
            history = stored.some(PastDebate, lambda: archive.past_debates.recent(task, limit=limit), "history")
            past = await _fetched(history, "history", skipped)
            points = stored.some(CritiquePattern, lambda: archive.critique_patterns.successful(limit=limit), "patterns")
            patterns = await _fetched(points, "patterns", skipped)
        research = await _researched(options, skipped, ctx)
        context = ConsensusContext(past_debates=past, critique_patterns=patterns, research=research, skipped=skipped)
        ctx.sequencer.update(context=context)

    return gather


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the archive knows, at most `limit` of each."""

    archive: Archive
    limit: int
    ctx: Context

    async def some(self, kind: type[KnownT], call: Callable[[], Awaitable[Sequence[KnownT]]], key: str) -> list[KnownT]:
        """What a store gives, if it is of that kind."""

        async def checked() -> list[KnownT]:
            return [kind.model_validate(item) for item in list(await call())[: self.limit]]

        return await answer_of(self.archive, checked, self.ctx, key=key, returns=list[kind])  # type: ignore[valid-type]


async def _fetched(
    call: Awaitable[list[T]], source: Literal["history", "patterns", "research"], skipped: list[SkippedContext]
) -> list[T]:
    try:
        found = await call
    except LimitReached:
        raise
    except Exception as error:  # noqa: BLE001 - a store may raise anything
        skipped.append(SkippedContext(source=source, reason=one_line(told(error))))
        return []
    if not found:
        skipped.append(SkippedContext(source=source, reason="nothing was found"))
    return found


async def _researched(options: Options, skipped: list[SkippedContext], ctx: Context) -> str | None:
    research = options.research
    if research is None:
        skipped.append(SkippedContext(source="research", reason="none was asked for"))
        return None
    task = ctx.sequencer.state.question

    async def call() -> str:
        found = await result_of(research(task, ctx))
        return "" if found is None else clean_text(str(found)).strip()

    found = await _fetched(_as_list(ctx.step(call, key="research", failures=True)), "research", skipped)
    text = "".join(found)
    if not text:
        if found:
            skipped.append(SkippedContext(source="research", reason="nothing was found"))
        return None
    if len(text) > LONGEST_RESEARCH:
        reason = f"cut after {LONGEST_RESEARCH:,} of its {len(text):,} characters"
        skipped.append(SkippedContext(source="research", reason=reason))
    return text[:LONGEST_RESEARCH]


async def _as_list(call: Awaitable[str]) -> list[str]:
    return [await call]
