"""Archive access during a consensus debate: loading context for the agents and storing feedback for later debates."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate._text import clean_text, error_text, one_line
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.functions import Invocation, result_of
from flowdebate.errors import LimitReached
from flowdebate.measures import Position, calibration, elo_changes, flips, vote_weight
from flowdebate.resources.archive import Archive, CritiquePattern, PastDebate, PersonaRecord, Rating

from .relations import moments
from .schemas import ConsensusContext, ConsensusOutput, ConsensusState, ContextSource, Feedback, SkippedContext

if TYPE_CHECKING:
    from flowdebate.chassis.spec import Loop
    from flowdebate.measures import Flip
    from flowdebate.runs.context import Context

    from .options import ConsensusOptions


T = TypeVar("T")

_MAX_RESEARCH_LENGTH = 20_000
"""Maximum length in characters of the research text, which is included in every prompt."""


async def gather_context(research: Invocation | None, loop: Loop[ConsensusOptions], ctx: Context) -> None:
    """Load past debates, critique patterns and research into the debate's state, skipping any source that fails."""
    archive, limit, task = loop.options.archive, loop.options.history_limit, ctx.scope.handle.state.question
    skipped: list[SkippedContext] = []
    past: list[PastDebate] = []
    points: list[CritiquePattern] = []
    if archive is None or limit == 0:
        reason = "there is no archive" if archive is None else "history_limit is 0"
        skipped += [SkippedContext(source=source, reason=reason) for source in ("history", "patterns")]
    else:

        async def read_past() -> list[PastDebate]:
            # a custom store may return more debates than requested, or invalid ones
            debates = await archive.past_debates.recent(task, limit=limit)
            return [PastDebate.model_validate(item) for item in list(debates)[:limit]]

        async def read_points() -> list[CritiquePattern]:
            patterns = await archive.critique_patterns.successful(limit=limit)
            return [CritiquePattern.model_validate(item) for item in list(patterns)[:limit]]

        past = await _fetch("history", _ask(archive, read_past, ctx, "history", list[PastDebate]), skipped) or past
        pending_patterns = _ask(archive, read_points, ctx, "patterns", list[CritiquePattern])
        points = await _fetch("patterns", pending_patterns, skipped) or points
    text = await _look_up(research, task, skipped, ctx)
    context = ConsensusContext(past_debates=past, critique_patterns=points, research=text, skipped=skipped)
    # computed at the start, so that a fork uses the same ratings as its parent
    ctx.scope.handle.update(context=context, weights=await _weigh_votes(loop, ctx))


async def _look_up(research: Invocation | None, task: str, skipped: list[SkippedContext], ctx: Context) -> str | None:
    if research is None:
        skipped.append(SkippedContext(source="research", reason="none was asked for"))
        return None

    async def call() -> str:
        material = await result_of(research(task, ctx))
        return "" if material is None else clean_text(str(material)).strip()

    text: str | None = await _fetch("research", ctx.step(call, key="research", failures=True), skipped)
    if text is not None and len(text) > _MAX_RESEARCH_LENGTH:
        reason = f"cut after {_MAX_RESEARCH_LENGTH:,} of its {len(text):,} characters"
        skipped.append(SkippedContext(source="research", reason=reason))
        return text[:_MAX_RESEARCH_LENGTH]
    return text


async def _fetch(source: ContextSource, call: Awaitable[T], skipped: list[SkippedContext]) -> T | None:
    """Await `call`; if it fails or returns nothing, note the reason in `skipped` and return None."""
    try:
        result = await call
    except LimitReached:  # one of the run's limits has been reached; the source has not failed
        raise
    except Exception as error:  # noqa: BLE001 - a store may raise anything
        skipped.append(SkippedContext(source=source, reason=one_line(error_text(error))))
        return None
    if not result:
        skipped.append(SkippedContext(source=source, reason="nothing was found"))
    return result or None


