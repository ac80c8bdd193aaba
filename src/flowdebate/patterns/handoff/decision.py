"""Decisions of a handoff: reading, checking and recording an answer, and choosing the next speaker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from flowdebate._util.text import CutOff, clean_text, is_blank
from flowdebate._util.wire import WireModel, one_of
from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import OutputError, RosterError, shown
from flowdebate.patterns.handoff.schemas import (
    HandoffAnswer,
    HandoffEntry,
    HandoffMade,
    HandoffState,
    HandoffTranscriptState,
)
from flowdebate.patterns.handoff.transition import read_transition
from flowdebate.patterns.state import accepted, state_of
from flowdebate.patterns.turn import (
    audit_resources,
    complete_turn,
    record_failure,
    record_flag,
    text_said,
    warn_of_nothing,
)
from flowdebate.prompts.escaping import name_among
from flowdebate.resources.resource import StateResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.patterns.handoff.schemas import ChosenBy, OnInvalid
    from flowdebate.patterns.state import Flag
    from flowdebate.runs.context import Context


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


NOBODY = "nobody was named to speak next"
NOTHING = "nothing was said"

_TEXTS = ("response", "text")
_NAMES = ("next_agent_name", "nextAgentName")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDecision:
    """A speaker's text, and its choice of the next speaker."""

    text: str
    next_agent_name: str | None = None
    """The next speaker; None if nobody was named who can speak."""
    chosen_by: ChosenBy | None = None
    problem: str | None = None
    """The problem of the answer; None without one."""
    named: str | None = None
    """Whom it named, as it did."""
    cut_off: bool = False
    """Whether the text ran out of room."""
    speaker: Block[Any, Any] | None = field(default=None, repr=False, compare=False)
    """The block to ask once more; None for one that cannot be asked again."""

    @property
    def flag(self) -> Flag | None:
        """What is wrong with the text."""
        return "empty" if not self.text else "cut_off" if self.cut_off else None


def answer_of(value: object, agent_name: str, names: Sequence[str], ctx: Context) -> HandoffAnswer:
    """The output of a block for a turn of `agent_name`, as an answer.

    A dict or an object with a `response` or a `text`, and maybe a `next_agent_name`, in either key style; else text, as
    `text_said` takes it. Text that comes without a name hands over as `read_transition` reads it.
    """
    said = _held(value, _TEXTS)
    text = text_said(said if isinstance(said, str) else value, agent_name, ctx)
    named, cut_off = _held(value, _NAMES), isinstance(text, CutOff)
    if named is not None:
        return HandoffAnswer(response=str(text), next_agent_name=written(named), cut_off=cut_off)
    transition = read_transition(str(text), names)
    return HandoffAnswer(response=transition.text, next_agent_name=transition.name, cut_off=cut_off)


def check_decision(
    answer: HandoffAnswer,
    *,
    agent_name: str,
    names: Sequence[str],
    chosen_by: ChosenBy = "speaker",
    speaker: Block[Any, Any] | None = None,
) -> HandoffDecision:
    """`answer` with what is wrong with it: nothing said, or nobody named who can speak after `agent_name`."""
    name, problem = chosen(answer.next_agent_name, agent_name=agent_name, names=names)
    if is_blank(answer.response):
        problem = NOTHING if problem is None else f"{NOTHING}, and {problem}"
    return HandoffDecision(
        text="" if is_blank(answer.response) else answer.response,
        next_agent_name=name,
        chosen_by=None if name is None else chosen_by,
        problem=problem,
        named=answer.next_agent_name,
        cut_off=answer.cut_off,
        speaker=speaker,
    )


def chosen(named: str | None, *, agent_name: str, names: Sequence[str]) -> tuple[str | None, str | None]:
    """The next speaker if `agent_name` has `named` somebody; or None, and why that one cannot speak.

    >>> chosen("con", agent_name="Pro", names=["Pro", "Con"])
    ('Con', None)
    >>> chosen("Pro", agent_name="Pro", names=["Pro", "Con"])
    (None, "'Pro' handed over to itself")
    """
    if named is None or is_blank(named):
        return None, NOBODY
    name = name_among(named, names)
    if name is None:
        return None, f"{shown(named)} is nobody in this debate"
    if name == agent_name:
        return None, f"{name!r} handed over to itself"
    return name, None


def merged(first: HandoffDecision, second: HandoffDecision) -> HandoffDecision:
    """The decision of a speaker that was asked twice: its first words, if any, and its second choice.

    Where its second answer names nobody who can speak next, its first choice stands, if only its words were missing.
    """
    said = first if first.text else second
    first = replace(first, text=said.text, cut_off=said.cut_off)
    if second.next_agent_name is None:
        return first
    return replace(
        first,
        next_agent_name=second.next_agent_name,
        chosen_by="retry",
        named=second.named,
    )


