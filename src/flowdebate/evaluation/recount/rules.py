"""Each decision protocol as a function of a case: a row with a winner, or with why there is none."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from flowdebate.errors import shown
from flowdebate.evaluation.recount.rankings import approvals, beaten, borda, copeland, instant_runoff, medians
from flowdebate.evaluation.recount.schemas import RuleResult
from flowdebate.measures.votes import tally
from flowdebate.patterns.debate.judging.ballots import exact, is_settled, leaders, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flowdebate.evaluation.recount.case import Case
    from flowdebate.evaluation.recount.schemas import DecisionRule
    from flowdebate.measures.schemas import Tally, VotingRule

__all__ = (
    "RULES",
    "untold",
)

_ZERO, _ONE = Fraction(0), Fraction(1)
_TWO = 2
_NO_SCORES = "not every ballot has scores: {} says who is first, and not by how much"
_NO_RANKING = "not every ballot ranks all sides: {} says who is first, and not how the other sides stand"


def untold(protocol: DecisionRule, why: str) -> RuleResult:
    """The row of a protocol that this data says nothing of."""
    return RuleResult(protocol=protocol, end="untold", why=why)


def _mean(case: Case) -> RuleResult:
    if case.shares is None:
        return untold("mean", _NO_SCORES.format(_kind(case)))
    totals = _summed(case.shares, case.sides, [_ONE] * len(case.shares))
    return _led(case, "mean", totals, "a mean share of {}")


def _median(case: Case) -> RuleResult:
    if case.shares is None:
        return untold("median", _NO_SCORES.format(_kind(case)))
    twin: DecisionRule | None = "mean" if len(case.shares) <= _TWO else None
    return _led(case, "median", medians(case.shares, case.sides), "a median share of {}", same_as=twin)


def _plurality(case: Case) -> RuleResult:
    totals = _added((split(paper.first, case.sides) for paper in case.papers), case.sides)
    return _led(case, "plurality", totals, f"{{}} of {_counted(len(case.papers), 'first place')}")


def _by_tally(protocol: DecisionRule, rule: VotingRule) -> Callable[[Case], RuleResult]:
    def row(case: Case) -> RuleResult:
        return _of_tally(protocol, _tally(case, rule))

    return row


def _approval(case: Case) -> RuleResult:
    if case.shares is None:
        return untold("approval", _NO_SCORES.format(_kind(case)))
    totals = approvals(case.shares, case.sides, threshold=case.threshold)
    asked = f"{{}} of {_counted(len(case.shares), 'ballot')} with a share of {_number(case.threshold)} or more"
    even = len(case.sides) == _TWO and case.threshold == Fraction(1, _TWO)
    return _led(case, "approval", totals, asked, same_as="plurality" if even else None)


def _borda(case: Case) -> RuleResult:
    if case.ranked is None:
        return untold("borda", _NO_RANKING.format(_kind(case)))
    most = len(case.papers) * (len(case.sides) - 1)
    return _led(case, "borda", borda(case.ranked, case.sides), f"{{}} of {most} points", same_as=_of_two(case))


def _condorcet(case: Case) -> RuleResult:
    if case.ranked is None:
        return untold("condorcet", _NO_RANKING.format(_kind(case)))
    duels = beaten(case.ranked, case.sides)
    best = next((side for side, own in duels.items() if all(duel > 0 for duel in own.values())), None)
    points = f"{{}} of {len(case.sides) - 1} points of duels"
    row = _led(case, "condorcet", copeland(case.ranked, case.sides), points, same_as=_of_two(case))
    why = f"no side beats all others; {row.why}" if best is None else f"{shown(best)} beats all others in duels"
    return row.model_copy(update={"why": why})


def _instant_runoff(case: Case) -> RuleResult:
    if case.ranked is None:
        return untold("instant_runoff", _NO_RANKING.format(_kind(case)))
    found = instant_runoff(case.ranked, case.sides)
    votes = f"{{}} of {_counted(len(case.papers), 'vote')} in count {found.rounds}"
    return _led(case, "instant_runoff", found.scores, votes, same_as=_of_two(case))


def _cumulative(case: Case) -> RuleResult:
    """The points that each side was given: shares of a judge's ballots, confidences of votes."""
    if case.data == "votes":
        parts = ({side: paper.confidence * (side in paper.first) for side in case.sides} for paper in case.papers)
        even = len({paper.confidence for paper in case.papers}) == 1 and case.papers[0].confidence > 0
        totals = _added(parts, case.sides)
        return _led(case, "cumulative", totals, "{} points of confidence", same_as="plurality" if even else None)
    if case.shares is None:
        return untold("cumulative", _NO_SCORES.format(_kind(case)))
    return _led(case, "cumulative", _added(case.shares, case.sides), "{} points", same_as="mean")


