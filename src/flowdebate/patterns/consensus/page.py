"""Page for consensus debates: options, proposals, rounds of critique and revision, votes, and result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from flowdebate._text import counted
from flowdebate._util.option_types import NOTHING, Count, Flag, Quorum, SecondsOrOff, Share, ShareOrOff, Text
from flowdebate.chassis.state import RoleFailed
from flowdebate.measures import VotingRule
from flowdebate.measures.topologies import Topology
from flowdebate.patterns.debate.formats import format_of, names_of, purposes, with_roles
from flowdebate.resources.archive import Archive
from flowdebate.runs.events import CallFellBack, CallRetried
from flowdebate.ui.document import Document, Speaker
from flowdebate.ui.live import Live, OwnSections
from flowdebate.ui.options import PersonaEntry, PlanOptions, PlanValues, option, or_off, roster_option
from flowdebate.ui.page import PatternPage
from flowdebate.ui.sections import Card, Entry, Fact, Heading, Section, failures, round_heading

from .events import AgentMessage, CritiqueMade, PollVoteCast, StageEntered, VoteCast
from .factory import CONSENSUS_FAILURES, consensus
from .options import DEFAULT_CONVERGENCE, DEFAULT_SPARSITY, TopologyOptions, VotingOptions, Weights
from .schemas import ConsensusOutput, ConsensusStage, Critique, EndSource, Proposal, Relationship

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.measures import Ballot
    from flowdebate.ui.models import Models
    from flowdebate.ui.plan import Plan


_AGENTS = (
    {
        "name": "Planner",
        "role": "wants what works in the long run",
        "system_prompt": "You are a planner. You look for the answer that still holds in ten years.",
    },
    {
        "name": "Maker",
        "role": "wants what can be done now",
        "system_prompt": "You are a maker. You look for the simplest answer that can be started tomorrow.",
    },
    {
        "name": "Guardian",
        "role": "wants what is safe and fair",
        "system_prompt": "You are a guardian. You look for the answer that harms nobody and that all can live with.",
    },
)
"""Default agents: three with different ideas of what makes a good answer."""
_HEADINGS: Mapping[ConsensusStage, str] = {
    ConsensusStage.GENERATING_PROPOSALS: "Proposals",
    ConsensusStage.VOTING: "Vote",
}
_ENDINGS: Mapping[EndSource, str] = {
    "convergence": "stopped early, since the proposals were nearly the same",
    "judge": "stopped early by the judge",
    "agents": "stopped early by the agents",
    "confidence": "stopped early, since the agents were sure",
    "budget": "stopped early to stay within the budget",
    "predicate": "stopped early by the application",
    "timeout": "stopped early, since time was up",
}
_SHOWN = 10
"""Maximum number of relationships or key moments to show."""


class ConsensusPlanOptions(PlanOptions):
    """Options for a consensus debate."""

    SUBJECT: ClassVar[str] = "task"
    ROSTER: ClassVar[str] = "agents"
    SPEAKER: ClassVar[str] = "agent"
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"history"})
    ROLES: ClassVar[tuple[str, ...]] = ("judge", "tie_break")

    task: Text | None = option("The task; may be in --file instead.")
    agents: list[PersonaEntry] | None = roster_option(
        "--agent", "An agent and its role; repeat for each. Default: a planner, a maker and a guardian."
    )
    max_rounds: Count | None = option("Maximum number of rounds of critique. Default: 3.", panel="Rounds")
    format: Annotated[Text, Field(json_schema_extra={"enum": names_of("consensus")})] | None = option(
        f"Follow a format.\n{purposes('consensus')}", panel="Rounds", metavar="NAME"
    )
    topology: Topology | None = option(
        "Who criticizes whom: all-to-all (default), round-robin, ring, star, sparse or random-graph.",
        panel="Rounds",
        metavar="NAME",
    )
    hub: Text | None = option(
        "Agent at the center of the star. Default: the first by name.", panel="Rounds", metavar="NAME"
    )
    sparsity: Share | None = option(
        "Share of the others that review a proposal, for sparse and random-graph.", panel="Rounds", metavar="SHARE"
    )
    convergence: ShareOrOff | None = option(
        "Similarity at which the rounds end early. Default: 0.85.", panel="Rounds", metavar="SHARE|off", read=or_off
    )
    confidence: Share | None = option(
        "Poll the agents after each round; end the rounds once the consensus is this confident.",
        panel="Rounds",
        metavar="SHARE",
    )
    voting: VotingRule | None = option(
        "majority (default), supermajority, unanimous or weighted (see --file).", panel="Judge", metavar="RULE"
    )
    weights: Annotated[Weights, NOTHING] | None = option(
        "Weight of each agent's vote, by name, where voting is weighted.", panel="Judge", flag=""
    )
    min_votes: Count | None = option(
        "Minimum number of valid votes. Default: half of the agents.", panel="Judge", metavar="N"
    )
    judge: Flag | None = option("A judge may end the rounds when everything has been said.", panel="Judge")
    tie_break: Flag | None = option("A judge chooses among tied proposals.", panel="Judge")
    archive: Flag | None = option(
        "Show the agents what earlier debates found, and remember this one. Default: on; off in a batch and with "
        "--record or --replay.",
        panel="Storage",
        on=True,
    )
    turn_timeout: SecondsOrOff | None = option(
        "Maximum number of seconds for one answer, including waiting. Default: 90.",
        panel="Limits",
        metavar="S|off",
        read=or_off,
    )
    quorum: Quorum | None = option(
        "Minimum number of agents that must make a proposal for the run to continue without the others. Default: 1.",
        panel="Model",
        metavar="N",
    )


class ConsensusDocument(Document):
    """A saved consensus debate."""

    SPEAKERS: ClassVar[str] = "Agents"
    ROSTER: ClassVar[str] = "agents"
    UNIT: ClassVar[str] = "answer"
    MEASURED: ClassVar[tuple[str, ...]] = ("analytics.seconds",)
    CHANGING: ClassVar[str | None] = "positions"
    pattern: str = "consensus"
    agents: list[Speaker] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: ConsensusOutput

    def raw_speakers(self) -> list[Speaker]:
        names = [proposal.agent for proposal in self.raw.proposals] + [ballot.voter for ballot in self.raw.ballots]
        return [Speaker(name=name) for name in dict.fromkeys(names)]

    @property
    def has_result(self) -> bool:
        return self.raw.consensus_reached

    @property
    def contributions(self) -> int:
        rounds = sum(len(one.critiques) + len(one.revisions) + len(one.poll) for one in self.raw.rounds)
        return len(self.raw.proposals) + rounds + len(self.raw.ballots)

    @property
    def ending(self) -> str | None:
        early, rounds = self.raw.early_end, len(self.raw.rounds)
        if early is not None:
            return f"Rounds: {rounds}, {_ENDINGS[early.source]}: {early.reason}"
        return None if self.raw.outcome is None else f"Rounds: {rounds}, the maximum"

    def sections(self) -> Iterator[Section]:
        # `raw.entries` contains the proposals, followed by the critiques and revisions of each round
        raw, places = self.raw, count()
        yield Heading(title="Proposals")
        yield from (self._entry(proposal, next(places)) for proposal in raw.proposals)
        yield from self._failed("proposal")
        for one in raw.rounds:
            yield round_heading(one.round, self.max_rounds)
            yield from (critique_fact(critique) for critique, _ in zip(one.critiques, places, strict=False))
            yield from self._failed("critique", one.round)
            yield from (self._entry(revision, next(places)) for revision in one.revisions)
            yield from self._failed("revision", one.round)
            yield from map(poll_fact, one.poll)
            yield from self._failed("poll", one.round)
        failed = list(self._failed("vote"))
        if raw.ballots or failed:
            yield Heading(title="Vote")
        yield from map(ballot_fact, raw.ballots)
        yield from failed
        yield from failures(loss for loss in raw.losses if loss.phase is None)
        yield from self.result()

    def result(self) -> Iterator[Section]:
        """Show the result if the votes were counted."""
        yield from self.mark()
        raw, counted = self.raw, self.raw.tally
        if counted is None:
            return
        votes = ", ".join(f"{name} {count}" for name, count in counted.counts.items())
        failed = ((counted.spoiled, "invalid"), (counted.failed, "missing"))
        lost = [f"{number} {what}" for number, what in failed if number]
        of = ", ".join([f"of {counted.eligible}", *lost])
        measured = [(one.round, one.convergence) for one in raw.rounds if one.convergence is not None]
        similar = ", ".join(
            f"round {number}: {convergence.similarity:.2f} ({convergence.status})" for number, convergence in measured
        )
        early, analytics = raw.early_end, raw.analytics
        parts = [
            ("Outcome", f"{'consensus' if raw.consensus_reached else 'no consensus'}: {counted.reason}"),
            ("Votes", f"{votes or 'none'} ({of})"),
            ("Strength", f"{raw.strength}, confidence {raw.confidence:.2f}"),
            ("Similarity", similar),
            ("Rounds ended early", "" if early is None else f"{early.source}, {early.reason}"),
            ("Winner", raw.winner or "none"),
            ("Answer", raw.answer or ""),
        ]
        if analytics is not None:
            parts += [
                ("Dissent", f"{ballot.agent} for {ballot.choice or 'nobody'}: {ballot.reasoning}")
                for ballot in analytics.dissent
            ]
            parts += [("Risk", area) for area in analytics.risk_areas]
            parts += [("Insight", insight) for insight in analytics.insights]
            relationships = filter(None, map(_relationship, analytics.relationships))
            parts += [("Between agents", text) for text in relationships][:_SHOWN]
        if raw.feedback is not None:
            parts += [("Moment", moment.text) for moment in raw.feedback.moments][:_SHOWN]
        facts = (
            Fact(label=label, text=text, tone="good" if label == "Winner" else "plain", short=label != "Answer")
            for label, text in parts
            if text
        )
        yield Card(title="Outcome", facts=tuple(facts), lead="Answer" if raw.answer else "Outcome", winner=raw.winner)

    def _entry(self, proposal: Proposal, place: int) -> Entry:
        return Entry(name=proposal.agent, about="", text=proposal.text, quotes=self.quoted(place))

    def _failed(self, phase: str, number: int | None = None) -> Iterator[Fact]:
        """List the failures in a phase, for one round or for all rounds."""
        failed = (loss for loss in self.raw.losses if loss.phase == phase and number in (None, loss.round))
        return (_failed(loss.name, phase, loss.target, loss.error, loss.instead) for loss in failed)


class ConsensusLive(Live):
    """Live view of a consensus debate."""

    roles: ClassVar[Mapping[str, str]] = {"judge": "asking whether all is said"}
    phases: ClassVar[Mapping[str, str]] = {
        "proposal": "proposing",
        "critique": "criticizing",
        "revision": "revising",
        "poll": "polled",
        "vote": "voting",
    }
    event_sections: ClassVar[OwnSections] = {
        CritiqueMade: lambda event: (critique_fact(event.critique),),
        PollVoteCast: lambda event: (poll_fact(event.ballot),),
        VoteCast: lambda event: (ballot_fact(event.ballot),),
    }

    def whole(self, event: object) -> Iterator[Section]:
        # each answer has its own event; the base class would show it only as part of a turn
        return self.sections(event)

    def sections(self, event: object) -> Iterator[Section]:
        match event:
            case StageEntered() if event.stage.stage in _HEADINGS:
                yield Heading(title=_HEADINGS[event.stage.stage])
            case AgentMessage():
                yield Entry(name=event.agent, about="", text=event.text)
            case RoleFailed(phase=str(phase)):
                yield _failed(event.name, phase, event.target, event.message, event.instead)
            case CallRetried() | CallFellBack():
                yield from Live.trouble(self, event, who=self.name_of(event))
            case _:
                yield from self._sections(event)


def critique_fact(critique: Critique) -> Fact:
    """Format a critique of a proposal as a labeled fact."""
    issues = "; ".join(critique.issues).replace(".;", ";") or critique.reasoning or "nothing"
    label = f"{critique.critic} on {critique.target}"
    return Fact(label=label, text=f"severity {critique.severity:.1f}: {issues}", speaker=critique.critic, short=True)


def poll_fact(ballot: Ballot) -> Fact:
    """Format a vote in the poll after a round as a labeled fact."""
    return replace(ballot_fact(ballot), label=f"{ballot.voter} would vote for")


def ballot_fact(ballot: Ballot) -> Fact:
    """Format a vote as a labeled fact."""
    choice = "nobody" if ballot.choice is None else ballot.choice
    text = f"{choice}, confidence {ballot.confidence:.1f}{f': {ballot.reasoning}' if ballot.reasoning else ''}"
    return Fact(label=f"{ballot.voter} votes for", text=text, speaker=ballot.voter)


_LOST = {"cut_off": "was cut off in its", "not_counted": "cast an invalid"}


def _failed(agent: str, phase: str, target: str | None, error: str, instead: str) -> Fact:
    of = "" if target is None else f" of {target}"
    return Fact(label=f"{agent} {_LOST.get(instead, 'gave no')} {phase}{of}", text=error, tone="warning")


def _relationship(relationship: Relationship) -> str:
    """Describe one agent's critiques of another, and its vote for that agent; return "" if there is neither."""
    done = [f"voted for {relationship.other}"] if relationship.endorsed else []
    if relationship.critiques:
        critiques = counted(relationship.critiques, "critique")
        # critiques imported from elsewhere may have no severity
        severity = "unknown" if relationship.severity is None else f"{relationship.severity:.1f}"
        done.insert(
            0, f"{critiques} of {relationship.other} (severity {severity}, revised after {relationship.revised})"
        )
    return f"{relationship.agent}: {', '.join(done)}" if done else ""


