"""Ballots of judges and votes of agents in one form, for every decision rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from flowdebate._util.validation import check_weight
from flowdebate.errors import ConfigurationError, shown
from flowdebate.measures.votes import Ballot, exact, portions, split
from flowdebate.patterns.consensus.schemas import ConsensusOutput
from flowdebate.patterns.debate.judging.ballots import DecidedBy, JudgeBallot, Judging, firsts_of, is_settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flowdebate.measures.votes import Tally


BallotData = Literal["scores", "winners", "votes"]
"""The content of ballots: a judge's share for each side, a judge's winner only, or an agent's vote."""
Countable: TypeAlias = "Judging | ConsensusOutput | Sequence[JudgeBallot] | Sequence[Ballot]"
"""The judging of a debate, the output of a consensus, or bare ballots of one kind."""
_WHERE = "recount()"


@dataclass(frozen=True, kw_only=True)
class BallotSet:
    """All ballots of one decision, with the options of rules."""

    sides: tuple[str, ...]
    cast: Sequence[JudgeBallot]
    """In the stored order. A vote is a ballot of its voter with a winner only; an unusable one has a `problem`."""
    votes: Sequence[Ballot]
    """The same as votes, each for its first place."""
    data: BallotData
    planned: int
    """The number of ballots without curtailing and provider failures."""
    by: DecidedBy
    """The method by which judges' ballots were decided."""
    threshold: Fraction
    weights: Mapping[str, float] | None
    eligible: Sequence[str]
    """The voters, including those who did not vote."""
    tally: Tally | None = None
    """The stored count of a consensus."""

    @cached_property
    def usable(self) -> list[JudgeBallot]:
        """The ballots that rules count."""
        return [ballot for ballot in self.cast if ballot.problem is None]

    @cached_property
    def shares(self) -> list[dict[str, Fraction]] | None:
        """The shares of all ballots; None where one has none."""
        if any(ballot.scores is None for ballot in self.usable):
            return None
        return [portions(ballot.shares, self.sides) for ballot in self.usable]

    @cached_property
    def firsts(self) -> list[dict[str, Fraction]]:
        """The first place of each ballot, in equal parts for a tie."""
        return [split(firsts_of(ballot, sides=self.sides), self.sides) for ballot in self.usable]

    @property
    def rankings(self) -> list[dict[str, Fraction]] | None:
        """Numbers by which each ballot ranks all sides; None where one only has a first place of three or more."""
        return self.firsts if len(self.sides) <= 2 and self.shares is None else self.shares  # noqa: PLR2004

    def sufficient(self) -> int | None:
        """The number of ballots, in the stored order, that settled the decision; None where it is still open."""
        planned = len(self.cast) if self.data == "votes" else self.planned  # no other vote would have come
        for number in range(len(self.cast) + 1):
            if is_settled(self.cast[:number], left=planned - number, sides=self.sides, by=self.by):
                return number
        return None


def read_ballots(
    data: Countable,
    *,
    sides: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    threshold: float | Fraction | None = None,
    eligible: Sequence[str] | None = None,
) -> BallotSet:
    """Read and check `data`; ConfigurationError for ballots that cannot be counted, see `recount`."""
    given, known = _parts(data)
    chosen = tuple(known if sides is None else sides)
    if sides is None and not known:
        raise ConfigurationError(_WHERE, "sides", None, "given for bare ballots")
    if not chosen or len(set(chosen)) != len(chosen):
        raise ConfigurationError(_WHERE, "sides", chosen, "different sides, one at least")
    if threshold is None:
        approving = Fraction(1, len(chosen))
    elif isinstance(threshold, bool) or not (math.isfinite(threshold) and 0 < threshold <= 1):
        raise ConfigurationError(_WHERE, "threshold", threshold, "None or a number above 0, and 1 at most")
    else:
        approving = threshold if isinstance(threshold, Fraction) else exact(threshold)
    votes = [ballot for ballot in given if isinstance(ballot, Ballot)]
    is_vote = isinstance(data, ConsensusOutput) or bool(votes)
    if eligible is not None and not is_vote:
        raise ConfigurationError(_WHERE, "eligible", eligible, "None: only votes have eligible voters")
    cast = [_read_ballot(ballot, index, chosen) for index, ballot in enumerate(given)]
    usable = [ballot for ballot in cast if ballot.problem is None]
    voters = _eligible(data, votes, eligible) if is_vote else [str(number) for number in range(1, len(cast) + 1)]
    _check_weights(weights, voters if is_vote else [ballot.model for ballot in usable])
    scored = bool(usable) and all(ballot.scores is not None for ballot in usable)
    judging = data if isinstance(data, Judging) else None
    return BallotSet(
        sides=chosen,
        cast=cast,
        votes=votes if is_vote else [_vote_of(voter, each, chosen) for voter, each in zip(voters, cast, strict=True)],
        data="votes" if is_vote else "scores" if scored else "winners",
        planned=max(len(voters), 0 if judging is None else judging.planned),
        by="vote" if not scored else "mean" if judging is None else judging.decided_by,
        threshold=approving,
        weights=weights,
        eligible=voters,
        tally=data.tally if isinstance(data, ConsensusOutput) else None,
    )


def _parts(data: Countable) -> tuple[Sequence[JudgeBallot | Ballot], Sequence[str]]:
    if isinstance(data, Judging):
        return data.ballots, list(data.scores)
    if isinstance(data, ConsensusOutput):
        proposed = [proposal.agent for proposal in data.final_proposals]
        return data.ballots, proposed if data.tally is None else list(data.tally.counts)
    kinds = {type(ballot) for ballot in data}
    if len(kinds) > 1 or not kinds <= {JudgeBallot, Ballot}:
        raise ConfigurationError(_WHERE, "data", data, "ballots of one kind, a Judging, or a ConsensusOutput")
    return data, ()


def _read_ballot(ballot: JudgeBallot | Ballot, index: int, sides: Sequence[str]) -> JudgeBallot:
    """A ballot about `sides`; ConfigurationError for a judge's ballot about others."""
    if isinstance(ballot, Ballot):
        spoiled = ballot.choice not in sides
        return JudgeBallot(
            order=list(sides),
            model=ballot.voter,
            winner=None if spoiled else ballot.choice,
            problem="spoiled" if spoiled else None,
        )
    if ballot.problem is None:
        named = [("winner", ballot.winner)] if ballot.scores is None else [("scores", side) for side in ballot.scores]
        for field, side in named:
            if side is not None and side not in sides:
                allowed = f"one of the sides {shown(list(sides))}"
                raise ConfigurationError(_WHERE, f"ballots[{index}].{field}", side, allowed)
    return ballot.model_copy(update={"order": list(sides)})


def _vote_of(voter: str, ballot: JudgeBallot, sides: Sequence[str]) -> Ballot:
    """A vote for the first place; an unusable ballot, and a tie, are spoiled."""
    first = firsts_of(ballot, sides=sides) if ballot.problem is None else []
    return Ballot(voter=voter, choice=first[0] if len(first) == 1 else None)


def _eligible(data: Countable, votes: Iterable[Ballot], given: Sequence[str] | None) -> list[str]:
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


def _check_weights(weights: Mapping[str, float] | None, voters: Sequence[str | None]) -> None:
    for name, weight in (weights or {}).items():
        if name not in voters:
            known = shown(sorted({voter for voter in voters if voter is not None}))
            raise ConfigurationError(_WHERE, "weights", name, f"weights of those who have cast a ballot: {known}")
        check_weight(_WHERE, name, weight)
