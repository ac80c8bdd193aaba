"""The audit of judges: what their stored ballots show of the judges themselves.

The figures are those of Shi et al. 2024 (arXiv 2406.07791): repetition stability, position consistency, preference
fairness; with them how often each slot and each label has won. They need no library; `full_audit()` adds p-values
and intervals.
"""

from __future__ import annotations

import math
from itertools import combinations
from statistics import StatisticsError, correlation
from typing import TYPE_CHECKING, Any, Literal

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.judges.counts import FIGURES, ItemCounts, PlaceWins, count, is_sensible
from flowdebate.evaluation.judges.schemas import Figure, JudgeAudit, JudgeFigures, PlaceRate, Places
from flowdebate.patterns.debate.judging.ballots import effective_n

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.patterns.debate.judging.schemas import JudgeBallot

__all__ = (
    "audit",
    "families",
    "models_of",
)

_ENOUGH = 10
"""Items from which models are correlated."""


def audit(items: Sequence[Sequence[JudgeBallot]], *, truth: Sequence[str | None] | None = None) -> JudgeAudit:
    """What the ballots of `items` show of who cast them; an item is one transcript with all its ballots.

    `truth` has for each item the side that is right, or None; only the correlation of several models makes use of it.
    The order of items, and of ballots in an item, changes nothing. Ballots that make no sense are counted, and left
    out. ConfigurationError for a `truth` of another length.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    >>> first = JudgeBallot(order=["yes", "no"], winner="yes")
    >>> second = JudgeBallot(order=["no", "yes"], winner="no")
    >>> found = audit([[first, second]])
    >>> found.position_consistency.value, found.preference_fairness.value, found.slots[0].favoured.rate
    (0.0, -1.0, 1.0)
    """
    if truth is not None and len(truth) != len(items):
        raise ConfigurationError("audit()", "truth", truth, f"{len(items)} of them, one for each item")
    figures = _figures([count(ballots) for ballots in items])
    names = {ballot.model for ballots in items for ballot in ballots}
    if len(names) < 2:  # noqa: PLR2004 - one judge is no panel
        return JudgeAudit(**figures)
    by_model = models_of(items)
    found, of = _rho(items, truth, sorted(by_model))
    return JudgeAudit(
        **figures,
        models={name: JudgeFigures(**_figures([count(each) for each in own])) for name, own in by_model.items()},
        rho=found,
        rho_of=of,
        effective_n=None if found is None else effective_n(len(by_model), min(max(found.value, 0.0), 1.0)),
    )


def models_of(items: Iterable[Sequence[JudgeBallot]]) -> dict[str, list[list[JudgeBallot]]]:
    """The items of each model, with none but its ballots; "" is the one that is not known."""
    found: dict[str, list[list[JudgeBallot]]] = {}
    for ballots in items:
        own: dict[str, list[JudgeBallot]] = {}
        for ballot in ballots:
            own.setdefault(ballot.model or "", []).append(ballot)
        for name, each in own.items():
            found.setdefault(name, []).append(each)
    return dict(sorted(found.items()))


def families(counts: Iterable[ItemCounts], kind: Literal["slots", "labels"]) -> dict[tuple[str, ...], list[PlaceWins]]:
    """For each set of places the wins in each item that has them."""
    found: dict[tuple[str, ...], list[PlaceWins]] = {}
    for item in counts:
        for names, wins in (item.slots if kind == "slots" else item.labels).items():
            found.setdefault(names, []).append(wins)
    return {names: found[names] for names in sorted(found, key=lambda names: (len(names), names))}


def _figures(counts: Sequence[ItemCounts]) -> dict[str, Any]:
    """The fields of a `JudgeFigures`."""
    return {
        "items": sum(item.ballots > 0 for item in counts),
        "ballots": sum(item.ballots for item in counts),
        "unparsed": sum(item.unparsed for item in counts),
        "unusable": sum(item.unusable for item in counts),
        "undecided": sum(item.undecided for item in counts),
        "slots": [_places("slot", names, wins) for names, wins in families(counts, "slots").items()],
        "labels": [_places("label", names, wins) for names, wins in families(counts, "labels").items()],
        **{name: found for name in FIGURES if (found := _figure(counts, name)) is not None},
    }


