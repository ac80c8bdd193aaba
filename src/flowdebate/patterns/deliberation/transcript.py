"""Transcript of a deliberation: the shared resource, its form as text, and the blocks that record what is said."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from flowdebate.blocks.handler import Handler, handler
from flowdebate.patterns.deliberation.schemas import DeliberationEntry, DeliberationState, DeliberationTranscriptState
from flowdebate.patterns.roles import EMPTY, render_flag, render_members, speaker_tag
from flowdebate.patterns.state import state_of
from flowdebate.patterns.turn import flag_of
from flowdebate.prompts.escaping import quoted
from flowdebate.prompts.template import filled
from flowdebate.resources.resource import StateResource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.patterns.roles import Members
    from flowdebate.runs.context import Context


DeliberationTranscript = StateResource[DeliberationTranscriptState]
"""The resource that `create_deliberation_transcript` makes."""


def create_deliberation_transcript() -> DeliberationTranscript:
    """A transcript to share between a deliberation and the blocks that read it, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` is what was said in the rounds before: those of a round are added when
    all have spoken, before the moderator reports. Every block that reads it, and the pattern, must be given the same
    object.

    >>> create_deliberation_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=DeliberationTranscriptState)


def said_in_progress(ctx: Context, participants: Members) -> list[DeliberationEntry]:
    """Contributions to the round in progress, in declared order, whoever was the fastest."""
    state = state_of(ctx, DeliberationState)
    return [
        DeliberationEntry(
            round=state.round,
            name=name,
            role=role,
            text=state.spoken[name],
            flag=flag_of(name, state.losses, round=state.round),
        )
        for name, role in participants.items()
        if name in state.spoken
    ]


def record_round(
    *, name: str, participants: Members, transcript: DeliberationTranscript
) -> Handler[object, list[DeliberationEntry]]:
    """A block that adds what was said in the round to the transcript, now that all have spoken."""

    @handler(name=f"{name}-record-round", resources={"transcript": transcript})
    def record(_: object, ctx: Context) -> list[DeliberationEntry]:
        entries = said_in_progress(ctx, participants)
        handle = ctx.scope.handles["transcript"]
        handle.set(handle.state.with_entry(*entries))
        ctx.scope.handle.update(spoken={})
        return entries

    return record


OWN = " (you)"
"""Stands behind the reader's own name in the transcript that it is shown."""


def render_said(entries: Iterable[DeliberationEntry], *, own: str | None = None) -> str:
    """The transcript as text: `[name, role] …`, under a heading for each round; more entries only add to the end.

    With `own`, the name of who reads it, what that one said is marked.

    >>> from flowdebate.patterns.deliberation.schemas import DeliberationEntry
    >>> print(render_said([DeliberationEntry(round=1, name="Bear", role="risk analyst", text="It can fail.")]))
    Round 1:
    [Bear, risk analyst] It can fail.
    """
    lines: list[str] = []
    heading: int | None = None
    for entry in entries:
        if entry.round != heading:
            heading = entry.round
            lines.append(f"Round {heading}:")
        mark = OWN if entry.name == own else ""
        lines.append(f"[{speaker_tag(entry.name, entry.role, mark)}] {quoted(entry.text)}")
        if entry.flag:
            lines.append(render_flag(entry.flag))
    return "\n".join(lines) if lines else EMPTY


@lru_cache(maxsize=64)  # every turn of a deliberation asks for the same
def system_for_all(
    template: str, topic: str, participants: tuple[tuple[str, str | None], ...], max_rounds: int, length: str = ""
) -> str:
    """A system message up to where it is the same for all turns."""
    about = {"roster": render_members(dict(participants)), "max_rounds": max_rounds, "length": length}
    return filled(template, topic=quoted(topic), **about)
