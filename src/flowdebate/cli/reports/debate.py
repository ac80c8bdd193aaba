"""The Markdown of a debate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.cli.judging import ballots_of
from flowdebate.cli.pages.debate import winner_of
from flowdebate.cli.report import escaped, losses, output, quoted, speaker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.cli.document import DebateDocument, Side
    from flowdebate.patterns.debate.schemas import DebateModeratorDecision, DebateRawOutput, DebateVerdict

__all__ = ("body",)


def body(document: DebateDocument) -> Iterator[str]:
    """Rounds, verdict, output."""
    for number in document.rounds:
        yield from _round(document.raw, number)
    if document.raw.verdict is not None:
        yield from _verdict(document.raw.verdict, document.sides)
    yield from output(document.output)
    if document.notes:
        yield from ("## How it was judged", "", *(f"- {escaped(note)}" for note in document.notes), "")


def _round(raw: DebateRawOutput, number: int) -> Iterator[str]:
    yield from (f"## Round {number}", "")
    for decision in raw.moderator_decisions:
        if decision.round == number:
            yield from _decision(decision)
    for entry in raw.transcript:
        if entry.round == number:
            yield from (speaker(entry.agent_name, entry.stance), "", quoted(entry.text), "")
    yield from losses(loss for loss in raw.losses if loss.round == number)


def _decision(decision: DebateModeratorDecision) -> Iterator[str]:
    speakers = ", ".join(map(escaped, decision.next_speakers)) or "nobody"
    last = "; this round is the last" if decision.done else ""
    yield from (f"**Moderator**, speakers: {speakers}{last}", "")
    for label, text in (("Briefing", decision.briefing), ("Angle", decision.new_angle)):
        if text:
            yield from (f"{label}:", "", quoted(text), "")


def _verdict(verdict: DebateVerdict, sides: Sequence[Side]) -> Iterator[str]:
    yield from ("## Verdict", "", f"**Winner**: {escaped(winner_of(verdict, sides))}", "", quoted(verdict.verdict), "")
    yield from ("**Reasoning**", "", quoted(verdict.reasoning), "")
    if verdict.judging is not None and (ballots := ballots_of(verdict.judging)) is not None:
        yield from (f"**Ballots**: {escaped(ballots)}", "")
