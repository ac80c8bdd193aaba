"""`round_robin()`: a panel of roles speaks round by round, and a deliverable is made of what it said."""

from __future__ import annotations

from flowdebate.patterns.round_robin.factory import round_robin
from flowdebate.patterns.round_robin.panelist import create_panelist
from flowdebate.patterns.round_robin.referee import create_referee
from flowdebate.patterns.round_robin.schemas import (
    Assessment,
    PanelOutput,
    RefereeAudit,
    RefereeReport,
    RefereeReported,
)
from flowdebate.patterns.round_robin.synthesizer import create_panel_synthesizer
from flowdebate.patterns.round_robin.transcript import create_panel_transcript

__all__ = (
    "Assessment",
    "PanelOutput",
    "RefereeAudit",
    "RefereeReport",
    "RefereeReported",
    "create_panel_synthesizer",
    "create_panel_transcript",
    "create_panelist",
    "create_referee",
    "round_robin",
)
