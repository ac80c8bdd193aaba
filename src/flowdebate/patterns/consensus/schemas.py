"""Data models for consensus debates: answers, records, state, and output."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.chassis.output import Entry, PatternOutput, brief
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    PatternInput,
    PatternState,
    ProviderFailure,
)
from flowdebate.measures import Ballot, Convergence, Flip, Position, Strength, Tally
from flowdebate.resources.archive import CritiquePattern, PastDebate
from flowdebate.runs.context import Context

# values above 1 are ambiguous and therefore rejected: 2 might mean 2%, 20% or certainty
Share = Annotated[float, Field(ge=0, le=1)]
"""A severity or confidence, from 0 to 1."""
Outcome = Literal["consensus", "no_consensus"]
"""Outcome of a debate: whether there is a consensus."""
AgentPhase = Literal["proposal", "critique", "revision", "poll", "vote"]
"""Kind of request to an agent; a poll is a vote taken after a round."""
MAX_POSITION_LENGTH = 200
"""Maximum length of a position in characters; only short positions can be compared."""
EndSource = Literal["convergence", "judge", "agents", "confidence", "budget", "predicate", "timeout"]
"""Source of the decision to end the rounds before `max_rounds`."""
ContextSource = Literal["history", "patterns", "research"]
"""Source of background information given to agents in addition to the task."""


# Answers


class ConsensusInput(PatternInput):
    """Input for a consensus debate."""

    task: str


class Proposal(Contribution):
    """An agent's proposal."""

    agent: str
    text: str
    round: int = 0
    """Round of the latest revision; 0 for the original proposal."""
    position: str | None = None
    """Short form of the proposed answer, given along with the proposal; None if the agent did not give one."""


class CriticAnswer(WireModel):
    """Answer of a critic."""

    reasoning: str = ""
    """Reasoning about the most important points in the proposal."""
    issues: list[str] = Field(default_factory=list)
    """Faults in the proposal."""
    suggestions: list[str] = Field(default_factory=list)
    """Improvements to the proposal."""
    severity: Share = 0.5
    """Severity of the critique, from 0 to 1."""


class HumanCritique(CriticAnswer):
    """A critique; its text alone will do."""

    reasoning: Annotated[str, Field(description="What matters most about the proposal")]


class Critique(CriticAnswer):
    """A critique and the names of its author and of the proposal's author."""

    # docstrings of event data become the descriptions in `events.schema.json`
    critic: str
    """The name of the critic."""
    target: str
    """The author of the proposal."""
    round: int
    """Round number, starting at 1."""

    @property
    def text(self) -> str:
        """The reasoning, issues and suggestions, one per line; "No issues." if all are empty."""
        return "\n".join(part for part in (self.reasoning, *self.issues, *self.suggestions) if part) or "No issues."


class RevisionAnswer(WireModel):
    """Answer of an agent to its critics."""

    proposal: str
    """The current proposal, in full."""
    position: str = ""
    """The proposed answer, in a few words."""
    enough: bool = False
    """True if the agent expects no change from another round."""


class VoteAnswer(WireModel):
    """Answer of a voter."""

    reasoning: str = ""
    choice: str
    """The name of the author of the best proposal."""
    confidence: Share = 0.5


class JudgeAnswer(WireModel):
    """Decision on whether the discussion was sufficient."""

    reasoning: str = ""
    conclusive: bool


# Recorded data


