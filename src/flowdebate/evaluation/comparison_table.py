"""Table of many comparisons: wins, flips, position bias of each judge, agreement, and a Bradley-Terry ranking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from flowdebate._text import counted, error_text
from flowdebate._util.importing import InNotebooks
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import Figure
from flowdebate.evaluation.comparison import (
    NAME,
    NOBODY,
    ComparedTexts,
    Comparison,
    agree,
    check_judges,
    check_orders,
    create_comparison,
    read_comparison,
)
from flowdebate.evaluation.judge_audit import count
from flowdebate.evaluation.ranking import Game, Ranking, rank_games
from flowdebate.evaluation.statistics import share_interval
from flowdebate.runs.batch import Batch, BatchSummary

if TYPE_CHECKING:
    from flowdebate.models.base import Model
    from flowdebate.patterns.debate.judging.views import ScheduleLike
    from flowdebate.runs.header import StoreOptions
    from flowdebate.runs.limits import Limits
    from flowdebate.store.open import StoreChoice


_WHERE = "compare_all()"
_ALPHA = 0.05


class ComparedSystem(WireModel):
    """One system over all rows in which it was compared."""

    name: str
    rows: int
    wins: int
    undecided: int
    """Rows without a winner; in `rate` each counts in equal parts for all texts of the row."""
    rate: Figure
    """Its wins as a share of rows, with Wilson's interval."""
    share: float
    """Its mean share."""
    characters: float
    """The mean length of its texts."""
    criteria: dict[str, float] | None = None
    """With a rubric: its mean scores."""


class ComparingJudge(WireModel):
    """One judge over all rows: does the order decide?"""

    judge: str
    rows: int
    flips: Figure | None
    """The share of rows in which another order made it prefer another text; None for single orders."""
    first_place: Figure | None
    """The share of its ballots for the text that it read first; for the interval a row is one observation."""
    even: float | None
    """What that is for a judge to whom places are nothing."""
    towards_first: Figure | None
    """Of the rows in which the first and the last place won unequally often, the share in which the first did."""
    favours: Literal["first", "last"] | None
    """The place that it favours beyond chance, adjusted for the number of judges."""


class ComparisonTable(InNotebooks, WireModel):
    """Which system is better over many rows, and whether the judges can be believed."""

    rows: int
    """Rows that were compared."""
    systems: list[ComparedSystem]
    """Most wins first."""
    judges: list[ComparingJudge]
    kappa: float | None
    """Fleiss' kappa of the judges' winners; None for one judge."""
    alpha: float | None
    """Krippendorff's alpha likewise."""
    longer: Figure | None
    """The share of decided rows in which the longest text won."""
    ranking: Ranking | None
    """The ranking of three systems or more; None for two, and without scipy."""
    failed: dict[int, str]
    """The error of each row that could not be compared, by its index."""
    findings: list[str]
    """The same in sentences."""
    comparisons: list[Comparison]


