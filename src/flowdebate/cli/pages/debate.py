"""A debate: decisions, arguments, verdict, output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.cli.judging import ballots_of, nobody_of
from flowdebate.cli.live import OneByOne
from flowdebate.patterns.debate.events import JudgeViewMade, ModeratorDecided, VerdictReached
from flowdebate.patterns.events import RoundStarted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.cli.document import DebateDocument, Side
    from flowdebate.cli.page import Page
    from flowdebate.patterns.debate.schemas import DebateModeratorDecision, DebateVerdict

__all__ = ("DebateView", "show", "winner_of")

_AT_THE_END = ("judge", "synthesizer")
"""Seats that have their turn after all rounds."""


def show(document: DebateDocument, page: Page) -> None:
    """Write a saved debate."""
    raw = document.raw
    for number in document.rounds:
        page.round(number, document.max_rounds)
        for decision in raw.moderator_decisions:
            if decision.round == number:
                _decision(decision, page)
        for entry in raw.transcript:
            if entry.round == number:
                page.said(entry.agent_name, entry.stance, entry.text)
        page.losses(loss for loss in raw.losses if loss.round == number and loss.seat not in _AT_THE_END)
    page.losses(loss for loss in raw.losses if loss.seat in _AT_THE_END)
    if raw.verdict is not None:
        _verdict(raw.verdict, document.sides, page)
    if document.output is not None:
        page.output(document.output)


class DebateView(OneByOne):
    """A debate as it is held."""

    def __init__(self, page: Page, *, sides: Sequence[Side], synthesizer: str | None, moderated: bool) -> None:
        super().__init__(page, synthesizer=synthesizer)
        self._sides = sides
        self._moderated = moderated
        self._weighing = False

    def show(self, event: object) -> None:
        super().show(event)
        match event:
            case RoundStarted() if self._moderated:
                self.page.notice("The moderator opens the round …")
            case ModeratorDecided():
                _decision(event.decision, self.page)
            case JudgeViewMade() if not self._weighing:  # once for all views and models
                self._weighing = True
                self.page.notice("The judge weighs the arguments …")
            case VerdictReached():
                _verdict(event.verdict, self._sides, self.page)
                self.await_output()
            case _:
                pass


def winner_of(verdict: DebateVerdict, sides: Sequence[Side]) -> str:
    """Who won, by name and stance.

    >>> from flowdebate.cli.document import Side
    >>> from flowdebate.patterns.debate.schemas import DebateVerdict
    >>> winner_of(DebateVerdict(verdict="v", winner="cap rents", reasoning="r"), [Side(name="a", stance="cap rents")])
    'a (cap rents)'
    """
    if verdict.winner is None:
        return nobody_of(verdict)
    names = ", ".join(side.name for side in sides if side.stance == verdict.winner)
    return f"{names} ({verdict.winner})" if names else verdict.winner


def _decision(decision: DebateModeratorDecision, page: Page) -> None:
    page.line()
    page.labelled("Moderator calls on", ", ".join(decision.next_speakers) or "nobody", "bold", indent="")
    if decision.briefing:
        page.labelled("Briefing", decision.briefing, "dim")
    if decision.new_angle:
        page.labelled("Angle", decision.new_angle, "dim")
    if decision.done:
        page.line("  This round is the last.")


def _verdict(verdict: DebateVerdict, sides: Sequence[Side], page: Page) -> None:
    winner = ("Winner", winner_of(verdict, sides), "bold green")
    rows = [winner, ("Verdict", verdict.verdict, ""), ("Reasoning", verdict.reasoning, "")]
    if verdict.judging is not None and (ballots := ballots_of(verdict.judging)) is not None:
        rows.append(("Ballots", ballots, "dim"))
    page.card("Verdict", rows)