class ConsensusStage(StrEnum):
    """Stages of a consensus debate, in order. The three stages within a round are repeated for each round."""

    START = "START"
    INITIALIZING = "INITIALIZING"
    CONTEXT_READY = "CONTEXT_READY"
    GENERATING_PROPOSALS = "GENERATING_PROPOSALS"
    PROPOSALS_COMPLETE = "PROPOSALS_COMPLETE"
    ROUND_N_CRITIQUE = "ROUND_N_CRITIQUE"
    ROUND_N_REVISION = "ROUND_N_REVISION"
    CONVERGENCE_CHECK = "CONVERGENCE_CHECK"
    ROUNDS_COMPLETE = "ROUNDS_COMPLETE"
    VOTING = "VOTING"
    VOTE_AGGREGATION = "VOTE_AGGREGATION"
    CONSENSUS_REACHED = "CONSENSUS_REACHED"
    NO_CONSENSUS = "NO_CONSENSUS"

    @property
    def in_round(self) -> bool:
        stage = type(self)
        return self in (stage.ROUND_N_CRITIQUE, stage.ROUND_N_REVISION, stage.CONVERGENCE_CHECK)


class StageReached(WireModel):
    """A stage of a consensus debate and its round."""

    stage: ConsensusStage
    """The stage."""
    round: int | None = None
    """Round that the stage belongs to; None for stages outside the rounds."""

    @property
    def label(self) -> str:
        """Name of the stage, including its round, such as `ROUND_2_CRITIQUE`."""
        return self.stage.value.replace("_N_", f"_{self.round}_")


class EarlyEnd(WireModel):
    """Reason for ending the rounds before `max_rounds`."""

    source: EndSource
    reason: str
    round: int


class ConsensusRound(WireModel):
    """One round of critique and revision."""

    round: int
    edges: list[tuple[str, str]] = Field(default_factory=list)
    """Critiques requested, as (critic, target) pairs."""
    critiques: list[Critique] = Field(default_factory=list)
    """Critiques made in this round, in the same order as `edges`."""
    revisions: list[Proposal] = Field(default_factory=list)
    """Revisions made in this round, in declared order."""
    enough: list[str] = Field(default_factory=list)
    """Agents that expect no change from another round."""
    poll: list[Ballot] = Field(default_factory=list, exclude_if=lambda poll: not poll)
    """Votes in the poll after this round, if there was one."""
    convergence: Convergence | None = None
    """Convergence after this round, or None if the round was cut short."""


class SkippedContext(WireModel):
    """A source of background information left out of the prompts, and the reason for leaving it out."""

    source: ContextSource
    reason: str


class ConsensusContext(WireModel):
    """Background information given to the agents in addition to the task."""

    past_debates: list[PastDebate] = Field(default_factory=list)
    critique_patterns: list[CritiquePattern] = Field(default_factory=list)
    research: str | None = None
    skipped: list[SkippedContext] = Field(default_factory=list)


class Dissent(WireModel):
    """A vote against the winner, or a spoiled vote."""

    agent: str
    choice: str | None
    reasoning: str


class Relationship(WireModel):
    """One agent's relationship to another over the course of a debate."""

    agent: str
    other: str
    critiques: int = 0
    """Number of times `agent` criticized a proposal by `other`."""
    severity: Annotated[float, Field(ge=0, le=1)] | None = None
    """Mean severity of `agent`'s critiques of `other`, or None if there are none."""
    revised: int = 0
    """Number of critiques by `agent` after which `other` revised its proposal in the same round."""
    endorsed: bool = False
    """True if `agent` voted for `other`'s proposal."""
    agreed: bool | None = None
    """True if both agents voted for the same proposal; None if either vote is missing or invalid."""

    @property
    def weight(self) -> float:
        """Weight of the interaction, from -1 for opposition to 1 for support.

        Voting alike adds half a point, and voting for the other agent adds another half. Voting differently subtracts
        half a point, and critiques subtract half their mean severity.
        """
        opposed = float(self.agreed is False) + (self.severity or 0.0)
        return (float(self.agreed is True) + float(self.endorsed) - opposed) / 2


