"""One turn: somebody speaks, what was said is recorded, and the audit trail tells how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block
from flowdebate.blocks.human.roles import go_on_after_review, set_aside
from flowdebate.blocks.merge_resources import merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.errors import LimitReached, told
from flowdebate.patterns.events import TurnFinished, TurnStarted
from flowdebate.patterns.failures import in_time, is_provider_failure, lose
from flowdebate.patterns.recording import AUDIT
from flowdebate.patterns.state import pattern_state
from flowdebate.runs.durable.suspend import Suspended

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.patterns.state import Instead, PatternInput, PatternState
    from flowdebate.runs.context import Context

__all__ = ("Turn",)


class Turn(Block[Any, Any]):
    """Runs `debater`, then `record`, under a task that ends as they do: completed, errored, or cancelled.

    While a human has to answer, it is under review.

    A turn that the debater's provider lost is argued by `stand_in`, where there is one, and with `skips` left out: it
    then gives None. `asks` makes of the pattern's state what the debater is given, whatever dispatched the turn.
    """

    def __init__(  # noqa: PLR0913 - the parts of a turn; patterns put them together
        self,
        name: str,
        *,
        agent_name: str,
        stance: str | None = None,
        asks: Callable[[PatternState], PatternInput],
        debater: Block[Any, Any],
        record: Block[Any, Any],
        stand_in: Block[Any, Any] | None = None,
        skips: bool = False,
        timeout: float | None = None,
    ) -> None:
        seats = [debater] if stand_in is None else [debater, stand_in]
        shared, hidden = merged_resources(f"turn {name!r}", [*seats, record], closed=seats)
        super().__init__(name, resources=shared, hidden=hidden)
        self._agent_name = agent_name
        self._stance = stance
        self._asks = asks
        self._debater = debater
        self._record = record
        self._stand_in = stand_in
        self._skips = skips
        self._timeout = timeout

    async def act(self, _: object, ctx: Context, /) -> Any:  # noqa: ANN401 - what is recorded
        number = pattern_state(ctx).round
        about: dict[str, Any] = {"round": number, "agent_name": self._agent_name, "stance": self._stance}
        tasks = ctx.scope.handles[AUDIT]
        task = tasks.add_task(
            f"Speak in round {number}" if self._stance is None else f"Argue {self._stance!r} in round {number}",
            assignee=self._agent_name,
            metadata={"round": number} if self._stance is None else {"round": number, "stance": self._stance},
        )
        tasks.claim(task_id=task.id, by=self._agent_name)
        ctx.emit(TurnStarted(block=self._debater.name, **about))
        try:
            said = await self._argued(ctx, lambda: go_on_after_review(tasks, task.id, ctx))
        except LimitReached as reached:  # nobody failed: the run has to end here
            if not tasks.get(task.id).finished:
                tasks.cancel(task.id, reason=told(reached))
            raise
        except Exception as error:
            if not tasks.get(task.id).finished:  # a debater may have ended it itself
                tasks.fail(task.id, told(error))
            if not (self._skips and is_provider_failure(error)):
                raise
            self._lose(error, ctx, "skipped")
            return None
        except Suspended as parked:
            set_aside(tasks, task.id, parked)
            raise
        except BaseException as ending:  # cancelled, or the process is told to end
            if not tasks.get(task.id).finished:
                tasks.cancel(task.id, reason=type(ending).__name__)
            raise
        ctx.emit(TurnFinished(block=self._debater.name, **about))
        return said

    async def _argued(self, ctx: Context, heard: Callable[[], None]) -> Any:  # noqa: ANN401 - what is recorded
        """What was said, recorded: the debater's, or where its model fails that of the stand-in."""
        try:
            return await self._argued_by(self._debater, ctx, heard)
        except Exception as error:
            if self._stand_in is None or not is_provider_failure(error):
                raise
            self._lose(error, ctx, "stand_in")
            return await self._argued_by(self._stand_in, ctx, heard)

    async def _argued_by(self, debater: Block[Any, Any], ctx: Context, heard: Callable[[], None]) -> Any:  # noqa: ANN401
        asked = self._asks(pattern_state(ctx))
        call = debater(asked, self._inside(debater, ctx))
        said = await in_time(call, ctx, block=debater.name, timeout=self._timeout, losses=self._goes_on)
        heard()
        return await self._record(said, self._inside(self._record, ctx))

    def _goes_on(self, error: BaseException) -> bool:
        """Whether the turn ends in something all the same."""
        return (self._skips or self._stand_in is not None) and is_provider_failure(error)

    def _lose(self, error: Exception, ctx: Context, instead: Instead) -> None:
        lose(
            error,
            ctx,
            block=self._debater.name,
            seat="debater",
            name=self._agent_name,
            stance=self._stance,
            instead=instead,
        )

    def _inside(self, block: Block[Any, Any], ctx: Context) -> Context:
        return ctx.child(block.name, f"{ctx.path}/{block.place}")

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=(self._debater.outline(), self._record.outline()))
