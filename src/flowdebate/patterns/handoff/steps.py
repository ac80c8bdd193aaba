"""Steps that follow a speaker's answer: record it, call the speaker again if needed, and decide who speaks next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from flowdebate.blocks.functions import Handler, handler
from flowdebate.chassis.state import accepted, round_of, state_of
from flowdebate.chassis.turn import audit_resources, complete_turn, record_failure, record_flag, warn_about_empty_text
from flowdebate.errors import OutputError, RosterError
from flowdebate.runs.context import Context

from .answers import NOTHING, HandoffDecision, check_decision, read_answer
from .events import HandoffMade
from .schemas import HandoffAnswer, HandoffEntry, HandoffState, HandoffTranscript, OnInvalid


def record_contribution(
    *,
    name: str,
    agent_name: str,
    names: Sequence[str],
    transcript: HandoffTranscript,
    collection_id: str,
    custom: bool = False,
) -> Handler[Any, HandoffDecision]:
    """Create the block that adds a speaker's contribution to the transcript before the next speaker is chosen."""

    @handler(name=f"{name}-record-{agent_name}", resources=audit_resources(transcript, collection_id))
    async def record(value: object, ctx: Context) -> HandoffDecision:
        if not isinstance(value, HandoffDecision):
            read = partial(read_answer, value, agent_name, names, ctx)
            answer = await accepted(read, ctx, returns=HandoffAnswer, custom=custom)
            value = check_decision(answer, agent_name=agent_name, names=names)
        entry = HandoffEntry(round=round_of(ctx), agent_name=agent_name, text=value.text, flag=value.flag)
        transcript_handle = ctx.scope.handles["transcript"]
        transcript_handle.set(transcript_handle.state.with_entry(entry))
        complete_turn(agent_name, value.text, ctx)
        return value

    return record


def needs_second_call(value: object) -> bool:
    """Check whether a turn's speaker needs to be called again and can be."""
    return isinstance(value, HandoffDecision) and value.problem is not None and value.speaker is not None


def keep_first_answer(error: Exception, value: HandoffDecision, ctx: Context) -> HandoffDecision:
    """Keep a speaker's first answer if the provider fails during the second call."""
    speaker = state_of(ctx, HandoffState).speaker
    record_failure(error, ctx, block=ctx.block, role="debater", name=speaker, instead="drawn")
    return value


def hand_over(
    *, name: str, names: Sequence[str], on_invalid: OnInvalid, transcript: HandoffTranscript
) -> Handler[Any, None]:
    """Create the block that decides on the next speaker.

    The block follows the speaker's choice. If there is no valid choice, it draws a speaker at random, or raises
    RosterError if `on_invalid` is "error".
    """

    @handler(name=f"{name}-hand-over", resources={"transcript": transcript})
    def decide(value: HandoffDecision | None, ctx: Context) -> None:
        speaker = state_of(ctx, HandoffState).speaker
        other_names = [other for other in names if other != speaker]
        decision = HandoffDecision(text="", problem="the turn was lost") if value is None else value
        if value is not None and on_invalid == "error":
            _refuse_problem(value, other_names, ctx)
        # a decision by a custom block may lack either value
        next_name, by = decision.next_agent_name, decision.chosen_by
        if next_name is None or by is None:
            next_name, by = ctx.random.choice(other_names), "random"
        if value is not None:
            if decision.flag is not None:
                record_flag(decision.flag, speaker, ctx)
            if decision.flag == "empty" and decision.speaker is None:
                warn_about_empty_text(speaker, ctx)
            decided = {"next_agent_name": next_name, "chosen_by": by, "problem": decision.problem}
            transcript_handle = ctx.scope.handles["transcript"]
            *before, last = transcript_handle.state.entries
            last = last.model_copy(update={"text": decision.text, "flag": decision.flag, **decided})
            transcript_handle.set(transcript_handle.state.with_entries([*before, last]))
        number = state_of(ctx, HandoffState).round
        ctx.scope.handle.update(speaker=next_name)
        ctx.emit(
            HandoffMade(
                round=number, agent_name=speaker, next_agent_name=next_name, chosen_by=by, problem=decision.problem
            )
        )

    return decide


def _refuse_problem(decision: HandoffDecision, other_names: Sequence[str], ctx: Context) -> None:
    """Raise an error if the answer has a problem; the error names the answering block."""
    if decision.problem is None:
        return
    block = ctx.block if decision.speaker is None else decision.speaker.name
    if decision.next_agent_name is not None:
        raise OutputError(block, "the turn's text and the next speaker", [("response", NOTHING)])
    raise RosterError(
        block, decision.written_name or "", other_names, field="next_agent_name", problem=decision.problem
    )
