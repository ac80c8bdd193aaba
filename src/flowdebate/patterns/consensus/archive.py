"""Archive of a consensus debate: the context that agents are shown, and the feedback for later debates."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate._util.text import clean_text, one_line
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.handler import Handler, handler, result_of
from flowdebate.errors import LimitReached, error_text
from flowdebate.measures import Position, calibration, elo_changes, flips
from flowdebate.patterns.consensus.relations import moments
from flowdebate.patterns.consensus.schemas import ConsensusContext, Feedback, SkippedContext
from flowdebate.resources.archive import CritiquePattern, PastDebate, PersonaRecord, Rating

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from flowdebate.patterns.consensus.assembly import ConsensusOptions
    from flowdebate.patterns.consensus.schemas import ConsensusOutput, ConsensusState, ContextSource
    from flowdebate.resources.archive import Archive
    from flowdebate.runs.context import Context


T = TypeVar("T")

LONGEST_RESEARCH = 20_000
"""Characters: every call of every agent has it in its prompt."""


async def _ask_archive(
    archive: Archive,
    call: Callable[[], Awaitable[T]],
    ctx: Context,
    *,
    key: str,
    returns: Any,  # noqa: ANN401 - any type form
) -> T:
    """Await a store of `archive`; TimeoutError if it takes longer than the archive's patience."""

    async def in_patience() -> T:
        time_limit = asyncio.timeout(archive.patience)
        try:
            async with time_limit:
                return await call()
        except Exception as error:
            if time_limit.expired():
                raise TimeoutError(f"no answer within {archive.patience:g} s") from error
            raise

    found: T = await ctx.step(in_patience, key=key, returns=returns, failures=True)
    return found


async def read_ratings(archive: Archive, names: Sequence[str], ctx: Context) -> dict[str, Rating]:
    """The ratings of those of `names` that `archive` knows, with the calibration that their outcomes show."""

    async def read() -> dict[str, Rating]:
        ratings = dict(await archive.ratings.of(names))
        for name, made in (await archive.outcomes.of(names)).items():
            rating = ratings.get(name, Rating())
            if rating.calibration is None:
                ratings[name] = rating.model_copy(update={"calibration": calibration(made)})
        return ratings

    return await _ask_archive(archive, read, ctx, key="ratings", returns=dict[str, Rating])


def gather_context(options: ConsensusOptions) -> Handler[Any, None]:
    """A tap that puts past debates, critique patterns and research into the debate's state; sources may fail."""

    @handler(name=f"{options.name}-context")
    async def gather(_: object, ctx: Context) -> None:
        edition = await _edition(ctx)
        ctx.scope.handle.update(first_edition=edition == 1, former_prompts=edition < _EDITION)
        skipped: list[SkippedContext] = []
        archive, limit = options.archive, options.history_limit
        task = ctx.scope.handle.state.question
        past: list[PastDebate] | None = None
        patterns: list[CritiquePattern] | None = None
        if archive is None or limit == 0:
            reason = "there is no archive" if archive is None else "history_limit is 0"
            skipped += [
                SkippedContext(source="history", reason=reason),
                SkippedContext(source="patterns", reason=reason),
            ]
        else:

            async def history() -> list[PastDebate]:
                found = await archive.past_debates.recent(task, limit=limit)
                return [PastDebate.model_validate(item) for item in list(found)[:limit]]

            async def points() -> list[CritiquePattern]:
                found = await archive.critique_patterns.successful(limit=limit)
                return [CritiquePattern.model_validate(item) for item in list(found)[:limit]]

            read = _ask_archive(archive, history, ctx, key="history", returns=list[PastDebate])
            past = await _fetched(read, "history", skipped)
            read_too = _ask_archive(archive, points, ctx, key="patterns", returns=list[CritiquePattern])
            patterns = await _fetched(read_too, "patterns", skipped)
        research = await _researched(options, skipped, ctx)
        context = ConsensusContext(
            past_debates=past or [], critique_patterns=patterns or [], research=research, skipped=skipped
        )
        ctx.scope.handle.update(context=context)

    return gather


_EDITION = 3
"""The second asks for positions of proposals, the third has prompts by profile."""


async def _edition(ctx: Context) -> int:
    """The edition that started the run: the first recorded steps of this debate, but not the one recorded here."""
    journal, key = ctx.run.journal, "edition"
    if journal is None:
        return _EDITION
    if journal.has_steps(ctx.scope.handle.path) and not journal.has_steps(f"{ctx.path}#step:{key}"):
        return 1

    async def current() -> int:
        return _EDITION

    edition: int = await ctx.step(current, key=key, returns=int)
    return edition


async def _fetched(call: Awaitable[T], source: ContextSource, skipped: list[SkippedContext]) -> T | None:
    """What `call` gives; None, and an entry in `skipped`, if it fails or finds nothing."""
    try:
        found = await call
    except LimitReached:
        raise
    except Exception as error:  # noqa: BLE001 - a store may raise anything
        skipped.append(SkippedContext(source=source, reason=one_line(error_text(error))))
        return None
    if not found:
        skipped.append(SkippedContext(source=source, reason="nothing was found"))
        return None
    return found


async def _researched(options: ConsensusOptions, skipped: list[SkippedContext], ctx: Context) -> str | None:
    research = options.research
    if research is None:
        skipped.append(SkippedContext(source="research", reason="none was asked for"))
        return None
    task = ctx.scope.handle.state.question

    async def call() -> str:
        found = await result_of(research(task, ctx))
        return "" if found is None else clean_text(str(found)).strip()

    text: str | None = await _fetched(ctx.step(call, key="research", failures=True), "research", skipped)
    if text is not None and len(text) > LONGEST_RESEARCH:
        reason = f"cut after {LONGEST_RESEARCH:,} of its {len(text):,} characters"
        skipped.append(SkippedContext(source="research", reason=reason))
        return text[:LONGEST_RESEARCH]
    return text


