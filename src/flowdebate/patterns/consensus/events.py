"""Events of a consensus debate, and the wire form of the pipeline that it follows.

A debate emits the events that all patterns emit: rounds, turns and failed roles. Those of this module are its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python

from flowdebate._util.wire import BaseEvent
from flowdebate.patterns.events import RoleFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flowdebate.measures import Ballot, Strength, Tally
    from flowdebate.patterns.consensus.schemas import Critique, Outcome
    from flowdebate.patterns.consensus.stages import StageReached

__all__ = (
    "AgentMessage",
    "ConsensusDecided",
    "CritiqueMade",
    "DebateEnded",
    "DebateStarted",
    "StageEntered",
    "VoteCast",
    "WireEvents",
    "wire_events",
)


@dataclass(slots=True, kw_only=True)
class DebateStarted(BaseEvent):
    """The first event of a debate; its `path` begins those of all others."""

    kind: ClassVar[str] = "debate_start"
    task: str
    agents: tuple[str, ...]
    max_rounds: int


@dataclass(slots=True, kw_only=True)
class StageEntered(BaseEvent):
    """The debate has reached a stage."""

    kind: ClassVar[str] = "stage"
    stage: StageReached


@dataclass(slots=True, kw_only=True)
class AgentMessage(BaseEvent):
    """An agent has proposed, or revised its proposal; emitted as soon as it has."""

    kind: ClassVar[str] = "agent_message"
    agent: str
    phase: Literal["proposal", "revision"]
    round: int
    """0 for the first proposals."""
    text: str


@dataclass(slots=True, kw_only=True)
class CritiqueMade(BaseEvent):
    """A critic has criticised a proposal."""

    kind: ClassVar[str] = "critique"
    critique: Critique


@dataclass(slots=True, kw_only=True)
class VoteCast(BaseEvent):
    """An agent has voted."""

    kind: ClassVar[str] = "vote"
    ballot: Ballot


@dataclass(slots=True, kw_only=True)
class ConsensusDecided(BaseEvent):
    """The votes are counted."""

    kind: ClassVar[str] = "consensus"
    outcome: Outcome
    winner: str | None
    strength: Strength
    tally: Tally


@dataclass(slots=True, kw_only=True)
class DebateEnded(BaseEvent):
    """The last event of a debate, whatever its end."""

    kind: ClassVar[str] = "debate_end"
    outcome: Outcome | None
    """None where the votes were not counted."""
    rounds: int
    error: str | None = None
    """The error that ended it early, if one did."""


def wire_events(events: Iterable[object]) -> Iterator[dict[str, Any]]:
    """The wire form of consensus debates in a run's `events`; see `WireEvents`."""
    wire = WireEvents()
    for event in events:
        yield from wire.of(event)


class WireEvents:
    """Translates a run's events to plain data under the names of the pipeline that this pattern follows.

    `debate_start`, `round_start`, `agent_message`, `critique`, `vote`, `consensus`, `debate_end`; `stage` and
    `agent_failure` besides. Each has the `path` of its debate and a `sequence`: its number in the debate, from 1
    without gaps. Events of other blocks have no wire form here.

    >>> wire = WireEvents()
    >>> list(wire.of(DebateStarted(task="rents", agents=("ann",), max_rounds=3, path="plan")))
    [{'kind': 'debate_start', 'sequence': 1, 'path': 'plan', 'task': 'rents', 'agents': ['ann'], 'maxRounds': 3}]
    """

    def __init__(self) -> None:
        self._started: dict[str, DebateStarted] = {}
        self._sequences: dict[str, int] = {}

    def of(self, event: object) -> Iterator[dict[str, Any]]:
        """What `event` is on the wire: nothing, one event, or two for the stage that opens a round."""
        match event:
            case DebateStarted():
                self._started[event.path] = event
                yield self._numbered(event.path, event.kind, _facts(event))
            case StageEntered() | AgentMessage() | CritiqueMade() | VoteCast() | ConsensusDecided():
                debate = self._debate(event.path)
                if isinstance(event, StageEntered) and event.stage.stage == "ROUND_N_CRITIQUE":
                    opened = {"round": event.stage.round, "maxRounds": self._started[debate].max_rounds}
                    yield self._numbered(debate, "round_start", opened)
                yield self._numbered(debate, event.kind, _facts(event))
            case RoleFailed(phase=str()):
                yield self._numbered(self._debate(event.path), "agent_failure", {"failure": _failure(event)})
            case DebateEnded():
                yield self._numbered(event.path, event.kind, _facts(event))
                del self._started[event.path], self._sequences[event.path]
            case _:
                pass

    def _debate(self, path: str) -> str:
        """The innermost debate in progress around `path`; events have to be given from its start on."""
        return max((debate for debate in self._started if path.startswith(f"{debate}/")), key=len)

    def _numbered(self, debate: str, kind: str, facts: dict[str, Any]) -> dict[str, Any]:
        sequence = self._sequences[debate] = self._sequences.get(debate, 0) + 1
        return {"kind": kind, "sequence": sequence, "path": debate, **facts}


def _facts(event: Any) -> dict[str, Any]:  # noqa: ANN401 - one of the events above
    names = [field.name for field in fields(event) if field.name not in ("path", "at")]
    return {to_camel(name): to_jsonable_python(getattr(event, name), by_alias=True) for name in names}


def _failure(event: RoleFailed) -> dict[str, Any]:
    return {
        "agent": event.name,
        "phase": event.phase,
        "round": event.round,
        "target": event.target,
        "kind": event.error,
        "error": event.message,
    }
