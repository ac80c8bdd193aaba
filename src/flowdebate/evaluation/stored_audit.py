"""Audits of judges, based on stored runs and data files: ballots by item, reader votes, and a list of all figures."""

from __future__ import annotations

import sqlite3
import weakref
from collections import Counter
from collections.abc import AsyncIterable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any

from pydantic import ValidationError

from flowdebate._text import counted
from flowdebate.errors import BadFile
from flowdebate.evaluation.audit_report import (
    AuditItem,
    Figure,
    JudgeAudit,
    JudgeFigures,
    LastWord,
    PlaceRate,
    ReaderAgreement,
    VoteCounts,
)
from flowdebate.evaluation.ballot_file import BallotFile, parse_ballots
from flowdebate.evaluation.judge_audit import CountedJudges, audit_counted
from flowdebate.evaluation.readers import sides_of, votes_on
from flowdebate.evaluation.rejudging import NAME as REJUDGE
from flowdebate.evaluation.rejudging import ArguedDebate
from flowdebate.models.codec import json_text
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging
from flowdebate.patterns.debate.mirror import speaking_order
from flowdebate.store.base import Store, StoredRun
from flowdebate.ui.files import problem_of
from flowdebate.ui.tables import read_table
from flowdebate.ui.text import in_line

NO_VERDICT = "no verdict by a judge"
_NO_BALLOTS = "judged by a person or a custom judge, without ballots"
_UNREADABLE = "ballots that cannot be read"


@dataclass(frozen=True, kw_only=True)
class Items:
    """Transcripts with their ballots."""

    items: Collection[AuditItem]
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of runs left out for lack of ballots, keyed by reason."""
    readers: ReaderAgreement | None = None
    """Agreement between readers' blind votes and the verdicts; None if nobody voted."""


_PAGE = 50
"""Number of runs whose votes are read in one query."""


async def audited_runs(store: Store, runs: AsyncIterable[StoredRun]) -> Items:
    """Collect ballots from `runs`, as `items_of` does, along with reader votes."""
    collector, votes, page = ItemCollector(), VoteCounts(), list[StoredRun]()
    async for run in runs:
        collector.add(run)
        verdict, sides = _verdict_of(run), sides_of(run)
        # an imported run may contain anything
        if isinstance(verdict, dict) and sides and verdict.get("winner") in (None, *sides):
            page.append(run)
        if len(page) == _PAGE:
            await _count_votes(store, page, votes)
            page.clear()
    await _count_votes(store, page, votes)
    return replace(collector.items, readers=votes.agreement)


async def _count_votes(store: Store, runs: list[StoredRun], counts: VoteCounts) -> None:
    for run, votes in zip(runs, await votes_on(store, runs), strict=True):
        verdict = _verdict_of(run)
        winner = verdict.get("winner") if isinstance(verdict, dict) else None
        counts.add(winner, [vote.winner for vote in votes.values()])


def _verdict_of(run: StoredRun) -> object:
    raw = (run.outcome or {}).get("raw")
    return raw.get("verdict") if isinstance(raw, dict) else None


def audit_of(items: Items, *, seed: int = 0) -> JudgeAudit:
    """Audit all items, with p-values and intervals if scipy is installed (`has_intervals`)."""
    return audit_judges(count_judges(items), seed=seed)


def count_judges(items: Items) -> CountedJudges:
    """Count the ballots on all items."""
    return CountedJudges.of((item.ballots, item.spoken, item.truth) for item in items.items)


def audit_judges(judges: CountedJudges, *, seed: int = 0) -> JudgeAudit:
    """Audit judges based on counted ballots; see `audit_of`."""
    return audit_counted(judges, seed=seed, resamples=2_000 if has_intervals() else None)


def has_intervals() -> bool:
    """Return whether audits include p-values and intervals; this depends on whether scipy is installed."""
    return find_spec("scipy") is not None  # scipy is not imported here, because that takes longer than a small audit


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One figure for one judge, to be shown in a table or a plot."""

    judge: str
    """Name of the model, or "all" for all models together."""
    name: str
    value: float
    low: float | None = None
    """Bounds of the 95% confidence interval; None if there is no interval."""
    high: float | None = None
    form: str
    """Format of the figure and its bounds: ".0%" or ".2f"."""
    n: int
    """Number of observations behind the figure."""
    of: str
    """Text that says what `n` counts, such as "54 ballots" or "30 of 54"."""
    even: float | None = None
    """Expected value for a fair judge; None if undefined."""

    @property
    def shown(self) -> str:
        return format(self.value, self.form)

    @property
    def interval(self) -> str:
        """The interval as text; "" if there is no interval."""
        return "" if self.low is None or self.high is None else f"{self.low:{self.form}} to {self.high:{self.form}}"


def rows_of(audited: JudgeAudit, readers: ReaderAgreement | None = None) -> list[FigureRow]:
    """List an audit's figures for all ballots and for each model, plus the agreement with readers."""
    models = [row for name, figures in audited.models.items() for row in _rows(name or "(unknown)", figures)]
    reader_agreement = None if readers is None else readers.agreement
    agreement = (
        [] if reader_agreement is None else [_figure_row("all", "agreement with readers", reader_agreement, "debate")]
    )
    return [*_rows("all", audited), *agreement, *models]


