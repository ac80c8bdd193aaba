"""The transcript of a panel: what was said, in order."""

from __future__ import annotations

from flowdebate.resources.resource import StateResource
from flowdebate.schemas.panel import PanelTranscriptState

__all__ = ("PanelTranscript", "create_panel_transcript")

PanelTranscript = StateResource[PanelTranscriptState]
"""The resource that `create_panel_transcript` makes."""


def create_panel_transcript() -> PanelTranscript:
    """A transcript to share between a panel and the blocks that read it, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` is what was said so far. Every block that reads it, and the pattern, must
    be given the same object.

    >>> create_panel_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=PanelTranscriptState)
