"""Archive beyond single runs: past debates, critique patterns, ratings, positions, persona records and outcomes.

Each is a small asynchronous interface with an implementation in memory; a persistent store implements the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

from pydantic import model_validator

from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError, shown
from flowdebate.measures import Ballot, Position, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Rating(WireModel):
    """An agent's rating from its debates."""

    elo: float = 1500.0
    calibration: float | None = None
    """How well its confidence matches how often it is right, from 0 to 1; None: learned from outcomes."""
    debates: int = 0


class PersonaRecord(WireModel):
    """An agent's record over all its debates."""

    debates: int = 0
    wins: int = 0
    failures: int = 0
    """Failed calls."""
    critiques: int = 0
    flips: int = 0

    def plus(self, other: PersonaRecord) -> PersonaRecord:
        """The sum of both records."""
        return PersonaRecord(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class PastDebates(Protocol):
    """Earlier debates and their outcomes."""

    async def recent(self, task: str, /, *, limit: int) -> Sequence[PastDebate]:
        """At most `limit` debates that may help with `task`, the most useful first."""

    async def add(self, debate: PastDebate, /) -> None:
        """Store a debate; one with a known id changes nothing."""


class CritiquePatterns(Protocol):
    """Points of critics, with how often they helped."""

    async def successful(self, *, limit: int) -> Sequence[CritiquePattern]:
        """At most `limit` points that helped before, the most successful first."""

    async def record(self, debate: str, patterns: Iterable[CritiquePattern], /) -> None:
        """Add the counts of `patterns`; a second call for the same debate changes nothing."""


class Ratings(Protocol):
    """Ratings of agents."""

    async def of(self, names: Sequence[str], /) -> Mapping[str, Rating]:
        """The ratings of those `names` that have one."""

    async def apply(self, debate: str, changes: Mapping[str, float], /) -> None:
        """Add `changes` to the agents' ELO; a second call for the same debate changes nothing."""


class Positions(Protocol):
    """Stated positions of agents, debate by debate."""

    async def of(self, agent: str, /) -> Sequence[Position]:
        """The positions of `agent`, in the order in which they were added."""

    async def add(self, debate: str, positions: Iterable[Position], /) -> None:
        """Store positions; a second call for the same debate changes nothing."""


class Personas(Protocol):
    """Records of agents."""

    async def of(self, agent: str, /) -> PersonaRecord:
        """The record of `agent`; an empty one if it is unknown."""

    async def record(self, debate: str, records: Mapping[str, PersonaRecord], /) -> None:
        """Add to the records; a second call for the same debate changes nothing."""


class VerdictOutcome(WireModel):
    """What turned out after a debate: whose proposal was right, or, if that is not known, whose was wrong."""

    right: str | None = None
    wrong: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.right is None) is (self.wrong is None):
            message = "either `right` or `wrong` must name an agent"
            raise ValueError(message)
        return self


class Forecast(NamedTuple):
    """A vote, after it turned out whether the choice was right."""

    confidence: float
    right: bool


class Outcomes(Protocol):
    """Votes of debates, and which choices turned out right."""

    async def add(self, debate: str, ballots: Iterable[Ballot], /) -> None:
        """Store the valid votes of a debate; a second call for the same debate changes nothing."""

    async def ballots(self, debate: str, /) -> Sequence[Ballot]:
        """The votes of a debate; none if it is unknown."""

    async def resolve(self, debate: str, outcome: VerdictOutcome, /) -> None:
        """Store what turned out; a second call for the same debate changes nothing."""

    async def of(self, names: Sequence[str], /) -> Mapping[str, Sequence[Forecast]]:
        """The votes of `names` in debates whose outcome is known, as `forecasts` has them."""


def forecasts(
    ballots: Mapping[str, Sequence[Ballot]], outcomes: Mapping[str, VerdictOutcome], names: Sequence[str]
) -> dict[str, list[Forecast]]:
    """The votes of `names` that turned out right or wrong, from votes and outcomes by debate.

    If only the wrong proposal is known, votes for others say nothing.
    """
    found: dict[str, list[Forecast]] = {}
    for debate, outcome in outcomes.items():
        for ballot in ballots.get(debate, ()):
            known = outcome.right is not None or ballot.choice == outcome.wrong
            if known and ballot.voter in names:
                right = ballot.choice == outcome.right
                found.setdefault(ballot.voter, []).append(Forecast(ballot.confidence, right))
    return found


@dataclass(slots=True)
class _Debates:
    debates: dict[str, PastDebate] = field(default_factory=dict)

    async def recent(self, task: str, /, *, limit: int) -> Sequence[PastDebate]:
        words = _words(task)
        ranked = sorted(self.debates.values(), key=lambda past: (-len(words & _words(past.task)), -past.at, past.id))
        return [past for past in ranked if words & _words(past.task)][:limit]

    async def add(self, debate: PastDebate, /) -> None:
        self.debates.setdefault(debate.id, debate)


@dataclass(slots=True)
class _Patterns:
    patterns: dict[tuple[str, str], CritiquePattern] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    async def successful(self, *, limit: int) -> Sequence[CritiquePattern]:
        ranked = sorted(self.patterns.values(), key=lambda item: (-item.successes, item.uses, item.issue))
        return [item for item in ranked if item.successes][:limit]

    async def record(self, debate: str, patterns: Iterable[CritiquePattern], /) -> None:
        if debate in self.seen:
            return
        self.seen.add(debate)
        for new in patterns:
            key = (_folded(new.issue), _folded(new.suggestion))
            known = self.patterns.get(key)
            if known is not None:
                counts = {"successes": known.successes + new.successes, "uses": known.uses + new.uses}
                self.patterns[key] = known.model_copy(update=counts)
            else:
                self.patterns[key] = new