def _figure(counts: Sequence[ItemCounts], name: str) -> Figure | None:
    terms = [item.figures[name] for item in counts if name in item.figures]
    if not terms:
        return None
    n = sum(counted for _, counted in terms)
    return Figure(value=math.fsum(value for value, _ in terms) / n, n=n)


def _places(kind: Literal["slot", "label"], names: tuple[str, ...], items: Sequence[PlaceWins]) -> Places:
    wins = [sum(place) for place in zip(*(item.wins for item in items), strict=True)]
    n = sum(wins)
    leans = [item.wins[0] - item.wins[-1] for item in items]
    return Places(
        kind=kind,
        places=[PlaceRate(place=name, wins=won, rate=won / n) for name, won in zip(names, wins, strict=True)],
        n=n,
        items=len(items),
        leaning=sum(lean != 0 for lean in leans),
        first=sum(lean > 0 for lean in leans),
        arrangements=len(set[object]().union(*(item.ways for item in items))),
        apart=kind == "slot" or len(set[object]().union(*(item.rows for item in items))) > 1,
    )


def _rho(
    items: Sequence[Sequence[JudgeBallot]], truth: Sequence[str | None] | None, names: Sequence[str]
) -> tuple[Figure | None, Literal["errors", "scores"] | None]:
    """The mean correlation of two of `names`, and of what."""
    shares = [_shares(ballots) for ballots in items]
    known = truth or [None] * len(items)
    of: Literal["errors", "scores"] = "errors" if any(right is not None for right in known) else "scores"
    found, counted = [], set[int]()
    for one, other in combinations(names, 2):
        both = [at for at, share in enumerate(shares) if one in share and other in share]
        if of == "errors":
            both = [at for at in both if known[at] in shares[at][one] and known[at] in shares[at][other]]
        if len(both) < _ENOUGH:
            continue
        if of == "errors":
            pairs = sorted((1 - shares[at][one][known[at]], 1 - shares[at][other][known[at]]) for at in both)  # type: ignore[index] # it is in there
        else:
            pairs = sorted(pair for at in both for pair in _from_even(shares[at][one], shares[at][other]))
        value = _correlation(pairs, centred=of == "scores")
        if value is not None:
            found.append(value)
            counted.update(both)
    return (Figure(value=math.fsum(sorted(found)) / len(found), n=len(counted)), of) if found else (None, None)


def _shares(ballots: Iterable[JudgeBallot]) -> dict[str, dict[str, float]]:
    """For each model the mean share of each side."""
    own: dict[str, list[dict[str, float]]] = {}
    for ballot in ballots:
        if ballot.problem is None and is_sensible(ballot):
            own.setdefault(ballot.model or "", []).append(ballot.shares)
    return {
        model: {
            side: math.fsum(share.get(side, 0.0) for share in given) / len(given)
            for side in sorted({side for share in given for side in share})
        }
        for model, given in own.items()
    }


def _from_even(one: dict[str, float], other: dict[str, float]) -> Iterable[tuple[float, float]]:
    """How far each side's shares are from what each would have if none were better; free of what sides are called."""
    sides = sorted(one.keys() | other.keys())
    return [(one.get(side, 0.0) - 1 / len(sides), other.get(side, 0.0) - 1 / len(sides)) for side in sides]


def _correlation(pairs: Sequence[tuple[float, float]], *, centred: bool) -> float | None:
    """Pearson's, about the means, or about 0 for what is `centred`; None where one of the two never changes."""
    if not centred:
        try:
            return correlation(*zip(*pairs, strict=True))
        except StatisticsError:
            return None
    squares = math.fsum(x * x for x, _ in pairs), math.fsum(y * y for _, y in pairs)
    return math.fsum(x * y for x, y in pairs) / math.sqrt(squares[0] * squares[1]) if all(squares) else None