async def _ask(
    archive: Archive,
    call: Callable[[], Awaitable[T]],
    ctx: Context,
    key: str,
    returns: object,
) -> T:
    """Await a call to one of the archive's stores; raise TimeoutError if it exceeds the archive's time limit."""

    async def in_patience() -> T:
        time_limit = asyncio.timeout(archive.patience)
        try:
            async with time_limit:
                return await call()
        except Exception as error:
            if time_limit.expired():
                raise TimeoutError(f"no answer within {archive.patience:g} s") from error
            raise

    # run as a step, so that a resumed run sees the same failure even if the store has recovered since
    value: T = await ctx.step(in_patience, key=key, returns=returns, failures=True)
    return value


async def read_ratings(archive: Archive, names: Sequence[str], ctx: Context) -> dict[str, Rating]:
    """Read the agents' known ratings from `archive`, deriving missing calibrations from past outcomes."""

    async def read() -> dict[str, Rating]:
        ratings = dict(await archive.ratings.of(names))
        for name, outcomes in (await archive.outcomes.of(names)).items():
            rating = ratings.get(name, Rating())
            if rating.calibration is None:  # a calibration provided by the store takes precedence
                ratings[name] = rating.model_copy(update={"calibration": calibration(outcomes)})
        return ratings

    return await _ask(archive, read, ctx, "ratings", dict[str, Rating])


async def _weigh_votes(loop: Loop[ConsensusOptions], ctx: Context) -> dict[str, float] | None:
    """Return the vote weights, or None for an unweighted vote.

    Weights not set by the application are based on the archive's ratings.
    """
    voting = loop.options.voting
    if voting.voting != "weighted":
        return None
    weights = dict(voting.weights or {})
    archive, unknown = loop.options.archive, [name for name in loop.names if name not in weights]
    if archive is None or not unknown:
        return weights
    try:
        ratings = await read_ratings(archive, unknown, ctx)
        rated = {name: vote_weight(rating.elo, rating.calibration) for name, rating in ratings.items()}
    except Exception as error:  # noqa: BLE001 - a store may raise anything, and the votes are there
        ctx.scope.handle.state.problems.append(f"weights: {one_line(error_text(error))}; unrated votes weigh 1")
        ctx.run.degrade("degraded")
        return weights
    return rated | weights  # the application's weights take precedence


async def give_feedback(loop: Loop[ConsensusOptions], output: ConsensusOutput, ctx: Context) -> Feedback:
    """Report the debate to the archive; failures are noted in the result instead of being raised."""
    positions = [
        Position(agent=proposal.agent, claim=output.task, answer=proposal.position, round=proposal.round)
        for proposal in (*output.proposals, *(revised for one in output.rounds for revised in one.revisions))
        if proposal.position is not None
    ]
    changed = flips(positions, similarity=loop.options.convergence.measure)
    archive = loop.options.archive
    if archive is None:
        return Feedback(positions=positions, flips=changed, moments=moments(output, changed))
    # lets the archive recognize a debate that a resumed run reports again
    debate = f"{ctx.run_id}:{ctx.scope.handle.path}"
    past = _past_debate(debate, output, at=ctx.now())
    patterns, records = _find_patterns(output), _make_records(loop.names, output, changed)
    writes: list[tuple[str, Callable[[], Awaitable[None]]]] = [
        ("history", lambda: archive.past_debates.add(past)),
        ("positions", lambda: archive.positions.add(debate, positions)),
        ("patterns", lambda: archive.critique_patterns.record(debate, patterns)),
        ("personas", lambda: archive.personas.record(debate, records)),
    ]
    state: ConsensusState = ctx.scope.handle.state
    valid = [ballot for ballot in output.ballots if ballot.choice in state.proposals]
    if valid:  # only votes for an actual proposal can later be compared with the outcome
        writes.append(("votes", lambda: archive.outcomes.add(debate, valid)))
    writer = _ArchiveWriter(archive, ctx)
    reports: list[Callable[[], Awaitable[bool]]] = [
        partial(writer.rate, debate, output, loop.names),
        *(partial(writer.write, part, call) for part, call in writes),
    ]
    is_rated, is_remembered, *_ = await in_order(reports)
    ratings = writer.ratings if is_rated else {}
    return Feedback(
        debate=debate,
        ratings=ratings,
        rating_changes=writer.rating_changes if is_rated else {},
        moments=moments(output, changed, ratings),
        positions=positions,
        flips=changed,
        remembered=is_remembered,
        problems=sorted(writer.problems),
    )


