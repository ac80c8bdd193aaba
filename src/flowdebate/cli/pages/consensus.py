"""A consensus debate as it is saved, and all of it on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from flowdebate.cli.document import Document, Speaker
from flowdebate.patterns.consensus.schemas import ConsensusOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.page import Page
    from flowdebate.measures import Ballot
    from flowdebate.patterns.consensus.schemas import AgentFailure, Critique

__all__ = (
    "ConsensusDocument",
    "about_ballot",
    "about_critique",
    "failed",
    "failure",
    "outcome",
    "show_ballot",
    "show_critique",
    "show_outcome",
)

_SHORT = 300
"""Characters of a critique that a page shows."""


class ConsensusDocument(Document):
    """A consensus debate."""

    TITLE: ClassVar[str] = "Consensus"
    LABEL: ClassVar[str] = "Task"
    SPEAKERS: ClassVar[str] = "Agents"
    RAW: ClassVar[type[Any]] = ConsensusOutput
    pattern: Literal["consensus"] = "consensus"
    agents: list[Speaker] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: ConsensusOutput

    @property
    def subject(self) -> str:
        return self.raw.task

    @property
    def speakers(self) -> list[Speaker]:
        names = [proposal.agent for proposal in self.raw.proposals] + [ballot.voter for ballot in self.raw.ballots]
        return self.agents or [Speaker(name=name) for name in dict.fromkeys(names)]

    @property
    def found(self) -> bool:
        return self.raw.consensus_reached

    @property
    def said(self) -> tuple[int, str]:
        rounds = sum(len(one.critiques) + len(one.revisions) for one in self.raw.rounds)
        return len(self.raw.proposals) + rounds + len(self.raw.ballots), "answer"

    @property
    def held(self) -> str | None:
        early, rounds = self.raw.early_end, len(self.raw.rounds)
        if early is not None:
            return f"Rounds: {rounds}, ended by {early.source}: {early.reason}"
        return None if self.raw.outcome is None else f"Rounds: {rounds}, as many as were allowed"

    def role(self, name: str) -> str:
        """An agent's role, or nothing."""
        return next((agent.about for agent in self.agents if agent.name == name), "")

    def failures(self, phase: str, number: int | None = None) -> Iterator[AgentFailure]:
        """What came to nothing in a phase, of one round or of all."""
        return (each for each in self.raw.failures if each.phase == phase and number in (None, each.round))

    def show(self, page: Page) -> None:
        page.heading("Proposals")
        for proposal in self.raw.proposals:
            page.said(proposal.agent, self.role(proposal.agent), proposal.text)
        self._show_failures(page, "proposal")
        for one in self.raw.rounds:
            page.round(one.round, self.max_rounds)
            for critique in one.critiques:
                show_critique(critique, page)
            self._show_failures(page, "critique", one.round)
            for revised in one.revisions:
                page.said(revised.agent, self.role(revised.agent), revised.text)
            self._show_failures(page, "revision", one.round)
        if self.raw.ballots or any(self.failures("vote")):
            page.heading("Vote")
        for ballot in self.raw.ballots:
            show_ballot(ballot, page)
        self._show_failures(page, "vote")
        page.losses(self.raw.judge_losses)
        show_outcome(self, page)

    def _show_failures(self, page: Page, phase: str, number: int | None = None) -> None:
        for each in self.failures(phase, number):
            page.labelled(*failure(each), "yellow")

    def report(self) -> Iterator[str]:
        from flowdebate.cli.reports.consensus import body

        return body(self)


def about_critique(critique: Critique) -> str:
    """How much a critique matters, and what it says is wrong."""
    return f"severity {critique.severity:.1f}: {'; '.join(critique.issues) or critique.reasoning or 'nothing'}"


def about_ballot(ballot: Ballot) -> str:
    """Whom a vote is for, how surely, and why."""
    choice = "nobody" if ballot.choice is None else ballot.choice
    return f"{choice}, confidence {ballot.confidence:.1f}{f': {ballot.reasoning}' if ballot.reasoning else ''}"


def failure(one: AgentFailure) -> tuple[str, str]:
    """Whose call came to nothing, and of what."""
    return failed(one.agent, one.phase, one.target), one.error


def failed(agent: str, phase: str, target: str | None) -> str:
    """Whose call came to nothing."""
    return f"{agent} gave no {phase}{'' if target is None else f' of {target}'}"


def show_critique(critique: Critique, page: Page) -> None:
    """Write a critique, in short."""
    text = " ".join(about_critique(critique).split())
    text = text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
    page.labelled(f"{critique.critic} on {critique.target}", text, page.colour(critique.critic))


def show_ballot(ballot: Ballot, page: Page) -> None:
    """Write a vote."""
    page.labelled(f"{ballot.voter} votes for", about_ballot(ballot), page.colour(ballot.voter))


def show_outcome(document: ConsensusDocument, page: Page) -> None:
    """Write what it came to, if the votes were counted."""
    found = outcome(document.raw)
    if found:
        page.card("Outcome", [(label, text, "bold green" if label == "Winner" else "") for label, text in found])


def outcome(raw: ConsensusOutput) -> list[tuple[str, str]]:
    """What it came to, each with its label; nothing where the votes were not counted."""
    counted = raw.tally
    if counted is None:
        return []
    votes = ", ".join(f"{name} {count}" for name, count in counted.counts.items())
    lost = f"spoiled {counted.spoiled}, failed {counted.failed}, of {counted.eligible}"
    measured = [(one.round, one.convergence) for one in raw.rounds if one.convergence is not None]
    similar = ", ".join(f"round {number} {found.similarity:.2f} ({found.status})" for number, found in measured)
    early = raw.early_end
    dissent = [] if raw.analytics is None else raw.analytics.dissent
    parts = [
        ("Outcome", f"{'consensus' if raw.consensus_reached else 'no consensus'}: {counted.reason}"),
        ("Votes", f"{votes}; {lost}"),
        ("Strength", f"{raw.strength}, confidence {raw.confidence:.2f}"),
        ("Similarity", similar),
        ("Rounds ended early", "" if early is None else f"{early.source}, {early.reason}"),
        ("Winner", raw.winner or "none"),
        ("Answer", raw.answer or ""),
        *(("Dissent", f"{each.agent} for {each.choice or 'nobody'}: {each.reasoning}") for each in dissent),
    ]
    return [(label, text) for label, text in parts if text]