class Analytics(WireModel):
    """Statistics and findings about a finished debate."""

    seconds: float
    rounds: int
    outcome: Outcome
    agreement: Share
    """Share of eligible voters who chose the most popular proposal."""
    dissent: list[Dissent] = Field(default_factory=list)
    split_opinions: list[str] = Field(default_factory=list)
    """Votes for each choice other than the winner, such as "ann: 1 of 3"."""
    risk_areas: list[str] = Field(default_factory=list)
    """Issues raised in severe critiques of the winner's proposal (of all proposals if there is no winner), most severe
    first.
    """
    insights: list[str] = Field(default_factory=list)
    """Suggestions made by several critics, and the effect of the debate on the proposals."""
    relationships: list[Relationship] = Field(default_factory=list)
    """Relationships between all agents that interacted, in both directions."""


MomentKind = Literal["reversal", "clash", "deadlock", "breakthrough", "conversion", "comeback", "upset"]
"""Kind of key moment.

- "reversal": an agent withdrew or contradicted its position.
- "clash": two agents criticized each other severely.
- "deadlock": agents repeated themselves while their positions differed.
- "breakthrough": proposals converged after a round without convergence.
- "conversion": an agent voted for a proposal it had criticized severely.
- "comeback": the proposal criticized most severely in round 1 won.
- "upset": the winner was rated at least 100 points below another agent.
"""


class Moment(WireModel):
    """A key moment of a debate."""

    kind: MomentKind
    round: int | None
    """Round in which the moment occurred, or None for the vote."""
    agents: list[str]
    text: str
    """One-sentence description of the moment."""


class Feedback(WireModel):
    """Result of reporting a debate to the archive."""

    debate: str | None = None
    """ID of the debate in the archive (for use with `Archive.record_outcome`), or None if there is no archive."""
    ratings: dict[str, float] = Field(default_factory=dict)
    """Elo ratings before the debate, keyed by agent; empty if ratings were not updated."""
    rating_changes: dict[str, float] = Field(default_factory=dict)
    """Changes to the Elo ratings, keyed by agent; they add up to 0."""
    positions: list[Position] = Field(default_factory=list)
    flips: list[Flip] = Field(default_factory=list)
    """Changes in the agents' positions over the course of the debate."""
    moments: list[Moment] = Field(default_factory=list)
    """Key moments of the debate."""
    remembered: bool = False
    """True if the outcome was stored for later debates."""
    problems: list[str] = Field(default_factory=list)
    """Errors in the archive or the analytics; they do not affect the answer."""


class ConsensusState(PatternState):
    """State of a consensus debate, available as `ctx.sequencer.state`.

    Lists and dicts grow in place as answers arrive, since copying them would account for much of a debate's cost.
    Blocks see frozen copies.
    """

    stages: list[StageReached] = Field(default_factory=list)
    context: ConsensusContext = Field(default_factory=ConsensusContext)
    weights: dict[str, float] | None = None
    """Vote weights, keyed by voter, or None if all weights are 1."""
    first: dict[str, Proposal] = Field(default_factory=dict)
    """Original proposals, keyed by agent, in order of arrival."""
    proposals: dict[str, Proposal] = Field(default_factory=dict)
    """Current proposals."""
    rounds: list[ConsensusRound] = Field(default_factory=list)
    """All rounds so far; the last one may still be in progress."""
    ballots: dict[str, Ballot] = Field(default_factory=dict)
    early_end: EarlyEnd | None = None
    """Reason for ending the rounds before `max_rounds`, or None if they have not been ended early."""
    tally: Tally | None = None
    problems: list[str] = Field(default_factory=list)
    """Archive errors tolerated so far."""

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the vote, or None before the votes are counted."""
        return None if self.tally is None else "consensus" if self.tally.reached else "no_consensus"

    # called by the stop conditions in `flowdebate.stop`, because this pattern has no transcript
    def texts_by_speaker(self, _: Context) -> dict[str, list[str]]:
        """Return all versions of each agent's proposal, oldest first."""
        versions = {agent: [proposal.text] for agent, proposal in self.first.items()}
        for one in self.rounds:
            for revised in one.revisions:
                versions[revised.agent].append(revised.text)
        return versions

    @property
    def positions(self) -> dict[str, str]:
        """Positions stated along with the proposals, keyed by agent."""
        return {
            agent: position for agent, proposal in self.proposals.items() if (position := proposal.position) is not None
        }