class ConsensusPage(PatternPage):
    """Page for consensus debates in the service."""

    options: ClassVar[type[ConsensusPlanOptions]] = ConsensusPlanOptions
    document: ClassVar[type[ConsensusDocument]] = ConsensusDocument
    live: ClassVar[type[ConsensusLive]] = ConsensusLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = _AGENTS
    min_speakers = 1
    default_length = 3

    def speakers(self, options: ConsensusPlanOptions, models: Models) -> tuple[Any, ...]:
        """Return the agents with the names and roles assigned by the format.

        An anonymous format hides their real names.
        """
        format_ = format_of(options, "consensus")
        if format_ is None:
            return super().speakers(options, models)
        members = format_.members if format_.members and not options.agents else super().speakers(options, models)
        location, field = options.place("agents")
        return with_roles(members, format_, location=location, field=field)

    example = "Name the product"
    sample: ClassVar[PlanValues] = {"task": "Choose a name for a small boat that carries mail between islands"}
    examples: ClassVar[tuple[str, ...]] = (
        'flowdebate consensus "How should we make rents affordable?"',
        'flowdebate consensus "Name the product" --topology ring --voting supermajority --tie-break',
    )
    docs = "consensus"
    diagram = (
        '<circle cx="14" cy="10" r="5"/><circle cx="14" cy="28" r="5"/><circle cx="14" cy="46" r="5"/>'
        '<path d="M20 10l18 15M20 28h18M20 46l18-15M51 28h14m-4-4 4 4-4 4"/><circle cx="45" cy="28" r="5"/>'
        '<circle class="first" cx="74" cy="28" r="6"/>'
    )

    def settled(self, plan: Plan) -> PlanValues:
        return {} if plan.options.archive else {"archive": plan.archive is not None}

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: ConsensusPlanOptions = plan.options
        bound = DEFAULT_CONVERGENCE if options.convergence is None else options.convergence
        keywords, timeout = plan.keywords, options.turn_timeout
        timeout = CONSENSUS_FAILURES.turn_timeout if timeout is None else timeout or None
        keywords["failures"] = replace(plan.failures, turn_timeout=timeout)
        return consensus(
            agents=plan.speakers,
            format=options.format,
            max_rounds=plan.length,
            topology=TopologyOptions(
                options.topology or "all-to-all",
                hub=options.hub,
                sparsity=DEFAULT_SPARSITY if options.sparsity is None else options.sparsity,
            ),
            convergence=None if bound is False else bound,
            confidence=options.confidence,
            voting=VotingOptions(options.voting or "majority", weights=options.weights, min_votes=options.min_votes),
            # a replayed run reads the archive's answers from its journal
            archive=plan.archive or (Archive() if options.archive else None),
            judge=options.judge,
            tie_break=options.tie_break,
            terminate_when=plan.terminate_when,
            **keywords,
        )


PAGE = ConsensusPage()