def _weighted(case: Case) -> RuleResult:
    if case.data == "votes":
        if case.weights is None and case.tally is not None and case.tally.rule == "weighted":
            return _of_tally("weighted", case.tally)
        twin: DecisionRule | None = "majority" if case.weights is None else None
        return _of_tally("weighted", _tally(case, "weighted"), same_as=twin)
    pounds = [exact((case.weights or {}).get(paper.voter or "", 1.0)) for paper in case.papers]
    parts = case.shares or [split(paper.first, case.sides) for paper in case.papers]
    twin = "plurality" if case.shares is None else "mean"
    totals = _summed(parts, case.sides, pounds)
    return _led(case, "weighted", totals, "{} of the weight", same_as=twin if case.weights is None else None)


def _single(case: Case) -> RuleResult:
    first = case.papers[0]
    totals = split(first.first, case.sides) if first.shares is None else dict(first.shares)
    twin = case.base if len(case.papers) == 1 else None
    row = _led(case, "single", totals, f"{{}} of ballot {first.number}", same_as=twin)
    return row.model_copy(update={"ballots": 1})


def _curtailed(case: Case) -> RuleResult:
    base = RULES[case.base](case)
    whole = len(case.ballots) if case.data == "votes" else case.planned  # a vote that was lost would not have come
    for number in range(len(case.judged) + 1):
        if is_settled(case.judged[:number], left=whole - number, sides=case.sides, by=case.by):
            took = f"{number} of {_counted(whole, 'ballot')}, in the stored order, settle it: {base.why}"
            return base.model_copy(
                update={"protocol": "curtailed", "why": took, "ballots": number, "same_as": case.base}
            )
    missing = _counted(whole - len(case.judged), "ballot")
    return untold("curtailed", f"{missing} that were not cast could have changed it")


def _average(case: Case) -> RuleResult:
    return _unflipped(case, "on_flip_average") or _based(case, "on_flip_average", "the flip changes nothing")


def _abstain(case: Case) -> RuleResult:
    row = _unflipped(case, "on_flip_abstain")
    why = "a model found for different sides in different views, so that the judge abstains"
    return row or _based(case, "on_flip_abstain", why).model_copy(
        update={"end": "abstains", "winner": None, "tied": [], "why": why, "same_as": None}
    )


def _tie(case: Case) -> RuleResult:
    row = _unflipped(case, "on_flip_tie")
    if row is not None:
        return row
    sides = [side for side in case.sides if any(paper.first == (side,) for paper in case.papers)]
    why = "a model found for different sides in different views, so that all that were found for are level"
    totals = split(sides, case.sides)
    return RuleResult(
        protocol="on_flip_tie",
        end="tie",
        why=why,
        tied=sides,
        scores={side: float(part) for side, part in totals.items()},
        ballots=len(case.papers),
    )


def _human(case: Case) -> RuleResult:
    row = _unflipped(case, "on_flip_human")
    return row or untold("on_flip_human", "a person would have been asked")


