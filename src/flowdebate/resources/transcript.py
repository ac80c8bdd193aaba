"""The transcript of a debate: what was argued, in order."""

from __future__ import annotations

from flowdebate.resources.resource import StateResource
from flowdebate.schemas import DebateTranscriptState

__all__ = ("Transcript", "create_debate_transcript")

Transcript = StateResource[DebateTranscriptState]
"""The resource that `create_debate_transcript` makes."""


def create_debate_transcript() -> Transcript:
    """A transcript to share between a debate and the blocks that read it, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` are the arguments so far. Every block that reads it, and the pattern,
    must be given the same object.

    >>> create_debate_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=DebateTranscriptState)