@dataclass(slots=True)
class _Ratings:
    ratings: dict[str, Rating] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    async def of(self, names: Sequence[str], /) -> Mapping[str, Rating]:
        return {name: self.ratings[name] for name in names if name in self.ratings}

    async def apply(self, debate: str, changes: Mapping[str, float], /) -> None:
        if debate in self.seen:
            return
        self.seen.add(debate)
        for name, change in changes.items():
            old = self.ratings.get(name, Rating())
            self.ratings[name] = old.model_copy(update={"elo": old.elo + change, "debates": old.debates + 1})


@dataclass(slots=True)
class _Positions:
    positions: dict[str, list[Position]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    async def of(self, agent: str, /) -> Sequence[Position]:
        return list(self.positions.get(agent, ()))

    async def add(self, debate: str, positions: Iterable[Position], /) -> None:
        if debate in self.seen:
            return
        self.seen.add(debate)
        for position in positions:
            self.positions.setdefault(position.agent, []).append(position)


@dataclass(slots=True)
class _Personas:
    records: dict[str, PersonaRecord] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    async def of(self, agent: str, /) -> PersonaRecord:
        return self.records.get(agent, PersonaRecord())

    async def record(self, debate: str, records: Mapping[str, PersonaRecord], /) -> None:
        if debate in self.seen:
            return
        self.seen.add(debate)
        for name, record in records.items():
            self.records[name] = self.records.get(name, PersonaRecord()).plus(record)


@dataclass(slots=True)
class _Outcomes:
    votes: dict[str, Sequence[Ballot]] = field(default_factory=dict)
    outcomes: dict[str, VerdictOutcome] = field(default_factory=dict)

    async def add(self, debate: str, ballots: Iterable[Ballot], /) -> None:
        self.votes.setdefault(debate, list(ballots))

    async def ballots(self, debate: str, /) -> Sequence[Ballot]:
        return self.votes.get(debate, ())

    async def resolve(self, debate: str, outcome: VerdictOutcome, /) -> None:
        self.outcomes.setdefault(debate, outcome)

    async def of(self, names: Sequence[str], /) -> Mapping[str, Sequence[Forecast]]:
        return forecasts(self.votes, self.outcomes, names)


@dataclass(slots=True, kw_only=True)
class Archive:
    """Memory of debates for later ones; the application may replace each part by its own store.

    By default everything is in memory. Share one archive between the patterns and runs that should learn from each
    other.

    >>> archive = Archive()
    """

    past_debates: PastDebates = field(default_factory=_Debates)
    critique_patterns: CritiquePatterns = field(default_factory=_Patterns)
    ratings: Ratings = field(default_factory=_Ratings)
    positions: Positions = field(default_factory=_Positions)
    personas: Personas = field(default_factory=_Personas)
    outcomes: Outcomes = field(default_factory=_Outcomes)
    patience: float = 10.0
    """Seconds that a debate waits for each read or write; then it continues without."""

    def __post_init__(self) -> None:
        if isinstance(self.patience, bool) or not isinstance(self.patience, (int, float)) or not self.patience > 0:
            raise ConfigurationError("Archive", "patience", self.patience, "a number of seconds > 0")

    async def record_outcome(self, debate: str, *, right: str | None = None, wrong: str | None = None) -> None:
        """Record whose proposal turned out `right`, or, if only that is known, whose turned out `wrong`.

        `debate` is `output.feedback.debate`. From these outcomes the agents' calibration is computed, by which their
        votes weigh in later debates with `voting="weighted"`. The first outcome of a debate counts.
        ConfigurationError for a debate that has no votes here, and for a name that is in none of these votes and not
        that of an agent with positions here.
        """
        where = "Archive.record_outcome"
        if (right is None) is (wrong is None):
            raise ConfigurationError(where, "right", right, "an agent's name, unless `wrong` is one")
        field, name = ("right", right) if wrong is None else ("wrong", wrong)
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(where, field, name, "an agent's name")
        ballots = await self.outcomes.ballots(debate)
        if not ballots:
            raise ConfigurationError(where, "debate", debate, "the `feedback.debate` of a debate with this archive")
        agents = {agent for ballot in ballots for agent in (ballot.voter, ballot.choice) if agent is not None}
        if name not in agents and not await self.positions.of(name):  # it may have proposed, and got no vote
            known = ", ".join(map(shown, sorted(agents)))
            raise ConfigurationError(where, field, name, f"an agent of the debate, such as {known}")
        await self.outcomes.resolve(debate, VerdictOutcome(right=right, wrong=wrong))


_SHORT = 3
"""Words up to this length, such as "and", "the", "how", are ignored when tasks are compared."""


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> frozenset[str]:
    """The words by which tasks are compared: the longer ones, or all if there are none."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return frozenset([word for word in words if len(word) > _SHORT] or words or [_folded(text)])


class PastDebate(WireModel):
    """An earlier debate, as it is shown to later ones."""

    id: str
    task: str
    outcome: Literal["consensus", "no_consensus"]
    answer: str | None = None
    winner: str | None = None
    strength: Strength | None = None
    confidence: float = 0.0
    at: float = 0.0
    """The time of the debate, in seconds since the epoch."""


class CritiquePattern(WireModel):
    """A point of a critic, with how often it helped."""

    issue: str
    suggestion: str = ""
    successes: int = 0
    """How often the criticised proposal was revised and then won."""
    uses: int = 0
