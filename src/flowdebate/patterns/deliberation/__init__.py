"""`deliberation()`: personas argue at the same time, round by round; a moderator closes each round."""

from __future__ import annotations

from flowdebate.blocks.persona_debater import create_persona_debater
from flowdebate.blocks.reporter import create_reporter
from flowdebate.patterns.deliberation.events import ModeratorReported
from flowdebate.patterns.deliberation.factory import deliberation
from flowdebate.resources.deliberation_transcript import create_deliberation_transcript
from flowdebate.schemas.deliberation import DeliberationOutput, ModeratorReport
from flowdebate.views.deliberation_page import render_deliberation
from flowdebate.views.report import parse_report, render_report

__all__ = (
    "DeliberationOutput",
    "ModeratorReport",
    "ModeratorReported",
    "create_deliberation_transcript",
    "create_persona_debater",
    "create_reporter",
    "deliberation",
    "parse_report",
    "render_deliberation",
    "render_report",
)
