"""The default moderator of a deliberation: a model that closes each round with a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

from pydantic import Field, create_model

from flowdebate.blocks.debater import filled
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.blocks.state import entries_of, pattern_state, question_of
from flowdebate.errors import ConfigurationError
from flowdebate.schemas.deliberation import ModeratorReport, ReportStatus
from flowdebate.schemas.wire import WireModel
from flowdebate.views.deliberation import REPORTER, ReporterTemplate, render_reporter_system, render_reporter_turn
from flowdebate.views.report import parse_report

if TYPE_CHECKING:
    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.models.base import ModelResponse
    from flowdebate.resources.deliberation_transcript import DeliberationTranscript
    from flowdebate.runs.context import Context
    from flowdebate.views.deliberation import Participants

__all__ = ("ReportForm", "check_report_form", "create_reporter")

ReportForm: TypeAlias = Literal["structured", "text"]
"""How a moderator's model is asked for its report: by a schema, or for lines of text."""


def create_reporter(
    *,
    name: str,
    transcript: DeliberationTranscript,
    participants: Participants,
    max_rounds: int | None = None,
    report: ReportForm = "structured",
    template: ReporterTemplate = REPORTER,
    **options: Unpack[BlockOptions],
) -> Generator[ModeratorReport]:
    """The block `{name}-moderator`: closes a round with `{summary, status, decision}`.

    It sees all that was said, with names and roles. `participants` are the roles of all
    who take part, by name, in declared order; `max_rounds`, where it is given, is told to it. With `report="text"` the
    model is asked for the lines SUMMARY, STATUS and DECISION, which `parse_report` reads: for models without
    structured answers.
    """
    check_report_form(report, where=f"moderator {name!r}")
    everyone = dict(participants)

    def system(value: object, ctx: Context) -> str:
        return render_reporter_system(
            topic=question_of(value, ctx), participants=everyone, lines=report == "text", template=template
        )

    def turn(_: object, ctx: Context) -> str:
        number = max(pattern_state(ctx).round, 1)
        return render_reporter_turn(entries=entries_of(ctx), round=number, max_rounds=max_rounds, template=template)

    def reported(answer: Any, _: ModelResponse, __: Context) -> ModeratorReport:  # noqa: ANN401 - text, or the model below
        if report == "text":
            return parse_report(answer)
        return ModeratorReport(summary=answer.summary, status=answer.status, decision=answer.decision)

    block_name = f"{name}-moderator"
    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        output_schema=None if report == "text" else _report_schema(),
        transform=reported,
        resources={"transcript": transcript},
        **filled(options, "intent/synthesize", Visibility(), where=block_name),
    )


def check_report_form(value: object, *, where: str) -> None:
    """A report is asked for by a schema or as text."""
    if value not in ("structured", "text"):
        raise ConfigurationError(where, "report", value, "'structured' or 'text'")


def _report_schema() -> type[WireModel]:
    """The moderator's answer: it sums up before it finds, since models commit to what they wrote first."""
    return create_model(
        "ModeratorReport",
        __base__=WireModel,
        summary=(str, Field(description="What each of them holds now, what they agree on, what is still open")),
        status=(ReportStatus, Field(description="SETTLED, or CONTINUE for another round")),
        decision=(str | None, Field(description="What should be done, in one or two sentences; null for none")),
    )
