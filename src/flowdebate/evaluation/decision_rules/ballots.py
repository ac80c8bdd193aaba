"""Ballots of judges and votes of agents in one exact form, for every decision rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from flowdebate.errors import ConfigurationError, shown
from flowdebate.measures.votes import Ballot, exact, leaders, margin, portions, split, total
from flowdebate.patterns.consensus.schemas import ConsensusOutput
from flowdebate.patterns.debate.judging.ballots import DecidedBy, JudgeBallot, Judging, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.measures.votes import Tally

__all__ = (
    "BallotData",
    "BallotSet",
    "Countable",
    "ExactBallot",
    "ballot_set",
)

BallotData = Literal["scores", "winners", "votes"]
"""The content of ballots: a judge's share for each side, a judge's winner only, or an agent's vote."""
Countable: TypeAlias = "Judging | ConsensusOutput | Sequence[JudgeBallot] | Sequence[Ballot]"
"""The judging of a debate, the output of a consensus, or bare ballots of one kind."""
_WHERE = "recount()"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactBallot:
    """One usable ballot."""

    number: int
    """Its place in the stored order, from 1."""
    voter: str | None
    """The model, or the agent; None where it is not known."""
    view: int | None = None
    shares: Mapping[str, Fraction] | None
    """The share of each side, 1 in all; None where only the first place is known."""
    first: tuple[str, ...]
    """The side in the first place; several for a tie, all for a ballot without a winner."""


@dataclass(frozen=True, kw_only=True)
class BallotSet:
    """All ballots of one decision, with the options of rules."""

    sides: tuple[str, ...]
    ballots: Sequence[ExactBallot]
    votes: Sequence[Ballot]
    """All ballots as votes, each for its first place."""
    data: BallotData
    planned: int
    """The number of ballots if none had been saved or lost."""
    by: DecidedBy
    """How they were decided, of judges."""
    flipped: bool
    """Whether one model chose different sides in different views."""
    threshold: Fraction
    weights: Mapping[str, float] | None
    eligible: Sequence[str]
    """The voters, with those who did not vote."""
    tally: Tally | None = None
    """The stored count of a consensus."""

    @property
    def shares(self) -> list[Mapping[str, Fraction]] | None:
        """The shares of all ballots; None where one has none."""
        known = [ballot.shares for ballot in self.ballots if ballot.shares is not None]
        return known if len(known) == len(self.ballots) else None

    @property
    def rankings(self) -> list[Mapping[str, Fraction]] | None:
        """Numbers by which each ballot ranks all sides; None where one only has a first place of three or more."""
        return self.firsts if len(self.sides) <= 2 and self.shares is None else self.shares  # noqa: PLR2004

    @property
    def firsts(self) -> list[Mapping[str, Fraction]]:
        """The first place of each ballot, in equal parts for a tie."""
        return [split(ballot.first, self.sides) for ballot in self.ballots]

    def sufficient(self) -> int | None:
        """The number of ballots, in the stored order, that settled the decision; None where it is still open."""
        parts = self.shares if self.by == "mean" and self.shares is not None else self.firsts
        planned = len(self.votes) if self.data == "votes" else self.planned  # no other vote would have come
        numbered = list(zip((ballot.number for ballot in self.ballots), parts, strict=True))
        for number in range(len(self.votes) + 1):
            totals = total((part for place, part in numbered if place <= number), self.sides)
            if number == planned or len(self.sides) == 1 or margin(totals) > planned - number:
                return number
        return None


def ballot_set(
    data: Countable,
    *,
    sides: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    threshold: float | Fraction | None = None,
    eligible: Sequence[str] | None = None,
) -> BallotSet:
    """Read and check `data`; ConfigurationError for ballots that cannot be counted, see `recount`."""
    parts, known, tally, judging = _parts(data)
    cast: list[JudgeBallot | Ballot] = list(parts)
    chosen = tuple(known if sides is None else sides)
    _check_sides(chosen, given=sides is not None or bool(known))
    is_vote = isinstance(data, ConsensusOutput) or (bool(cast) and isinstance(cast[0], Ballot))
    if eligible is not None and not is_vote:
        raise ConfigurationError(_WHERE, "eligible", eligible, "None: only votes have voters who did not vote")
    ballots = [each for number, ballot in enumerate(cast, 1) if (each := _exact(ballot, number, chosen)) is not None]
    votes = [each for each in cast if isinstance(each, Ballot)] if is_vote else _as_votes(ballots, len(cast))
    voters = _eligible(data, votes, eligible)
    _check_weights(weights, voters if is_vote else {ballot.voter for ballot in ballots})
    scored = bool(ballots) and all(ballot.shares is not None for ballot in ballots)
    judged = [each for each in cast if isinstance(each, JudgeBallot)]
    return BallotSet(
        sides=chosen,
        ballots=ballots,
        votes=votes,
        data="votes" if is_vote else "scores" if scored else "winners",
        planned=max(len(voters), 0 if judging is None else judging.planned),
        by="vote" if not scored else "mean" if judging is None else judging.decided_by,
        flipped=decide(judged, sides=chosen).flipped,
        threshold=_threshold(threshold, len(chosen)),
        weights=weights,
        eligible=voters,
        tally=tally,
    )


