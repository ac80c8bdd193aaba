"""`handoff()`: whoever has spoken says who speaks next."""

from __future__ import annotations

from flowdebate.patterns.handoff.decision import HandoffDecision, create_handoff_transcript
from flowdebate.patterns.handoff.factory import handoff
from flowdebate.patterns.handoff.schemas import HandoffEntry, HandoffInput, HandoffMade, HandoffOutput
from flowdebate.patterns.handoff.speaker import create_speaker
from flowdebate.patterns.handoff.transition import Transition, read_transition

__all__ = (
    "HandoffDecision",
    "HandoffEntry",
    "HandoffInput",
    "HandoffMade",
    "HandoffOutput",
    "Transition",
    "create_handoff_transcript",
    "create_speaker",
    "handoff",
    "read_transition",
)
