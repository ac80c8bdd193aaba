"""Deciding again: what ballots that are stored come to under every decision protocol, without asking anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from flowdebate.errors import ConfigurationError, shown
from flowdebate.evaluation.recount.case import Case, Decidable, case_of
from flowdebate.evaluation.recount.rules import RULES, untold
from flowdebate.evaluation.recount.schemas import DecisionRule, LoneBallot, Recount, RuleResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

__all__ = (
    "ALL",
    "Decidable",
    "named",
    "recount",
)


ALL: tuple[DecisionRule, ...] = get_args(DecisionRule)
"""Every protocol that there is."""
_ENDS = {"tie": "a tie", "short": "not enough for anybody", "abstains": "nobody"}


def recount(
    data: Decidable,
    *,
    sides: Sequence[str] | None = None,
    protocols: Iterable[DecisionRule] = ALL,
    weights: Mapping[str, float] | None = None,
    threshold: float | Fraction | None = None,
    eligible: Sequence[str] | None = None,
) -> Recount:
    """What `data` comes to under each of `protocols`: how a verdict came about, a consensus debate, or bare ballots.

    A protocol that the data says nothing of has a row that says why. Sums are exact, and but for "single" and the
    number of ballots of "curtailed" nothing depends on the order of the ballots.

    - `sides`: what could be found for. None: those of `data`; bare ballots have none.
    - `weights`: for "weighted", positive numbers by model, or by agent; 1 for those without.
    - `threshold`: for "approval", the share from which on a ballot approves of a side. None: 1 / the number of sides.
    - `eligible`: of bare votes, who could vote. None: those who did.

    ConfigurationError for ballots that are for none of the sides, and for weights of nobody.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    >>> near = JudgeBallot(order=["a", "b", "c"], scores={"a": 0.4, "b": 0.35, "c": 0.25})
    >>> far = JudgeBallot(order=["a", "b", "c"], scores={"a": 0.1, "b": 0.7, "c": 0.2})
    >>> found = recount([near, near, far], sides=["a", "b", "c"], protocols=["mean", "plurality", "condorcet"])
    >>> [row.winner for row in found.rows], found.line
    (['b', 'a', 'a'], "2 of 3 protocols find for 'a'; the others: 'b' (mean)")
    """
    asked = _asked(protocols)
    case = case_of(data, sides=sides, weights=weights, threshold=threshold, eligible=eligible)
    if case.papers:
        rows = [RULES[protocol](case) for protocol in asked]
    else:
        rows = [untold(protocol, "there is no ballot that could be used") for protocol in asked]
    rows = _compared(rows)
    rules = [row for row in rows if row.end != "untold" and row.same_as is None]
    return Recount(
        sides=list(case.sides),
        data=case.data,
        cast=len(case.ballots),
        usable=len(case.papers),
        planned=case.planned,
        rows=rows,
        alone=_alone(case),
        agree=bool(rules) and rules[0].winner is not None and len({row.winner for row in rules}) == 1,
        line=_line(rules),
    )


def named(protocol: DecisionRule) -> str:
    """What a page calls a protocol.

    >>> named("on_flip_abstain")
    'on flip abstain'
    """
    return protocol.replace("_", " ")


def _asked(protocols: Iterable[DecisionRule]) -> list[DecisionRule]:
    given = [protocols] if isinstance(protocols, str) else list(protocols)
    for protocol in given:
        if protocol not in ALL:
            raise ConfigurationError("recount()", "protocols", protocol, f"some of {', '.join(ALL)}")
    if not given:
        raise ConfigurationError("recount()", "protocols", given, "at least one")
    return [protocol for protocol in ALL if protocol in given]


def _compared(rows: Sequence[RuleResult]) -> list[RuleResult]:
    """`rows`, of which each is compared with one that is there: of those that are one rule, the first is the rule."""
    there = {row.protocol: row.protocol for row in rows}
    found = []
    for row in rows:
        same = row.same_as and there.setdefault(row.same_as, row.protocol)
        found.append(row.model_copy(update={"same_as": None if same == row.protocol else same}))
    return found


def _alone(case: Case) -> list[LoneBallot]:
    return [
        LoneBallot(
            number=paper.number,
            voter=paper.voter,
            view=paper.view,
            winner=paper.first[0] if len(paper.first) == 1 else None,
        )
        for paper in case.papers
    ]


def _line(rules: Sequence[RuleResult]) -> str:
    """Whether `rules` agree, in words."""
    if not rules:
        return "no protocol can be told from these ballots"
    groups: dict[str, list[str]] = {}
    for row in sorted(rules, key=lambda row: row.end != "winner"):  # who names a side stands first
        what = shown(row.winner) if row.end == "winner" else _ENDS[row.end]
        groups.setdefault(what, []).append(named(row.protocol))
    whole = len(rules)
    if all(row.end != "winner" for row in rules):
        ends = "; ".join(f"{what} ({', '.join(names)})" for what, names in groups.items())
        return f"none of {whole} protocols names a winner: {ends}" if whole > 1 else f"no winner: {ends}"
    won = [shown(row.winner) for row in rules if row.end == "winner"]
    best = max(won, key=won.count)
    if len(groups) == 1:
        return f"all {whole} protocols find for {best}" if whole > 1 else f"the one protocol finds for {best}"
    others = "; ".join(f"{what} ({', '.join(names)})" for what, names in groups.items() if what != best)
    finds = "find" if won.count(best) > 1 else "finds"
    return f"{won.count(best)} of {whole} protocols {finds} for {best}; the others: {others}"
