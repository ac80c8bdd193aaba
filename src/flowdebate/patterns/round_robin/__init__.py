"""`round_robin()`: a panel of roles speaks round by round, and a deliverable is made of what it said."""

from __future__ import annotations

from flowdebate.patterns.round_robin.factory import round_robin
from flowdebate.patterns.round_robin.panelist import create_panelist
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
    "create_panelist",
    "create_referee",
    "create_round_robin_synthesizer",
    "create_round_robin_transcript",
    "round_robin",
)
