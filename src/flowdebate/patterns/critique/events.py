"""Events of a critique: the provided answer, claims, rulings, and the decision on the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import Claim, ClaimDraft, Outcome


@dataclass(slots=True, kw_only=True)
class AnswerGiven(BaseEvent):
    """The user has provided the answer to criticize."""

    kind: ClassVar[str] = "answer_given"
    answer: str
    """The answer."""


@dataclass(slots=True, kw_only=True)
class ClaimsMade(BaseEvent):
    """A critic has read the answer and made its claims."""

    kind: ClassVar[str] = "claims_made"
    block: str
    """Name of the critic's block."""
    agent_name: str
    """Name of the critic."""
    claims: list[ClaimDraft]
    """The critic's claims; empty if it found nothing wrong."""


@dataclass(slots=True, kw_only=True)
class ClaimsRuled(BaseEvent):
    """The judge has ruled on the claims, and its quotes have been looked up."""

    kind: ClassVar[str] = "claims_ruled"
    block: str
    """Name of the judge's block."""
    claims: list[Claim]
    """All claims, with their rulings."""


@dataclass(slots=True, kw_only=True)
class AnswerDecided(BaseEvent):
    """The decision rule has determined whether the answer stands, is revised or is rejected."""

    kind: ClassVar[str] = "answer_decided"
    outcome: Outcome
    """The decision."""
    answer: str | None = None
    """The final answer, or None if it was rejected."""
