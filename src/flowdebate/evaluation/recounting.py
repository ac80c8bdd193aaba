"""Recount: stored ballots under all decision rules, and whether the outcome depends on the rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, get_args

from pydantic import Field

from flowdebate._text import counted, shown
from flowdebate._util.importing import InNotebooks
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.decision_rules import (
    BallotData,
    Countable,
    DecisionRule,
    RuleResult,
    apply_rule,
    read_ballots,
    reason_to_skip,
)
from flowdebate.patterns.debate.judging.ballots import decide

ALL_RULES: tuple[DecisionRule, ...] = get_args(DecisionRule)
# The last finding of every recount.
LIMITS = (
    "All rules read the same ballots. Where they agree, the outcome does not depend on how ballots are counted; it is "
    "no evidence that the ballots are right."
)
_ENDS = {"tie": "a tie", "short": "too few votes for a winner"}


class BallotWinner(WireModel):
    """The outcome if one ballot had been the only one."""

    number: Annotated[int, Field(ge=1)]
    """Its place in the stored order, from 1."""
    voter: str | None = None
    """The model, or the agent."""
    view: int | None = None
    """The judge view, from 0; None for a vote."""
    winner: str | None = None
    """None for a tie, and for a ballot without a winner."""


class Recount(InNotebooks, WireModel):
    """Ballots counted by several rules."""

    sides: list[str]
    data: BallotData
    cast: Annotated[int, Field(ge=0)]
    """The number of ballots."""
    usable: Annotated[int, Field(ge=0)]
    planned: Annotated[int, Field(ge=0)]
    """The number of ballots without curtailing and provider failures."""
    rows: list[RuleResult]
    skipped: dict[DecisionRule, str]
    """Rules that cannot count these ballots, or cannot differ from another rule, each with the reason."""
    per_ballot: list[BallotWinner]
    """The usable ballots, in the stored order."""
    sufficient: int | None
    """The number of ballots, in the stored order, that settled the decision; None where others could change it."""
    flipped: bool
    """Whether one model chose different sides in different views."""
    agree: bool
    """Whether all rows name one winner; False without a row."""
    line: str
    """The same in words."""

    @property
    def findings(self) -> list[str]:
        """The recount in words, a sentence each: first whether the rules agree, last `LIMITS`."""
        reasons: dict[str, list[str]] = {}
        for rule, reason in self.skipped.items():
            reasons.setdefault(reason, []).append(_name(rule))
        skipped = [f"not counted: {', '.join(names)}: {reason}" for reason, names in reasons.items()]
        return [self.line, *skipped, *_about_ballots(self), LIMITS]

    def row(self, rule: DecisionRule) -> RuleResult:
        """The row of `rule`; LookupError where it was skipped or not asked for."""
        for row in self.rows:
            if row.rule == rule:
                return row
        message = f"no row for {rule!r}: {self.skipped.get(rule, 'it was not asked for')}"
        raise LookupError(message)


def recount(
    data: Countable,
    *,
    sides: Sequence[str] | None = None,
    rules: Iterable[DecisionRule] | None = None,
    weights: Mapping[str, float] | None = None,
    threshold: float | Fraction | None = None,
    eligible: Sequence[str] | None = None,
) -> Recount:
    """Count `data` by other rules: the judging of a debate, a consensus, or bare ballots.

    Sums are exact, and but for `sufficient` nothing depends on the order of the ballots.

    - `sides`: the possible winners. None: those of `data`; bare ballots have none.
    - `rules`: None: all that can count these ballots, and can differ from each other.
    - `weights`: for "weighted", positive numbers by model, or by agent; 1 for those without.
    - `threshold`: for "approval", the share from which on a ballot approves of a side. None: 1 / the number of sides.
    - `eligible`: of bare votes, who could vote. None: those who did.

    ConfigurationError for ballots that are for none of the sides, and for weights of nobody.

    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot
    >>> near = JudgeBallot(order=["a", "b", "c"], scores={"a": 0.4, "b": 0.35, "c": 0.25})
    >>> far = JudgeBallot(order=["a", "b", "c"], scores={"a": 0.1, "b": 0.7, "c": 0.2})
    >>> recounted = recount([near, near, far], sides=["a", "b", "c"], rules=["mean", "plurality", "condorcet"])
    >>> [row.winner for row in recounted.rows], recounted.line
    (['b', 'a', 'a'], "2 of 3 rules choose 'a'; the others: 'b' (mean)")
    """
    given = [rules] if isinstance(rules, str) else list(ALL_RULES if rules is None else rules)
    for rule in given:
        if rule not in ALL_RULES:
            raise ConfigurationError("recount()", "rules", rule, f"some of {', '.join(ALL_RULES)}")
    if not given:
        raise ConfigurationError("recount()", "rules", given, "at least one")
    asked = [rule for rule in ALL_RULES if rule in given]
    cast = read_ballots(data, sides=sides, weights=weights, threshold=threshold, eligible=eligible)
    reasons = {rule: reason_to_skip(rule, cast, asked=rules is not None) for rule in asked}
    rows = [apply_rule(rule, cast) for rule, reason in reasons.items() if reason is None]
    return Recount(
        sides=list(cast.sides),
        data=cast.data,
        cast=len(cast.cast),
        usable=len(cast.usable),
        planned=cast.planned,
        rows=rows,
        skipped={rule: reason for rule, reason in reasons.items() if reason is not None},
        per_ballot=[
            BallotWinner(
                number=number,
                voter=ballot.model,
                view=None if cast.data == "votes" else ballot.view,
                winner=vote.choice,
            )
            for number, (ballot, vote) in enumerate(zip(cast.cast, cast.votes, strict=True), 1)
            if ballot.problem is None
        ],
        sufficient=cast.sufficient(),
        flipped=decide(cast.cast, sides=cast.sides).flipped,
        agree=bool(rows) and rows[0].winner is not None and len({row.winner for row in rows}) == 1,
        line=_agreement_line(rows),
    )


def _agreement_line(rows: Sequence[RuleResult]) -> str:
    if not rows:
        return "no rule can count these ballots"
    groups: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row.end != "winner"):  # rules with a winner first
        what = shown(row.winner) if row.end == "winner" else _ENDS[row.end]
        groups.setdefault(what, []).append(_name(row.rule))
    whole = len(rows)
    if all(row.end != "winner" for row in rows):
        ends = "; ".join(f"{what} ({', '.join(names)})" for what, names in groups.items())
        return f"none of {whole} rules names a winner: {ends}" if whole > 1 else f"no winner: {ends}"
    won = [shown(row.winner) for row in rows if row.end == "winner"]
    best = max(won, key=won.count)
    if len(groups) == 1:
        return f"all {whole} rules choose {best}" if whole > 1 else f"the only rule chooses {best}"
    others = "; ".join(f"{what} ({', '.join(names)})" for what, names in groups.items() if what != best)
    verb = "choose" if won.count(best) > 1 else "chooses"
    return f"{won.count(best)} of {whole} rules {verb} {best}; the others: {others}"


def _about_ballots(recounted: Recount) -> Iterator[str]:
    cast, usable, planned = recounted.cast, recounted.usable, recounted.planned
    if usable == 1:
        yield "there is one ballot, which every rule can only repeat"
    elif usable:
        counts = {side: sum(each.winner == side for each in recounted.per_ballot) for side in recounted.sides}
        parts = [f"{count} would have chosen {shown(side)}" for side, count in counts.items() if count]
        undecided = usable - sum(counts.values())
        parts += [f"{undecided} none"] if undecided else []
        yield f"of {usable} ballots, each taken alone, {', '.join(parts)}"
    if recounted.flipped:
        yield "a model chose different sides in different views"
    if cast > usable:
        yield f"{cast - usable} of {counted(cast, 'ballot')} could not be used; majorities are of all {cast}"
    if planned > cast:
        yield f"{counted(planned - cast, 'ballot')} of {planned} planned were not cast, and count for nothing"
    if usable and recounted.sufficient is not None and recounted.sufficient < planned:
        enough = counted(recounted.sufficient, "ballot")
        yield f"the first {enough} of {planned} would have been enough for the same outcome"


def _name(rule: DecisionRule) -> str:
    return rule.replace("_", " ")
