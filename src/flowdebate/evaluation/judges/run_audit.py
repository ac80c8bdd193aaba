"""Judge audit of one run: its ballots, leaked names, and judges of a debater's model family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.evaluation.judges.audit import audit
from flowdebate.patterns.anonymity.model_families import kin_among
from flowdebate.patterns.debate.schemas import JudgeViewMade
from flowdebate.patterns.events import TurnStarted
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from flowdebate.evaluation.judges.schemas import JudgeAudit
    from flowdebate.patterns.anonymity.schemas import LeakReport
    from flowdebate.runs.result import RunView

__all__ = (
    "RunAudit",
    "audit_run",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAudit:
    """Judge audit of one run. One debate shows little: `flowdebate audit` takes many together."""

    judge: JudgeAudit
    """The figures of its ballots; an application's own judge leaves none."""
    leaks: LeakReport | None = None
    """Names in arguments that debaters and judge were shown as aliases; None where names were not hidden."""
    same_family: tuple[tuple[str, str], ...] = ()
    """Pairs of a judge's and a debater's model of one family."""

    @property
    def findings(self) -> list[str]:
        """The audit in plain words."""
        sentences = self.judge.findings
        if self.leaks is not None:
            sentences.append(
                f"names that stood in arguments, and were hidden: {self.leaks.count} ({self.leaks.own} of authors "
                f"themselves, {self.leaks.others} of others, {self.leaks.models} of models)"
            )
        sentences += [
            f"the judge {judge!r} is of the family of {debater!r}, which argued: a judge may favour what reads like "
            "its own; a model of another family cannot"
            for judge, debater in self.same_family
        ]
        return sentences


def audit_run(run: RunView) -> RunAudit:
    """Audit the judge of `run`, which may still be running."""
    raw: Any = run.raw
    judging = getattr(getattr(raw, "verdict", None), "judging", None)
    ballots = [] if judging is None else judging.ballots
    judges, debaters, called = set(), set(), []
    for event in run.events:
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
        same_family=kin_among(
            [model for block, model in called if block in judges],
            [model for block, model in called if block in debaters],
        ),
    )
