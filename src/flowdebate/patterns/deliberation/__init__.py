"""`deliberation()`: personas argue at the same time, round by round; a moderator closes each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

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

_LAZY = {
    "DeliberationOutput": "schemas",
    "ModeratorReport": "schemas",
    "ModeratorReported": "schemas",
    "create_deliberation_transcript": "transcript",
    "create_moderator": "moderator",
    "create_persona_debater": "debater",
    "deliberation": "factory",
    "parse_report": "report",
    "render_deliberation": "page",
    "render_report": "report",
}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
