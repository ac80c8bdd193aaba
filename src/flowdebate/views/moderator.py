"""What a moderator is told: everything, with names, and its own earlier decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flowdebate.views.entries import HOW_TO_READ_NAMED, render_entries
from flowdebate.views.quote import quoted, tag_name
from flowdebate.views.template import Template, filled, listed, uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.schemas import DebateContributionEntry, DebateModeratorDecision

__all__ = ("MODERATOR", "ModeratorTemplate", "render_moderator_system", "render_moderator_turn")


@dataclass(frozen=True, kw_only=True)
class ModeratorTemplate(Template):
    """The texts of a moderator's prompt."""

    system: str = field(
        default=(
            "You moderate a debate. You open each round, and you take no side.\n\n"
            "Question: {question}\n"
            "Debaters:\n{roster}\n\n"
            "For each round you decide four things. The next speakers: who speaks in this round, by name, in which "
            "order. The briefing: one or two sentences of facts that all of them should know, or null. The new angle: "
            "one question that this round should focus on, or null. Done: true if this round is to be the last.\n\n"
            f"{HOW_TO_READ_NAMED}"
        ),
        metadata=uses("question", "roster"),
    )
    """The same for all rounds."""
    research: str = field(
        default=(
            "You have tools. Before you decide, look up the facts that the debaters need, and put what you found into "
            "the briefing."
        ),
        metadata=uses(),
    )
    """Added to the system message when there are tools."""
    transcript: str = field(default="The debate so far:\n{transcript}", metadata=uses("transcript"))
    """What stands first in a round's message."""
    decisions: str = field(default="What you have decided so far:\n{decisions}", metadata=uses("decisions"))
    opening: str = field(
        default=(
            "Open round {round}{rounds}. Nobody has argued yet: let all the debaters speak, or a balanced part of "
            "them, and give them a briefing that frames the question."
        ),
        metadata=uses("round", "rounds"),
    )
    """What to do when nobody has argued yet."""
    next: str = field(
        default=(
            "Open round {round}{rounds}. Choose who should speak now; give a new angle if an important point was "
            "passed over, and facts if they are missing. Set done to true if you expect nothing new after this round."
        ),
        metadata=uses("round", "rounds"),
    )
    """What to do in later rounds; `{rounds}` is " of at most 3" where the bound is known."""


MODERATOR = ModeratorTemplate()


def render_moderator_system(
    *, question: str, roster: Sequence[str], has_tools: bool = False, template: ModeratorTemplate = MODERATOR
) -> str:
    """The office, the question and the debaters' names: the same for all rounds."""
    text = filled(template.system, question=quoted(question), roster=listed(*map(tag_name, roster)))
    return f"{text}\n\n{template.research}" if has_tools else text


def render_moderator_turn(
    *,
    entries: Sequence[DebateContributionEntry],
    decisions: Sequence[DebateModeratorDecision],
    round: int,  # noqa: A002 - the field's word for it
    max_rounds: int | None = None,
    template: ModeratorTemplate = MODERATOR,
) -> str:
    """The whole transcript in order and with names, the earlier decisions, and the round to open."""
    parts = [filled(template.transcript, transcript=render_entries(entries, names=True))]
    if decisions:
        told = listed(*(item for decision in decisions for item in _told(decision)))
        parts.append(filled(template.decisions, decisions=told))
    rounds = "" if max_rounds is None else f" of at most {max_rounds}"
    parts.append(filled(template.next if entries else template.opening, round=round, rounds=rounds))
    return "\n\n".join(parts)


def _told(decision: DebateModeratorDecision) -> Iterator[str]:
    yield f"round {decision.round}, speakers: {', '.join(map(tag_name, decision.next_speakers)) or '(nobody)'}"
    if decision.briefing:
        yield f"round {decision.round}, briefing: {quoted(decision.briefing)}"
    if decision.new_angle:
        yield f"round {decision.round}, new angle: {quoted(decision.new_angle)}"
