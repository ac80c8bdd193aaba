"""The seats of a phase: each call of an agent, in time, behind its circuit, under a task of the audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block
from flowdebate.blocks.human.roles import go_on_after_review, set_aside
from flowdebate.blocks.merge_resources import merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.errors import CircuitOpen, LimitReached, told
from flowdebate.models.events import CircuitChanged
from flowdebate.models.policies.circuit_breaker import Breakers
from flowdebate.patterns.consensus.events import AgentFailed, announce
from flowdebate.patterns.consensus.schemas import AgentFailure
from flowdebate.patterns.failures import in_time, is_provider_failure
from flowdebate.patterns.recording import AUDIT
from flowdebate.resources.resource import HeldResource
from flowdebate.runs.durable.suspend import Suspended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.models.policies.circuit_breaker import Breaker, Step
    from flowdebate.patterns.consensus.schemas import AgentPhase
    from flowdebate.runs.context import Context

__all__ = (
    "AgentSeats",
    "Phase",
    "breakers_of",
    "circuits",
)

_BREAKERS = "breakers"


def circuits(shared: Breakers | None) -> HeldResource[Breakers]:
    """What a pattern owns so that agents have circuits: `shared` for all runs, or new ones for each."""
    return HeldResource(key=_BREAKERS, make=Breakers if shared is None else lambda: shared)


def breakers_of(ctx: Context) -> Breakers:
    """The circuits of the debate around a block."""
    breakers: Breakers = ctx.scope.handles[_BREAKERS]
    return breakers


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What is done with an agent's answer in one phase."""

    name: AgentPhase
    read: Callable[[Any, str, Any, Context], Any]
    """`(answer, block, asked, ctx)`: the answer checked; OutputError for what cannot be used."""
    keep: Callable[[Any, Any, Context], object]
    """`(answer, asked, ctx)`: puts the checked answer into the debate's state, and tells it; what the task shows."""


class AgentSeats(Block[Any, None]):
    """Hands each question of a phase to the agent that it is for.

    What the agent answers is kept at once; what its provider loses is a failure, and counted by the agent's circuit.
    An agent whose circuit is open is not asked: a failure as well. Errors of the application's code are raised.
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
        agent: str = asked.agent
        block = self._agents[agent]
        breaker = breakers_of(ctx).of(agent)
        path = f"{ctx.path}/{block.place}"
        step = await _admitted(breaker, block, path, agent, ctx)
        if isinstance(step, Exception):
            self._fail(step, asked, ctx)
            return
        audit = ctx.scope.handles[AUDIT]
        task = audit.add_task(self._phase.name, assignee=agent, metadata=_about(asked, ctx))
        audit.claim(task_id=task.id, by=agent)
        succeeded: bool | None = None
        try:
            call = block(asked, ctx.child(block.name, path))
            answer = await in_time(call, ctx, block=block.name, timeout=self._timeout, losses=is_provider_failure)
            answer = self._phase.read(answer, block.name, asked, ctx)
            go_on_after_review(audit, task.id, ctx)
            succeeded = True
        except Exception as error:
            if isinstance(error, LimitReached):  # nobody failed: the run has to end here
                audit.cancel(task.id, reason=told(error))
                raise
            audit.fail(task.id, told(error))
            if not is_provider_failure(error):
                raise
            succeeded = False
            self._fail(error, asked, ctx)
            return
        except Suspended as parked:
            set_aside(audit, task.id, parked)
            raise
        except BaseException as ending:  # cancelled, or the process is told to end
            audit.cancel(task.id, reason=type(ending).__name__)
            raise
        finally:
            if step.ticket is not None:
                settled = breaker.settle(step.ticket, succeeded=succeeded)
                if settled.before != settled.after:
                    _tell(settled, agent, block.name, ctx)
        audit.complete(task.id, output=self._phase.keep(answer, asked, ctx))

    def _fail(self, error: Exception, asked: Any, ctx: Context) -> None:  # noqa: ANN401 - see act
        failure = AgentFailure(
            agent=asked.agent,
            phase=self._phase.name,
            round=ctx.sequencer.state.round,
            target=asked.proposal.agent if self._phase.name == "critique" else None,
            kind=type(error).__name__,
            error=one_line(told(error)),
        )
        ctx.sequencer.state.failures.append(failure)
        ctx.run.degrade("degraded")
        announce(ctx, AgentFailed, failure=failure)

    def outline(self) -> Outline:
        children = [Outline(text=f"{agent}:", children=(block.outline(),)) for agent, block in self._agents.items()]
        return Outline(text=self.name, kind="router", children=children)


async def _admitted(breaker: Breaker, block: Block[Any, Any], path: str, agent: str, ctx: Context) -> Step | Exception:
    """The circuit's leave to ask `block` at `path`, or why it may not be asked.

    A run that is kept records a refusal, and asks no leave for what was answered before.
    """
    journal, key = ctx.run.journal, f"{path}#refused"
    refused = None if journal is None else journal.lost(key)
    if refused is not None:
        return refused
    step = breaker.admit()
    if step.before != step.after:
        _tell(step, agent, block.name, ctx)
    if step.ticket is not None or (journal is not None and journal.holds(ctx.path)):
        return step
    refusal = CircuitOpen(breaker.seconds_left, model=agent, block=block.name)
    if journal is not None:
        await journal.lose(key, refusal)
    return refusal


def _about(asked: Any, ctx: Context) -> dict[str, Any]:  # noqa: ANN401 - each phase asks in a shape of its own
    if asked.kind == "critique":
        return {"round": asked.round, "target": asked.proposal.agent}
    return {"round": ctx.sequencer.state.round}


def _tell(step: Step, agent: str, block: str, ctx: Context) -> None:
    ctx.emit(CircuitChanged(block=block, model=agent, before=step.before, after=step.after))
