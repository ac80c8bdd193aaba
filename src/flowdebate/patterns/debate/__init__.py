"""`debate()`: sides argue assigned stances, a judge decides, a synthesizer writes the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names
from flowdebate.patterns.roster import Debater

if TYPE_CHECKING:
    from collections.abc import Callable

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

_LAZY = {
    "BaselineAnswer": "schemas",
    "CONCISE_DEBATER": "debater",
    "CONCISE_MODERATOR": "moderator",
    "CONCISE_SYNTHESIZER": "synthesizer",
    "DEBATER": "debater",
    "DebateContributionEntry": "schemas",
    "DebateInput": "schemas",
    "DebateModeratorDecision": "schemas",
    "DebateModeratorOutput": "schemas",
    "DebateRawOutput": "schemas",
    "DebateState": "schemas",
    "DebateTranscriptState": "schemas",
    "DebateVerdict": "schemas",
    "DebaterTemplate": "debater",
    "JUDGE": "judging.prompt",
    "JudgeBallot": "judging.ballots",
    "JudgeOptions": "judging.options",
    "JudgeTemplate": "judging.prompt",
    "JudgeView": "judging.schedules",
    "JudgeViewMade": "schemas",
    "JudgedVerdict": "schemas",
    "Judging": "judging.ballots",
    "MODERATOR": "moderator",
    "ModeratorDecided": "schemas",
    "ModeratorTemplate": "moderator",
    "SYNTHESIZER": "synthesizer",
    "Schedule": "judging.schedules",
    "SynthesizerTemplate": "synthesizer",
    "VerdictReached": "schemas",
    "Winner": "schemas",
    "create_debate_transcript": "transcript",
    "create_debater": "debater",
    "create_judge": "judging.judge",
    "create_judge_panel": "judging.judge",
    "create_moderator": "moderator",
    "create_synthesizer": "synthesizer",
    "debate": "factory",
    "format_transcript_for_judge": "judging.prompt",
    "order_for_judge": "judging.prompt",
    "parse_entries": "transcript",
    "render_debater_system": "debater",
    "render_debater_turn": "debater",
    "render_entries": "transcript",
    "render_judge_system": "judging.prompt",
    "render_judge_turn": "judging.prompt",
    "render_moderator_system": "moderator",
    "render_moderator_turn": "moderator",
    "render_synthesizer_system": "synthesizer",
    "render_synthesizer_turn": "synthesizer",
    "render_view": "judging.prompt",
    "sampled": "judging.schedules",
}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
