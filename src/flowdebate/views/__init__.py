"""How entries are shown to debaters, moderator, judge and synthesizer: pure functions from values to text."""

from __future__ import annotations

from flowdebate.views.debater import DEBATER, DebaterTemplate, render_debater_system, render_debater_turn
from flowdebate.views.entries import parse_entries, render_entries
from flowdebate.views.judge import (
    JUDGE,
    JudgeTemplate,
    format_transcript_for_judge,
    order_for_judge,
    render_judge_system,
    render_judge_turn,
    render_view,
)
from flowdebate.views.moderator import MODERATOR, ModeratorTemplate, render_moderator_system, render_moderator_turn
from flowdebate.views.quote import quoted, unquoted
from flowdebate.views.schedules import JudgeView, Schedule, sampled
from flowdebate.views.synthesizer import (
    SYNTHESIZER,
    SynthesizerTemplate,
    render_synthesizer_system,
    render_synthesizer_turn,
)

__all__ = (
    "DEBATER",
    "JUDGE",
    "MODERATOR",
    "SYNTHESIZER",
    "DebaterTemplate",
    "JudgeTemplate",
    "JudgeView",
    "ModeratorTemplate",
    "Schedule",
    "SynthesizerTemplate",
    "format_transcript_for_judge",
    "order_for_judge",
    "parse_entries",
    "quoted",
    "render_debater_system",
    "render_debater_turn",
    "render_entries",
    "render_judge_system",
    "render_judge_turn",
    "render_moderator_system",
    "render_moderator_turn",
    "render_synthesizer_system",
    "render_synthesizer_turn",
    "render_view",
    "sampled",
    "unquoted",
)
