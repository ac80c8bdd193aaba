"""Helpers for the tests of `consensus()`: agents, models whose answers name their author, and invariants of runs."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any

from flowdebate import ConvergenceOptions, consensus
from flowdebate.errors import FlowDebateWarning, ProviderFailed
from flowdebate.measures import Jaccard
from flowdebate.patterns.consensus import CONSENSUS_FAILURES
from flowdebate.patterns.consensus import events as emitted
from flowdebate.patterns.consensus.options import DEFAULT_CONVERGENCE
from flowdebate.patterns.consensus.schemas import ConsensusStage, StageReached
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.turn import FailurePolicy
    from flowdebate.models.base import ModelRequest
    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.runs.result import RunView

TASK = "How can rents be affordable?"
NAMES = ("ann", "bob", "cy", "di", "ed", "flo", "gus", "hal", "ida", "jo")
THREE = NAMES[:3]

_PHASES = {"propose": "proposal", "criticize": "critique", "revise": "revision", "vote": "vote"}
_EVENTS = tuple(event for event in vars(emitted).values() if isinstance(event, type) and hasattr(event, "kind"))


@dataclass(frozen=True)
class Call:
    """A model call, described by its block and prompt."""

    phase: str
    """A phase of `ProviderFailure`, "judge" or "tie"."""
    agent: str = ""
    round: int = 0
    target: str | None = None
    """The agent whose proposal is criticized."""
    request: Any = field(default=None, compare=False, repr=False)

    @property
    def prompt(self) -> str:
        """Join all messages into one string."""
        return "\n".join(str(message["content"]) for message in self.request.messages)


def call_of(request: ModelRequest) -> Call:
    """Parse the phase, agent, target and round from a request. Agent names contain no brackets."""
    _, verb, *agent = request.block.split("-", 2)
    user = str(request.messages[-1]["content"])
    numbered = re.match(r"Round (\d+)", user)
    label = re.search(r"^\[([^\]]*)\] ", user, re.MULTILINE)
    phase = _PHASES.get(verb, verb)
    return Call(
        phase=phase,
        agent="".join(agent) if verb in _PHASES else "",
        round=int(numbered[1]) if numbered else 0,
        target=label[1] if label and phase == "critique" else None,
        request=request,
    )


def answer_of(call: Call) -> Any:
    """Return an agent's default answer: every text is different, and all agents vote for the first agent."""
    match call.phase:
        case "proposal":
            return f"{call.agent} has a first idea."
        case "critique":
            return {
                "reasoning": f"{call.agent} has read {call.target}.",
                "issues": [f"{call.agent} misses something in {call.target} in round {call.round}."],
                "suggestions": [f"{call.agent} would add something."],
                "severity": 0.4,
            }
        case "revision":
            text = f"{call.agent} has idea number {call.round}, quite another one."
            return {"proposal": text, "position": f"{call.agent} says so", "enough": False}
        case "judge":
            return {"reasoning": "Much is open.", "conclusive": False}
        case _:
            return {"reasoning": f"{call.agent} has weighed them.", "choice": "ann", "confidence": 0.75}


def model(answer: Callable[[Call], Any] = answer_of, *, calls: list[Call] | None = None) -> FunctionModel:
    """Create a model that returns `answer(call)`, or the default answer if that is None.

    Every call is appended to `calls`.
    """

    async def act(request: ModelRequest) -> Any:
        call = call_of(request)
        if calls is not None:
            calls.append(call)
        reply = answer(call)
        if asyncio.iscoroutine(reply):
            reply = await reply
        return answer_of(call) if reply is None else reply

    return FunctionModel(act)


