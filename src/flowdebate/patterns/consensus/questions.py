"""Questions asked of agents and judges in a consensus debate, as block input and as text for models and humans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from pydantic import Field, create_model

from flowdebate._util.wire import WireModel, one_of
from flowdebate.chassis.roles import LENGTH, render_flag
from flowdebate.prompts import filled, quoted, tag_name

from .prompts import CONSENSUS, ConsensusTemplate
from .schemas import Critique, HumanCritique, JudgeAnswer, Proposal, RevisionAnswer, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Base class for the questions passed as input to agents' and judges' blocks."""

    kind: ClassVar[str]
    answer: ClassVar[object] = None
    task: str

    def task_for_human(self) -> str:
        """Describe the proposals, their critiques and the task to a human."""
        return render_human_task(self)

    def answer_schema(self) -> object:
        """Build the schema for a human's answer; return None if the answer is plain text."""
        return self.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRequest(Question):
    """Request for a proposal; the agent's block returns text, which may end with a "Position: …" line."""

    kind: ClassVar[str] = "proposal"
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CritiqueRequest(Question):
    """Request for a critique of a proposal; the agent's block returns a `CriticAnswer` or its fields."""

    kind: ClassVar[str] = "critique"
    answer: ClassVar[object] = HumanCritique
    agent: str
    proposal: Proposal
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRequest(Question):
    """Request for a revision; the agent's block returns a `RevisionAnswer` or its fields."""

    kind: ClassVar[str] = "revision"
    answer: ClassVar[object] = RevisionAnswer
    agent: str
    proposal: Proposal
    """Current version of the agent's own proposal."""
    critiques: list[Critique]
    """Critiques of the proposal in this round."""
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRequest(Question):
    """Base class for requests to choose among proposals."""

    proposals: list[Proposal]
    """Proposals to choose from."""

    def answer_schema(self) -> object:
        """Build the schema for a human's choice."""
        # `one_of` preserves the display order of the proposals
        authors = [proposal.agent for proposal in self.proposals]
        return create_model(
            "VoteAnswer",
            __base__=WireModel,
            choice=(one_of(authors), Field(description="Whose proposal is the best")),
            reasoning=(str, Field("", description="Why")),
            confidence=(Share, Field(0.5, description="How sure you are")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest(ChoiceRequest):
    """Request for a vote; the agent's block returns a `VoteAnswer` or its fields."""

    kind: ClassVar[str] = "vote"
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TieBreakRequest(ChoiceRequest):
    """Request to break a tie; the block returns the name of one of the tied agents."""

    kind: ClassVar[str] = "tie"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest(Question):
    """Request made after each round, asking the judge whether to end the rounds.

    The judge returns a `JudgeAnswer`, its fields, or a bool.
    """

    kind: ClassVar[str] = "rounds"
    answer: ClassVar[object] = JudgeAnswer
    round: int
    proposals: list[Proposal]
    critiques: list[Critique]
    """Critiques made in this round."""


AgentQuestion: TypeAlias = ProposalRequest | CritiqueRequest | RevisionRequest | VoteRequest
"""Union of all questions addressed to an agent."""

# Rendering


def render_turn(question: Question, *, length: str = LENGTH, template: ConsensusTemplate = CONSENSUS) -> str:
    """Render `question` for a model: its proposals and critiques, followed by the task."""
    request = getattr(template, _PARTS[question.kind])
    if question.kind == "proposal":
        request = f"{request}\n\n{template.position}"
    critiques: list[str] = []
    for critique in _critiques_of(question):
        # each line names its author, so that a model's text cannot be mistaken for someone else's
        who = f"[{tag_name(critique.critic)}] on [{tag_name(critique.target)}]"
        critiques.append(f"{who}, severity {critique.severity:.2g}: {quoted(critique.reasoning)}")
        critiques += (f"{who}, issue: {quoted(issue)}" for issue in critique.issues)
        critiques += (f"{who}, suggestion: {quoted(suggestion)}" for suggestion in critique.suggestions)
    return filled(
        request,
        round=getattr(question, "round", 0),
        proposals=_render_proposals(_proposals_of(question)),
        critiques="\n".join(critiques) or "(nothing)",
        length=length,
    )


_PARTS = {
    "proposal": "propose",
    "critique": "critique",
    "revision": "revise",
    "vote": "vote",
    "rounds": "rounds",
    "tie": "tie",
}
"""Template field for each kind of question."""


def _proposals_of(question: Question) -> Sequence[Proposal]:
    match question:
        case CritiqueRequest() | RevisionRequest():
            return [question.proposal]
        case ChoiceRequest() | StopRequest():
            return question.proposals
        case _:
            return ()


def _critiques_of(question: Question) -> Sequence[Critique]:
    return question.critiques if isinstance(question, (RevisionRequest, StopRequest)) else ()


def _render_proposals(proposals: Sequence[Proposal]) -> str:
    texts = [
        f"[{tag_name(proposal.agent)}] {quoted(proposal.text)}\n{render_flag(proposal.flag)}".removesuffix("\n")
        for proposal in proposals
    ]
    return "\n".join(texts)


_HUMAN_TASKS = {
    "proposal": "Make your proposal.",
    "critique": "Criticize this proposal.",
    "revision": "This is your own proposal. Revise it.",
    "vote": "Choose the best of these proposals.",
    "tie": "These proposals are tied. Choose the best of them.",
    "rounds": "Is the discussion conclusive?",
}


def render_human_task(question: Question) -> str:
    """Render `question` for a human: the proposals, their critiques and the task."""
    proposals = _proposals_of(question)
    heading = f"Proposal{'s' * (len(proposals) > 1)}:\n"
    lines: list[str] = []
    for critique in _critiques_of(question):
        lines.append(f"[{tag_name(critique.critic)} of {tag_name(critique.target)}] {quoted(critique.reasoning)}")
        lines += [f"  - {quoted(point)}" for point in (*critique.issues, *critique.suggestions)]
    parts = [
        heading + _render_proposals(proposals) if proposals else "",
        "\n".join(["What was said of it:", *lines] if lines else lines),
        _HUMAN_TASKS[question.kind],
    ]
    return "\n\n".join(part for part in parts if part)
