"""Calls of agents: turns that are taken at the same time, each behind the circuit of its agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.errors import CircuitOpen, error_text
from flowdebate.models.base import CircuitChanged
from flowdebate.models.policies.circuit_breaker import Breakers
from flowdebate.patterns.consensus.schemas import AgentFailure
from flowdebate.patterns.events import TurnFinished, TurnStarted
from flowdebate.patterns.failures import in_time, is_provider_failure, record_loss
from flowdebate.patterns.turn import TurnTask
from flowdebate.resources.resource import HeldResource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.models.policies.circuit_breaker import Step
    from flowdebate.patterns.consensus.schemas import AgentPhase
    from flowdebate.runs.context import Context

__all__ = (
    "AgentCalls",
    "Phase",
    "breakers_of",
    "circuits",
)

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
    keep: Callable[[Any, Any, Context], object]
    """`(answer, asked, ctx)`: puts the checked answer into the state, and emits it; the output of the task."""


class AgentCalls(Block[Any, None]):
    """Hands each question of a phase to its agent, and keeps the answer at once.

    A call that fails for good is an `AgentFailure`, and counted by the agent's circuit. An agent whose circuit is open
    is not asked, which is a failure as well. Errors of the application's code are raised.
    """

    def __init__(
        self, name: str, *, phase: Phase, agents: Mapping[str, Block[Any, Any]], timeout: float | None
    ) -> None:
        members = list(agents.values())
        shared, hidden = merged_resources(name, members, closed=members)
        super().__init__(name, resources=shared, hidden=hidden)
        self._phase = phase
        self._agents = agents
        self._timeout = timeout

    async def act(self, asked: Any, ctx: Context, /) -> None:  # noqa: ANN401 - each phase asks in a shape of its own
        block = self._agents[asked.agent]
        inside = ctx.child(block.name, f"{ctx.path}/{block.place}")
        try:
            step = await _admitted(asked.agent, inside, ctx)
            await self._take_turn(asked, block, inside, step, ctx)
        except Exception as error:
            if not is_provider_failure(error):
                raise
            self._fail(error, asked, block.name, ctx)

    async def _take_turn(self, asked: Any, block: Block[Any, Any], inside: Context, step: Step, ctx: Context) -> None:  # noqa: ANN401 - see act
        number, target = ctx.sequencer.state.round, _target(asked)
        about = {"block": block.name, "round": number, "agent_name": asked.agent, "phase": self._phase.name}
        metadata = {"round": number} if target is None else {"round": number, "target": target}
        succeeded: bool | None = None  # only a provider's failure counts against the agent
        with TurnTask(ctx, self._phase.name, agent_name=asked.agent, metadata=metadata) as task:
            ctx.emit(TurnStarted(**about, target=target, path=ctx.path))
            try:
                call = block(asked, inside)
                answer = await in_time(call, ctx, block=block.name, timeout=self._timeout, losses=is_provider_failure)
                answer = self._phase.read(answer, block.name, asked, ctx)
                succeeded = True
            except Exception as error:
                succeeded = False if is_provider_failure(error) else None
                raise
            finally:
                _settle(step, asked.agent, inside, succeeded=succeeded)
            task.heard()
            task.complete(self._phase.keep(answer, asked, ctx))
        ctx.emit(TurnFinished(**about, target=target, path=ctx.path))

    def _fail(self, error: Exception, asked: Any, block: str, ctx: Context) -> None:  # noqa: ANN401 - see act
        failure = AgentFailure(
            name=asked.agent,
            phase=self._phase.name,
            round=ctx.sequencer.state.round,
            target=_target(asked),
            kind=type(error).__name__,
            error=one_line(error_text(error)),
        )
        record_loss(failure, error, ctx, block=block, phase=failure.phase, target=failure.target)

    def outline(self) -> Outline:
        children = [Outline(text=f"{agent}:", children=(block.outline(),)) for agent, block in self._agents.items()]
        return Outline(text=self.name, kind="router", children=children)


def _target(asked: Any) -> str | None:  # noqa: ANN401 - each phase asks in a shape of its own
    """The author of the proposal that is to be criticised."""
    return asked.proposal.agent if asked.kind == "critique" else None


async def _admitted(agent: str, inside: Context, ctx: Context) -> Step:
    """The circuit's leave to ask the block at `inside`; CircuitOpen if it must not be asked.

    A stored run records a refusal, and needs no leave for an answer that is recorded.
    """
    journal, key = ctx.run.journal, f"{inside.path}#refused"
    refused = None if journal is None else journal.lost(key)
    if refused is not None:
        raise refused
    breaker = breakers_of(ctx).of(agent)
    step = breaker.admit()
    _emit_change(step, agent, inside)
    if step.ticket is not None or (journal is not None and journal.holds(ctx.path)):
        return step
    refusal = CircuitOpen(breaker.seconds_left, model=agent, block=inside.block)
    if journal is not None:
        await journal.lose(key, refusal)
    raise refusal


def _settle(step: Step, agent: str, inside: Context, *, succeeded: bool | None) -> None:
    """Tell the agent's circuit how the call went; None for neither well nor badly."""
    if step.ticket is not None:
        _emit_change(breakers_of(inside).of(agent).settle(step.ticket, succeeded=succeeded), agent, inside)


def _emit_change(step: Step, agent: str, inside: Context) -> None:
    if step.before != step.after:
        inside.emit(CircuitChanged(block=inside.block, model=agent, before=step.before, after=step.after))
