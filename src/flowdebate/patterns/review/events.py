"""Events of a review: the findings, their examination and the decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import Defence, Finding, GateResult, Raised, Verdict


@dataclass(slots=True, kw_only=True)
class FindingsReported(BaseEvent):
    """A reviewer has read the material."""

    kind: ClassVar[str] = "findings_reported"
    block: str
    """The name of the reviewer's block."""
    agent_name: str
    """The reviewer."""
    findings: list[Raised]
    """Findings of the reviewer, including empty ones dropped later (`is_empty`)."""


@dataclass(slots=True, kw_only=True)
class FindingsExamined(BaseEvent):
    """A reviewer has examined findings of others, or has answered objections to its own."""

    kind: ClassVar[str] = "findings_examined"
    block: str
    """The name of the reviewer's block."""
    agent_name: str
    """The reviewer."""
    verdicts: list[Verdict]
    """Verdicts of the reviewer on findings of others."""
    defences: list[Defence]
    """Verdicts of the reviewer on its own findings."""


@dataclass(slots=True, kw_only=True)
class FindingsDecided(BaseEvent):
    """Every finding is confirmed, disputed or refuted."""

    kind: ClassVar[str] = "findings_decided"
    findings: list[Finding]
    """All findings, gravest first."""
    gate: GateResult | None = None
    """Result of the gate; None if there is none."""
