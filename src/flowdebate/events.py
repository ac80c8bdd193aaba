"""All events of runs, and `Event`, their union.

>>> from flowdebate import generator
>>> from flowdebate.testing import ScriptedModel
>>> result = generator(name="poet", prompt="Write a line.").run_sync("Rivers.", model=ScriptedModel("They run."))
>>> [(event.kind, event.path) for event in result.events if isinstance(event, Event)]
[('run_started', 'poet'), ('model_called', 'poet'), ('block_answered', 'poet'), ('run_finished', 'poet')]
"""

from __future__ import annotations

from typing import TypeAlias

from flowdebate._util.wire import BaseEvent
from flowdebate.patterns.consensus.events import (
    AgentMessage,
    ConsensusDecided,
    CritiqueMade,
    DebateEnded,
    DebateStarted,
    PollVoteCast,
    StageEntered,
    VoteCast,
)
from flowdebate.patterns.council.schemas import ReviewFinished
from flowdebate.patterns.debate.schemas import JudgeViewMade, MirrorStarted, ModeratorDecided, VerdictReached
from flowdebate.patterns.deliberation.schemas import ModeratorReported
from flowdebate.patterns.events import (
    RoleFailed,
    RoundsEnded,
    RoundStarted,
    TurnFinished,
    TurnsOrdered,
    TurnStarted,
)
from flowdebate.patterns.handoff.schemas import HandoffMade
from flowdebate.patterns.round_robin.schemas import RefereeReported
from flowdebate.resources.tasks.collection import TaskChanged
from flowdebate.runs.events import (
    BlockAnswered,
    CallFellBack,
    CallRetried,
    CallStarted,
    CircuitChanged,
    HumanAsked,
    ModelCalled,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCalled,
)

__all__ = (
    "AgentMessage",
    "BaseEvent",
    "BlockAnswered",
    "CallFellBack",
    "CallRetried",
    "CallStarted",
    "CircuitChanged",
    "ConsensusDecided",
    "CritiqueMade",
    "DebateEnded",
    "DebateStarted",
    "Event",
    "HandoffMade",
    "HumanAsked",
    "JudgeViewMade",
    "MirrorStarted",
    "ModelCalled",
    "ModeratorDecided",
    "ModeratorReported",
    "PatternEvent",
    "PollVoteCast",
    "RefereeReported",
    "ReviewFinished",
    "RoleFailed",
    "RoundStarted",
    "RoundsEnded",
    "RunEvent",
    "RunFinished",
    "RunStarted",
    "StageEntered",
    "TaskChanged",
    "TextDelta",
    "ToolCalled",
    "TurnFinished",
    "TurnStarted",
    "TurnsOrdered",
    "VerdictReached",
    "VoteCast",
)

RunEvent: TypeAlias = (
    RunStarted
    | RunFinished
    | HumanAsked
    | TextDelta
    | ToolCalled
    | BlockAnswered
    | CallStarted
    | ModelCalled
    | CallRetried
    | CallFellBack
    | CircuitChanged
    | TaskChanged
)
"""The events of all runs."""

PatternEvent: TypeAlias = (
    RoundStarted
    | TurnsOrdered
    | TurnStarted
    | TurnFinished
    | RoleFailed
    | RoundsEnded
    | ModeratorDecided
    | MirrorStarted
    | JudgeViewMade
    | VerdictReached
    | ModeratorReported
    | HandoffMade
    | RefereeReported
    | ReviewFinished
    | DebateStarted
    | StageEntered
    | AgentMessage
    | CritiqueMade
    | PollVoteCast
    | VoteCast
    | ConsensusDecided
    | DebateEnded
)
"""The events of patterns."""

Event: TypeAlias = RunEvent | PatternEvent
"""Every event of this library; a run's stream also holds whatever an application gave to `ctx.emit`."""
