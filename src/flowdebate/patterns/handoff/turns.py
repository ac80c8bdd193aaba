"""A turn's end: what was said is recorded, its speaker asked again where it named nobody, and the floor handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import OutputError, RosterError
from flowdebate.patterns.failures import lose
from flowdebate.patterns.handoff.decision import NOTHING, HandoffDecision, answer_of, handoff_state, judged
from flowdebate.patterns.handoff.schemas import HandoffEntry, HandoffMade, HandoffOutput, HandoffTranscriptState
from flowdebate.patterns.recording import audit_resources, complete_turn
from flowdebate.patterns.rounds import finish
from flowdebate.patterns.state import entries_of
from flowdebate.resources.resource import StateResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.handoff.schemas import OnInvalid
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "HandoffTranscript",
    "build_output",
    "create_handoff_transcript",
    "drawn_instead",
    "hand_over",
    "needs_another_word",
    "raw_output",
    "record_said",
)

HandoffTranscript = StateResource[HandoffTranscriptState]
"""The resource that `create_handoff_transcript` makes."""


def create_handoff_transcript() -> HandoffTranscript:
    """A transcript to share between a handoff and the blocks that read it, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` are the turns so far. Every block that reads it, and the pattern, must be
    given the same object.

    >>> create_handoff_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=HandoffTranscriptState)


LOST = "the turn was lost"


def record_said(
    *, name: str, agent_name: str, names: Sequence[str], transcript: HandoffTranscript, collection_id: str
) -> Handler[Any, HandoffDecision]:
    """A block that adds what a speaker said to the transcript, before it is decided who is next."""

    @handler(name=f"{name}-record-{agent_name}", resources=audit_resources(transcript, collection_id))
    def record(value: object, ctx: Context) -> HandoffDecision:
        if not isinstance(value, HandoffDecision):
            value = judged(answer_of(value, agent_name, names, ctx), agent_name=agent_name, names=names)
        entry = HandoffEntry(round=max(handoff_state(ctx).round, 1), agent_name=agent_name, text=value.text)
        held = ctx.scope.handles["transcript"]
        held.set(held.state.with_entry(entry))
        complete_turn(agent_name, value.text, ctx)
        return value

    return record


def needs_another_word(value: object) -> bool:
    """Whether a turn's speaker is to be asked once more, and can be."""
    return isinstance(value, HandoffDecision) and value.problem is not None and value.speaker is not None


def drawn_instead(error: Exception, value: HandoffDecision, ctx: Context) -> HandoffDecision:
    """What is gone on with where a provider failed a speaker that was asked once more: what it has said."""
    speaker = handoff_state(ctx).speaker
    lose(error, ctx, block=ctx.block, seat="debater", name=speaker, instead="drawn")
    return value


def hand_over(
    *, name: str, names: Sequence[str], on_invalid: OnInvalid, transcript: HandoffTranscript
) -> Handler[Any, None]:
    """A block that decides who speaks next: whom the speaker named, or the lot; with "error", RosterError instead."""

    @handler(name=f"{name}-hand-over", resources={"transcript": transcript})
    def decide(value: HandoffDecision | None, ctx: Context) -> None:
        state = handoff_state(ctx)
        if value is not None and value.problem is not None and on_invalid == "error":
            raise _refusal(value, state.speaker, names, ctx)
        next_name, by = (None, None) if value is None else (value.next_agent_name, value.chosen_by)
        if next_name is None or by is None:
            next_name, by = ctx.random.choice([other for other in names if other != state.speaker]), "random"
        if value is not None:
            _complete(ctx, text=value.text, next_agent_name=next_name, chosen_by=by, problem=value.problem)
        event = HandoffMade(
            round=state.round,
            agent_name=state.speaker,
            next_agent_name=next_name,
            chosen_by=by,
            problem=LOST if value is None else value.problem,
        )
        ctx.sequencer.update(speaker=next_name)
        ctx.emit(event)

    return decide


def _complete(ctx: Context, **decided: object) -> None:
    """Put what is `decided` into the last entry."""
    held = ctx.scope.handles["transcript"]
    *before, last = held.state.entries
    held.set(type(held.state)(entries=[*before, last.model_copy(update=decided)]))


def _refusal(value: HandoffDecision, speaker: str, names: Sequence[str], ctx: Context) -> OutputError:
    block = ctx.block if value.speaker is None else value.speaker.name
    if value.next_agent_name is not None:
        return OutputError(block, "what is said, and who speaks next", [("response", NOTHING)])
    others = [other for other in names if other != speaker]
    return RosterError(block, value.named or "", others, field="next_agent_name", problem=value.problem or "")


def raw_output(ctx: Context, status: RunStatus) -> HandoffOutput:
    """What the handoff around a step came to so far."""
    state = handoff_state(ctx)
    return HandoffOutput(
        proposition=state.question,
        turns=state.round,
        transcript=list(entries_of(ctx)),
        stop_reason=state.stop_reason,
        status="failed" if status == "running" else status,
        losses=list(state.losses),
        seed=ctx.seed,
    )


def build_output(name: str) -> Handler[Any, HandoffOutput]:
    """A block that gives all that was said: the run's output, and its `raw`."""

    @handler(name=f"{name}-build-output")
    def build(_: object, ctx: Context) -> HandoffOutput:
        output = raw_output(ctx, "degraded" if handoff_state(ctx).losses else "complete")
        finish(ctx, output)
        return output

    return build
