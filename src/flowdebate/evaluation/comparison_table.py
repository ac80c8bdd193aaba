"""Table that summarizes many comparisons: wins, flips, position bias, agreement, and a Bradley-Terry ranking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from flowdebate._text import counted, error_text, join_choices
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
from flowdebate.evaluation.statistics import share_interval, sign_test
from flowdebate.runs.batch import Batch, BatchSummary

if TYPE_CHECKING:
    from flowdebate.models.base import Model
    from flowdebate.patterns.debate.judging.views import ScheduleLike
    from flowdebate.runs.header import StoreOptions
    from flowdebate.runs.limits import Limits
    from flowdebate.store.open import StoreChoice


_WHERE = "compare_all()"
_ALPHA = 0.05
_PAIR = 2


class ComparedSystem(WireModel):
    """A system's results over all rows that contain one of its texts."""

    name: str
    rows: int
    wins: int
    undecided: int
    """Number of rows without a winner; in `rate`, each such row counts as a win shared equally by its texts."""
    rate: Figure
    """Share of rows won, with a Wilson interval."""
    share: float
    """Mean share of the scores won by the system's texts."""
    characters: float
    """Mean length of the system's texts in characters."""
    criteria: dict[str, float] | None = None
    """Mean score per criterion of the rubric; None if there is no rubric."""


class OrdersAgainstTruth(WireModel):
    """A judge's accuracy in each order, and in the rows where all orders lead to the same verdict."""

    rows: int
    """Number of rows with a known correct text and a ballot from the judge."""
    orders: dict[str, Figure]
    """Share of correct ballots for each order; "2 1" means that the row's second text was read first."""
    one_order: Figure
    """Share of correct ballots over all orders: the accuracy of a single ballot.

    The interval treats each row as one observation.
    """
    decided: Figure
    """Coverage: the share of rows with the same winner in all orders."""
    right: Figure | None
    """Share of rows won by the correct text, among rows with the same winner in all orders; None if there are no such
    rows.
    """


class VerdictsAgainstTruth(WireModel):
    """Accuracy of the verdicts reached by all judges together."""

    rows: int
    """Number of compared rows with a known correct text."""
    decided: Figure
    """Coverage: the share of rows with a winner."""
    right: Figure | None
    """Share of winners that are correct; None if no row has a winner."""
    credit: Figure
    """Accuracy over all rows, counting a row without a winner as a random draw from its texts."""


class ComparingJudge(WireModel):
    """One judge's results over all rows, and how the reading order affected them."""

    judge: str
    rows: int
    flips: Figure | None
    """Share of rows in which the judge preferred different texts in different orders; None if each row was judged in a
    single order.
    """
    first_place: Figure | None
    """Share of ballots in favor of the text read first; the interval treats each row as one observation."""
    even: float | None
    """Expected value of `first_place` for a judge without position bias."""
    toward_first: Figure | None
    """Share of rows in which the first place won more often than the last place; rows in which both won equally often
    are excluded.
    """
    favors: Literal["first", "last"] | None
    """Place that the judge favored more often than chance would explain (exact sign test, adjusted for the number of
    judges).
    """
    truth: OrdersAgainstTruth | None = None
    """The judge's accuracy; None if the correct text is not known for any row."""


class ComparisonTable(InNotebooks, WireModel):
    """Comparison of systems over many rows, with measures of the judges' reliability."""

    rows: int
    """Number of compared rows."""
    systems: list[ComparedSystem]
    """Compared systems, sorted by wins in descending order."""
    judges: list[ComparingJudge]
    kappa: float | None
    """Fleiss' kappa for the winners chosen by the judges; None if there is only one judge."""
    alpha: float | None
    """Krippendorff's alpha for the winners chosen by the judges; None if there is only one judge."""
    longer: Figure | None
    """Share of rows won by the longest text, among rows with a winner and a single longest text; None if there is no
    such row.
    """
    ranking: Ranking | None
    """Ranking of three or more systems; None for two systems or if scipy is not installed."""
    p: float | None = None
    """P-value of the exact sign test over rows with a winner; None unless there are exactly two systems."""
    truth: VerdictsAgainstTruth | None = None
    """The winners' accuracy; None if the correct text is not known for any row."""
    failed: dict[int, str]
    """Errors of failed rows, keyed by row index."""
    findings: list[str]
    """Findings about the systems and the judges, as sentences."""
    comparisons: list[Comparison | None]
    """Comparisons in row order; None for each failed row."""


