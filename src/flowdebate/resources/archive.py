"""An archive that outlives runs: past debates, critique patterns, ratings, positions, persona records and outcomes.

Each part is a small asynchronous interface that applications can implement. The built-in implementations use a `Log`
with one value per debate, either in memory or as documents in a store (`store/archive.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, Protocol, Self, TypeVar

from pydantic import Field, model_validator

from flowdebate._util.validation import check_seconds
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.measures import Ballot, Position, Strength

ValueT = TypeVar("ValueT")


class PastDebate(WireModel):
    """An earlier debate, as shown to later debates."""

    id: str
    task: str
    outcome: Literal["consensus", "no_consensus"]
    answer: str | None = None
    winner: str | None = None
    strength: Strength | None = None
    confidence: float = 0.0
    at: float = 0.0
    """Time of the debate, in seconds since the epoch."""
    dissent: list[Ballot] = Field(default_factory=list, exclude_if=lambda dissent: not dissent)
    """Votes against the winner, excluding votes cast without a reason."""
    turned_out: Literal["right", "wrong"] | None = Field(default=None, exclude_if=lambda outcome: outcome is None)
    """Recorded outcome of the winning proposal: right or wrong."""


class CritiquePattern(WireModel):
    """A point made by a critic, with counts of how often it was made and how often it helped."""

    issue: str
    suggestion: str = ""
    successes: int = 0
    """Number of times the criticized proposal was revised and then won."""
    uses: int = 0


class Rating(WireModel):
    """An agent's rating, based on its debates."""

    elo: float = 1500.0
    calibration: float | None = None
    """Agreement between confidence and accuracy, from 0 to 1; None to compute it from recorded outcomes."""
    debates: int = 0


class PersonaRecord(WireModel):
    """An agent's record across all its debates."""

    debates: int = 0
    wins: int = 0
    failures: int = 0
    """Number of failed calls."""
    critiques: int = 0
    flips: int = 0


class VerdictOutcome(WireModel):
    """Outcome that became known after a debate: the author of the right proposal or, if unknown, of a wrong one."""

    right: str | None = None
    wrong: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.right is None) is (self.wrong is None):
            message = "either `right` or `wrong` must name an agent"
            raise ValueError(message)
        return self

    def says_of(self, agent: str | None) -> Literal["right", "wrong"] | None:
        """Return whether `agent`'s proposal turned out "right" or "wrong", or None if this is unknown."""
        if agent is None or (self.right is None and agent != self.wrong):
            return None  # if only a wrong proposal is known, any other proposal may be right or wrong
        return "right" if agent == self.right else "wrong"


class Forecast(NamedTuple):
    """A vote for a proposal that later turned out to be right or wrong."""

    confidence: float
    right: bool


# The parts of the archive. Each value is written once per debate, so a resumed debate does not write it again.


class PastDebates(Protocol):
    """Earlier debates and their outcomes."""

    async def recent(self, task: str, /, *, limit: int) -> Sequence[PastDebate]:
        """Return up to `limit` debates that may help with `task`, most useful first."""

    async def add(self, debate: PastDebate, /) -> None:
        """Store a debate; do nothing if its id is already known."""


class CritiquePatterns(Protocol):
    """Points made by critics and how often each has helped."""

    async def successful(self, *, limit: int) -> Sequence[CritiquePattern]:
        """Return up to `limit` points that have helped before, most successful first."""

    async def record(self, debate: str, patterns: Iterable[CritiquePattern], /) -> None:
        """Add the counts in `patterns` to the stored counts; a second call for the same debate has no effect."""


class Ratings(Protocol):
    """Agents' ratings."""

    async def of(self, names: Sequence[str], /) -> Mapping[str, Rating]:
        """Return the ratings of the given `names`, omitting unrated agents."""

    async def apply(self, debate: str, changes: Mapping[str, float], /) -> None:
        """Add `changes` to the agents' Elo ratings; a second call for the same debate has no effect."""


class Positions(Protocol):
    """Positions stated by agents in each debate."""

    async def of(self, agent: str, /) -> Sequence[Position]:
        """Return the positions of `agent` in the order they were added."""

    async def add(self, debate: str, positions: Iterable[Position], /) -> None:
        """Store positions; a second call for the same debate has no effect."""


class Personas(Protocol):
    """Agents' records."""

    async def of(self, agent: str, /) -> PersonaRecord:
        """Return the record of `agent`; it is empty if the agent is unknown."""

    async def record(self, debate: str, records: Mapping[str, PersonaRecord], /) -> None:
        """Add `records` to the stored records; a second call for the same debate has no effect."""