class ConsensusOutput(PatternOutput):
    """Output of a consensus debate, which also serves as its raw output."""

    subject_field: ClassVar[str] = "task"

    task: str
    outcome: Outcome | None
    """Outcome of the vote; None if the votes were not counted."""
    answer: str | None
    """Text of the winning proposal, or None if there is no winner."""
    winner: str | None
    """Author of the winning proposal."""
    strength: Strength | None = None
    """Strength of the agreement, capped according to the share of agents that made a proposal."""
    confidence: Share = 0.0
    """Confidence of the vote across all eligible voters, capped at the share of agents that made a proposal."""
    context: ConsensusContext
    proposals: list[Proposal]
    """Original proposals, in declared order."""
    rounds: list[ConsensusRound]
    final_proposals: list[Proposal]
    """Proposals put to the vote, in declared order."""
    ballots: list[Ballot]
    """Ballots, in the voters' declared order."""
    tally: Tally | None = None
    early_end: EarlyEnd | None = None
    """Reason for ending the rounds before `max_rounds`, or None if they were not ended early."""
    losses: list[ProviderFailure] = Field(default_factory=list)
    """Calls that failed permanently, truncated proposals and invalid votes. The agents' losses come first, each with
    its `phase`; the judges' losses follow.
    """
    stages: list[StageReached]
    analytics: Analytics | None = None
    feedback: Feedback | None = None
    status: DebateStatus = "complete"
    seed: int | None = None

    @property
    def consensus_reached(self) -> bool:
        """True if the agents agreed."""
        return self.outcome == "consensus"

    @property
    def decision_word(self) -> str | None:
        """Author of the winning proposal, or the phrase "no consensus"."""
        if self.outcome is None:
            return None
        return self.winner if self.consensus_reached else "no consensus"

    @property
    def decision_line(self) -> str | None:
        """Author of the winning proposal, followed by the beginning of its text."""
        start = brief(self.answer)
        return f"{self.winner}: {start}" if self.consensus_reached and start else self.decision_word

    @property
    def stop_reason(self) -> str | None:
        """Reason for ending the rounds: "max_rounds", the source of an early end, or the name of a stop condition.

        The value is None if the debate was cut short.
        """
        early = self.early_end
        if early is not None:
            has_reason = early.source == "predicate" and early.reason != "terminate_when"
            return early.reason if has_reason else early.source
        # a debate that was cut short has no recorded reason for ending its rounds
        over = any(reached.stage is ConsensusStage.ROUNDS_COMPLETE for reached in self.stages)
        return "max_rounds" if over else None

    @property
    def is_undisputed(self) -> bool:
        """True if the agents reached a consensus."""
        return self.consensus_reached

    def answer_courses(self) -> list[tuple[dict[str, list[str | None]], str | None]]:
        """Return each agent's positions, from first to last, and the winning position."""
        voices = {proposal.agent: [proposal.position] for proposal in self.proposals}
        for revised in (revision for one in self.rounds for revision in one.revisions):
            voices.setdefault(revised.agent, []).append(revised.position)
        won = next((proposal.position for proposal in self.final_proposals if proposal.agent == self.winner), None)
        return [(voices, won)]

    @property
    def entries(self) -> list[Entry]:
        """All proposals, critiques and revisions, round by round, and in declared order within each round."""
        spoken = [Entry(round=0, speaker=proposal.agent, text=proposal.text) for proposal in self.proposals]
        for one in self.rounds:
            spoken += [Entry(round=one.round, speaker=item.critic, text=item.text) for item in one.critiques]
            spoken += [Entry(round=one.round, speaker=item.agent, text=item.text) for item in one.revisions]
        return spoken