RULES: Mapping[DecisionRule, Callable[[Case], RuleResult]] = {
    "mean": _mean,
    "median": _median,
    "plurality": _plurality,
    "majority": _by_tally("majority", "majority"),
    "supermajority": _by_tally("supermajority", "supermajority"),
    "unanimous": _by_tally("unanimous", "unanimous"),
    "approval": _approval,
    "borda": _borda,
    "condorcet": _condorcet,
    "instant_runoff": _instant_runoff,
    "cumulative": _cumulative,
    "weighted": _weighted,
    "single": _single,
    "curtailed": _curtailed,
    "on_flip_average": _average,
    "on_flip_abstain": _abstain,
    "on_flip_tie": _tie,
    "on_flip_human": _human,
}
"""Of a case with a ballot that could be used at least."""


def _unflipped(case: Case, protocol: DecisionRule) -> RuleResult | None:
    """The row of a rule for flips where there is none, or none can be seen; None where there is one."""
    if case.data == "votes":
        return untold(protocol, "voters are asked once: there are no views between which a vote could flip")
    if case.flipped:
        return None
    if case.planned > len(case.ballots) and protocol != "on_flip_average":
        return untold(protocol, f"{_counted(case.planned - len(case.ballots), 'ballot')} not cast could have flipped")
    return _based(case, protocol, "no model found for different sides in different views")


def _based(case: Case, protocol: DecisionRule, why: str) -> RuleResult:
    base = RULES[case.base](case)
    return base.model_copy(update={"protocol": protocol, "why": f"{why}: {base.why}", "same_as": case.base})


def _led(
    case: Case, protocol: DecisionRule, totals: Mapping[str, Fraction], has: str, *, same_as: DecisionRule | None = None
) -> RuleResult:
    """The row in which who has the most of `totals` wins; `has` says what that is, in words."""
    lead = leaders(totals)
    told = has.format(_number(totals[lead[0]]))
    alone = len(lead) == 1
    return RuleResult(
        protocol=protocol,
        end="winner" if alone else "tie",
        winner=lead[0] if alone else None,
        why=f"{shown(lead[0])} has {told}" if alone else f"{_names(lead)} have {told} each",
        tied=[] if alone else lead,
        scores={side: float(totals[side]) for side in case.sides},
        ballots=len(case.papers),
        same_as=same_as,
    )


def _of_tally(protocol: DecisionRule, found: Tally, *, same_as: DecisionRule | None = None) -> RuleResult:
    tied = bool(found.tied) and found.quorum_met
    return RuleResult(
        protocol=protocol,
        end="winner" if found.reached else "tie" if tied else "short",
        winner=found.winner if found.reached else None,
        why=found.reason,
        tied=found.tied if tied else [],
        scores=dict(found.weights) if protocol == "weighted" else {side: float(n) for side, n in found.counts.items()},
        ballots=found.valid,
        same_as=same_as,
    )


def _tally(case: Case, rule: VotingRule) -> Tally:
    return tally(
        case.votes,
        choices=case.sides,
        eligible=case.eligible,
        rule=rule,
        weights=case.weights if rule == "weighted" else None,
        quorum=case.quorum,
    )


def _summed(
    parts: Sequence[Mapping[str, Fraction]], sides: Sequence[str], pounds: Sequence[Fraction]
) -> dict[str, Fraction]:
    """The weighted mean of `parts`."""
    heavy = ({side: part[side] * weight for side in sides} for part, weight in zip(parts, pounds, strict=True))
    whole = sum(pounds, _ZERO)
    return {side: total / whole for side, total in _added(heavy, sides).items()}


def _added(parts: Iterable[Mapping[str, Fraction]], sides: Sequence[str]) -> dict[str, Fraction]:
    totals = dict.fromkeys(sides, _ZERO)
    for part in parts:
        for side in sides:
            totals[side] += part[side]
    return totals


def _of_two(case: Case) -> DecisionRule | None:
    """Of two sides there is nothing to rank but the first place."""
    return "plurality" if len(case.sides) <= _TWO else None


def _kind(case: Case) -> str:
    return "a vote" if case.data == "votes" else "a ballot with a winner only"


def _names(sides: Sequence[str]) -> str:
    return ", ".join(map(shown, sides[:-1])) + f" and {shown(sides[-1])}"


def _number(number: Fraction) -> str:
    return f"{float(number):.4g}"


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"
