"""What there is to audit: the ballots of runs that are kept, or of a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from flowdebate.cli.files import parse_json_line, read_text
from flowdebate.errors import BadFile, problems_of, shown
from flowdebate.evaluation.judges.rejudge import NAME as REJUDGE
from flowdebate.evaluation.judges.rejudge import ArguedDebate
from flowdebate.evaluation.judges.schemas import AuditItem
from flowdebate.patterns.debate.judging.schemas import Judging

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    from flowdebate.store.base import StoredRun

__all__ = ("Items", "argued", "items_of", "read_items")

_MEGABYTES = 64


@dataclass(frozen=True, kw_only=True)
class Items:
    """Transcripts with their ballots."""

    found: list[AuditItem]
    left_out: Counter[str] = field(default_factory=Counter)
    """How many runs have none, by why."""


def items_of(runs: Iterable[StoredRun]) -> Items:
    """The items of `runs`, those that have ballots; ballots of several runs on one transcript are one item."""
    found: dict[str, AuditItem] = {}
    left_out = Counter[str]()
    for run in runs:
        ballots = _ballots(run)
        if isinstance(ballots, str):
            left_out[ballots] += 1
            continue
        debate = argued(run)
        key = run.header.run_id if debate is None else debate.model_dump_json()
        before = found.get(key)
        if before is None:
            found[key] = AuditItem(id=run.header.run_id, ballots=ballots)
        else:
            found[key] = before.model_copy(update={"ballots": [*before.ballots, *ballots]})
    return Items(found=list(found.values()), left_out=left_out)


def argued(run: StoredRun) -> ArguedDebate | None:
    """What was argued in `run`, or in the debate that it judges again; None where that is not known."""
    raw: Any = run.header.input if run.header.block == REJUDGE else (run.outcome or {}).get("raw")
    try:
        return ArguedDebate.model_validate({"question": raw["question"], "transcript": raw["transcript"]})
    except (KeyError, TypeError, ValidationError):
        return None


def read_items(path: str) -> Items:
    """The items of the JSON Lines at `path` ("-": on stdin), at least one; BadFile with the line and the field."""
    found = []
    for number, line in enumerate(read_text(path, megabytes=_MEGABYTES).split("\n"), 1):
        if line.strip():
            found.append(_item(path, number, line))
    if not found:
        raise BadFile(path, "holds no item")
    return Items(found=found)


def _ballots(run: StoredRun) -> list[JudgeBallot] | str:
    """The ballots of `run`; why there are none."""
    if run.outcome is None:
        return "has not ended"
    if run.header.block == REJUDGE:
        return _read(AuditItem, run.outcome.get("output"))
    raw = run.outcome.get("raw")
    verdict = raw.get("verdict") if isinstance(raw, dict) else None
    if not isinstance(verdict, dict):
        return "has no verdict of a judge"
    if verdict.get("judging") is None:
        return "has a verdict without ballots: a human's, a custom judge's, or an earlier version's"
    return _read(Judging, verdict["judging"])


def _read(model: type[AuditItem | Judging], value: object) -> list[JudgeBallot] | str:
    try:
        return model.model_validate(value).ballots
    except ValidationError:
        return "has no ballots that can be read"


def _item(path: str, number: int, line: str) -> AuditItem:
    value = parse_json_line(line, path=path, number=number)
    if not isinstance(value, dict):
        raise BadFile(path, f"line {number}: must hold an object with `ballots`, got {shown(value)}")
    try:
        return AuditItem.model_validate(value)
    except ValidationError as error:
        problems = problems_of(error)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        place, problem = problems[0]
        raise BadFile(path, f"line {number}: " + (f"`{place}`: " if place else "") + problem + more) from None
