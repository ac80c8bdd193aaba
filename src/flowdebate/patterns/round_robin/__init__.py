"""`round_robin()`: debaters with roles speak in turn, and a synthesizer writes the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.patterns.round_robin.debater import create_round_robin_debater
    from flowdebate.patterns.round_robin.factory import round_robin
    from flowdebate.patterns.round_robin.referee import create_referee
    from flowdebate.patterns.round_robin.schemas import (
        Assessment,
        RefereeAudit,
        RefereeReport,
        RefereeReported,
        RoundRobinOutput,
    )
    from flowdebate.patterns.round_robin.synthesizer import create_round_robin_synthesizer
    from flowdebate.patterns.round_robin.transcript import create_round_robin_transcript

__all__ = (
    "Assessment",
    "RefereeAudit",
    "RefereeReport",
    "RefereeReported",
    "RoundRobinOutput",
    "create_referee",
    "create_round_robin_debater",
    "create_round_robin_synthesizer",
    "create_round_robin_transcript",
    "round_robin",
)

_LAZY = {
    "Assessment": "schemas",
    "RefereeAudit": "schemas",
    "RefereeReport": "schemas",
    "RefereeReported": "schemas",
    "RoundRobinOutput": "schemas",
    "create_referee": "referee",
    "create_round_robin_debater": "debater",
    "create_round_robin_synthesizer": "synthesizer",
    "create_round_robin_transcript": "transcript",
    "round_robin": "factory",
}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