def _held(value: object, keys: Sequence[str]) -> object:
    """The value of the first of `keys` that `value` has; None if it has none."""
    if isinstance(value, Mapping):
        return next((value[key] for key in keys if value.get(key) is not None), None)
    if isinstance(value, str):  # whatever a subclass of str has besides
        return None
    return next((held for key in keys if (held := getattr(value, key, None)) is not None), None)


def written(named: object) -> str | None:
    """A name as somebody wrote it; an enum's member by its value."""
    if isinstance(named, Enum):
        named = named.value
    return clean_text(str(named)) if isinstance(named, str) else None if named is None else shown(named)


def handoff_schema(names: Sequence[str]) -> type[WireModel]:
    """Schema of an answer: the text, and which of `names` is next."""
    return create_model(
        "HandoffAnswer",
        __base__=WireModel,
        response=(str, Field(description="What you say")),
        next_agent_name=(one_of(names), Field(description="Who speaks next")),
    )


TURN_LOST = "the turn was lost"


def record_said(
    *,
    name: str,
    agent_name: str,
    names: Sequence[str],
    transcript: HandoffTranscript,
    collection_id: str,
    own: bool = False,
) -> Handler[Any, HandoffDecision]:
    """A block that adds what a speaker said to the transcript, before it is decided who is next."""

    @handler(name=f"{name}-record-{agent_name}", resources=audit_resources(transcript, collection_id))
    async def record(value: object, ctx: Context) -> HandoffDecision:
        if not isinstance(value, HandoffDecision):
            read = partial(answer_of, value, agent_name, names, ctx)
            answer = await accepted(read, ctx, returns=HandoffAnswer, own=own)
            value = check_decision(answer, agent_name=agent_name, names=names)
        number = max(state_of(ctx, HandoffState).round, 1)
        entry = HandoffEntry(round=number, agent_name=agent_name, text=value.text, flag=value.flag)
        held = ctx.scope.handles["transcript"]
        held.set(held.state.with_entry(entry))
        complete_turn(agent_name, value.text, ctx)
        return value

    return record


def needs_another_word(value: object) -> bool:
    """Whether a turn's speaker is to be asked once more, and can be."""
    return isinstance(value, HandoffDecision) and value.problem is not None and value.speaker is not None


def draw_instead(error: Exception, value: HandoffDecision, ctx: Context) -> HandoffDecision:
    """Go on with a speaker's first answer if its provider fails when it is asked once more."""
    speaker = state_of(ctx, HandoffState).speaker
    record_failure(error, ctx, block=ctx.block, role="debater", name=speaker, instead="drawn")
    return value


def hand_over(
    *, name: str, names: Sequence[str], on_invalid: OnInvalid, transcript: HandoffTranscript
) -> Handler[Any, None]:
    """A block that decides who speaks next: whom the speaker named, or the lot; with "error", a RosterError."""

    @handler(name=f"{name}-hand-over", resources={"transcript": transcript})
    def decide(value: HandoffDecision | None, ctx: Context) -> None:
        state = state_of(ctx, HandoffState)
        if value is not None and value.problem is not None and on_invalid == "error":
            raise _refusal(value, state.speaker, names, ctx)
        next_name, by = (None, None) if value is None else (value.next_agent_name, value.chosen_by)
        if next_name is None or by is None:
            next_name, by = ctx.random.choice([other for other in names if other != state.speaker]), "random"
        if value is not None:
            if value.flag is not None:
                record_flag(value.flag, state.speaker, ctx)
            if value.flag == "empty" and value.speaker is None:
                warn_of_nothing(state.speaker, ctx)
            flagged = {"text": value.text, "flag": value.flag}
            _complete(ctx, **flagged, next_agent_name=next_name, chosen_by=by, problem=value.problem)
        event = HandoffMade(
            round=state.round,
            agent_name=state.speaker,
            next_agent_name=next_name,
            chosen_by=by,
            problem=TURN_LOST if value is None else value.problem,
        )
        ctx.scope.handle.update(speaker=next_name)
        ctx.emit(event)

    return decide


def _complete(ctx: Context, **decided: object) -> None:
    """Put what is `decided` into the last entry."""
    held = ctx.scope.handles["transcript"]
    *before, last = held.state.entries
    held.set(type(held.state)().with_entry(*before, last.model_copy(update=decided)))


def _refusal(value: HandoffDecision, speaker: str, names: Sequence[str], ctx: Context) -> OutputError:
    block = ctx.block if value.speaker is None else value.speaker.name
    if value.next_agent_name is not None:
        return OutputError(block, "what is said, and who speaks next", [("response", NOTHING)])
    others = [other for other in names if other != speaker]
    return RosterError(block, value.named or "", others, field="next_agent_name", problem=value.problem or "")
