"""`debate()`: sides argue assigned stances, a judge decides, a synthesizer writes the outcome."""

from __future__ import annotations

from flowdebate.patterns.debate.debater import (
    CONCISE_DEBATER,
    DEBATER,
    DebaterTemplate,
    create_debater,
    render_debater_system,
    render_debater_turn,
)
from flowdebate.patterns.debate.factory import debate
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, Judging
from flowdebate.patterns.debate.judging.judge import create_judge, create_judge_panel
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.judging.prompt import (
    JUDGE,
    JudgeTemplate,
    format_transcript_for_judge,
    order_for_judge,
    render_judge_system,
    render_judge_turn,
    render_view,
)
from flowdebate.patterns.debate.judging.schedules import JudgeView, Schedule, sampled
from flowdebate.patterns.debate.moderator import (
    CONCISE_MODERATOR,
    MODERATOR,
    ModeratorTemplate,
    create_moderator,
    render_moderator_system,
    render_moderator_turn,
)
from flowdebate.patterns.debate.schemas import (
    BaselineAnswer,
    DebateContributionEntry,
    DebateInput,
    DebateModeratorDecision,
    DebateModeratorOutput,
    DebateRawOutput,
    DebateState,
    DebateTranscriptState,
    DebateVerdict,
    JudgedVerdict,
    JudgeViewMade,
    ModeratorDecided,
    VerdictReached,
    Winner,
)
from flowdebate.patterns.debate.synthesizer import (
    CONCISE_SYNTHESIZER,
    SYNTHESIZER,
    SynthesizerTemplate,
    create_synthesizer,
    render_synthesizer_system,
    render_synthesizer_turn,
)
from flowdebate.patterns.debate.transcript import create_debate_transcript, parse_entries, render_entries
from flowdebate.patterns.roster import Debater

__all__ = (
    "CONCISE_DEBATER",
    "CONCISE_MODERATOR",
    "CONCISE_SYNTHESIZER",
    "DEBATER",
    "JUDGE",
    "MODERATOR",
    "SYNTHESIZER",
    "BaselineAnswer",
    "DebateContributionEntry",
    "DebateInput",
    "DebateModeratorDecision",
    "DebateModeratorOutput",
    "DebateRawOutput",
    "DebateState",
    "DebateTranscriptState",
    "DebateVerdict",
    "Debater",
    "DebaterTemplate",
    "JudgeBallot",
    "JudgeOptions",
    "JudgeTemplate",
    "JudgeView",
    "JudgeViewMade",
    "JudgedVerdict",
    "Judging",
    "ModeratorDecided",
    "ModeratorTemplate",
    "Schedule",
    "SynthesizerTemplate",
    "VerdictReached",
    "Winner",
    "create_debate_transcript",
    "create_debater",
    "create_judge",
    "create_judge_panel",
    "create_moderator",
    "create_synthesizer",
    "debate",
    "format_transcript_for_judge",
    "order_for_judge",
    "parse_entries",
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
)
