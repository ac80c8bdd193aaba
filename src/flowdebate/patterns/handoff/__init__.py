"""`handoff()`: whoever has spoken says who speaks next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

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

_LAZY = {
    "HandoffDecision": "decision",
    "HandoffEntry": "schemas",
    "HandoffInput": "schemas",
    "HandoffMade": "schemas",
    "HandoffOutput": "schemas",
    "Transition": "transition",
    "create_handoff_transcript": "decision",
    "create_speaker": "speaker",
    "handoff": "factory",
    "read_transition": "transition",
}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
