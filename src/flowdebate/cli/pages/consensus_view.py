"""A consensus debate as it is held: proposals, critiques, revisions and votes, each whole, as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.cli.live import LiveView
from flowdebate.cli.pages.consensus import ConsensusDocument, failed, show_ballot, show_critique, show_outcome
from flowdebate.patterns.consensus.events import AgentMessage, CritiqueMade, DebateStarted, StageEntered, VoteCast
from flowdebate.patterns.consensus.stages import ConsensusStage
from flowdebate.patterns.events import RoleFailed
from flowdebate.runs.events import CallFellBack, CallRetried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.cli.document import Document
    from flowdebate.cli.page import Page
    from flowdebate.patterns.consensus.stages import StageReached

__all__ = ("ConsensusView",)

_HEADINGS: Mapping[ConsensusStage, str] = {
    ConsensusStage.GENERATING_PROPOSALS: "Proposals",
    ConsensusStage.VOTING: "Vote",
}


class ConsensusView(LiveView):
    """Writes a debate's events as they come; who works on what is a notice."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self._stage = ""
        self._awaited: dict[str, None] = {}
        """Who has not answered yet, in stages in which every agent does."""
        self._agents: tuple[str, ...] = ()

    def show(self, event: object) -> None:
        self._show(event)
        if self._stage:
            names = ", ".join(self._awaited)
            self.page.notice(f"{self._stage}: {names} …" if names else f"{self._stage} …")

    def _show(self, event: object) -> None:
        match event:
            case DebateStarted():
                self._agents = event.agents
            case StageEntered():
                self._enter(event.stage)
            case AgentMessage():
                self._awaited.pop(event.agent, None)
                self.page.said(event.agent, self.page.about(event.agent), event.text)
            case CritiqueMade():
                show_critique(event.critique, self.page)
            case VoteCast():
                self._awaited.pop(event.ballot.voter, None)
                show_ballot(event.ballot, self.page)
            case RoleFailed(phase=str(phase)):
                self._awaited.pop(event.name, None)
                self.page.labelled(failed(event.name, phase, event.target), event.message, "yellow")
            case CallRetried() | CallFellBack():
                self.show_trouble(event, who=event.block.split("-", 2)[-1])  # consensus-propose-Ann
            case _:
                super().show(event)

    def _enter(self, reached: StageReached) -> None:
        self._stage = reached.label
        self._awaited = {}
        if reached.stage in _HEADINGS:
            self.page.heading(_HEADINGS[reached.stage])
            self._awaited = dict.fromkeys(self._agents)

    def finish(self, document: Document) -> None:
        assert isinstance(document, ConsensusDocument)  # noqa: S101 - the one of this pattern
        show_outcome(document, self.page)
        super().finish(document)