async def compare_all(  # noqa: PLR0913 - those of a batch
    rows: Sequence[Mapping[str, Any]],
    *,
    sides: Sequence[str] | None = None,
    judges: Sequence[Model | str] | None = None,
    criteria: Mapping[str, float] | None = None,
    orders: ScheduleLike = "all",
    store: StoreChoice | StoreOptions = None,
    batch_id: str | None = None,
    seed: int = 0,
    limits: Limits | None = None,
    max_concurrency: int = 8,
    progress: Callable[[BatchSummary], object] | None = None,
) -> ComparisonTable:
    """`compare` the texts of each row, and sum up.

    - `rows`: each has a "question", perhaps a "reference", and texts by the names of the systems that wrote them. Where
      one is None or missing, the row compares the others.
    - `sides`: the keys of the texts; None: all but "question", "reference" and "id".
    - `store`: with one (a path, for instance) the same call again continues where it was interrupted, and pays for
      nothing twice; another `seed` asks anew. `batch_id`: the name under which; None: made of all that is asked.
    - `limits` are those of each row; `progress(…)` is called after each.

    A row that fails is in `failed`, and is asked again by the next call. ConfigurationError, with the row, before any
    call.
    """
    block = create_comparison(judges=check_judges(judges), criteria=criteria, orders=orders)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Sequence) or not rows:
        raise ConfigurationError(_WHERE, "rows", rows, "a sequence of rows, at least one")
    if unknown := [side for side in sides or () if not any(isinstance(row, Mapping) and side in row for row in rows)]:
        raise ConfigurationError(_WHERE, "sides", unknown, "keys of texts, each in a row at least")
    values = [_read_row(index, row, sides) for index, row in enumerate(rows)]
    for index, value in enumerate(values):
        check_orders(orders, len(value.transcript), where=f"{_WHERE}, row {index}")
    if batch_id is None:
        names = [judge if isinstance(judge, str) else judge.name for judge in judges or ()]
        asked = [[value.model_dump() for value in values], names, criteria, str(orders), seed]
        batch_id = f"{NAME}-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]}"
    batch = Batch(
        block, values, store=store, batch_id=batch_id, seed=seed, limits=limits, max_concurrency=max_concurrency,
        progress=progress,
    )  # fmt: skip
    found: list[Comparison] = []
    failed: dict[int, str] = {}
    for item in await batch.all():
        if item.result is None or item.raw.verdict is None:
            failed[item.index] = f"ended as {item.status}" if item.error is None else error_text(item.error)
        else:
            found.append(read_comparison(item.raw, run_id=item.run_id))
    return tabulate(found, failed=failed)


def _read_row(index: int, row: object, sides: Sequence[str] | None) -> ComparedTexts:
    where = f"{_WHERE}, row {index}"
    if not isinstance(row, Mapping):
        raise ConfigurationError(where, "row", row, "a mapping with a question and texts")
    names = [name for name in row if name not in ("question", "reference", "id")] if sides is None else sides
    texts = {name: row[name] for name in names if row.get(name) is not None}
    return ComparedTexts.of(row.get("question", ""), texts, reference=row.get("reference"), where=where)


def tabulate(comparisons: Sequence[Comparison], *, failed: Mapping[int, str] | None = None) -> ComparisonTable:
    """The table of comparisons that are there; rows are taken as independent of each other."""
    systems = sorted(
        (_system(name, comparisons) for name in dict.fromkeys(s.name for c in comparisons for s in c.sides)),
        key=lambda system: -system.rate.value,
    )
    names = list(dict.fromkeys(found.judge for c in comparisons for found in c.judges))
    judges = [_judge(name, comparisons, len(names)) for name in names]
    said = [{found.judge: found.winner or NOBODY for found in c.judges} for c in comparisons]
    kappa, alpha = agree([[row.get(name) for row in said] for name in names])
    longest = [
        most[0] == c.winner
        for c in comparisons
        if c.winner is not None
        if len(most := [s.name for s in c.sides if s.characters == max(s.characters for s in c.sides)]) == 1
    ]
    ranked = len(systems) > 2 and find_spec("scipy") is not None  # noqa: PLR2004 - of two, the rate says it
    table = ComparisonTable(
        rows=len(comparisons),
        systems=systems,
        judges=judges,
        kappa=kappa,
        alpha=alpha,
        longer=_figure(fmean(longest), len(longest)) if longest else None,
        ranking=_rank(comparisons) if ranked else None,
        failed=dict(failed or {}),
        findings=[],
        comparisons=list(comparisons),
    )
    return table.model_copy(update={"findings": _findings(table)})


def _figure(value: float, n: int, *, confidence: float = 1 - _ALPHA) -> Figure:
    low, high = share_interval(value, n, confidence=confidence)
    return Figure(value=value, n=n, low=low, high=high)


def _system(name: str, comparisons: Sequence[Comparison]) -> ComparedSystem:
    mine = [(c, side) for c in comparisons for side in c.sides if side.name == name]
    wins, open_ = sum(c.winner == name for c, _ in mine), [c for c, _ in mine if c.winner is None]
    scored = [side.criteria for _, side in mine if side.criteria is not None]
    return ComparedSystem(
        name=name,
        rows=len(mine),
        wins=wins,
        undecided=len(open_),
        rate=_figure(min((wins + sum(1 / len(c.sides) for c in open_)) / len(mine), 1.0), len(mine)),
        share=fmean(side.share for _, side in mine),
        characters=fmean(side.characters for _, side in mine),
        criteria={key: fmean(each[key] for each in scored) for key in scored[0]} if scored else None,
    )


