"""The transcript of a handoff: what was said, turn by turn, and who was named to speak next."""

from __future__ import annotations

from flowdebate.resources.resource import StateResource
from flowdebate.schemas.handoff import HandoffTranscriptState

__all__ = ("HandoffTranscript", "create_handoff_transcript")

HandoffTranscript = StateResource[HandoffTranscriptState]
"""The resource that `create_handoff_transcript` makes."""


def create_handoff_transcript() -> HandoffTranscript:
    """A transcript to share between a handoff and the blocks that read it, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` are the turns so far. Every block that reads it, and the pattern, must be
    given the same object.

    >>> create_handoff_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=HandoffTranscriptState)