class Outcomes(Protocol):
    """Votes cast in debates, and the right choices where these are known."""

    async def add(self, debate: str, ballots: Iterable[Ballot], /) -> None:
        """Store a debate's valid votes; a second call for the same debate has no effect."""

    async def ballots(self, debate: str, /) -> Sequence[Ballot]:
        """Return the votes cast in a debate; empty if the debate is unknown."""

    async def resolve(self, debate: str, outcome: VerdictOutcome, /) -> None:
        """Store the outcome of `debate`; a second call for the same debate has no effect."""

    async def of(self, names: Sequence[str], /) -> Mapping[str, Sequence[Forecast]]:
        """Return the named agents' votes, keyed by voter, omitting votes not known to be right or wrong."""


class Log(Generic[ValueT]):
    """Log with one value per debate, in insertion order. Only the first value added for a debate counts."""

    def __init__(self) -> None:
        self.values: dict[str, ValueT] = {}

    async def add(self, debate: str, value: ValueT) -> None:
        """Add a value for `debate`, unless it already has one."""
        self.values.setdefault(debate, value)

    async def read(self) -> Mapping[str, ValueT]:
        """Return the values, keyed by debate. The mapping is a live view that will also include values added later."""
        return self.values


@dataclass(slots=True)
class LoggedDebates(PastDebates):
    """`PastDebates` stored in a log."""

    log: Log[PastDebate] = field(default_factory=Log)
    outcomes: Log[VerdictOutcome] = field(default_factory=Log)
    """Outcomes that became known after the debates; the log is shared with the same archive's `LoggedOutcomes`."""

    async def recent(self, task: str, /, *, limit: int) -> Sequence[PastDebate]:
        words, debates = _words(task), await self.all()
        ranked = sorted(debates, key=lambda past: (-len(words & _words(past.task)), -past.at, past.id))
        return [past for past in ranked if words & _words(past.task)][:limit]

    async def all(self) -> list[PastDebate]:
        """List all debates with their outcomes, newest first."""
        debates, outcomes = await self.log.read(), await self.outcomes.read()
        outcome_by_debate = {
            debate: outcomes[debate].says_of(past.winner) for debate, past in debates.items() if debate in outcomes
        }
        debates_with_outcomes = [
            past.model_copy(update={"turned_out": outcome_by_debate.get(debate)}) for debate, past in debates.items()
        ]
        return sorted(debates_with_outcomes, key=lambda past: (-past.at, past.id))

    async def add(self, debate: PastDebate, /) -> None:
        await self.log.add(debate.id, debate)


@dataclass(slots=True)
class LoggedPatterns(CritiquePatterns):
    """`CritiquePatterns` stored in a log."""

    log: Log[list[CritiquePattern]] = field(default_factory=Log)

    async def successful(self, *, limit: int) -> Sequence[CritiquePattern]:
        patterns: dict[tuple[str, str], list[CritiquePattern]] = {}
        for point in (point for points in (await self.log.read()).values() for point in points):
            # Models repeat points with different capitalization or spacing.
            patterns.setdefault((_fold(point.issue), _fold(point.suggestion)), []).append(point)
        sums = []
        for same in patterns.values():
            counts = {name: sum(getattr(pattern, name) for pattern in same) for name in ("successes", "uses")}
            sums.append(same[0].model_copy(update=counts))
        ranked = sorted(sums, key=lambda item: (-item.successes, item.uses, item.issue))
        return [item for item in ranked if item.successes][:limit]

    async def record(self, debate: str, patterns: Iterable[CritiquePattern], /) -> None:
        await self.log.add(debate, list(patterns))


@dataclass(slots=True)
class LoggedRatings(Ratings):
    """`Ratings` computed from a log of changes."""

    log: Log[dict[str, float]] = field(default_factory=Log)

    async def of(self, names: Sequence[str], /) -> Mapping[str, Rating]:
        values = (await self.log.read()).values()
        changes = {name: [changes[name] for changes in values if name in changes] for name in names}
        return {
            name: Rating(elo=sum(change, start=Rating().elo), debates=len(change))
            for name, change in changes.items()
            if change
        }

    async def apply(self, debate: str, changes: Mapping[str, float], /) -> None:
        await self.log.add(debate, dict(changes))


@dataclass(slots=True)
class LoggedPositions(Positions):
    """`Positions` stored in a log."""

    log: Log[list[Position]] = field(default_factory=Log)

    async def of(self, agent: str, /) -> Sequence[Position]:
        debates = (await self.log.read()).values()
        return [position for positions in debates for position in positions if position.agent == agent]

    async def add(self, debate: str, positions: Iterable[Position], /) -> None:
        await self.log.add(debate, list(positions))