def _judge(name: str, comparisons: Sequence[Comparison], judges: int) -> ComparingJudge:
    own = [[ballot for ballot in c.ballots if (ballot.model or "") == name] for c in comparisons]
    counts = [count(ballots) for ballots in own if ballots]
    places = [wins for each in counts for wins in each.slots.values()]
    steady = [each.figures["position_consistency"][0] for each in counts if "position_consistency" in each.figures]
    leans = [lean > 0 for wins in places if (lean := wins.wins[0] - wins.wins[-1])]
    favours: Literal["first", "last"] | None = None
    if leans and len(set[object]().union(*(wins.arrangements for wins in places))) > 1:
        low, high = share_interval(fmean(leans), len(leans), confidence=1 - _ALPHA / judges)
        favours = "first" if low > 1 / 2 else "last" if high < 1 / 2 else None
    return ComparingJudge(
        judge=name,
        rows=len(counts),
        flips=_figure(1 - fmean(steady), len(steady)) if steady else None,
        first_place=_figure(fmean(w.wins[0] / sum(w.wins) for w in places), len(places)) if places else None,
        even=fmean(1 / len(wins.wins) for wins in places) if places else None,
        towards_first=_figure(fmean(leans), len(leans)) if leans else None,
        favours=favours,
    )


def _rank(comparisons: Sequence[Comparison]) -> Ranking:
    """Rank the systems by games between each two texts of a row."""
    games = [
        Game(one.name, other.name, (one.share > other.share) + (one.share == other.share) / 2, row)
        for row, c in enumerate(comparisons)
        for one, other in combinations(c.sides, 2)
    ]
    return rank_games(games, order=False)  # a row is judged in several orders


def _findings(table: ComparisonTable) -> list[str]:
    found = []
    if table.failed:
        found.append(f"left out, because their judging failed: {counted(len(table.failed), 'row')}")
    if len(table.systems) == 2:  # noqa: PLR2004 - of more, the ranking says it
        best = table.systems[0]
        clear = (best.rate.low or 0) > 1 / 2
        halves = f", and half of {best.undecided:,} without a winner" if best.undecided else ""
        found.append(
            f"{best.name} {'is better' if clear else 'is not clearly better'}: it won {best.wins:,}{halves}, "
            f"{_share(best.rate, 'row')}"
        )
    elif table.ranking is not None:
        found += table.ranking.findings
    elif table.systems:
        found.append('no ranking without scipy: pip install "flowdebate[audit]"')
    found += [sentence for judge in table.judges for sentence in _judge_findings(judge)]
    if table.kappa is not None and table.alpha is not None:
        found.append(f"agreement of judges: Fleiss' kappa {table.kappa:.2f}, Krippendorff's alpha {table.alpha:.2f}")
    if table.longer is not None:
        longest = _share(table.longer, "decided row")
        found.append(f"the longest text won {longest}: length is shown, not corrected for")
    return found


def _judge_findings(judge: ComparingJudge) -> Iterator[str]:
    """Say what the order decides for a judge."""
    if judge.favours is not None and judge.towards_first is not None and judge.first_place is not None:
        odd = judge.towards_first
        most = odd if judge.favours == "first" else _figure(1 - odd.value, odd.n)
        yield (
            f"{judge.judge} favours the {judge.favours} place: where the order decided, it went to that in "
            f"{_share(most, 'row')}; the first place won {judge.first_place.value:.0%} of its ballots "
            f"({judge.even:.0%} is even)"
        )
    if judge.flips is not None and judge.flips.value > 0:
        yield f"{judge.judge} preferred another text in another order in {_share(judge.flips, 'row')}"


def _share(figure: Figure, of: str) -> str:
    return f"{figure.value:.0%} of {counted(figure.n, of)} (95% interval {figure.low:.0%} to {figure.high:.0%})"
