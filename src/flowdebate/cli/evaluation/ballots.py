"""Ballots of stored runs and of data files, grouped into the items of a judge audit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from flowdebate.errors import BadFile, shown
from flowdebate.evaluation.judges.audit import spoken_in
from flowdebate.evaluation.judges.rejudge import NAME as REJUDGE
from flowdebate.evaluation.judges.rejudge import ArguedDebate
from flowdebate.evaluation.judges.report import AuditItem
from flowdebate.patterns.debate.judging.ballots import Judging
from flowdebate.service.files import parse_json, problem_of, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.patterns.debate.judging.ballots import JudgeBallot
    from flowdebate.store.base import StoredRun

__all__ = ("NO_BALLOTS", "NO_VERDICT", "UNREADABLE", "Items", "argued", "ballots_of_run", "items_of", "read_items")

_MEGABYTES = 64
NO_VERDICT = "has no verdict of a judge"
NO_BALLOTS = "has a verdict without ballots: a human's, a custom judge's, or an earlier version's"
UNREADABLE = "has no ballots that can be read"


@dataclass(frozen=True, kw_only=True)
class Items:
    """Transcripts with their ballots."""

    items: list[AuditItem]
    left_out: Counter[str] = field(default_factory=Counter)
    """The number of runs without ballots, by reason."""


def items_of(runs: Iterable[StoredRun]) -> Items:
    """The items of all `runs` with ballots; ballots of several runs on one transcript are one item."""
    items: dict[str, AuditItem] = {}
    left_out = Counter[str]()
    for run in runs:
        ballots = ballots_of_run(run)
        if isinstance(ballots, str):
            left_out[ballots] += 1
            continue
        debate = argued(run)
        key = run.header.run_id if debate is None else debate.model_dump_json()
        before = items.get(key)
        at_once = _turn_order(run) == "simultaneous"
        if before is None:
            spoken = None if debate is None or at_once else spoken_in(debate.transcript)
            items[key] = AuditItem(id=run.header.run_id, ballots=ballots, spoken=spoken)
        else:
            spoken = None if at_once else before.spoken
            items[key] = before.model_copy(update={"ballots": [*before.ballots, *ballots], "spoken": spoken})
    return Items(items=list(items.values()), left_out=left_out)


def _turn_order(run: StoredRun) -> object:
    raw = (run.outcome or {}).get("raw")
    return raw.get("turnOrder") if isinstance(raw, dict) else None


def argued(run: StoredRun) -> ArguedDebate | None:
    """The transcript of `run`, or of the debate that it judged again; None for a run without one."""
    raw: Any = run.header.input if run.header.block == REJUDGE else (run.outcome or {}).get("raw")
    try:
        return ArguedDebate.model_validate({"question": raw["question"], "transcript": raw["transcript"]})
    except (KeyError, TypeError, ValidationError):
        return None


def ballots_of_run(run: StoredRun) -> list[JudgeBallot] | str:
    """The ballots of `run`, or the reason why it has none."""
    if run.outcome is None:
        return "has not ended"
    if run.header.block == REJUDGE:
        return _validated(AuditItem, run.outcome.get("output"))
    raw = run.outcome.get("raw")
    verdict = raw.get("verdict") if isinstance(raw, dict) else None
    if not isinstance(verdict, dict):
        return NO_VERDICT
    return NO_BALLOTS if verdict.get("judging") is None else _validated(Judging, verdict["judging"])


def _validated(model: type[AuditItem | Judging], value: object) -> list[JudgeBallot] | str:
    try:
        return model.model_validate(value).ballots
    except ValidationError:
        return UNREADABLE


def read_items(path: str) -> Items:
    """Read the items in the JSON Lines at `path` ("-": stdin); BadFile with line and field, or where there is none."""
    lines = read_text(path, megabytes=_MEGABYTES).split("\n")
    items = [_item(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not items:
        raise BadFile(path, "holds no item")
    return Items(items=items)


def _item(path: str, number: int, line: str) -> AuditItem:
    value = parse_json(line, path=path, number=number)
    if not isinstance(value, dict):
        raise BadFile(path, f"line {number}: must hold an object with `ballots`, got {shown(value)}")
    try:
        return AuditItem.model_validate(value)
    except ValidationError as error:
        raise BadFile(path, f"line {number}: {problem_of(error)}") from None