async def compare_all(  # noqa: PLR0913 - those of a batch
    rows: Sequence[Mapping[str, Any]],
    *,
    sides: Sequence[str] | None = None,
    judges: Sequence[Model | str] | None = None,
    criteria: Mapping[str, float] | None = None,
    orders: ScheduleLike = "all",
    truth: str | None = None,
    store: StoreChoice | StoreOptions = None,
    batch_id: str | None = None,
    seed: int = 0,
    limits: Limits | None = None,
    max_concurrency: int = 8,
    progress: Callable[[BatchSummary], object] | None = None,
) -> ComparisonTable:
    """Compare each row's texts with `compare`, and summarize the results.

    - `rows`: each has a "question", optionally a "reference", and texts keyed by system. If a text is None or
      missing, the row compares the others.
    - `sides`: the texts' keys; None for all keys except "question", "reference", "id" and `truth`.
    - `truth`: a row key; its value names the system with the correct text, or is None if the correct text is unknown.
      Judges do not see it. The table reports how often the judges were right, both in a single order and when all
      orders agree.
    - `store`: if set (to a path, for instance), repeating the call after an interruption continues without paying for
      anything twice; a different `seed` starts over. `batch_id` is the batch's name in the store; None derives it from
      all arguments.
    - `limits` apply to each row; `progress(…)` is called after each row.

    A failed row is listed in `failed` and retried by the next call. Before any call, raise ConfigurationError for
    invalid arguments, naming the row.
    """
    block = create_comparison(judges=check_judges(judges), criteria=criteria, orders=orders)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Sequence) or not rows:
        raise ConfigurationError(_WHERE, "rows", rows, "must be a non-empty sequence of rows")
    if unknown := [side for side in sides or () if not any(isinstance(row, Mapping) and side in row for row in rows)]:
        raise ConfigurationError(_WHERE, "sides", unknown, "must be names of texts in the rows")
    values = [_read_row(index, row, sides, truth) for index, row in enumerate(rows)]
    for index, value in enumerate(values):
        check_orders(orders, len(value.transcript), location=f"{_WHERE}, row {index}")
    if batch_id is None:
        names = [judge if isinstance(judge, str) else judge.name for judge in judges or ()]
        settings = [[value.model_dump() for value in values], names, criteria, str(orders), seed]
        batch_id = f"{NAME}-{hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]}"
    batch = Batch(
        block, values, store=store, batch_id=batch_id, seed=seed, limits=limits, max_concurrency=max_concurrency,
        progress=progress,
    )  # fmt: skip
    comparisons: list[Comparison | None] = [None] * len(rows)
    failed: dict[int, str] = {}
    for item in await batch.all():
        if item.result is None or item.raw.verdict is None:
            failed[item.index] = f"ended as {item.status}" if item.error is None else error_text(item.error)
        else:
            comparisons[item.index] = read_comparison(item.raw, run_id=item.run_id)
    right = None if truth is None else [_read_truth(row, truth) for row in rows]
    return tabulate(comparisons, failed=failed, truth=right)


def _read_row(index: int, row: object, sides: Sequence[str] | None, truth: str | None) -> ComparedTexts:
    location = f"{_WHERE}, row {index}"
    if not isinstance(row, Mapping):
        raise ConfigurationError(location, "row", row, "must be a mapping with a `question` and the texts")
    names = [name for name in row if name not in ("question", "reference", "id", truth)] if sides is None else sides
    texts = {name: row[name] for name in names if row.get(name) is not None}
    if truth is not None and (truth not in row or _read_truth(row, truth) not in (None, *texts)):
        problem = f"must be the name of a text in the row: {join_choices(texts)}"
        raise ConfigurationError(location, truth, row.get(truth), problem)
    return ComparedTexts.of(row.get("question", ""), texts, reference=row.get("reference"), location=location)


def _read_truth(row: Mapping[str, Any], key: str) -> str | None:
    """Read the name of the system with the correct text; a number is converted to a string."""
    value = row[key]
    return None if value is None else str(value)


