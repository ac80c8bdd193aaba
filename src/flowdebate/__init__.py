"""Debates between language models: composable blocks, shared resources, and patterns that wire them.

>>> from flowdebate import Debater, debate
>>> pattern = debate(name="rent", debaters=[Debater("a", "cap rents"), Debater("b", "free rents")])
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate import stop
    from flowdebate.blocks.generator import Visibility, generator
    from flowdebate.blocks.handler import handler
    from flowdebate.blocks.human.answers import open_requests, submit_answer, submit_answer_sync
    from flowdebate.blocks.human.human import human
    from flowdebate.blocks.human.terminal import ask_in_terminal
    from flowdebate.blocks.outline import outline
    from flowdebate.blocks.router import router
    from flowdebate.blocks.sequencer import sequencer
    from flowdebate.blocks.tools import Capability, function_schema
    from flowdebate.errors import FlowDebateError, FlowDebateWarning
    from flowdebate.events import Event
    from flowdebate.models.openai.model import OpenAIModel
    from flowdebate.models.retry import Retry
    from flowdebate.patterns.consensus import consensus
    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.patterns.council import council
    from flowdebate.patterns.council.schemas import CouncilOutput
    from flowdebate.patterns.debate import debate
    from flowdebate.patterns.debate.debater import create_debater
    from flowdebate.patterns.debate.judging.judge import create_judge, create_judge_panel
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.patterns.debate.judging.prompt import format_transcript_for_judge
    from flowdebate.patterns.debate.moderator import create_moderator
    from flowdebate.patterns.debate.proposer import create_side_proposer, propose_sides
    from flowdebate.patterns.debate.schemas import (
        DebateContributionEntry,
        DebateInput,
        DebateModeratorDecision,
        DebateModeratorOutput,
        DebateRawOutput,
        DebateState,
        DebateTranscriptState,
        DebateVerdict,
    )
    from flowdebate.patterns.debate.sides import default_sides
    from flowdebate.patterns.debate.synthesizer import create_synthesizer
    from flowdebate.patterns.debate.transcript import create_debate_transcript, create_record_argument
    from flowdebate.patterns.deliberation import deliberation
    from flowdebate.patterns.deliberation.schemas import DeliberationOutput
    from flowdebate.patterns.failures import FailurePolicy, StandIn
    from flowdebate.patterns.handoff import handoff
    from flowdebate.patterns.handoff.schemas import HandoffOutput
    from flowdebate.patterns.roles import DebaterOptions, ModeratorOptions, RefereeOptions, SynthesizerOptions
    from flowdebate.patterns.roster import Debater, Persona
    from flowdebate.patterns.round_robin import round_robin
    from flowdebate.patterns.round_robin.schemas import RoundRobinOutput
    from flowdebate.patterns.state import ProviderFailure
    from flowdebate.patterns.turn import create_init_transcript
    from flowdebate.resources.tasks.collection import TaskCollection, create_task_collection
    from flowdebate.resources.tasks.task import Task
    from flowdebate.runs.batch.result import BatchItem, BatchResult, BatchSummary
    from flowdebate.runs.context import Session
    from flowdebate.runs.durable.resume import StoreOptions
    from flowdebate.runs.durable.suspend import HumanRequest
    from flowdebate.runs.limits import Limits, Price

__all__ = (
    "BatchItem",
    "BatchResult",
    "BatchSummary",
    "Capability",
    "ConsensusOutput",
    "CouncilOutput",
    "DebateContributionEntry",
    "DebateInput",
    "DebateModeratorDecision",
    "DebateModeratorOutput",
    "DebateRawOutput",
    "DebateState",
    "DebateTranscriptState",
    "DebateVerdict",
    "Debater",
    "DebaterOptions",
    "DeliberationOutput",
    "Event",
    "FailurePolicy",
    "FlowDebateError",
    "FlowDebateWarning",
    "HandoffOutput",
    "HumanRequest",
    "JudgeOptions",
    "Limits",
    "ModeratorOptions",
    "OpenAIModel",
    "Persona",
    "Price",
    "ProviderFailure",
    "RefereeOptions",
    "Retry",
    "RoundRobinOutput",
    "Session",
    "StandIn",
    "StoreOptions",
    "SynthesizerOptions",
    "Task",
    "TaskCollection",
    "Visibility",
    "ask_in_terminal",
    "consensus",
    "council",
    "create_debate_transcript",
    "create_debater",
    "create_init_transcript",
    "create_judge",
    "create_judge_panel",
    "create_moderator",
    "create_record_argument",
    "create_side_proposer",
    "create_synthesizer",
    "create_task_collection",
    "debate",
    "default_sides",
    "deliberation",
    "format_transcript_for_judge",
    "function_schema",
    "generator",
    "handler",
    "handoff",
    "human",
    "open_requests",
    "outline",
    "propose_sides",
    "round_robin",
    "router",
    "sequencer",
    "stop",
    "submit_answer",
    "submit_answer_sync",
)

__version__ = "0.1.0"

_LAZY = {
    "BatchItem": "runs.batch.result",
    "BatchResult": "runs.batch.result",
    "BatchSummary": "runs.batch.result",
    "Capability": "blocks.tools",
    "ConsensusOutput": "patterns.consensus.schemas",
    "CouncilOutput": "patterns.council.schemas",
    "DebateContributionEntry": "patterns.debate.schemas",
    "DebateInput": "patterns.debate.schemas",
    "DebateModeratorDecision": "patterns.debate.schemas",
    "DebateModeratorOutput": "patterns.debate.schemas",
    "DebateRawOutput": "patterns.debate.schemas",
    "DebateState": "patterns.debate.schemas",
    "DebateTranscriptState": "patterns.debate.schemas",
    "DebateVerdict": "patterns.debate.schemas",
    "Debater": "patterns.roster",
    "DebaterOptions": "patterns.roles",
    "DeliberationOutput": "patterns.deliberation.schemas",
    "Event": "events",
    "FailurePolicy": "patterns.failures",
    "FlowDebateError": "errors",
    "FlowDebateWarning": "errors",
    "HandoffOutput": "patterns.handoff.schemas",
    "HumanRequest": "runs.durable.suspend",
    "JudgeOptions": "patterns.debate.judging.options",
    "Limits": "runs.limits",
    "ModeratorOptions": "patterns.roles",
    "OpenAIModel": "models.openai.model",
    "Persona": "patterns.roster",
    "Price": "runs.limits",
    "ProviderFailure": "patterns.state",
    "RefereeOptions": "patterns.roles",
    "Retry": "models.retry",
    "RoundRobinOutput": "patterns.round_robin.schemas",
    "Session": "runs.context",
    "StandIn": "patterns.failures",
    "StoreOptions": "runs.durable.resume",
    "SynthesizerOptions": "patterns.roles",
    "Task": "resources.tasks.task",
    "TaskCollection": "resources.tasks.collection",
    "Visibility": "blocks.generator",
    "ask_in_terminal": "blocks.human.terminal",
    "consensus": "patterns.consensus",
    "council": "patterns.council",
    "create_debate_transcript": "patterns.debate.transcript",
    "create_debater": "patterns.debate.debater",
    "create_init_transcript": "patterns.turn",
    "create_judge": "patterns.debate.judging.judge",
    "create_judge_panel": "patterns.debate.judging.judge",
    "create_moderator": "patterns.debate.moderator",
    "create_record_argument": "patterns.debate.transcript",
    "create_side_proposer": "patterns.debate.proposer",
    "create_synthesizer": "patterns.debate.synthesizer",
    "create_task_collection": "resources.tasks.collection",
    "debate": "patterns.debate",
    "default_sides": "patterns.debate.sides",
    "deliberation": "patterns.deliberation",
    "format_transcript_for_judge": "patterns.debate.judging.prompt",
    "function_schema": "blocks.tools",
    "generator": "blocks.generator",
    "handler": "blocks.handler",
    "handoff": "patterns.handoff",
    "human": "blocks.human.human",
    "open_requests": "blocks.human.answers",
    "outline": "blocks.outline",
    "propose_sides": "patterns.debate.proposer",
    "round_robin": "patterns.round_robin",
    "router": "blocks.router",
    "sequencer": "blocks.sequencer",
    "submit_answer": "blocks.human.answers",
    "submit_answer_sync": "blocks.human.answers",
}
"""Each is imported from its module at first use: a program needs few of them."""
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)

logging.getLogger("flowdebate").addHandler(logging.NullHandler())
