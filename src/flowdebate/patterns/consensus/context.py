"""Phase 0: what agents are told from before, what was looked up, and what was left out and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from flowdebate.blocks.functions import result_of
from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import LimitReached, told
from flowdebate.models.text import clean_text, one_line
from flowdebate.schemas.consensus import ConsensusContext, SkippedContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from flowdebate.patterns.consensus.options import Options
    from flowdebate.runs.context import Context

__all__ = ("gather_context",)

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
        past: list[Any] = []
        patterns: list[Any] = []
        if archive is None:
            skipped += [SkippedContext(source=source, reason="there is no archive") for source in _FROM_ARCHIVE]
        elif limit == 0:
            skipped += [SkippedContext(source=source, reason="history_limit is 0") for source in _FROM_ARCHIVE]
        else:
            past = await _fetched(lambda: archive.past_debates.recent(task, limit=limit), "history", skipped, ctx)
            patterns = await _fetched(
                lambda: archive.critique_patterns.successful(limit=limit), "patterns", skipped, ctx
            )
        research = await _researched(options, skipped, ctx)
        context = ConsensusContext(
            past_debates=list(past)[:limit],
            critique_patterns=list(patterns)[:limit],
            research=research,
            skipped=skipped,
        )
        ctx.sequencer.update(context=context)

    return gather


async def _fetched(
    call: Callable[[], Awaitable[Any]],
    source: Literal["history", "patterns", "research"],
    skipped: list[SkippedContext],
    ctx: Context,
) -> list[Any]:
    try:
        found = list(await ctx.step(call, key=source))
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

    async def call() -> object:
        return await result_of(research(task, ctx))

    found = await _fetched(lambda: _as_list(call()), "research", skipped, ctx)
    text = clean_text(str(found[0])).strip() if found and found[0] is not None else ""
    if not text:
        if found:
            skipped.append(SkippedContext(source="research", reason="nothing was found"))
        return None
    if len(text) > LONGEST_RESEARCH:
        reason = f"cut after {LONGEST_RESEARCH:,} of its {len(text):,} characters"
        skipped.append(SkippedContext(source="research", reason=reason))
    return text[:LONGEST_RESEARCH]


async def _as_list(call: Awaitable[object]) -> list[object]:
    return [await call]