def _past_debate(debate: str, output: ConsensusOutput, *, at: float) -> PastDebate:
    """Build a record of the debate to include in later debates' prompts."""
    return PastDebate(
        id=debate,
        task=output.task,
        outcome=output.outcome or "no_consensus",
        # without consensus, the leading proposal is not the answer
        answer=output.answer if output.consensus_reached else None,
        winner=output.winner,
        strength=output.strength,
        confidence=output.confidence,
        at=at,
        dissent=[
            vote for vote in output.ballots if output.winner not in (None, vote.choice) and vote.reasoning.strip()
        ],
    )


@dataclass(slots=True)
class _ArchiveWriter:
    """Writer that stores a debate's results in an archive, collecting failures instead of raising them."""

    archive: Archive
    ctx: Context
    problems: list[str] = field(default_factory=list)
    ratings: dict[str, float] = field(default_factory=dict)
    """Elo ratings before the debate, keyed by agent."""
    rating_changes: dict[str, float] = field(default_factory=dict)

    async def write(self, part: str, call: Callable[[], Awaitable[Any]]) -> bool:
        """Write one part of the results; return True if the archive accepted it."""

        async def await_only() -> None:  # discards the store's return value, which must not be recorded
            await call()

        try:
            await _ask(self.archive, await_only, self.ctx, part, None)
        except Exception as error:  # noqa: BLE001 - a store may raise anything; the answer is there already
            self.problems.append(f"{part}: {one_line(error_text(error))}")
            return False
        return True

    async def rate(self, debate: str, output: ConsensusOutput, names: Sequence[str]) -> bool:
        """Update the agents' ratings; return False if there is no winner or the ratings cannot be read or stored."""
        if output.winner is None:
            return False
        try:
            ratings = await read_ratings(self.archive, names, self.ctx)
        except Exception as error:  # noqa: BLE001 - a store may raise anything
            self.problems.append(f"ratings: {one_line(error_text(error))}")
            return False
        self.ratings = {name: ratings.get(name, Rating()).elo for name in names}
        changes = elo_changes(self.ratings, winner=output.winner, consensus=output.consensus_reached)
        self.rating_changes = changes
        return await self.write("ratings", lambda: self.archive.ratings.apply(debate, changes))


def _find_patterns(output: ConsensusOutput) -> list[CritiquePattern]:
    """Pair each issue raised by critics with the suggestion for resolving it.

    A pair counts as successful if the criticized agent then revised its proposal and won by consensus.
    """
    tallies: dict[tuple[str, str], Counter[str]] = {}
    for one in output.rounds:
        revised = {proposal.agent for proposal in one.revisions}
        for critique in one.critiques:
            helped = output.consensus_reached and critique.target == output.winner and critique.target in revised
            # matched by position, since nothing else connects suggestions to issues
            for issue, suggestion in zip_longest(critique.issues, critique.suggestions[: len(critique.issues)]):
                tallies.setdefault((issue, suggestion or ""), Counter()).update(uses=1, successes=int(helped))
    return [
        CritiquePattern(issue=issue, suggestion=suggestion, uses=counts["uses"], successes=counts["successes"])
        for (issue, suggestion), counts in tallies.items()
    ]


def _make_records(names: Sequence[str], output: ConsensusOutput, changed: Sequence[Flip]) -> dict[str, PersonaRecord]:
    """Build a record of this debate for each agent."""
    critics = Counter(critique.critic for one in output.rounds for critique in one.critiques)
    # truncated proposals and invalid votes do not count as failed calls
    failed = Counter(loss.name for loss in output.losses if loss.instead in ("skipped", "stand_in"))
    flipped = Counter(flip.agent for flip in changed)
    return {
        name: PersonaRecord(
            debates=1,
            wins=int(name == output.winner),
            failures=failed[name],
            critiques=critics[name],
            flips=flipped[name],
        )
        for name in names
    }
