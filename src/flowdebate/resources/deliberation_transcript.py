"""The transcript of a deliberation: what was said in the rounds that are over, in order."""

from __future__ import annotations

from flowdebate.resources.resource import StateResource
from flowdebate.schemas.deliberation import DeliberationTranscriptState

__all__ = ("DeliberationTranscript", "create_deliberation_transcript")

DeliberationTranscript = StateResource[DeliberationTranscriptState]
"""The resource that `create_deliberation_transcript` makes."""


def create_deliberation_transcript() -> DeliberationTranscript:
    """A transcript to share between a deliberation and the blocks that read it, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` is what was said in the rounds before: those of a round are added when
    all have spoken, before the moderator reports. Every block that reads it, and the pattern, must be given the same
    object.

    >>> create_deliberation_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=DeliberationTranscriptState)