async def give_feedback(options: ConsensusOptions, output: ConsensusOutput, ctx: Context) -> Feedback:
    """Tell the archive of the debate; what goes wrong is in the result, and changes nothing else."""
    positions = _positions(output)
    changed = flips(positions, similarity=options.similarity)
    archive = options.archive
    if archive is None:
        return Feedback(positions=positions, flips=changed, moments=moments(output, changed))
    writer = _Writer(archive, ctx)
    debate = writer.debate
    past = PastDebate(
        id=debate,
        task=output.task,
        outcome=output.outcome or "no_consensus",
        answer=output.answer if output.consensus_reached else None,
        winner=output.winner,
        strength=output.strength,
        confidence=output.confidence,
        at=ctx.now(),
    )
    patterns, records = _critique_patterns(output), _records(options, output, changed)
    before: dict[str, float] = {}
    changes: dict[str, float] = {}

    async def rate() -> bool:
        for known, found in zip((before, changes), await writer.rate(options.names, output), strict=True):
            known.update(found)
        return True

    state: ConsensusState = ctx.scope.handle.state
    valid = [] if state.first_edition else [ballot for ballot in output.ballots if ballot.choice in state.proposals]
    writes = [lambda: writer.write("votes", lambda: archive.outcomes.add(debate, valid))] if valid else []
    _, remembered, *_ = await in_order(
        [
            rate,
            lambda: writer.write("history", lambda: archive.past_debates.add(past)),
            lambda: writer.write("positions", lambda: archive.positions.add(debate, positions)),
            lambda: writer.write("patterns", lambda: archive.critique_patterns.record(debate, patterns)),
            lambda: writer.write("personas", lambda: archive.personas.record(debate, records)),
            *writes,
        ]
    )
    return Feedback(
        debate=debate,
        ratings=before,
        rating_changes=changes,
        moments=moments(output, changed, before),
        positions=positions,
        flips=changed,
        remembered=remembered,
        problems=sorted(writer.problems),
    )


class _Writer:
    """Writes to the archive, and collects the problems."""

    def __init__(self, archive: Archive, ctx: Context) -> None:
        self._archive = archive
        self._ctx = ctx
        self.debate = f"{ctx.run_id}:{ctx.scope.handle.path}"
        """The key by which the archive knows a debate that it has already."""
        self.problems: list[str] = []

    async def write(self, what: str, call: Callable[[], Awaitable[Any]]) -> bool:
        """Await `call`; False, and a problem more, if it failed."""

        async def nothing() -> None:
            await call()

        try:
            await _ask_archive(self._archive, nothing, self._ctx, key=what, returns=None)
        except Exception as error:  # noqa: BLE001 - a store may raise anything; the answer is there already
            self.problems.append(f"{what}: {one_line(error_text(error))}")
            return False
        return True

    async def rate(self, names: Sequence[str], output: ConsensusOutput) -> tuple[dict[str, float], dict[str, float]]:
        """Change the agents' ratings; those before and the changes, none without a winner or if the archive failed."""
        if output.winner is None:
            return {}, {}
        try:
            known = await read_ratings(self._archive, names, self._ctx)
        except Exception as error:  # noqa: BLE001 - as above
            self.problems.append(f"ratings: {one_line(error_text(error))}")
            return {}, {}
        before = {name: known.get(name, Rating()).elo for name in names}
        changes = elo_changes(before, winner=output.winner, consensus=output.consensus_reached)
        stored = await self.write("ratings", lambda: self._archive.ratings.apply(self.debate, changes))
        return (before, changes) if stored else ({}, {})


def _positions(output: ConsensusOutput) -> list[Position]:
    """The positions that agents stated with their proposals (round 0), then round by round."""
    stated = [*output.proposals, *(revised for one in output.rounds for revised in one.revisions)]
    return [
        Position(agent=each.agent, claim=output.task, answer=each.position, round=each.round)
        for each in stated
        if each.position is not None
    ]


def _critique_patterns(output: ConsensusOutput) -> list[CritiquePattern]:
    """The points that critics made; one helped if its target then revised its proposal, and won with consensus."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for one in output.rounds:
        revised = {proposal.agent for proposal in one.revisions}
        for critique in one.critiques:
            helped = output.consensus_reached and critique.target == output.winner and critique.target in revised
            for index, issue in enumerate(critique.issues):
                suggestion = critique.suggestions[index] if index < len(critique.suggestions) else ""
                found.setdefault((issue, suggestion), Counter()).update(uses=1, successes=int(helped))
    return [
        CritiquePattern(issue=issue, suggestion=suggestion, uses=counts["uses"], successes=counts["successes"])
        for (issue, suggestion), counts in found.items()
    ]


def _records(options: ConsensusOptions, output: ConsensusOutput, changed: list[Any]) -> dict[str, PersonaRecord]:
    """The record that this debate adds for each agent."""
    critics = Counter(critique.critic for one in output.rounds for critique in one.critiques)
    failed = Counter(each.agent for each in output.failures if each.instead in ("skipped", "stand_in"))
    flipped = Counter(flip.agent for flip in changed)
    return {
        name: PersonaRecord(
            debates=1,
            wins=int(name == output.winner),
            failures=failed[name],
            critiques=critics[name],
            flips=flipped[name],
        )
        for name in options.names
    }
