"""Review events: the reported findings, the reviewers' verdicts on them, and the decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import Defence, Finding, GateResult, Raised, Verdict


@dataclass(slots=True, kw_only=True)
class FindingsReported(BaseEvent):
    """A reviewer has read the material and reported its findings."""

    kind: ClassVar[str] = "findings_reported"
    block: str
    """Name of the reviewer's block."""
    agent_name: str
    """Name of the reviewer."""
    findings: list[Raised]
    """The reviewer's findings, including empty ones that are dropped later (`is_empty`)."""


@dataclass(slots=True, kw_only=True)
class FindingsExamined(BaseEvent):
    """A reviewer has examined other reviewers' findings, or has answered objections to its own."""

    kind: ClassVar[str] = "findings_examined"
    block: str
    """Name of the reviewer's block."""
    agent_name: str
    """Name of the reviewer."""
    verdicts: list[Verdict]
    """The reviewer's verdicts on other reviewers' findings."""
    defences: list[Defence]
    """The reviewer's verdicts on its own findings."""


@dataclass(slots=True, kw_only=True)
class FindingsDecided(BaseEvent):
    """Every finding has been confirmed, disputed or refuted."""

    kind: ClassVar[str] = "findings_decided"
    findings: list[Finding]
    """All findings, most severe first."""
    gate: GateResult | None = None
    """Result of the gate, or None if there is no gate."""