def plan(names: Iterable[str] = THREE, **options: Any) -> Sequencer[Any, ConsensusOutput]:
    """Build a debate between `names` that compares texts by their words."""
    agents = options.pop("agents", [{"name": name} for name in names])
    bound = options.pop("convergence", DEFAULT_CONVERGENCE)
    if not isinstance(bound, ConvergenceOptions):
        bound = ConvergenceOptions(bound, similarity=Jaccard())
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*use at most", category=FlowDebateWarning
        )  # the invariants hold even for more agents than recommended
        return consensus(**{"name": "plan", "agents": agents, "convergence": bound, **options})


def within(seconds: float | None) -> FailurePolicy:
    """Return the default failure policy with this time limit per call."""
    return replace(CONSENSUS_FAILURES, turn_timeout=seconds)


_S = ConsensusStage
FOLLOWS: Mapping[ConsensusStage, frozenset[ConsensusStage]] = {
    **{stage: frozenset({after}) for stage, after in zip(_S, list(_S)[1:], strict=False)},
    _S.CONVERGENCE_CHECK: frozenset({_S.ROUND_N_CRITIQUE, _S.ROUNDS_COMPLETE}),
    _S.VOTE_AGGREGATION: frozenset({_S.CONSENSUS_REACHED, _S.NO_CONSENSUS}),
    _S.CONSENSUS_REACHED: frozenset(),
    _S.NO_CONSENSUS: frozenset(),
}
"""Valid successors of each stage."""


def in_order_of_stages(reached: Sequence[StageReached]) -> bool:
    """Return whether the stages begin with the first one, follow a valid order, and count rounds from 1."""
    before: StageReached | None = None
    number = 0
    for at in reached:
        if at.stage not in (FOLLOWS[before.stage] if before else {_S.START}):
            return False
        number += at.stage is _S.ROUND_N_CRITIQUE
        if at.round != (number if at.stage in _OF_ROUNDS else None):
            return False
        before = at
    return True


_OF_ROUNDS = (_S.ROUND_N_CRITIQUE, _S.ROUND_N_REVISION, _S.CONVERGENCE_CHECK)


def comparable(output: ConsensusOutput) -> dict[str, Any]:
    """Return the output without its duration and run id."""
    dumped = output.model_dump()
    if dumped["analytics"] is not None:
        del dumped["analytics"]["seconds"]
    if dumped["feedback"] is not None:
        del dumped["feedback"]["debate"]
    return dumped


def consensus_events(run: RunView) -> list[Any]:
    """Return the debate's own events, in order."""
    return [event for event in run.events if isinstance(event, _EVENTS)]


def stages(run: RunView) -> list[str]:
    """Return the stages that were emitted."""
    return [event.stage.label for event in run.events if isinstance(event, emitted.StageEntered)]


def check_emitted(run: RunView) -> list[Any]:
    """Check the invariants of events and stages, however the run ended, and return the debate's events."""
    emissions = consensus_events(run)
    check_wire(run)
    assert [index for index, event in enumerate(emissions) if isinstance(event, emitted.DebateStarted)] == [0]
    assert [index for index, event in enumerate(emissions) if isinstance(event, emitted.DebateEnded)] == [
        len(emissions) - 1
    ]
    entered = [event.stage for event in emissions if isinstance(event, emitted.StageEntered)]
    assert in_order_of_stages(entered)
    raw: ConsensusOutput = run.raw
    assert raw.stages == entered
    assert emissions[-1].outcome == raw.outcome
    assert emissions[-1].rounds == len(raw.rounds)
    check_recorded(emissions, raw)
    return emissions


def check_wire(run: RunView) -> None:
    """Check that the wire events have a single start and end, no gaps in their sequence numbers, and ordered rounds."""
    wire = list(emitted.wire_events(run.events))
    kinds = [event["kind"] for event in wire]
    assert [event["sequence"] for event in wire] == list(range(1, len(wire) + 1))
    assert [index for index, kind in enumerate(kinds) if kind == "debate_start"] == [0]
    assert [index for index, kind in enumerate(kinds) if kind == "debate_end"] == [len(wire) - 1]
    opened = [event["round"] for event in wire if event["kind"] == "round_start"]
    assert opened == [one.round for one in run.raw.rounds]
    assert json.loads(json.dumps(wire)) == wire
    failures = [event["failure"] for event in wire if event["kind"] == "agent_failure"]
    of_agents = [loss for loss in run.raw.to_wire()["losses"] if loss["role"] == "debater"]
    assert sorted(failures, key=_sorted_keys) == sorted(of_agents, key=_sorted_keys)


