"""Debates between language models: composable blocks, shared resources, and patterns that wire them.

>>> from flowdebate import Debater, debate
>>> pattern = debate(name="rent", debaters=[Debater("a", "cap rents"), Debater("b", "free rents")])
"""

from __future__ import annotations

from flowdebate.blocks.debater import create_debater
from flowdebate.blocks.generator import Visibility, generator
from flowdebate.blocks.handler import handler
from flowdebate.blocks.judge import create_judge
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
from flowdebate.patterns.debate import Debater, debate
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

__all__ = (
    "Capability",
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
    "FlowDebateError",
    "FlowDebateWarning",
    "Limits",
    "OpenAIModel",
    "Price",
    "Retry",
    "Session",
    "StandIn",
    "Task",
    "TaskCollection",
    "Visibility",
    "create_debate_transcript",
    "create_debater",
    "create_init_transcript",
    "create_judge",
    "create_moderator",
    "create_record_argument",
    "create_synthesizer",
    "create_task_collection",
    "debate",
    "format_transcript_for_judge",
    "generator",
    "handler",
    "outline",
    "router",
    "sequencer",
)

__version__ = "0.1.0"
