"""What a consensus debate tells while it goes on: one start, one end on every way out, numbered without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from flowdebate.resources.resource import HeldResource

if TYPE_CHECKING:
    from flowdebate.measures import Ballot, Strength, Tally
    from flowdebate.patterns.consensus.schemas import AgentFailure, Critique, StageReached
    from flowdebate.runs.context import Context

__all__ = (
    "AgentFailed",
    "AgentMessage",
    "ConsensusDecided",
    "CritiqueMade",
    "DebateEnded",
    "DebateStarted",
    "RoundOpened",
    "StageEntered",
    "VoteCast",
    "announce",
    "numbers",
)


@dataclass(slots=True, kw_only=True)
class DebateStarted:
    """The first of a debate's events."""

    kind: ClassVar[str] = "debate_start"
    number: int
    """The place among the debate's events, from 1."""
    task: str
    agents: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class StageEntered:
    """The debate has reached a stage."""

    kind: ClassVar[str] = "stage"
    number: int
    stage: StageReached


@dataclass(slots=True, kw_only=True)
class RoundOpened:
    """A round of critique and revision begins."""

    kind: ClassVar[str] = "round_start"
    number: int
    round: int
    max_rounds: int


@dataclass(slots=True, kw_only=True)
class AgentMessage:
    """An agent has proposed, or revised its proposal; told as soon as it has."""

    kind: ClassVar[str] = "agent_message"
    number: int
    agent: str
    phase: Literal["proposal", "revision"]
    round: int
    """0 for the first proposals."""
    text: str


@dataclass(slots=True, kw_only=True)
class CritiqueMade:
    """A critic has criticised a proposal."""

    kind: ClassVar[str] = "critique"
    number: int
    critique: Critique


@dataclass(slots=True, kw_only=True)
class VoteCast:
    """An agent has voted."""

    kind: ClassVar[str] = "vote"
    number: int
    ballot: Ballot


@dataclass(slots=True, kw_only=True)
class AgentFailed:
    """A call of an agent came to nothing."""

    kind: ClassVar[str] = "agent_failure"
    number: int
    failure: AgentFailure


@dataclass(slots=True, kw_only=True)
class ConsensusDecided:
    """The votes are counted."""

    kind: ClassVar[str] = "consensus"
    number: int
    outcome: Literal["consensus", "no_consensus"]
    winner: str | None
    strength: Strength
    tally: Tally


@dataclass(slots=True, kw_only=True)
class DebateEnded:
    """The last of a debate's events, whatever its end."""

    kind: ClassVar[str] = "debate_end"
    number: int
    outcome: Literal["consensus", "no_consensus"] | None
    """None where it did not come to a vote's count."""
    rounds: int
    error: str | None = None
    """What ended it early, where something did."""


_NUMBERS = "consensus_events"


class _Numbers:
    """Counts a debate's events."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0


def numbers() -> HeldResource[_Numbers]:
    """What a pattern owns so that its events are numbered."""
    return HeldResource(key=_NUMBERS, make=_Numbers)


def announce(ctx: Context, event: type[Any], **facts: Any) -> None:  # noqa: ANN401 - the fields of the event
    """Tell `event` with the next number."""
    counter: _Numbers = ctx.scope.handles[_NUMBERS]
    counter.last += 1
    ctx.run.emit(event(number=counter.last, **facts))
