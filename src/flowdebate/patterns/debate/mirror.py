"""Mirroring: a debate is repeated with the speakers in reverse order, and one verdict covers both debates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.sequencer import Sequencer
from flowdebate.chassis.spec import Loop
from flowdebate.chassis.state import entries_of
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, OnFlip, decide
from flowdebate.patterns.debate.judging.verdicts import HINT, conclude
from flowdebate.runs.context import Context

from .events import MirrorStarted
from .schemas import DebateContributionEntry, DebateRawOutput, DebateVerdict

if TYPE_CHECKING:
    from .options import DebateOptions


def mirrored_loop(loop: Loop[DebateOptions]) -> Loop[DebateOptions]:
    """Create the loop for the mirrored debate, with its own block names, transcript and audit trail."""
    return replace(
        loop,
        options=replace(loop.options, roles={**loop.options.roles, "synthesizer": False}, mirror=False),
        name=f"{loop.name}-mirrored",
        owns_transcript=True,
        collection_id=f"{loop.collection_id}-mirrored",
        schema=None,
        reverse=True,
    )


class Mirror(Block[Any, None]):
    """Block for the mirrored debate, including its judge.

    The raw output is stored in the state of the enclosing debate.
    """

    def __init__(self, inner: Sequencer[Any, Any]) -> None:
        shared, hidden = merge_resources(f"mirror {inner.name!r}", [inner], closed=[inner])
        super().__init__(inner.name, resources=shared, hidden=hidden)
        self.inner = inner

    async def act(self, value: object, ctx: Context, /) -> None:
        ctx.emit(MirrorStarted(block=self.name))
        transcript = ctx.scope.handles["transcript"]
        try:
            raw: DebateRawOutput = await self.inner(value, ctx)
        finally:
            # make sure the session keeps the transcript of the debate itself, not that of its mirror
            transcript.set(transcript.state)
        ctx.scope.handle.update(mirrored=raw)

    def outline(self) -> Outline:
        return self.inner.outline()


def speaking_order(entries: Sequence[DebateContributionEntry]) -> list[str]:
    """Return the sides in the order in which they spoke in the last round.

    >>> from flowdebate import DebateContributionEntry
    >>> said = [DebateContributionEntry(round=1, agent_name=n, stance=n, text="So.") for n in ("tea", "coffee")]
    >>> speaking_order(said)
    ['tea', 'coffee']
    """
    turns = [(entry.round, entry.stance) for entry in entries]
    last = max((number for number, _ in turns), default=0)
    return list(dict.fromkeys(stance for number, stance in turns if number == last))


def combine_verdicts(
    first: DebateVerdict, mirrored: DebateRawOutput, ctx: Context, *, sides: Sequence[str], on_flip: OnFlip
) -> DebateVerdict | None:
    """Combine the verdicts on a debate and its mirror; return None if the mirror has no verdict.

    All ballots count equally; if the winners differ, `on_flip` applies. If there are no ballots, a side wins only if
    both verdicts name it the winner.
    """
    second = mirrored.verdict
    if second is None:
        return None
    if first.judging is None or second.judging is None:
        # a custom judge casts no ballots, so compare the winners
        reasoning = f"{first.reasoning}\n\nWith the order of speakers reversed: {second.reasoning}"
        if first.winner == second.winner:
            return first.model_copy(update={"reasoning": reasoning})
        undecided = "Undecided: the judge found otherwise when the debate was held in the reverse order of speakers."
        return DebateVerdict(verdict=undecided, winner=None, reasoning=reasoning)
    spoken = [speaking_order(entries_of(ctx)), speaking_order(mirrored.transcript)]
    ballots: list[JudgeBallot] = []
    for verdict, judging, order in zip((first, second), (first.judging, second.judging), spoken, strict=True):
        # the mirror's ballots count as additional views
        after = max((ballot.view for ballot in ballots), default=-1) + 1
        for ballot in judging.ballots:
            # the text of a lone ballot is stored only in its verdict, which is about to be replaced
            words = {} if ballot.verdict else {"verdict": verdict.verdict, "reasoning": verdict.reasoning}
            ballots.append(ballot.model_copy(update={"view": ballot.view + after, "spoken": order, **words}))
    minimum = first.judging.min_log_odds
    decision = decide(ballots, sides=sides, by=first.judging.decided_by, min_log_odds=minimum)
    flipped = decision.flipped or first.winner != second.winner
    both_orders = first.judging.model_copy(
        update={
            "ballots": ballots,
            "planned": first.judging.planned * 2,
            "scores": decision.scores,
            "flipped": flipped,
            "on_flip": on_flip if flipped else None,
        }
    )
    return conclude(both_orders, decision.winner, sides=sides, hint=HINT in first.reasoning)
