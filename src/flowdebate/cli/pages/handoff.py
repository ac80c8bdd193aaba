"""A handoff: turns, and who was handed over to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from flowdebate.cli.document import Document, Speaker
from flowdebate.cli.live import LiveView
from flowdebate.patterns.events import RoundStarted, TurnFinished, TurnStarted
from flowdebate.patterns.handoff.schemas import HandoffMade, HandoffOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.page import Page
    from flowdebate.patterns.handoff.schemas import HandoffEntry

__all__ = ("HandoffDocument", "HandoffView", "handoff_made")


class HandoffDocument(Document):
    """A handoff."""

    TITLE: ClassVar[str] = "Handoff"
    LABEL: ClassVar[str] = "Proposition"
    SPEAKERS: ClassVar[str] = "Who spoke"
    RAW: ClassVar[type[Any]] = HandoffOutput
    pattern: Literal["handoff"] = "handoff"
    debaters: list[Speaker] = Field(default_factory=list)
    max_turns: int | None = None
    raw: HandoffOutput

    @property
    def subject(self) -> str:
        return self.raw.proposition

    @property
    def speakers(self) -> list[Speaker]:
        return self.debaters or [
            Speaker(name=name) for name in dict.fromkeys(e.agent_name for e in self.raw.transcript)
        ]

    @property
    def found(self) -> bool:
        return True

    @property
    def said(self) -> tuple[int, str]:
        return len(self.raw.transcript), "turn"

    @property
    def held(self) -> str | None:
        endings = {"max_turns": "as many as were asked for", "predicate": "ended by the application"}
        reason = self.raw.stop_reason
        return None if reason is None else f"Turns: {self.raw.turns}, {endings[reason]}"

    def show(self, page: Page) -> None:
        for number in range(1, self.raw.turns + 1):
            for entry in self.raw.transcript:
                if entry.round == number:
                    page.said(entry.agent_name, _turn(number, self.max_turns), entry.text)
                    _next(entry, page)
            page.losses(loss for loss in self.raw.losses if loss.round == number)

    def report(self) -> Iterator[str]:
        from flowdebate.cli.reports.handoff import body

        return body(self)


class HandoffView(LiveView):
    """A handoff as it is held: what was said is shown once it is recorded, since an answer also says who is next."""

    def __init__(self, page: Page, *, max_turns: int) -> None:
        super().__init__(page)
        self._max_turns = max_turns
        self._shown = 0
        """The last turn of which it was shown what was said."""

    def show(self, event: object) -> None:
        match event:
            case RoundStarted():
                pass
            case TurnStarted():
                self.page.speaker(event.agent_name, _turn(event.round, self._max_turns))
                self.page.notice("…")
            case TurnFinished():
                self._said(self.transcript, event.round)
                self.page.notice("…")
            case HandoffMade():
                self._said(self.transcript, event.round)
                _next(event, self.page)
            case _:
                super().show(event)

    def _said(self, entries: list[HandoffEntry], number: int) -> None:
        for entry in entries:
            if self._shown < entry.round == number and entry.text:
                self.page.text(entry.text)
                self.page.end_text()
                self._shown = number


def handoff_made(turn: HandoffEntry | HandoffMade) -> tuple[str, str] | None:
    """How the next speaker was chosen, and who that is; None where it was not decided."""
    match turn.chosen_by:
        case "speaker":
            return "Hands over to", str(turn.next_agent_name)
        case "retry":
            return "Hands over, when asked again, to", f"{turn.next_agent_name} ({turn.problem})"
        case "random":
            return "The lot names", f"{turn.next_agent_name} ({turn.problem})"
        case None:
            return None


def _next(turn: HandoffEntry | HandoffMade, page: Page) -> None:
    found = handoff_made(turn)
    if found is not None:
        page.labelled(*found, "dim", indent="")


def _turn(number: int, max_turns: int | None) -> str:
    return f"turn {number}" if max_turns is None else f"turn {number} of {max_turns}"
