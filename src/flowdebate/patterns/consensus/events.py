"""Events of a consensus debate, and a wire format that uses the names from the pipeline this pattern is modeled on.

A debate also emits the events common to all patterns: rounds, turns and failed roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, Literal

from flowdebate._util.wire import BaseEvent
from flowdebate.chassis.state import ProviderFailure, RoleFailed
from flowdebate.measures import Ballot, Strength, Tally
from flowdebate.runs.context import Context

from .schemas import ConsensusStage, Critique, Outcome, StageReached


@dataclass(slots=True, kw_only=True)
class DebateStarted(BaseEvent):
    """First event of a consensus debate; its `path` is the prefix of all later events' paths."""

    kind: ClassVar[str] = "debate_start"
    task: str
    """The debate's task."""
    agents: tuple[str, ...]
    """Names of the agents, in declared order."""
    max_rounds: int
    """Maximum number of rounds."""


@dataclass(slots=True, kw_only=True)
class StageEntered(BaseEvent):
    """A consensus debate has reached a stage."""

    kind: ClassVar[str] = "stage"
    stage: StageReached
    """The stage and its round."""


@dataclass(slots=True, kw_only=True)
class AgentMessage(BaseEvent):
    """An agent in a consensus debate has made or revised its proposal; other agents may not have finished yet."""

    kind: ClassVar[str] = "agent_message"
    repeats_speech: ClassVar[bool] = True
    agent: str
    """Name of the agent."""
    phase: Literal["proposal", "revision"]
    """Kind of proposal: original or revised."""
    round: int
    """Round in which the proposal was revised; 0 for original proposals."""
    text: str
    """The proposal."""


@dataclass(slots=True, kw_only=True)
class CritiqueMade(BaseEvent):
    """An agent in a consensus debate has criticized a proposal."""

    kind: ClassVar[str] = "critique"
    critique: Critique
    """The critique, including the names of its author and of the proposal's author."""


@dataclass(slots=True, kw_only=True)
class VoteCast(BaseEvent):
    """An agent in a consensus debate has voted."""

    kind: ClassVar[str] = "vote"
    ballot: Ballot
    """The vote."""


@dataclass(slots=True, kw_only=True)
class PollVoteCast(BaseEvent):
    """An agent in a consensus debate has voted in the poll after a round."""

    kind: ClassVar[str] = "poll_vote"
    round: int
    """Round after which the poll was held."""
    ballot: Ballot
    """The vote."""


@dataclass(slots=True, kw_only=True)
class ConsensusDecided(BaseEvent):
    """The votes in a consensus debate have been counted."""

    kind: ClassVar[str] = "consensus"
    outcome: Outcome
    """Outcome of the debate."""
    winner: str | None
    """Author of the chosen proposal, or None if no proposal was chosen."""
    strength: Strength
    """Strength of the agreement."""
    tally: Tally
    """Vote counts."""


@dataclass(slots=True, kw_only=True)
class DebateEnded(BaseEvent):
    """Last event of a consensus debate, even if the debate fails."""

    kind: ClassVar[str] = "debate_end"
    outcome: Outcome | None
    """Outcome of the vote; None if the votes were not counted."""
    rounds: int
    """Number of rounds."""
    error: str | None = None
    """Error that ended the debate, if any."""


def enter(stage: ConsensusStage, ctx: Context) -> None:
    """Enter `stage` and emit the corresponding event."""
    state = ctx.scope.handle.state
    reached = StageReached.model_construct(stage=stage, round=state.round if stage.in_round else None)
    state.stages.append(reached)
    ctx.emit(StageEntered(stage=reached))


_TOLD = (
    StageEntered | AgentMessage | CritiqueMade | PollVoteCast | VoteCast | ConsensusDecided | RoleFailed | DebateEnded
)


class WireEvents:
    """Converter from a run's events to plain data, using names from the pipeline this pattern is modeled on.

    The events are `debate_start`, `round_start`, `agent_message`, `critique`, `vote`, `consensus` and `debate_end`,
    plus `stage`, `poll_vote` and `agent_failure`. Each event has the `path` of its debate and a consecutive `sequence`
    number, starting at 1 in each debate. Events from other blocks are omitted.

    >>> wire = WireEvents()
    >>> list(wire.of(DebateStarted(task="rents", agents=("ann",), max_rounds=3, path="plan")))
    [{'kind': 'debate_start', 'sequence': 1, 'path': 'plan', 'task': 'rents', 'agents': ['ann'], 'maxRounds': 3}]
    """

    def __init__(self) -> None:
        self._debates: dict[str, tuple[DebateStarted, Iterator[int]]] = {}
        """Debates in progress, keyed by path, each with a counter that numbers its events."""

    def of(self, event: object) -> Iterator[dict[str, Any]]:
        """Convert `event` to the wire format.

        Yields one event, two if a round starts with `event`, or none if `event` is omitted from the format.
        """
        if isinstance(event, DebateStarted):
            self._debates[event.path] = event, count(1)
        elif not isinstance(event, _TOLD) or (isinstance(event, RoleFailed) and event.phase is None):
            return  # a judge's failure has no phase, and no counterpart in the original pipeline
        # the innermost enclosing debate, since an agent may itself be a debate
        path = max(
            (debate_path for debate_path in self._debates if f"{event.path}/".startswith(f"{debate_path}/")), key=len
        )
        started, numbers = self._debates[path]
        # `RoundStarted` cannot be used here, since patterns inside the debate have rounds as well
        if isinstance(event, StageEntered) and event.stage.stage is ConsensusStage.ROUND_N_CRITIQUE:
            opened = {"round": event.stage.round, "maxRounds": started.max_rounds}
            yield {"kind": "round_start", "sequence": next(numbers), "path": path, **opened}
        facts = {key: value for key, value in event.to_wire().items() if key not in ("kind", "path", "at")}
        if isinstance(event, RoleFailed):
            # use the same fields as the raw output
            same = {key: facts[key] for key in ("round", "role", "name", "instead", "phase", "target")}
            failure = ProviderFailure(error=event.message, **same)
            facts = {"failure": failure.model_dump(mode="json", by_alias=True)}
        kind = "agent_failure" if isinstance(event, RoleFailed) else event.kind
        yield {"kind": kind, "sequence": next(numbers), "path": path, **facts}
        if isinstance(event, DebateEnded):
            del self._debates[path]


def wire_events(events: Iterable[object]) -> Iterator[dict[str, Any]]:
    """Convert a run's `events` to the wire format for consensus debates; see `WireEvents`."""
    wire = WireEvents()
    for event in events:
        yield from wire.of(event)
