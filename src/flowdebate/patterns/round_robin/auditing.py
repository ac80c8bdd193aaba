"""What becomes of a referee's report: it is checked and kept, and nothing else hangs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.losses import LOST, lose
from flowdebate.blocks.panel_state import panel_state
from flowdebate.blocks.state import as_model, entries_of
from flowdebate.models.text import clean_data, clean_text
from flowdebate.patterns.round_robin.events import RefereeReported
from flowdebate.schemas.panel import RefereeAudit, RefereeReport
from flowdebate.views.names import name_among

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.resources.panel_transcript import PanelTranscript
    from flowdebate.runs.context import Context

__all__ = ("audit_of", "stash_audit", "without_report")


def audit_of(report: RefereeReport, *, round: int, spoke: Iterable[str]) -> RefereeAudit:  # noqa: A002
    """`report` as it is kept: of each who `spoke` the first assessment; all others are dropped, and named.

    A name may be written in any case, and as prompts show it.

    >>> from flowdebate.schemas.panel import Assessment
    >>> report = RefereeReport(notes="Thin.", assessments=[Assessment(agent_name="nobody", score=9)])
    >>> audit_of(report, round=1, spoke=["Ada"]).dropped
    ['nobody']
    """
    left = list(dict.fromkeys(spoke))
    kept, dropped = [], []
    for assessment in report.assessments:
        name = name_among(assessment.agent_name, left)
        if name is None:
            dropped.append(clean_text(assessment.agent_name))
        else:
            left.remove(name)
            kept.append({**clean_data(assessment.model_dump()), "agent_name": name})
    return RefereeAudit(
        round=round, notes=clean_text(report.notes), assessments=kept, dropped=list(dict.fromkeys(dropped))
    )


def stash_audit(name: str, referee: str, transcript: PanelTranscript) -> Handler[object, RefereeAudit | None]:
    """A block that adds what `referee` reported to the state; None for `LOST`.

    It takes the model, or a dict in either key style; OutputError for what does not validate.
    """

    @handler(name=f"{name}-stash-audit", resources={"transcript": transcript})
    def stash(value: object, ctx: Context) -> RefereeAudit | None:
        if value is LOST:
            return None
        report = as_model(value, RefereeReport, block=referee)
        state = panel_state(ctx)
        spoke = [entry.agent_name for entry in entries_of(ctx) if entry.round == state.round]
        audit = audit_of(report, round=max(state.round, 1), spoke=spoke)
        ctx.sequencer.update(audits=[*state.audits, audit])
        ctx.emit(RefereeReported(block=referee, audit=audit))
        return audit

    return stash


def without_report(error: Exception, _: object, ctx: Context) -> object:
    """What a round goes by whose audit was lost."""
    lose(error, ctx, block=ctx.block, seat="referee", name=ctx.block, instead="no_report")
    return LOST
