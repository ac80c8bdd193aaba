"""Stages and events of a consensus debate, and their wire form under the names of the pipeline that it follows.

A debate also emits the events of all patterns: rounds, turns and failed roles.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python

from flowdebate._util.wire import BaseEvent, WireModel
from flowdebate.patterns.events import RoleFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flowdebate.measures import Ballot, Strength, Tally
    from flowdebate.patterns.consensus.schemas import Critique, Outcome
    from flowdebate.runs.context import Context


class ConsensusStage(StrEnum):
    """The stages of a consensus debate, in their order; the three of a round repeat."""

    START = "START"
    INITIALIZING = "INITIALIZING"
    CONTEXT_READY = "CONTEXT_READY"
    GENERATING_PROPOSALS = "GENERATING_PROPOSALS"
    PROPOSALS_COMPLETE = "PROPOSALS_COMPLETE"
    ROUND_N_CRITIQUE = "ROUND_N_CRITIQUE"
    ROUND_N_REVISION = "ROUND_N_REVISION"
    CONVERGENCE_CHECK = "CONVERGENCE_CHECK"
    ROUNDS_COMPLETE = "ROUNDS_COMPLETE"
    VOTING = "VOTING"
    VOTE_AGGREGATION = "VOTE_AGGREGATION"
    CONSENSUS_REACHED = "CONSENSUS_REACHED"
    NO_CONSENSUS = "NO_CONSENSUS"

    @property
    def in_round(self) -> bool:
        """Whether it is one of the stages of a round."""
        stage = type(self)
        return self in (stage.ROUND_N_CRITIQUE, stage.ROUND_N_REVISION, stage.CONVERGENCE_CHECK)


class StageReached(WireModel):
    """A stage, and the round that it belongs to."""

    stage: ConsensusStage
    """The stage."""
    round: int | None = None
    """For the stages of a round; None for the others."""

    @property
    def label(self) -> str:
        """The stage's name with its round in it: `ROUND_2_CRITIQUE`."""
        return self.stage.value.replace("_N_", f"_{self.round}_")


@dataclass(slots=True, kw_only=True)
class DebateStarted(BaseEvent):
    """The first event of a consensus debate; its `path` begins those of all others."""

    kind: ClassVar[str] = "debate_start"
    task: str
    """The task that is debated."""
    agents: tuple[str, ...]
    """The agents' names, in declared order."""
    max_rounds: int
    """The most rounds that there can be."""


@dataclass(slots=True, kw_only=True)
class StageEntered(BaseEvent):
    """A consensus debate has reached a stage."""

    kind: ClassVar[str] = "stage"
    stage: StageReached
    """The stage, with the round that it belongs to."""


@dataclass(slots=True, kw_only=True)
class AgentMessage(BaseEvent):
    """An agent of a consensus debate has proposed, or revised its proposal; emitted as soon as it has."""

    kind: ClassVar[str] = "agent_message"
    agent: str
    """The agent's name."""
    phase: Literal["proposal", "revision"]
    """Whether it is its first proposal or a later one."""
    round: int
    """0 for the first proposals."""
    text: str
    """The proposal."""


@dataclass(slots=True, kw_only=True)
class CritiqueMade(BaseEvent):
    """An agent of a consensus debate has criticised a proposal."""

    kind: ClassVar[str] = "critique"
    critique: Critique
    """The critique, with its author and its target."""


@dataclass(slots=True, kw_only=True)
class VoteCast(BaseEvent):
    """An agent of a consensus debate has voted."""

    kind: ClassVar[str] = "vote"
    ballot: Ballot
    """The vote."""


@dataclass(slots=True, kw_only=True)
class PollVoteCast(BaseEvent):
    """An agent of a consensus debate has voted in the poll after a round."""

    kind: ClassVar[str] = "poll_vote"
    round: int
    """The round that the poll follows."""
    ballot: Ballot
    """The vote."""


@dataclass(slots=True, kw_only=True)
class ConsensusDecided(BaseEvent):
    """The votes of a consensus debate are counted."""

    kind: ClassVar[str] = "consensus"
    outcome: Outcome
    """Whether there is a consensus."""
    winner: str | None
    """The author of the chosen proposal; None without one."""
    strength: Strength
    """How many are behind it."""
    tally: Tally
    """The count."""


@dataclass(slots=True, kw_only=True)
class DebateEnded(BaseEvent):
    """The last event of a consensus debate, whatever its end."""

    kind: ClassVar[str] = "debate_end"
    outcome: Outcome | None
    """None where the votes were not counted."""
    rounds: int
    """How many rounds there were."""
    error: str | None = None
    """The error that ended it early, if one did."""


def enter(stage: ConsensusStage, ctx: Context) -> None:
    """Go on to `stage`, and emit it."""
    state = ctx.scope.handle.state
    reached = StageReached.model_construct(stage=stage, round=state.round if stage.in_round else None)
    state.stages.append(reached)
    ctx.emit(StageEntered(stage=reached))


def wire_events(events: Iterable[object]) -> Iterator[dict[str, Any]]:
    """The wire form of consensus debates in a run's `events`; see `WireEvents`."""
    wire = WireEvents()
    for event in events:
        yield from wire.of(event)


class WireEvents:
    """Translates a run's events to plain data under the names of the pipeline that this pattern follows.

    `debate_start`, `round_start`, `agent_message`, `critique`, `vote`, `consensus`, `debate_end`; `stage`,
    `poll_vote` and `agent_failure` besides. Each has the `path` of its debate and a `sequence`: its number in the
    debate, from 1 without gaps. Events of other blocks have no wire form here.

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
            case StageEntered() | AgentMessage() | CritiqueMade() | PollVoteCast() | VoteCast() | ConsensusDecided():
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
    recovery = {} if event.instead == "skipped" else {"instead": event.instead}
    return {
        **recovery,
        "agent": event.name,
        "phase": event.phase,
        "round": event.round,
        "target": event.target,
        "kind": event.error,
        "error": event.message,
    }
