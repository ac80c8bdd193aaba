"""Transcript of a council: the members' answers, as a shared resource."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.patterns.state import TranscriptState
from flowdebate.resources.resource import StateResource

__all__ = ("CouncilEntry", "CouncilTranscript", "CouncilTranscriptState", "create_council_transcript")


class CouncilEntry(WireModel):
    """A member's answer, as the transcript holds it."""

    round: Annotated[int, Field(ge=1)] = 1
    agent_name: str
    role: str | None = None
    text: str


class CouncilTranscriptState(TranscriptState[CouncilEntry]):
    """The answers, in declared order."""


CouncilTranscript = StateResource[CouncilTranscriptState]
"""The resource that `create_council_transcript` makes."""


def create_council_transcript() -> CouncilTranscript:
    """A transcript to share between a council and blocks of your own, under the key `"transcript"`.

    It is empty until the chair has answered: who sees it before would see names.

    >>> create_council_transcript().key
    'transcript'
    """
    return StateResource(key="transcript", initial=CouncilTranscriptState)
