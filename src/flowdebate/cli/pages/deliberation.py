"""A deliberation: what all said in each round, the moderator's reports, the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from flowdebate.cli.document import Document, Speaker
from flowdebate.cli.live import AllAtOnce
from flowdebate.patterns.deliberation.schemas import DeliberationOutput, ModeratorReported
from flowdebate.patterns.events import RoleFailed, RoundStarted, TurnFinished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.page import Page
    from flowdebate.patterns.deliberation.schemas import ModeratorReport

__all__ = ("DeliberationDocument", "DeliberationView")


class DeliberationDocument(Document):
    """A deliberation."""

    TITLE: ClassVar[str] = "Deliberation"
    LABEL: ClassVar[str] = "Topic"
    SPEAKERS: ClassVar[str] = "Who spoke"
    RAW: ClassVar[type[Any]] = DeliberationOutput
    pattern: Literal["deliberation"] = "deliberation"
    debaters: list[Speaker] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: DeliberationOutput

    @property
    def subject(self) -> str:
        return self.raw.topic

    @property
    def speakers(self) -> list[Speaker]:
        spoke = {(entry.name, entry.role): None for entry in self.raw.history}
        return self.debaters or [Speaker(name=name, role=role) for name, role in spoke]

    @property
    def found(self) -> bool:
        return self.raw.final_decision is not None

    @property
    def said(self) -> tuple[int, str]:
        return len(self.raw.history), "argument"

    @property
    def held(self) -> str | None:
        endings = {
            "settled": "the matter is settled",
            "max_rounds": "as many as were allowed",
            "predicate": "ended by the application",
        }
        reason = self.raw.stop_reason
        return None if reason is None else f"Rounds: {self.raw.rounds}, {endings[reason]}"

    def show(self, page: Page) -> None:
        for number in range(1, self.raw.rounds + 1):
            page.round(number, self.max_rounds)
            for entry in self.raw.history:
                if entry.round == number:
                    page.said(entry.name, entry.role or "", entry.text)
            page.losses(loss for loss in self.raw.losses if loss.round == number)
            for report in self.raw.reports[number - 1 : number]:
                _report(report, page)
        _decision(self, page)

    def report(self) -> Iterator[str]:
        from flowdebate.cli.reports.deliberation import body

        return body(self)


class DeliberationView(AllAtOnce):
    """A deliberation as it is held."""

    def show(self, event: object) -> None:
        super().show(event)
        match event:
            case RoundStarted():
                self.page.notice("…")
            case TurnFinished() | RoleFailed(seat="debater") if self.all_said():
                self.page.notice("The moderator closes the round …")
            case ModeratorReported():
                _report(event.report, self.page)
            case _:
                pass

    def finish(self, document: Document) -> None:
        assert isinstance(document, DeliberationDocument)  # noqa: S101 - the one of this pattern
        _decision(document, self.page)
        super().finish(document)


def _report(report: ModeratorReport | None, page: Page) -> None:
    if report is None:
        return
    page.line()
    page.labelled("Moderator finds", report.status, "bold", indent="")
    page.labelled("Summary", report.summary, "dim")
    if report.decision is not None:
        page.labelled("Decision", report.decision, "dim")


def _decision(document: DeliberationDocument, page: Page) -> None:
    raw = document.raw
    if raw.stop_reason is not None or raw.final_decision is not None:
        settled = "yes" if raw.is_settled else "no"
        decision = "none" if raw.final_decision is None else raw.final_decision
        page.card("Decision", [("Settled", settled, "bold green"), ("Decision", decision, "")])
