"""A panel: contributions, audits, output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from flowdebate.cli.document import Document, Speaker
from flowdebate.cli.live import OneByOne
from flowdebate.patterns.events import RoundsEnded, TurnFinished
from flowdebate.patterns.round_robin.schemas import RefereeReported, RoundRobinOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.page import Page
    from flowdebate.patterns.round_robin.schemas import RefereeAudit

__all__ = ("PanelDocument", "PanelView", "findings")


class PanelDocument(Document):
    """A panel."""

    TITLE: ClassVar[str] = "Panel"
    LABEL: ClassVar[str] = "Question"
    SPEAKERS: ClassVar[str] = "Panel members"
    RAW: ClassVar[type[Any]] = RoundRobinOutput
    pattern: Literal["panel"] = "panel"
    panelists: list[Speaker] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: RoundRobinOutput
    output: Any = None
    """The synthesizer's, as plain JSON data; None without one."""

    @property
    def subject(self) -> str:
        return self.raw.question

    @property
    def speakers(self) -> list[Speaker]:
        spoke = {(entry.agent_name, entry.role): None for entry in self.raw.transcript}
        return self.panelists or [Speaker(name=name, role=role) for name, role in spoke]

    @property
    def found(self) -> bool:
        return all(loss.instead != "no_output" for loss in self.raw.losses)

    @property
    def said(self) -> tuple[int, str]:
        return len(self.raw.transcript), "contribution"

    @property
    def held(self) -> str | None:
        endings = {"max_rounds": "as many as were allowed", "predicate": "ended by the application"}
        reason = self.raw.stop_reason
        return None if reason is None else f"Rounds: {self.raw.rounds}, {endings[reason]}"

    def show(self, page: Page) -> None:
        raw = self.raw
        for number in range(1, raw.rounds + 1):
            page.round(number, self.max_rounds)
            for entry in raw.transcript:
                if entry.round == number:
                    page.said(entry.agent_name, entry.role or "", entry.text)
            page.losses(loss for loss in raw.losses if loss.round == number and loss.seat != "synthesizer")
            for audit in raw.audits:
                if audit.round == number:
                    _audit(audit, page)
        page.losses(loss for loss in raw.losses if loss.seat == "synthesizer")
        if self.output is not None:
            page.output(self.output)

    def report(self) -> Iterator[str]:
        from flowdebate.cli.reports.panel import body

        return body(self)


class PanelView(OneByOne):
    """A panel as it is held."""

    def __init__(self, page: Page, *, synthesizer: str | None, refereed: bool) -> None:
        super().__init__(page, synthesizer=synthesizer)
        self._refereed = refereed

    def show(self, event: object) -> None:
        super().show(event)
        match event:
            case TurnFinished() if self._refereed:
                self.page.notice("…")
            case RefereeReported():
                _audit(event.audit, self.page)
            case RoundsEnded():
                self.await_output()
            case _:
                pass


def findings(audit: RefereeAudit) -> Iterator[tuple[str, str]]:
    """Whom a referee assessed, and what it found, in a line."""
    for found in audit.assessments:
        issues = "; ".join(found.issues)
        yield found.agent_name, f"{found.score} of 100{f': {issues}' if issues else ''}"


def _audit(audit: RefereeAudit, page: Page) -> None:
    page.line()
    page.labelled("Referee", audit.notes, "bold", indent="")
    for name, found in findings(audit):
        page.labelled(name, found, "dim")
