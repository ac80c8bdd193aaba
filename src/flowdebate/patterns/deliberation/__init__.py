"""`deliberation()`: personas argue at the same time, round by round; a moderator closes each round."""

from __future__ import annotations

from flowdebate.patterns.deliberation.debater import create_persona_debater
from flowdebate.patterns.deliberation.factory import deliberation
from flowdebate.patterns.deliberation.moderator import create_moderator
from flowdebate.patterns.deliberation.page import render_deliberation
from flowdebate.patterns.deliberation.report import parse_report, render_report
from flowdebate.patterns.deliberation.schemas import DeliberationOutput, ModeratorReport, ModeratorReported
from flowdebate.patterns.deliberation.transcript import create_deliberation_transcript

__all__ = (
    "DeliberationOutput",
    "ModeratorReport",
    "ModeratorReported",
    "create_deliberation_transcript",
    "create_moderator",
    "create_persona_debater",
    "deliberation",
    "parse_report",
    "render_deliberation",
    "render_report",
)
