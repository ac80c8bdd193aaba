"""What is to be decided again, read and checked once: judges' ballots, agents' votes, or a stored outcome with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from flowdebate.errors import ConfigurationError, shown
from flowdebate.measures.schemas import Ballot, Tally
from flowdebate.patterns.consensus.schemas import ConsensusOutput
from flowdebate.patterns.debate.judging.ballots import ExactBallot, decide, exact, exact_ballots, ranked
from flowdebate.patterns.debate.judging.schemas import DecidedBy, JudgeBallot, Judging

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.evaluation.recount.schemas import BallotData, DecisionRule

__all__ = (
    "Case",
    "Decidable",
    "case_of",
)

Decidable: TypeAlias = "Judging | ConsensusOutput | Sequence[JudgeBallot] | Sequence[Ballot]"
"""How a verdict came about, what a consensus debate came to, or bare ballots of one kind."""


_WHERE = "recount()"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Ballots, and all that a rule may ask about them."""

    sides: tuple[str, ...]
    ballots: Sequence[JudgeBallot] | Sequence[Ballot]
    votes: Sequence[Ballot]
    """The ballots as votes, each for the side that it has first: who has cast one is its number or its name."""
    papers: Sequence[ExactBallot]
    data: BallotData
    planned: int
    """How many ballots there would be if none had been saved or lost."""
    by: DecidedBy
    threshold: Fraction
    """What a side must have of a ballot to be approved."""
    weights: Mapping[str, float] | None
    eligible: Sequence[str]
    """Who could vote."""
    quorum: int | None = None
    tally: Tally | None = None
    """As it was counted."""

    @property
    def base(self) -> DecisionRule:
        """The rule by which it was decided: what others are compared with."""
        return "mean" if self.by == "mean" and self.data == "scores" else "plurality"

    @cached_property
    def judged(self) -> Sequence[JudgeBallot]:
        """The ballots as those of a judge, in the stored order."""
        return [
            ballot
            if isinstance(ballot, JudgeBallot)
            else JudgeBallot(
                order=list(self.sides),
                model=ballot.voter,
                winner=ballot.choice if ballot.choice in self.sides else None,
                problem=None if ballot.choice in self.sides else "spoiled",
            )
            for ballot in self.ballots
        ]

    @cached_property
    def flipped(self) -> bool:
        """Whether one and the same model found for different sides."""
        return decide(self.judged, sides=self.sides).flipped

    @cached_property
    def shares(self) -> list[Mapping[str, Fraction]] | None:
        """The scores of each paper; None where one has none."""
        known = [paper.shares for paper in self.papers if paper.shares is not None]
        return list(known) if len(known) == len(self.papers) else None

    @cached_property
    def ranked(self) -> list[Mapping[str, Fraction]] | None:
        """Numbers by which each paper ranks the sides; None where one does not."""
        return ranked(self.papers, self.sides)


def case_of(
    data: Decidable,
    *,
    sides: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    threshold: float | Fraction | None = None,
    eligible: Sequence[str] | None = None,
) -> Case:
    """`data` as a case; ConfigurationError for what cannot be decided, see `recount`."""
    ballots, known, tally, judging = _parts(data)
    chosen = tuple(known if sides is None else sides)
    _check_sides(chosen, given=sides is not None or bool(known))
    is_vote = isinstance(data, ConsensusOutput) or (bool(ballots) and isinstance(ballots[0], Ballot))
    if eligible is not None and not is_vote:
        raise ConfigurationError(_WHERE, "eligible", eligible, "None: only votes have voters who did not vote")
    papers = exact_ballots(ballots, chosen)
    votes = [each for each in ballots if isinstance(each, Ballot)] if is_vote else _as_votes(papers, len(ballots))
    voters = _eligible(data, votes, eligible)
    _check_weights(weights, {paper.voter for paper in papers} if not is_vote else voters)
    scored = bool(papers) and all(paper.shares is not None for paper in papers)
    return Case(
        sides=chosen,
        ballots=ballots,
        votes=votes,
        papers=papers,
        data="votes" if is_vote else "scores" if scored else "winners",
        planned=max(len(voters), 0 if judging is None else judging.planned),
        by="vote" if is_vote or not scored else "mean" if judging is None else judging.decided_by,
        threshold=_threshold(threshold, len(chosen)),
        weights=weights,
        eligible=voters,
        quorum=None if tally is None else tally.quorum,
        tally=tally,
    )


def _parts(
    data: Decidable,
) -> tuple[Sequence[JudgeBallot] | Sequence[Ballot], Sequence[str], Tally | None, Judging | None]:
    """The ballots, the sides where they are known, and what else is kept with them."""
    if isinstance(data, Judging):
        return data.ballots, list(data.scores), None, data
    if isinstance(data, ConsensusOutput):
        proposed = [proposal.agent for proposal in data.final_proposals]
        return data.ballots, proposed if data.tally is None else list(data.tally.counts), data.tally, None
    kinds = {type(ballot) for ballot in data}
    if len(kinds) > 1 or not kinds <= {JudgeBallot, Ballot}:
        raise ConfigurationError(_WHERE, "data", data, "ballots of one kind, a Judging, or a ConsensusOutput")
    return data, (), None, None


def _as_votes(papers: Sequence[ExactBallot], cast: int) -> list[Ballot]:
    """A vote for each ballot that was cast; one that could not be used, or that ties, is spoiled."""
    first = {paper.number: paper.first[0] for paper in papers if len(paper.first) == 1}
    return [Ballot(voter=str(number), choice=first.get(number)) for number in range(1, cast + 1)]


def _eligible(data: Decidable, votes: Sequence[Ballot], given: Sequence[str] | None) -> list[str]:
    """Who could vote: of a stored outcome all agents that it names, and as many more as its tally had."""
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
