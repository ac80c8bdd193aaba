"""One turn: a debater argues, the argument is recorded, and the audit trail tells how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block
from flowdebate.blocks.debate_state import debate_state
from flowdebate.blocks.merge import merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.blocks.transcript_blocks import AUDIT
from flowdebate.errors import told
from flowdebate.runs.events import TurnFinished, TurnStarted
from flowdebate.schemas import DebateInput

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

__all__ = ("Turn",)


class Turn(Block[Any, str]):
    """Runs `debater`, then `record`, under a task that ends as they do: completed, errored, or cancelled."""

    def __init__(
        self, name: str, *, agent_name: str, stance: str, debater: Block[Any, Any], record: Block[Any, str]
    ) -> None:
        shared, hidden = merged_resources(f"turn {name!r}", [debater, record], closed=[debater])
        super().__init__(name, resources=shared, hidden=hidden)
        self._agent_name = agent_name
        self._stance = stance
        self._debater = debater
        self._record = record

    async def act(self, _: object, ctx: Context, /) -> str:
        # a turn argues the debate's question, whatever dispatched it
        state = debate_state(ctx)
        about: dict[str, Any] = {"round": state.round, "agent_name": self._agent_name, "stance": self._stance}
        tasks = ctx.scope.handles[AUDIT]
        task = tasks.add_task(
            f"Argue {self._stance!r} in round {state.round}",
            assignee=self._agent_name,
            metadata={"round": state.round, "stance": self._stance},
        )
        tasks.claim(task_id=task.id, by=self._agent_name)
        ctx.emit(TurnStarted(block=self._debater.name, **about))
        try:
            said = await self._debater(DebateInput(question=state.question), self._inside(self._debater, ctx))
            text = await self._record(said, self._inside(self._record, ctx))
        except Exception as error:
            if not tasks.get(task.id).finished:  # a debater may have ended it itself
                tasks.fail(task.id, told(error))
            raise
        except BaseException as ending:  # cancelled, or the process is told to end
            if not tasks.get(task.id).finished:
                tasks.cancel(task.id, reason=type(ending).__name__)
            raise
        ctx.emit(TurnFinished(block=self._debater.name, **about))
        return text

    def _inside(self, block: Block[Any, Any], ctx: Context) -> Context:
        return ctx.child(block.name, f"{ctx.path}/{block.place}")

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=(self._debater.outline(), self._record.outline()))