def tabulate(
    rows: Sequence[Comparison | None],
    *,
    failed: Mapping[int, str] | None = None,
    truth: Sequence[str | None] | None = None,
) -> ComparisonTable:
    """Summarize comparisons, one per row (None for a failed row); `truth` names each row's correct text, if known.

    Rows are assumed to be independent.
    """
    comparisons = [row for row in rows if row is not None]
    labeled = [
        (row, right) for row, right in zip(rows, truth or (), strict=False) if row is not None and right is not None
    ]
    systems = sorted(
        (_system(name, comparisons) for name in dict.fromkeys(s.name for c in comparisons for s in c.sides)),
        key=lambda system: -system.rate.value,
    )
    names = list(dict.fromkeys(judge.judge for c in comparisons for judge in c.judges))
    judges = [_judge(name, comparisons, len(names), labeled) for name in names]
    choices = [{judge.judge: judge.winner or NOBODY for judge in c.judges} for c in comparisons]
    kappa, alpha = agree([[row.get(name) for row in choices] for name in names])
    longest = [
        longest_sides[0] == c.winner
        for c in comparisons
        if c.winner is not None
        if len(longest_sides := [s.name for s in c.sides if s.characters == max(s.characters for s in c.sides)]) == 1
    ]
    ranked = len(systems) > _PAIR and find_spec("scipy") is not None  # with only two systems, the win rate is enough
    table = ComparisonTable(
        rows=len(comparisons),
        systems=systems,
        judges=judges,
        kappa=kappa,
        alpha=alpha,
        longer=_figure(fmean(longest), len(longest)) if longest else None,
        ranking=_rank(comparisons) if ranked else None,
        p=sign_test(systems[0].wins, systems[1].wins) if len(systems) == _PAIR else None,
        truth=_verdicts_against_truth(labeled) if labeled else None,
        failed=dict(failed or {}),
        findings=[],
        comparisons=list(rows),
    )
    return table.model_copy(update={"findings": _findings(table)})


def _figure(value: float, n: int, *, confidence: float = 1 - _ALPHA) -> Figure:
    low, high = share_interval(value, n, confidence=confidence)
    return Figure(value=value, n=n, low=low, high=high)


def _system(name: str, comparisons: Sequence[Comparison]) -> ComparedSystem:
    own_sides = [(c, side) for c in comparisons for side in c.sides if side.name == name]
    wins, open_ = sum(c.winner == name for c, _ in own_sides), [c for c, _ in own_sides if c.winner is None]
    scored = [side.criteria for _, side in own_sides if side.criteria is not None]
    return ComparedSystem(
        name=name,
        rows=len(own_sides),
        wins=wins,
        undecided=len(open_),
        rate=_figure(min((wins + sum(1 / len(c.sides) for c in open_)) / len(own_sides), 1.0), len(own_sides)),
        share=fmean(side.share for _, side in own_sides),
        characters=fmean(side.characters for _, side in own_sides),
        criteria={key: fmean(scores[key] for scores in scored) for key in scored[0]} if scored else None,
    )


def _verdicts_against_truth(labeled: Sequence[tuple[Comparison, str]]) -> VerdictsAgainstTruth:
    decided = [row.winner == right for row, right in labeled if row.winner is not None]
    credits_ = [1 / len(row.sides) if row.winner is None else row.winner == right for row, right in labeled]
    return VerdictsAgainstTruth(
        rows=len(labeled),
        decided=_figure(len(decided) / len(labeled), len(labeled)),
        right=_figure(fmean(decided), len(decided)) if decided else None,
        credit=_figure(fmean(credits_), len(labeled)),
    )


def _orders_against_truth(name: str, labeled: Sequence[tuple[Comparison, str]]) -> OrdersAgainstTruth | None:
    rows, decided = [], []
    orders: dict[str, list[bool]] = {}
    for comparison, truth in labeled:
        ballots = [ballot for ballot in comparison.ballots if (ballot.model or "") == name]
        usable = [ballot for ballot in ballots if ballot.problem is None]
        if not usable:
            continue
        places = {side.name: str(number) for number, side in enumerate(comparison.sides, 1)}
        for ballot in usable:
            orders.setdefault(" ".join(places[side] for side in ballot.order), []).append(ballot.winner == truth)
        rows.append(fmean(ballot.winner == truth for ballot in usable))
        winner = usable[0].winner
        if winner is not None and len(usable) == len(ballots) and {ballot.winner for ballot in usable} == {winner}:
            decided.append(winner == truth)
    if not rows:
        return None
    return OrdersAgainstTruth(
        rows=len(rows),
        orders={order: _figure(fmean(right), len(right)) for order, right in sorted(orders.items())},
        one_order=_figure(fmean(rows), len(rows)),
        decided=_figure(len(decided) / len(rows), len(rows)),
        right=_figure(fmean(decided), len(decided)) if decided else None,
    )


