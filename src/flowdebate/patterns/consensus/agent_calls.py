"""Concurrent calls of agents: the turns of a phase, each behind its agent's circuit breaker."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.errors import CircuitOpen, error_text
from flowdebate.models.base import CircuitChanged
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.patterns.consensus.schemas import AgentFailure
from flowdebate.patterns.state import accepted
from flowdebate.patterns.turn import ask, is_provider_failure, record_loss, take_turn
from flowdebate.resources.resource import HeldResource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from flowdebate.models.circuit_breaker import Step
    from flowdebate.patterns.consensus.schemas import AgentPhase
    from flowdebate.patterns.state import Recovery
    from flowdebate.patterns.turn import FailurePolicy, TurnTask
    from flowdebate.runs.context import Context


_BREAKERS = "breakers"


def circuits(shared: Breakers | None) -> HeldResource[Breakers]:
    """The resource that holds the agents' circuits: `shared` for all runs, or new ones for each."""
    return HeldResource(key=_BREAKERS, make=Breakers if shared is None else lambda: shared)


def breakers_of(ctx: Context) -> Breakers:
    """The circuits of the debate around a block."""
    breakers: Breakers = ctx.scope.handles[_BREAKERS]
    return breakers


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase in which agents are asked, all at once."""

    name: AgentPhase
    read: Callable[[Any, str, Any, Context], Any]
    """`(answer, block, asked, ctx)`: the checked answer; OutputError for one that cannot be used."""
    returns: Any
    """The type of a checked answer."""
    record: Callable[[Any, Any, Context], object]
    """`(answer, asked, ctx)`: puts the checked answer into the state, and emits it; the output of the task."""


class AgentCalls(Block[Any, None]):
    """Hands each question of a phase to its agent, or to the agent's stand-in, and records the answer at once.

    The agent's circuit counts each call. An agent whose circuit is open is not asked: that is a failed call, too.
    """

    def __init__(
        self,
        name: str,
        *,
        phase: Phase,
        agents: Mapping[str, Block[Any, Any]],
        stand_ins: Mapping[str, Block[Any, Any]],
        failures: FailurePolicy,
        own: Collection[str],
    ) -> None:
        members = [*agents.values(), *stand_ins.values()]
        shared, hidden = merged_resources(name, members, closed=members)
        super().__init__(name, resources=shared, hidden=hidden)
        self._phase = phase
        self._agents = agents
        self._stand_ins = stand_ins
        self._failures = failures
        self._own = own
        """The agents with a block of the application's."""

    async def act(self, asked: Any, ctx: Context, /) -> None:  # noqa: ANN401 - one of the questions
        phase, agent, number, target = self._phase, asked.agent, ctx.scope.handle.state.round, _target(asked)
        block = self._agents[agent]
        speakers = [block, self._stand_ins[agent]] if agent in self._stand_ins else [block]

        def lose(error: Exception, instead: Recovery) -> None:
            failure = AgentFailure(
                name=agent,
                phase=phase.name,
                round=number,
                target=target,
                kind=type(error).__name__,
                error=one_line(error_text(error)),
                instead=instead,
            )
            record_loss(failure, error, ctx, block=block.name, phase=phase.name, target=target)

        async def speak(speaker: Block[Any, Any], task: TurnTask) -> object:
            with _counted(step, agent, inside) if speaker is block else nullcontext():
                answer = await ask(speaker, asked, ctx, self._failures)
                read = partial(phase.read, answer, speaker.name, asked, ctx)
                answer = await accepted(read, ctx, returns=phase.returns, own=agent in self._own)
            task.heard()
            output = phase.record(answer, asked, ctx)
            task.complete(output)
            return output

        inside = ctx.below(block)
        inside.role = block.role
        try:
            step = await _admitted(agent, inside, ctx)
        except CircuitOpen as refusal:
            if not self._failures.goes_on:
                raise
            speakers = speakers[1:]
            lose(refusal, "stand_in" if speakers else "skipped")
            if not speakers:
                return
        await take_turn(
            ctx,
            speakers,
            speak,
            goal=phase.name,
            metadata={"round": number} if target is None else {"round": number, "target": target},
            failures=self._failures,
            lose=lose,
            round=number,
            agent_name=agent,
            phase=phase.name,
            target=target,
        )

    def outline(self) -> Outline:
        children = [Outline(text=f"{agent}:", children=(block.outline(),)) for agent, block in self._agents.items()]
        return Outline(text=self.name, kind="router", children=children)


def _target(asked: Any) -> str | None:  # noqa: ANN401 - each phase asks in a shape of its own
    """The author of the proposal that is to be criticised."""
    return asked.proposal.agent if asked.kind == "critique" else None


async def _admitted(agent: str, inside: Context, ctx: Context) -> Step:
    """Ask the agent's circuit for permission to call the block at `inside`; CircuitOpen if it refuses.

    A stored run records a refusal, and needs no permission to read a recorded answer.
    """
    journal, key = ctx.run.journal, f"{inside.path}#refused"
    refused = None if journal is None else journal.recorded_failure(key)
    if refused is not None:
        raise refused
    breaker = breakers_of(ctx).of(agent)
    step = breaker.admit()
    _emit_change(step, agent, inside)
    if step.ticket is not None or (journal is not None and journal.has_steps(ctx.path)):
        return step
    refusal = CircuitOpen(breaker.seconds_left, model=agent, block=inside.block)
    if journal is not None:
        await journal.record_failure(key, refusal)
    raise refusal


@contextmanager
def _counted(step: Step, agent: str, inside: Context) -> Iterator[None]:
    """Count the admitted call for the agent's circuit: a success, a provider failure, or neither."""
    succeeded: bool | None = None
    try:
        yield
        succeeded = True
    except Exception as error:
        succeeded = False if is_provider_failure(error) else None
        raise
    finally:
        if step.ticket is not None:
            _emit_change(breakers_of(inside).of(agent).settle(step.ticket, succeeded=succeeded), agent, inside)


def _emit_change(step: Step, agent: str, inside: Context) -> None:
    if step.before != step.after:
        inside.emit(CircuitChanged(block=inside.block, model=agent, before=step.before, after=step.after))
