"""Debates between language models: composable blocks, shared resources, and patterns that wire them.

>>> from flowdebate import Debater, debate
>>> pattern = debate(name="rent", debaters=[Debater("a", "cap rents"), Debater("b", "free rents")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.blocks.debater import create_debater
from flowdebate.blocks.generator import Visibility, generator
from flowdebate.blocks.handler import handler
from flowdebate.blocks.judge import create_judge, create_judge_panel
from flowdebate.blocks.judge_options import JudgeOptions
from flowdebate.blocks.losses import StandIn
from flowdebate.blocks.moderator import create_moderator
from flowdebate.blocks.outline import outline
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import sequencer
from flowdebate.blocks.synthesizer import create_synthesizer
from flowdebate.blocks.tools import Capability
from flowdebate.blocks.transcript_blocks import create_init_transcript, create_record_argument
from flowdebate.errors import FlowDebateError, FlowDebateWarning
from flowdebate.models.openai import OpenAIModel
from flowdebate.models.retry import Retry
from flowdebate.patterns.debate import debate
from flowdebate.patterns.roster import Debater, Persona
from flowdebate.resources.task import Task
from flowdebate.resources.tasks import TaskCollection, create_task_collection
from flowdebate.resources.transcript import create_debate_transcript
from flowdebate.runs.limits import Limits, Price
from flowdebate.runs.session import Session
from flowdebate.schemas import (
    DebateContributionEntry,
    DebateInput,
    DebateLoss,
    DebateModeratorDecision,
    DebateModeratorOutput,
    DebateRawOutput,
    DebateState,
    DebateTranscriptState,
    DebateVerdict,
)
from flowdebate.views.judge import format_transcript_for_judge

if TYPE_CHECKING:
    from flowdebate.blocks.human import human
    from flowdebate.blocks.human_answers import answer, answer_sync
    from flowdebate.blocks.human_terminal import terminal
    from flowdebate.blocks.tools import function_schema
    from flowdebate.patterns.consensus import consensus
    from flowdebate.patterns.deliberation import deliberation
    from flowdebate.patterns.handoff import handoff
    from flowdebate.patterns.round_robin import round_robin
    from flowdebate.runs.batch_item import BatchItem, BatchResult
    from flowdebate.runs.batch_summary import BatchSummary
    from flowdebate.runs.kept import Keeping
    from flowdebate.runs.parking import HumanRequest
    from flowdebate.schemas.consensus import ConsensusOutput
    from flowdebate.schemas.deliberation import DeliberationOutput
    from flowdebate.schemas.handoff import HandoffOutput
    from flowdebate.schemas.panel import PanelOutput

__all__ = (
    "BatchItem",
    "BatchResult",
    "BatchSummary",
    "Capability",
    "ConsensusOutput",
    "DebateContributionEntry",
    "DebateInput",
    "DebateLoss",
    "DebateModeratorDecision",
    "DebateModeratorOutput",
    "DebateRawOutput",
    "DebateState",
    "DebateTranscriptState",
    "DebateVerdict",
    "Debater",
    "DeliberationOutput",
    "FlowDebateError",
    "FlowDebateWarning",
    "HandoffOutput",
    "HumanRequest",
    "JudgeOptions",
    "Keeping",
    "Limits",
    "OpenAIModel",
    "PanelOutput",
    "Persona",
    "Price",
    "Retry",
    "Session",
    "StandIn",
    "Task",
    "TaskCollection",
    "Visibility",
    "answer",
    "answer_sync",
    "consensus",
    "create_debate_transcript",
    "create_debater",
    "create_init_transcript",
    "create_judge",
    "create_judge_panel",
    "create_moderator",
    "create_record_argument",
    "create_synthesizer",
    "create_task_collection",
    "debate",
    "deliberation",
    "format_transcript_for_judge",
    "function_schema",
    "generator",
    "handler",
    "handoff",
    "human",
    "outline",
    "round_robin",
    "router",
    "sequencer",
    "terminal",
)

__version__ = "0.1.0"

_ELSEWHERE = {
    "BatchItem": "runs.batch_item",
    "BatchResult": "runs.batch_item",
    "BatchSummary": "runs.batch_summary",
    "ConsensusOutput": "schemas.consensus",
    "DeliberationOutput": "schemas.deliberation",
    "HandoffOutput": "schemas.handoff",
    "HumanRequest": "runs.parking",
    "Keeping": "runs.kept",
    "PanelOutput": "schemas.panel",
    "answer": "blocks.human_answers",
    "answer_sync": "blocks.human_answers",
    "consensus": "patterns.consensus",
    "deliberation": "patterns.deliberation",
    "function_schema": "blocks.tools",
    "handoff": "patterns.handoff",
    "human": "blocks.human",
    "round_robin": "patterns.round_robin",
    "terminal": "blocks.human_terminal",
}
"""Imported when they are used: most programs use one pattern."""


def __getattr__(name: str) -> object:
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