def _rows(judge: str, figures: JudgeFigures) -> Iterator[FigureRow]:
    for places in (*figures.slots, *figures.labels, *figures.turns):
        for place in places.places:
            called = f"{'speaker' if places.kind == 'turn' else 'slot'} {place.place} of {places.sides}"
            if places.kind == "label":
                called = f"label {in_line(place.place)}"
            yield _rate_row(judge, called, place, n=places.n, even=1 / places.sides)
    if (last := figures.last_word) is not None:
        yield _rate_row(judge, "last word", last, n=last.n, even=last.even)
    for name, (called, over) in _FIGURES.items():
        figure: Figure | None = getattr(figures, name)
        if figure is not None:
            yield _figure_row(judge, called, figure, over)
    if figures.ballots:
        share, of = figures.unparsed_share, f"{figures.unparsed:,} of {figures.ballots:,}"
        yield FigureRow(judge=judge, name="unparsed answers", value=share, form=".0%", n=figures.ballots, of=of)


_FIGURES = {
    "position_consistency": ("position consistency (PC)", "time"),
    "preference_fairness": ("preference fairness (PF)", "time"),
    "repetition_stability": ("repetition stability (RS)", "view"),
    "flip_probability": ("flip probability", "time"),
    "saturation": ("saturation of scores", "ballot"),
    "slot_log_odds": ("first slot ahead, log-odds", "ballot"),
}
"""Name of each single-valued figure, and the unit of its sample size, keyed by field name."""


def _figure_row(judge: str, name: str, figure: Figure, over: str) -> FigureRow:
    low, high, of = figure.low, figure.high, counted(figure.n, over)
    return FigureRow(judge=judge, name=name, value=figure.value, low=low, high=high, form=".2f", n=figure.n, of=of)


def _rate_row(judge: str, name: str, rate: PlaceRate | LastWord, *, n: int, even: float) -> FigureRow:
    low, high, of = rate.low, rate.high, f"{rate.wins:,} of {n:,}"
    return FigureRow(judge=judge, name=name, value=rate.rate, low=low, high=high, form=".0%", n=n, of=of, even=even)


def items_of(runs: Iterable[StoredRun]) -> Items:
    """Collect items from all `runs` with ballots; ballots from several runs on the same transcript form one item.

    A ballot inherited by a fork from its parent is counted once.
    """
    collector = ItemCollector()
    for run in runs:
        collector.add(run)
    return collector.items


class ItemCollector:
    """Incremental collector of ballots; the runs themselves need not be kept in memory.

    Ballots are written to a temporary file without the judges' reasoning, so memory does not grow with the number of
    runs.
    """

    def __init__(self) -> None:
        # a temporary database, deleted when closed
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._file.close)
        self._file.execute("CREATE TABLE items (number INTEGER PRIMARY KEY, transcript BLOB UNIQUE, fork, words, item)")
        self._file.execute("BEGIN")  # one transaction per item would take ten times as long
        self._left_out = Counter[str]()

    def add(self, run: StoredRun) -> None:
        """Add a run's ballots."""
        ballots = ballots_of_run(run)
        if isinstance(ballots, str):
            self._left_out[ballots] += 1
            return
        debate, is_fork = argued(run), run.header.parent is not None
        text = run.header.run_id if debate is None else json_text(debate.model_dump())
        transcript = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        query = "SELECT number, fork, words, item FROM items WHERE transcript = ?"
        row, raw = self._file.execute(query, (transcript,)).fetchone(), (run.outcome or {}).get("raw")
        at_once = isinstance(raw, dict) and raw.get("turnOrder") == "simultaneous"
        judged = [(ballot.model_copy(update=_WITHOUT_WORDS), _digest_words(ballot)) for ballot in ballots]
        number, was_fork, words, packed = row or (None, False, "", None)
        if packed is None:
            spoken = None if debate is None else speaking_order(debate.transcript)
            item = AuditItem(id=run.header.run_id, ballots=[], spoken=spoken)
        else:
            item = AuditItem.model_validate_json(packed)
        if is_fork or was_fork:
            seen = list(zip(item.ballots, words.split(), strict=True))
            judged = [ballot for ballot in judged if ballot not in seen]
        item = item.model_copy(
            update={
                "ballots": [*item.ballots, *(ballot for ballot, _ in judged)],
                "spoken": None if at_once else item.spoken,  # if the turns are simultaneous, nobody has the last word
            }
        )
        values = (
            number,
            transcript,
            is_fork if row is None else was_fork,
            " ".join([words, *(word for _, word in judged)]),
        )
        self._file.execute(
            "INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?)", (*values, item.model_dump_json(by_alias=True))
        )

    @property
    def items(self) -> Items:
        """All of the items collected."""
        return Items(items=_CollectedItems(self, self._file), left_out=self._left_out)


