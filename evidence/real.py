"""Real part: verdicts of local models on pairs of a true and a false statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evidence.estimates import Estimate, bootstrapped, table, wilson
from evidence.judgements import MODELS
from flowdebate.evaluation import full_audit
from flowdebate.patterns.debate.judging.ballots import decide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evidence.facts import Pair
    from evidence.judgements import Row
    from flowdebate.patterns.debate.judging.ballots import DecidedBy, JudgeBallot

__all__ = ("real",)

SIDES = ("true", "false")
WAYS: tuple[tuple[str, tuple[str, ...], DecidedBy], ...] = (
    ("one order", ("first",), "mean"),
    ("`swap`", ("first", "reverse"), "mean"),
    ("`swap`, hard votes", ("first", "reverse"), "vote"),
    ("control: the same order twice", ("first", "again"), "mean"),
)
OVER: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("one order", (("first",),)),
    ("one order, the mean of both", (("first",), ("reverse",))),
    ("the same order twice", (("first", "again"),)),
)
"""Baselines for both orders together.

The mean of the two single orders does not depend on which view happened to be drawn first.
"""


class Judged(NamedTuple):
    """A pair, and a model's ballots by view."""

    pair: Pair
    ballots: Mapping[str, JudgeBallot]

    def right(self, views: Iterable[str], by: DecidedBy = "mean") -> float:
        """Return 1 for the true statement, 0 for the false one, and 0.5 if neither won or no ballot is usable."""
        winner = decide([self.ballots[view] for view in views], sides=SIDES, by=by).winner
        return 0.5 if winner is None else float(winner == "true")


def real(rows: Sequence[Row], pairs: Sequence[Pair]) -> str:
    """Return the tables for pairs that a model has judged in all views; each row is one call."""
    parts = [_about(pairs)]
    for model in sorted({row.model for row in rows}, key=MODELS.index):
        items = list(_whole([row for row in rows if row.model == model], pairs))
        if len(items) > 1:
            model_rows = [row for row in rows if row.model == model]
            parts.append("\n\n".join((f"### `{model}`", _setup(items, model_rows), _accuracy(items), _found(items))))
    return "\n\n".join(parts) if len(parts) > 1 else "Nothing has been judged yet."


def _whole(rows: Sequence[Row], pairs: Sequence[Pair]) -> Iterable[Judged]:
    by_item: dict[str, dict[str, JudgeBallot]] = {}
    for row in rows:
        by_item.setdefault(row.item, {})[row.view] = row.ballot
    views = {view for _, used, _ in WAYS for view in used}
    for pair in pairs:
        if by_item.get(pair.id, {}).keys() >= views:
            yield Judged(pair, by_item[pair.id])


def _about(pairs: Sequence[Pair]) -> str:
    first = sum(pair.first_is_true for pair in pairs)
    matched = [pair for pair in pairs if pair.length_matched]
    longer, of_matched = (bootstrapped([pair.longer_is_true for pair in some]) for some in (pairs, matched))
    return (
        f"{len(pairs)} pairs. The package lists the true statement first in {first} of them, so its order is not used: "
        "position and letter are random. Always choosing the longer statement (one half for equal lengths) would be "
        f"right in {longer:3}, and in {of_matched:3} of the {len(matched)} pairs whose lengths differ by at most a "
        "tenth."
    )


def _setup(items: Sequence[Judged], rows: Sequence[Row]) -> str:
    seconds = float(np.median([row.seconds for row in rows if row.seconds])) if rows else 0.0
    failed = sum(row.ballot.problem is not None for row in rows)
    tied = sum(row.ballot.problem is None and row.ballot.winner is None for row in rows)
    return (
        f"{len(items)} pairs in three views, {len(rows)} calls; {failed} of them gave no usable scores "
        f"and {tied} the same score for both. Median time of a call: {seconds:.1f} s on two shared cores."
    )


def _accuracy(items: Sequence[Judged]) -> str:
    matched = [item for item in items if item.pair.length_matched]
    lines = []
    for name, views, by in WAYS:
        cells = [f"{_right(some, views, by):3}" for some in (items, matched)]
        undecided = sum(item.right(views, by) == 0.5 for item in items)
        lines.append([name, str(len(views)), *cells, f"{undecided} of {len(items)}"])
    for name, baseline in OVER:
        cells = [f"{_gain(some, baseline):+3}" for some in (items, matched)]
        lines.append([f"`swap` over {name}", "", *cells, ""])
    head = ["verdict", "calls", f"right, n = {len(items)}", f"right, lengths matched, n = {len(matched)}", "undecided"]
    return table(head, lines)


def _right(items: Sequence[Judged], views: Sequence[str], by: DecidedBy) -> Estimate:
    return bootstrapped([item.right(views, by) for item in items])


def _gain(items: Sequence[Judged], baseline: Sequence[Sequence[str]]) -> Estimate:
    """Estimate how much more often both orders together are right than the mean of the baselines."""
    return bootstrapped(
        [item.right(("first", "reverse")) - sum(map(item.right, baseline)) / len(baseline) for item in items]
    )


def _found(items: Sequence[Judged]) -> str:
    """Tabulate the slots and labels that single verdicts favor, and quote the audit's findings.

    A repeated view counts once.
    """
    lines = []
    for name, is_it in (("the first slot", _first_slot), ("the label A", _label_a)):
        used = [item.ballots["first"] for item in items if item.ballots["first"].winner is not None]
        lines.append([name, f"{wilson(sum(map(is_it, used)), len(used)):3}" if used else "-", f"{len(used)}"])
    rates = table(["choice of a single verdict", "share", "verdicts for a side"], lines)
    findings = list(full_audit([[item.ballots["first"], item.ballots["reverse"]] for item in items]).findings)
    repetition = full_audit([[item.ballots["first"], item.ballots["again"]] for item in items]).findings
    findings[-1:-1] = [sentence for sentence in repetition if sentence.startswith("repetition stability")]
    return f"{rates}\n\nThe audit of both orders says:\n\n" + "\n".join(f"- {sentence}" for sentence in findings)


def _first_slot(ballot: JudgeBallot) -> bool:
    return ballot.winner == ballot.order[0]


def _label_a(ballot: JudgeBallot) -> bool:
    return ballot.labels is not None and ballot.labels[ballot.winner or ""] == "A"
