"""`handoff()`: whoever has spoken says who speaks next."""

from __future__ import annotations

from flowdebate.blocks.handover import Handover
from flowdebate.blocks.speaker import create_speaker
from flowdebate.patterns.handoff.events import HandedOver
from flowdebate.patterns.handoff.factory import handoff
from flowdebate.resources.handoff_transcript import create_handoff_transcript
from flowdebate.schemas.handoff import HandoffEntry, HandoffInput, HandoffOutput
from flowdebate.views.transition import Transition, read_transition

__all__ = (
    "HandedOver",
    "HandoffEntry",
    "HandoffInput",
    "HandoffOutput",
    "Handover",
    "Transition",
    "create_handoff_transcript",
    "create_speaker",
    "handoff",
    "read_transition",
)