def _judge(
    name: str, comparisons: Sequence[Comparison], judges: int, labeled: Sequence[tuple[Comparison, str]]
) -> ComparingJudge:
    judge_ballots = [[ballot for ballot in c.ballots if (ballot.model or "") == name] for c in comparisons]
    counts = [count(ballots) for ballots in judge_ballots if ballots]
    places = [wins for ballot_counts in counts for wins in ballot_counts.slots.values()]
    steady = [
        ballot_counts.figures["position_consistency"][0]
        for ballot_counts in counts
        if "position_consistency" in ballot_counts.figures
    ]
    leans = [lean > 0 for wins in places if (lean := wins.wins[0] - wins.wins[-1])]
    favors: Literal["first", "last"] | None = None
    if leans and len(set[object]().union(*(wins.arrangements for wins in places))) > 1:
        first, last = sum(leans), len(leans) - sum(leans)
        if sign_test(first, last) * judges <= _ALPHA:
            favors = "first" if first > last else "last"
    return ComparingJudge(
        judge=name,
        rows=len(counts),
        flips=_figure(1 - fmean(steady), len(steady)) if steady else None,
        first_place=_figure(fmean(w.wins[0] / sum(w.wins) for w in places), len(places)) if places else None,
        even=fmean(1 / len(wins.wins) for wins in places) if places else None,
        toward_first=_figure(fmean(leans), len(leans)) if leans else None,
        favors=favors,
        truth=_orders_against_truth(name, labeled),
    )


def _rank(comparisons: Sequence[Comparison]) -> Ranking:
    """Rank the systems, treating each pair of texts in a row as a game."""
    games = [
        Game(one.name, other.name, (one.share > other.share) + (one.share == other.share) / 2, row)
        for row, c in enumerate(comparisons)
        for one, other in combinations(c.sides, 2)
    ]
    return rank_games(games, order=False)  # no order effect, because each row is judged in several orders


def _findings(table: ComparisonTable) -> list[str]:
    findings = []
    if table.failed:
        findings.append(f"excluded because their judging failed: {counted(len(table.failed), 'row')}")
    if len(table.systems) == _PAIR:  # for more systems, the ranking reports the differences instead
        best = table.systems[0]
        p = 1.0 if table.p is None else table.p
        is_better = "is better" if p <= _ALPHA else "is not clearly better"
        halves = f", and half of {best.undecided:,} without a winner" if best.undecided else ""
        findings.append(
            f"{best.name} {is_better} (exact test: p = {p:.2g}): it won {best.wins:,}{halves}, "
            f"{_share(best.rate, 'row')}"
        )
    elif table.ranking is not None:
        findings += table.ranking.findings
    elif table.systems:
        findings.append('no ranking without scipy: pip install "flowdebate[audit]"')
    findings += [sentence for judge in table.judges for sentence in _judge_findings(judge)]
    if table.truth is not None:
        findings.append(_truth_finding(table.truth))
    if table.kappa is not None and table.alpha is not None:
        findings.append(f"agreement of judges: Fleiss' kappa {table.kappa:.2f}, Krippendorff's alpha {table.alpha:.2f}")
    if table.longer is not None:
        longest = _share(table.longer, "decided row")
        findings.append(f"the longest text won {longest}: length is shown, not corrected for")
    return findings


def _truth_finding(truth: VerdictsAgainstTruth) -> str:
    """Describe how often the winners were correct, and how much difference the rows without a winner make."""
    right = "" if truth.right is None else f", and the winner is right in {_share(truth.right, 'row')}"
    lot = f"; with a random pick where there is none: {truth.credit.value:.1%}"
    return f"there is a winner in {_share(truth.decided, 'row')}{right}{lot if truth.decided.value < 1 else ''}"


def _judge_findings(judge: ComparingJudge) -> Iterator[str]:
    """Describe how the reading order affected a judge."""
    if judge.favors is not None and judge.toward_first is not None and judge.first_place is not None:
        odd = judge.toward_first
        first_share = odd if judge.favors == "first" else _figure(1 - odd.value, odd.n)
        yield (
            f"{judge.judge} favors the {judge.favors} place: where the order decided, it went to that in "
            f"{_share(first_share, 'row')}; the first place won {judge.first_place.value:.0%} of its ballots "
            f"({judge.even:.0%} is even)"
        )
    if judge.flips is not None and judge.flips.value > 0:
        yield f"{judge.judge} decided otherwise in another order in {_share(judge.flips, 'row')}"
    if (truth := judge.truth) is not None:
        sentence = f"{judge.judge} was right in {truth.one_order.value:.1%} of its ballots"
        if len(truth.orders) > 1 and truth.right is not None:
            sentence += (
                f", and in {_share(truth.right, 'row')} where all orders agree: {truth.decided.value:.1%} of rows"
            )
        yield sentence


def _share(figure: Figure, of: str) -> str:
    return f"{figure.value:.0%} of {counted(figure.n, of)} (95% interval {figure.low:.0%} to {figure.high:.0%})"
