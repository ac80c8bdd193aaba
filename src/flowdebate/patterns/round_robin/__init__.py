"""`round_robin()`: a panel of roles speaks round by round, and a deliverable is made of what it said."""

from __future__ import annotations

from flowdebate.blocks.panel_synthesizer import create_panel_synthesizer
from flowdebate.blocks.panelist import create_panelist
from flowdebate.blocks.referee import create_referee
from flowdebate.patterns.round_robin.events import RefereeReported
from flowdebate.patterns.round_robin.factory import round_robin
from flowdebate.resources.panel_transcript import create_panel_transcript
from flowdebate.schemas.panel import Assessment, PanelOutput, RefereeAudit, RefereeReport

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
