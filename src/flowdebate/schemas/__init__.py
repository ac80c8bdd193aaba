"""What travels: inputs, entries, decisions, verdicts and outputs of the patterns, each pattern's in a module."""

from __future__ import annotations

from flowdebate.schemas.debate import (
    DebateContributionEntry,
    DebateInput,
    DebateModeratorDecision,
    DebateModeratorOutput,
    DebateRawOutput,
    DebateState,
    DebateTranscriptState,
    DebateVerdict,
    JudgedVerdict,
    StopReason,
)
from flowdebate.schemas.pattern import (
    DebateLoss,
    DebateStatus,
    Instead,
    PatternInput,
    PatternState,
    Seat,
    TranscriptState,
)
from flowdebate.schemas.wire import WireModel

__all__ = (
    "DebateContributionEntry",
    "DebateInput",
    "DebateLoss",
    "DebateModeratorDecision",
    "DebateModeratorOutput",
    "DebateRawOutput",
    "DebateState",
    "DebateStatus",
    "DebateTranscriptState",
    "DebateVerdict",
    "Instead",
    "JudgedVerdict",
    "PatternInput",
    "PatternState",
    "Seat",
    "StopReason",
    "TranscriptState",
    "WireModel",
)