def _parts(
    data: Countable,
) -> tuple[Sequence[JudgeBallot] | Sequence[Ballot], Sequence[str], Tally | None, Judging | None]:
    """The ballots, the sides where they are known, and the stored result."""
    if isinstance(data, Judging):
        return data.ballots, list(data.scores), None, data
    if isinstance(data, ConsensusOutput):
        proposed = [proposal.agent for proposal in data.final_proposals]
        return data.ballots, proposed if data.tally is None else list(data.tally.counts), data.tally, None
    kinds = {type(ballot) for ballot in data}
    if len(kinds) > 1 or not kinds <= {JudgeBallot, Ballot}:
        raise ConfigurationError(_WHERE, "data", data, "ballots of one kind, a Judging, or a ConsensusOutput")
    return data, (), None, None


def _exact(ballot: JudgeBallot | Ballot, number: int, sides: Sequence[str]) -> ExactBallot | None:
    """The exact form; None for a spoiled ballot, ConfigurationError for a judge's ballot about other sides."""
    if isinstance(ballot, Ballot):
        choice = ballot.choice if ballot.choice in sides else None
        return None if choice is None else ExactBallot(number=number, voter=ballot.voter, shares=None, first=(choice,))
    if ballot.problem is not None:
        return None
    if ballot.scores is None:
        shares, first = None, tuple(sides) if ballot.winner is None else (ballot.winner,)
        _check_side("winner", ballot.winner, number, sides)
    else:
        for side in ballot.scores:
            _check_side("scores", side, number, sides)
        shares = portions(ballot.scores, sides)
        first = tuple(leaders(shares))
    return ExactBallot(number=number, voter=ballot.model, view=ballot.view, shares=shares, first=first)


def _check_side(field: str, side: str | None, number: int, sides: Sequence[str]) -> None:
    if side is not None and side not in sides:
        allowed = f"one of the sides {shown(list(sides))}"
        raise ConfigurationError(_WHERE, f"ballots[{number - 1}].{field}", side, allowed)


def _as_votes(ballots: Sequence[ExactBallot], cast: int) -> list[Ballot]:
    """A vote for each ballot that was cast; an unusable one, and a tie, are spoiled."""
    first = {ballot.number: ballot.first[0] for ballot in ballots if len(ballot.first) == 1}
    return [Ballot(voter=str(number), choice=first.get(number)) for number in range(1, cast + 1)]


def _eligible(data: Countable, votes: Sequence[Ballot], given: Sequence[str] | None) -> list[str]:
    """The voters: of a stored consensus all agents that it names, and as many more as its tally had."""
    if given is not None:
        return list(given)
    names = dict.fromkeys(vote.voter for vote in votes)
    if isinstance(data, ConsensusOutput):
        names |= dict.fromkeys(proposal.agent for proposal in (*data.proposals, *data.final_proposals))
        names |= dict.fromkeys(failure.agent for failure in data.failures)
        missing = 0 if data.tally is None else data.tally.eligible - len(names)
        names |= dict.fromkeys(f"(not named, {number})" for number in range(1, missing + 1))
    return list(names)


def _threshold(given: float | Fraction | None, sides: int) -> Fraction:
    if given is None:
        return Fraction(1, sides)
    if isinstance(given, bool) or not (math.isfinite(given) and 0 < given <= 1):
        raise ConfigurationError(_WHERE, "threshold", given, "None or a number above 0, and 1 at most")
    return given if isinstance(given, Fraction) else exact(given)


def _check_sides(sides: Sequence[str], *, given: bool) -> None:
    if not given:
        raise ConfigurationError(_WHERE, "sides", None, "given for bare ballots: what they could be for")
    if not sides or len(set(sides)) != len(sides):
        raise ConfigurationError(_WHERE, "sides", sides, "different sides, one at least")


def _check_weights(weights: Mapping[str, float] | None, voters: Sequence[str] | set[str | None]) -> None:
    for name, weight in (weights or {}).items():
        if name not in voters:
            known = shown(sorted(voter for voter in voters if voter is not None))
            raise ConfigurationError(_WHERE, "weights", name, f"weights of those who have cast a ballot: {known}")
        if isinstance(weight, bool) or not (math.isfinite(weight) and weight > 0):
            raise ConfigurationError(_WHERE, f"weights[{name!r}]", weight, "a finite number > 0")