class _CollectedItems(Collection[AuditItem]):
    """Collected items, read one at a time and without the judges' reasoning."""

    def __init__(self, collector: ItemCollector, file: sqlite3.Connection) -> None:
        self._collector = collector  # keep a reference, because a collector closes its file when it is deleted
        self._file = file

    def __len__(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM items").fetchone()[0])

    def __iter__(self) -> Iterator[AuditItem]:
        for (packed,) in self._file.execute("SELECT item FROM items ORDER BY number"):
            yield AuditItem.model_validate_json(packed)

    def __contains__(self, item: object) -> bool:
        return any(item == collected for collected in self)


_WITHOUT_WORDS = {"verdict": "", "reasoning": ""}


def _digest_words(ballot: JudgeBallot) -> str:
    """Return a digest of what the judge wrote on a ballot."""
    words = f"{ballot.verdict}\0{ballot.reasoning}"
    return blake2b(words.encode(errors="surrogatepass"), digest_size=4).hexdigest()


def argued(run: StoredRun) -> ArguedDebate | None:
    """Return the transcript of `run` or of the debate it rejudged, or None if there is no transcript."""
    raw: Any = run.header.input if run.header.block == REJUDGE else (run.outcome or {}).get("raw")
    try:
        return ArguedDebate.model_validate({"question": raw["question"], "transcript": raw["transcript"]})
    except (KeyError, TypeError, ValidationError):  # a custom block or an imported run may cause these errors
        return None


def judging_of(run: StoredRun) -> Judging | None:
    """Return how the transcript of `run` was judged, or None if this was not recorded."""
    raw: Any = (run.outcome or {}).get("raw")
    try:
        return Judging.model_validate((raw.get("firstVerdict") or raw["verdict"])["judging"])
    except (AttributeError, KeyError, TypeError, ValidationError):
        return None


def ballots_of_run(run: StoredRun) -> list[JudgeBallot] | str:
    """Return the ballots cast in `run`, or the reason why there are none."""
    if run.outcome is None:
        return "not over yet"
    if run.header.block == REJUDGE:
        return _validated(AuditItem, run.outcome.get("output"))
    verdict = _verdict_of(run)
    if not isinstance(verdict, dict):
        return NO_VERDICT
    return _NO_BALLOTS if verdict.get("judging") is None else _validated(Judging, verdict["judging"])


def _validated(model: type[AuditItem | Judging], value: object) -> list[JudgeBallot] | str:
    try:
        return model.model_validate(value).ballots
    except ValidationError:
        return _UNREADABLE


def read_items(path: str) -> tuple[Items, BallotFile | None]:
    """Read items from an item file (JSON Lines) or a ballot file (CSV, JSON Lines or Parquet); "-" reads stdin.

    For a ballot file, the second element of the result is its ballots; otherwise, it is None. Raise BadFile, with the
    line and field, for invalid data.
    """
    rows = list(read_table(path, column="item"))
    if any("item" in row and "ballots" not in row for _, row in rows[:1]):
        ballots = BallotFile(parse_ballots(path, iter(rows)))
        return Items(items=ballots.items), ballots
    items: list[AuditItem] = []
    for number, row in rows:
        try:
            items.append(AuditItem.model_validate(row))
        except ValidationError as error:
            raise BadFile(path, f"line {number}: {problem_of(error)}") from None
    if not items:
        raise BadFile(path, "has no items")
    return Items(items=items), None
