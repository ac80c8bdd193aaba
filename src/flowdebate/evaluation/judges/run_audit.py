"""What a run shows of its judge: its ballots, the names that arguments held, and whose kin it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.evaluation.judges.audit import audit
from flowdebate.evaluation.judges.report import findings
from flowdebate.patterns.anonymity.model_families import kin_among
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.patterns.events import TurnStarted
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.evaluation.judges.schemas import JudgeAudit
    from flowdebate.patterns.anonymity.schemas import LeakReport
    from flowdebate.runs.result import RunView

__all__ = (
    "RunAudit",
    "audit_of",
    "audit_run",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAudit:
    """What one run shows of its judge. One debate shows little: `flowdebate audit` takes many together."""

    judge: JudgeAudit
    """The figures of its ballots; of a judge of the application's own, which says nothing of its views, none."""
    leaks: LeakReport | None = None
    """The names that arguments held, which stood as aliases in what debaters and judge were shown; None for none."""
    kin: tuple[tuple[str, str], ...] = ()
    """Models that judged, each with a model of the same family that argued."""

    @property
    def findings(self) -> list[str]:
        """All of it in plain words."""
        found = findings(self.judge)
        if self.leaks is not None:
            found.append(
                f"names that stood in arguments, and were hidden: {self.leaks.count} ({self.leaks.own} of authors "
                f"themselves, {self.leaks.others} of others, {self.leaks.models} of models)"
            )
        found += [
            f"the judge {judge!r} is of the family of {debater!r}, which argued: a judge may favour what reads like "
            "its own; a model of another family cannot"
            for judge, debater in self.kin
        ]
        return found


def audit_run(run: RunView) -> RunAudit:
    """What `run`, over or still under way, shows of its judge."""
    return audit_of(run.raw, run.events)


def audit_of(raw: Any, events: Iterable[object]) -> RunAudit:  # noqa: ANN401 - the raw output of any pattern, or None
    """The audit of a run whose pattern's raw output is `raw`, and whose events are `events`."""
    judging = getattr(getattr(raw, "verdict", None), "judging", None)
    ballots = [] if judging is None else judging.ballots
    judges, debaters, called = set(), set(), []
    for event in events:
        match event:
            case JudgeViewMade():
                judges.add(event.block)
            case TurnStarted():
                debaters.add(event.block)
            case ModelCalled():
                called.append((event.block, event.model))
    return RunAudit(
        judge=audit([ballots]),
        leaks=getattr(raw, "leaks", None),
        kin=kin_among(
            [model for block, model in called if block in judges],
            [model for block, model in called if block in debaters],
        ),
    )