@dataclass(slots=True)
class LoggedPersonas(Personas):
    """`Personas` computed from a log."""

    log: Log[dict[str, PersonaRecord]] = field(default_factory=Log)

    async def of(self, agent: str, /) -> PersonaRecord:
        ratings = [records[agent] for records in (await self.log.read()).values() if agent in records]
        names = PersonaRecord.model_fields
        return PersonaRecord(**{name: sum(getattr(record, name) for record in ratings) for name in names})

    async def record(self, debate: str, records: Mapping[str, PersonaRecord], /) -> None:
        await self.log.add(debate, dict(records))


@dataclass(slots=True)
class LoggedOutcomes(Outcomes):
    """`Outcomes` stored in two logs."""

    votes: Log[list[Ballot]] = field(default_factory=Log)
    outcomes: Log[VerdictOutcome] = field(default_factory=Log)

    async def add(self, debate: str, ballots: Iterable[Ballot], /) -> None:
        await self.votes.add(debate, list(ballots))

    async def ballots(self, debate: str, /) -> Sequence[Ballot]:
        return (await self.votes.read()).get(debate, ())

    async def resolve(self, debate: str, outcome: VerdictOutcome, /) -> None:
        await self.outcomes.add(debate, outcome)

    async def of(self, names: Sequence[str], /) -> Mapping[str, Sequence[Forecast]]:
        votes, forecasts = await self.votes.read(), dict[str, list[Forecast]]()
        for debate, outcome in (await self.outcomes.read()).items():
            for ballot in votes.get(debate, ()):
                outcome_known = outcome.says_of(ballot.choice)
                if outcome_known is not None and ballot.voter in names:
                    forecasts.setdefault(ballot.voter, []).append(Forecast(ballot.confidence, outcome_known == "right"))
        return forecasts


@dataclass(slots=True, kw_only=True)
class Archive:
    """Memory of past debates for use in later ones. The application may replace each part with its own storage.

    Everything is kept in memory by default. Share one archive between the patterns and runs that should learn from each
    other.

    >>> archive = Archive()
    """

    past_debates: PastDebates = field(default_factory=LoggedDebates)
    critique_patterns: CritiquePatterns = field(default_factory=LoggedPatterns)
    ratings: Ratings = field(default_factory=LoggedRatings)
    positions: Positions = field(default_factory=LoggedPositions)
    personas: Personas = field(default_factory=LoggedPersonas)
    outcomes: Outcomes = field(default_factory=LoggedOutcomes)
    patience: float = 10.0
    """Seconds to wait for each read or write before a debate continues without it."""

    def __post_init__(self) -> None:
        check_seconds("Archive", patience=self.patience)
        if isinstance(self.past_debates, LoggedDebates) and isinstance(self.outcomes, LoggedOutcomes):
            self.past_debates.outcomes = self.outcomes.outcomes

    async def record_outcome(self, debate: str, *, right: str | None = None, wrong: str | None = None) -> None:
        """Record whose proposal turned out `right` or, if that is unknown, whose proposal turned out `wrong`.

        `debate` is `output.feedback.debate`. These outcomes determine the agents' calibration, and thereby the weight
        of their votes in later debates that use `voting="weighted"`. Only the first outcome of a debate counts.

        Raises ConfigurationError if this archive has no votes from the debate, or if the agent neither cast nor
        received a vote in it and has no positions in this archive.
        """
        await self.outcomes.resolve(debate, await self._check_outcome(debate, right, wrong))

    async def _check_outcome(self, debate: str, right: str | None, wrong: str | None) -> VerdictOutcome:
        location = "Archive.record_outcome"
        if (right is None) is (wrong is None):
            problem = "is required unless `wrong` is set" if right is None else "cannot be combined with `wrong`"
            raise ConfigurationError(location, "right", None, problem)
        field, name = ("right", right) if wrong is None else ("wrong", wrong)
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(location, field, name, "must be the name of an agent")
        ballots = await self.outcomes.ballots(debate)
        if not ballots:
            raise ConfigurationError(
                location, "debate", debate, "must be the `feedback.debate` of a debate that used this archive"
            )
        agents = {agent for ballot in ballots for agent in (ballot.voter, ballot.choice) if agent is not None}
        # an agent that neither cast nor received a vote may still have made a proposal
        if name not in agents and not await self.positions.of(name):
            raise ConfigurationError(location, field, name, "is not an agent in the debate", choices=sorted(agents))
        return VerdictOutcome(right=right, wrong=wrong)


_SHORT = 3  # words up to this length are ignored when comparing tasks: "and", "the", "how"


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> frozenset[str]:
    """Return the words used to compare tasks: the longer words in `text`, or all its words if none is long."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return frozenset([word for word in words if len(word) > _SHORT] or words or [_fold(text)])
