"""Decision rules as a table of functions of a set of ballots: those of judges and votes of agents, in one form.

A ballot ranks the sides by its numbers; equal numbers are a tie, and no rule breaks ties. No rule depends on the order
of ballots, or on the names of sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import median
from typing import Annotated, Literal, NamedTuple, TypeAlias, assert_never

from pydantic import Field

from flowdebate._text import counted, shown
from flowdebate._util.validation import check_weight
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.measures.votes import Ballot, Tally, VotingRule, exact, leaders, portions, split, tally, total
from flowdebate.patterns.consensus.schemas import ConsensusOutput
from flowdebate.patterns.debate.judging.ballots import DecidedBy, JudgeBallot, Judging, firsts_of, is_settled

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
    if sides is None and not known:  # sides that nobody voted for are in no ballot
        raise ConfigurationError(_WHERE, "sides", None, "given for bare ballots")
    if not chosen or len(set(chosen)) != len(chosen):
        raise ConfigurationError(_WHERE, "sides", chosen, "different sides, one at least")
    if threshold is None:
        approving = Fraction(1, len(chosen))  # an even share: less than that speaks for the others
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
    weighed = set(voters) if is_vote else {ballot.model for ballot in usable if ballot.model is not None}
    for name, weight in (weights or {}).items():
        if name not in weighed:
            known = f"weights of those who have cast a ballot: {shown(sorted(weighed))}"
            raise ConfigurationError(_WHERE, "weights", name, known)
        check_weight(_WHERE, name, weight)
    if not is_vote:
        for voter, ballot in zip(voters, cast, strict=True):
            first = firsts_of(ballot, sides=chosen) if ballot.problem is None else []
            # a vote is for one side: that of a judge who has several in front, like an unusable ballot, is spoiled
            votes.append(Ballot(voter=voter, choice=first[0] if len(first) == 1 else None))
    scored = bool(usable) and all(ballot.scores is not None for ballot in usable)
    judging = data if isinstance(data, Judging) else None
    return BallotSet(
        sides=chosen,
        cast=cast,
        votes=votes,
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


DecisionRule = Literal[
    "mean",
    "median",
    "plurality",
    "majority",
    "supermajority",
    "unanimous",
    "approval",
    "borda",
    "condorcet",
    "instant_runoff",
    "weighted",
]
RuleEnd = Literal["winner", "tie", "short"]
"""A winner; several in the lead; or a leader with less than the rule asks for."""
Ranking: TypeAlias = "Mapping[str, Fraction]"
_HALF = Fraction(1, 2)
_PAIR = 2
# Sets of one size that an instant runoff follows where sides tie for the last place: with n sides there can be 2 ** n.
_MOST_SETS = 1_000


class RuleResult(WireModel):
    """The outcome of one rule."""

    rule: DecisionRule
    end: RuleEnd
    winner: str | None = None
    """None for every end but "winner"."""
    why: str
    """The numbers that decided, in words."""
    tied: list[str] = Field(default_factory=list)
    """The sides that share the lead, in the order of the sides."""
    scores: dict[str, float]
    """The count of each side, in the order of the sides and in units of the rule."""
    ballots: Annotated[int, Field(ge=0)]
    """The number of ballots that were counted."""


class Runoff(NamedTuple):
    """An instant runoff: its winners, and its last count that did not depend on a choice."""

    scores: dict[str, Fraction]
    """The votes of the sides that remain in that count; 0 for the others."""
    lead: list[str]
    """The winner; several for a tie, or where the winner depends on which of the tied last sides goes first."""
    rounds: int
    """The number of that count."""
    disputed: bool = False
    """Whether sides tied for the last place after it, so that more than one continuation was followed."""


def borda(rankings: Sequence[Ranking], sides: Sequence[str]) -> dict[str, Fraction]:
    """Borda points: one for each side that a ballot ranks lower, and half a point for each tie.

    >>> points = borda([{"a": Fraction(3), "b": Fraction(2), "c": Fraction(2)}], ["a", "b", "c"])
    >>> {side: float(has) for side, has in points.items()}
    {'a': 2.0, 'b': 0.5, 'c': 0.5}
    """
    return total(
        (
            {side: _HALF * sum(1 + _sign(own[side] - own[other]) for other in sides if other != side) for side in sides}
            for own in rankings
        ),
        sides,
    )


def fight_duels(rankings: Sequence[Ranking], sides: Sequence[str]) -> dict[str, dict[str, int]]:
    """Pairwise duels: 1 where more ballots rank the one side higher than the other, -1 for fewer, 0 for a draw."""
    return {
        side: {other: _sign(sum(_sign(own[side] - own[other]) for own in rankings)) for other in sides if other != side}
        for side in sides
    }


def copeland(rankings: Sequence[Ranking], sides: Sequence[str]) -> dict[str, Fraction]:
    """Copeland points: one for each duel won, and half a point for each draw."""
    fought = fight_duels(rankings, sides)
    return {side: _HALF * sum(1 + duel for duel in duels.values()) for side, duels in fought.items()}


def instant_runoff(rankings: Sequence[Ranking], sides: Sequence[str]) -> Runoff:
    """Eliminate the side with the fewest first places until one has more than half of them.

    A ballot counts in equal parts for the sides that it ranks first. Last sides whose votes together are fewer than
    those of the next one are eliminated together, which changes no winner. Where sides tie for the last place nothing
    is drawn by lot: every choice of the one that goes first is followed, and all winners that come out of it lead.

    >>> order = {side: Fraction(-place) for place, side in enumerate("abc")}
    >>> instant_runoff([order, order], ["a", "b", "c"]).lead
    ['a']
    """
    rest, rounds = frozenset(sides), 1
    counts, leading, outs = _runoff_count(rankings, rest, sides)
    while leading is None and len(outs) == 1:
        rest, rounds = rest - outs[0], rounds + 1
        counts, leading, outs = _runoff_count(rankings, rest, sides)
    if leading is not None:
        return Runoff(counts, [leading], rounds)
    winners = _runoff_winners(rankings, [rest - out for out in outs], sides)
    return Runoff(counts, [side for side in sides if side in winners], rounds, disputed=len(rest) > _PAIR)


def _runoff_count(
    rankings: Sequence[Ranking], rest: frozenset[str], sides: Sequence[str]
) -> tuple[dict[str, Fraction], str | None, list[frozenset[str]]]:
    """The votes of the sides in `rest`, the one with more than half, and the sets that may be eliminated next."""
    left = [side for side in sides if side in rest]
    counts = total((split(leaders({side: own[side] for side in left}), left) for own in rankings), sides)
    ordered = sorted(left, key=counts.__getitem__)
    best = ordered[-1]
    if len(left) == 1 or 2 * counts[best] > len(rankings):
        return counts, best, []
    below = Fraction(0)
    together: list[str] = []
    for place, side in enumerate(ordered[:-1]):
        below += counts[side]
        if below < counts[ordered[place + 1]]:
            together = ordered[: place + 1]
    if together:
        return counts, None, [frozenset(together)]
    return counts, None, [frozenset([side]) for side in left if counts[side] == counts[ordered[0]]]


def _runoff_winners(rankings: Sequence[Ranking], begin: Sequence[frozenset[str]], sides: Sequence[str]) -> set[str]:
    """All winners of runoffs that continue with one of the sets `begin`; each set of sides is counted once.

    Should there be too many to follow, whoever is left in one of them may win.
    """
    pending, winners = set(begin), set[str]()
    while pending:
        largest = max(map(len, pending))
        now = {rest for rest in pending if len(rest) == largest}
        if len(now) > _MOST_SETS:
            return winners.union(*pending)
        pending -= now
        for rest in now:
            _, leading, outs = _runoff_count(rankings, rest, sides)
            if leading is not None:
                winners.add(leading)
            pending.update(rest - out for out in outs)
    return winners


def apply_rule(rule: DecisionRule, cast: BallotSet) -> RuleResult:  # noqa: PLR0911 - a table
    """Count ballots that pass `reason_to_skip` by `rule`."""
    sides, shares, usable = cast.sides, cast.shares or [], len(cast.usable)
    match rule:
        case "mean":
            means = {side: amount / usable for side, amount in total(shares, sides).items()}
            return _most(cast, rule, means, "a mean share of {}")
        case "median":
            medians = {side: Fraction(median(own[side] for own in shares)) for side in sides}
            return _most(cast, rule, medians, "a median share of {}")
        case "plurality":
            return _most(cast, rule, total(cast.firsts, sides), f"{{}} of {counted(usable, 'first place')}")
        case "approval":
            counts = {side: Fraction(sum(own[side] >= cast.threshold for own in shares)) for side in sides}
            asked = f"{{}} of {counted(usable, 'ballot')} with a share of {_number(cast.threshold)} or more"
            return _most(cast, rule, counts, asked)
        case "borda":
            points = borda(cast.rankings or [], sides)
            return _most(cast, rule, points, f"{{}} of {usable * (len(sides) - 1)} points")
        case "condorcet":
            duels = fight_duels(cast.rankings or [], sides)
            best = next((side for side, own in duels.items() if all(duel > 0 for duel in own.values())), None)
            # Copeland's points name the same winner where one beats all others, and say who is ahead where none does
            points = copeland(cast.rankings or [], sides)
            result = _most(cast, rule, points, f"{{}} of {len(sides) - 1} points of duels")
            why = (
                f"no side beats all others; {result.why}"
                if best is None
                else f"{shown(best)} beats all others in duels"
            )
            return result.model_copy(update={"why": why})
        case "instant_runoff":
            return _instant_runoff(cast)
        case "weighted" if cast.data != "votes":
            weights = [exact((cast.weights or {}).get(ballot.model or "", 1.0)) for ballot in cast.usable]
            parts = zip(cast.shares or cast.firsts, weights, strict=True)
            heavy = total(({side: part[side] * weight for side in sides} for part, weight in parts), sides)
            means = {side: amount / sum(weights) for side, amount in heavy.items()}
            return _most(cast, rule, means, "{} of the weight")
        case "majority" | "supermajority" | "unanimous" | "weighted":
            return _count_voters(cast, rule)
        case _:
            assert_never(rule)


def _instant_runoff(cast: BallotSet) -> RuleResult:
    runoff = instant_runoff(cast.rankings or [], cast.sides)
    votes = f"{{}} of {counted(len(cast.usable), 'vote')} in count {runoff.rounds}"
    result = _most(cast, "instant_runoff", runoff.scores, votes)
    if not runoff.disputed:
        return result  # a majority, or the last two sides tie
    won, names = len(runoff.lead) == 1, " or ".join(map(shown, runoff.lead))
    depends = "whichever side goes first" if won else "depending on which side goes first"
    return result.model_copy(
        update={
            "end": "winner" if won else "tie",
            "winner": runoff.lead[0] if won else None,
            "tied": [] if won else runoff.lead,
            "scores": {side: float(runoff.scores[side]) for side in cast.sides},
            "why": f"{names} wins, {depends} of those that tie for the last place after count {runoff.rounds}",
        }
    )


def _count_voters(cast: BallotSet, rule: VotingRule) -> RuleResult:
    """Count by a rule about all eligible voters: a missing or spoiled ballot has not agreed."""
    stored = cast.tally
    if stored is not None and stored.rule == rule == "weighted" and cast.weights is None:
        count = stored  # the weights themselves are not stored
    else:
        count = tally(
            cast.votes,
            choices=cast.sides,
            eligible=cast.eligible,
            rule=rule,
            weights=cast.weights if rule == "weighted" else None,
            quorum=None if stored is None else stored.quorum,
        )
    tied = bool(count.tied) and count.quorum_met
    return RuleResult(
        rule=rule,
        end="winner" if count.reached else "tie" if tied else "short",
        winner=count.winner if count.reached else None,
        why=count.reason,
        tied=count.tied if tied else [],
        scores=dict(count.weights) if rule == "weighted" else {side: float(n) for side, n in count.counts.items()},
        ballots=count.valid,
    )


_BY_SCORES = ("mean", "median", "approval")
_BY_RANKING = ("borda", "condorcet", "instant_runoff")


def reason_to_skip(rule: DecisionRule, cast: BallotSet, *, asked: bool) -> str | None:
    """The reason why `rule` cannot count these ballots, or (unless it was `asked` for) repeats another; else None."""
    kind = "a vote" if cast.data == "votes" else "a ballot with a winner only"
    unweighted = cast.weights is None and (cast.tally is None or cast.tally.rule != "weighted")
    two_sides, two_ballots = len(cast.sides) <= _PAIR, len(cast.usable) <= _PAIR
    even = rule == "approval" and cast.threshold == Fraction(1, len(cast.sides))
    reasons = {
        "there is no ballot that could be used": not cast.usable,
        f"not every ballot has scores: {kind} says who is first, and not by how much": (
            rule in _BY_SCORES and cast.shares is None
        ),
        f"not every ballot ranks all sides: {kind} says who is first, and not how the other sides stand": (
            rule in _BY_RANKING and cast.rankings is None
        ),
        "there are no weights": rule == "weighted" and unweighted,
        "with two sides it is plurality": not asked and two_sides and (rule in _BY_RANKING or even),
        "with two ballots it is the mean": not asked and two_ballots and rule == "median",
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _most(cast: BallotSet, rule: DecisionRule, totals: Mapping[str, Fraction], has: str) -> RuleResult:
    """The side with most of `totals` wins; `has` says what they are."""
    lead = leaders(totals)
    won = len(lead) == 1
    amount = has.format(_number(totals[lead[0]]))
    names = ", ".join(map(shown, lead[:-1])) + f" and {shown(lead[-1])}"
    return RuleResult(
        rule=rule,
        end="winner" if won else "tie",
        winner=lead[0] if won else None,
        why=f"{shown(lead[0])} has {amount}" if won else f"{names} have {amount} each",
        tied=[] if won else lead,
        scores={side: float(totals[side]) for side in cast.sides},
        ballots=len(cast.usable),
    )


def _sign(number: Fraction | int) -> int:
    return (number > 0) - (number < 0)


def _number(number: Fraction) -> str:
    return f"{float(number):.4g}"