def _sorted_keys(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)


def check_recorded(emissions: Sequence[Any], raw: ConsensusOutput) -> None:
    """Check that the output contains exactly the emitted answers."""
    agent_messages = [event for event in emissions if isinstance(event, emitted.AgentMessage)]
    first = {event.agent: event.text for event in agent_messages if event.phase == "proposal"}
    revised = {(event.round, event.agent): event.text for event in agent_messages if event.phase == "revision"}
    assert {proposal.agent: proposal.text for proposal in raw.proposals} == first
    assert {(one.round, item.agent): item.text for one in raw.rounds for item in one.revisions} == revised
    critiques = [event.critique for event in emissions if isinstance(event, emitted.CritiqueMade)]
    assert by_key(critiques) == by_key([critique for one in raw.rounds for critique in one.critiques])
    assert sorted(e.ballot.voter for e in emissions if isinstance(e, emitted.VoteCast)) == sorted(
        b.voter for b in raw.ballots
    )


def by_key(critiques: Sequence[Any]) -> list[Any]:
    """Return the critiques in an order that does not depend on when they arrived."""
    return sorted(critiques, key=lambda critique: (critique.round, critique.critic, critique.target))


_WORDS = ("Cap rents", "Build homes", "Build more homes now", "Cap all rents now, and build homes")


@dataclass
class World:
    """A model whose answers are derived from a seed, the call and the entire prompt; calls may fail or take longer.

    `order` seeds the call durations, which must not affect results; `failing` is the share of calls that fail.
    """

    seed: int
    names: Sequence[str] = THREE
    failing: float = 0.0
    order: int | None = None
    prompts: dict[Call, str] = field(default_factory=dict)
    answers: dict[Call, Any] = field(default_factory=dict)

    def model(self) -> FunctionModel:
        """Return the world as a model."""
        return FunctionModel(self._answer)

    async def _answer(self, request: ModelRequest) -> Any:
        call = call_of(request)
        assert call not in self.prompts, f"asked twice: {call}"
        self.prompts[call] = call.prompt
        if self.order is not None:
            for _ in range(Random(f"{self.order}:{call}").randrange(6)):
                await asyncio.sleep(0)
        if Random(f"fails:{self.seed}:{call}").random() < self.failing:
            raise ProviderFailed(f"lost {call.phase} of {call.agent}", status=500)
        answer = self.answers[call] = self._said(call, Random(f"{self.seed}:{call}:{_digest(call.prompt)}"))
        return answer

    def _said(self, call: Call, random: Random) -> Any:
        text = f"{random.choice(_WORDS)} {random.choice(_WORDS)} {call.agent}"
        match call.phase:
            case "proposal":
                return text
            case "critique":
                issues = [f"{word} is not enough." for word in random.sample(_WORDS, random.randrange(3))]
                severity = random.choice((0, 0.25, 0.7, 1))
                return {"reasoning": text, "issues": issues, "suggestions": issues[:1], "severity": severity}
            case "revision":
                position = random.choice(("yes", "no", ""))
                return {"proposal": text, "position": position, "enough": random.random() < 0.4}
            case "judge":
                return {"reasoning": text, "conclusive": random.random() < 0.2}
            case _:
                choice = random.choice((*self.names, *self.names, "nobody", "", f" **{self.names[0].upper()}** "))
                return {"reasoning": text, "choice": choice, "confidence": random.choice((0, 0.5, 1))}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
