"""Ballots decided again, in plain words: what the protocols say together, and what that does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.errors import shown
from flowdebate.evaluation.recount.recount import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.evaluation.recount.schemas import Recount

__all__ = (
    "LIMITS",
    "findings",
)

LIMITS = (
    "All protocols read the same ballots. Where they agree, the outcome does not hang on how ballots are put together; "
    "it is no evidence that the ballots are right."
)
"""What stands at the end."""


def findings(found: Recount) -> list[str]:
    """What `found` comes to, a sentence each; the first is whether protocols agree, the last one is `LIMITS`.

    >>> from flowdebate.evaluation.recount.recount import recount
    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    >>> ballots = [JudgeBallot(order=["yes", "no"], winner=side) for side in ("yes", "yes", "no")]
    >>> findings(recount(ballots, sides=["yes", "no"], protocols=["plurality", "borda", "mean"]))[:2]
    ["the one protocol finds for 'yes'", 'not counted apart, since here it is the same rule: borda (plurality)']
    """
    return [found.line, *_more(found), LIMITS]


def _more(found: Recount) -> Iterator[str]:
    same = [f"{named(row.protocol)} ({named(row.same_as)})" for row in found.rows if row.same_as is not None]
    if same:
        what = "it is the same rule" if len(same) == 1 else "they are the same rule as another"
        yield f"not counted apart, since here {what}: {', '.join(same)}"
    untold: dict[str, list[str]] = {}
    for row in found.rows:
        if row.end == "untold":
            untold.setdefault(row.why, []).append(named(row.protocol))
    for why, names in untold.items():
        yield f"cannot be told: {', '.join(names)}: {why}"
    yield from _of_ballots(found)


def _of_ballots(found: Recount) -> Iterator[str]:
    lost = found.cast - found.usable
    if found.usable == 1:
        yield "there is one ballot, which every protocol can only repeat"
    elif found.usable:
        counts = {side: sum(each.winner == side for each in found.alone) for side in found.sides}
        parts = [f"{count} would have found for {shown(side)}" for side, count in counts.items() if count]
        undecided = found.usable - sum(counts.values())
        parts += [f"{undecided} for none"] if undecided else []
        yield f"of {found.usable} ballots, each as the only one, {', '.join(parts)}"
    if lost:
        yield f"{lost} of {_counted(found.cast)} could not be used; majorities are of all {found.cast}"
    if found.planned > found.cast:
        yield f"{_counted(found.planned - found.cast)} of {found.planned} planned were not cast, and count for nothing"
    row = next((row for row in found.rows if row.protocol == "curtailed" and row.end != "untold"), None)
    if row is not None and row.ballots < found.planned:
        yield f"the first {_counted(row.ballots)} of {found.planned} would have been enough for the same outcome"


def _counted(number: int) -> str:
    return f"{number:,} ballot" if number == 1 else f"{number:,} ballots"
