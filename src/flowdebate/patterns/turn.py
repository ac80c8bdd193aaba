"""A turn: somebody speaks, what was said is recorded, and the audit trail tells how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.outline import Outline
from flowdebate.errors import LimitReached, told
from flowdebate.patterns.events import TurnFinished, TurnStarted
from flowdebate.patterns.failures import in_time, is_provider_failure, record_failure
from flowdebate.patterns.recording import AUDIT
from flowdebate.patterns.state import pattern_state
from flowdebate.runs.durable.suspend import Suspended, resume_task, suspend_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.patterns.state import PatternInput, Recovery
    from flowdebate.resources.tasks.collection import TaskCollection
    from flowdebate.runs.context import Context

__all__ = (
    "Turn",
    "TurnTask",
)


class TurnTask:
    """The task of a turn in the audit trail: a context in which the turn is taken, and that ends the task as the turn.

    Errored by an exception, cancelled by a limit of the run or with the turn, under review while a human has to answer.
    Completing it is up to the turn.
    """

    __slots__ = ("_ctx", "_id", "_tasks")

    def __init__(self, ctx: Context, goal: str, *, agent_name: str, metadata: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._tasks: TaskCollection = ctx.scope.handles[AUDIT]
        self._id = self._tasks.add_task(goal, assignee=agent_name, metadata=metadata).id
        self._tasks.claim(task_id=self._id, by=agent_name)

    def heard(self) -> None:
        """Record the review that a human's answer has ended, if there was one."""
        resume_task(self._tasks, self._id, self._ctx)

    def complete(self, output: object) -> None:
        """Complete the task with what the turn came to."""
        self._tasks.complete(self._id, output=output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or self._tasks.get(self._id).finished:  # a speaker may have ended it itself
            return
        match error:
            case LimitReached():  # nobody failed: the run has to end here
                self._tasks.cancel(self._id, told(error))
            case Exception():
                self._tasks.fail(self._id, told(error))
            case Suspended():
                suspend_task(self._tasks, self._id, error)
            case _:  # cancelled, or the process is told to end
                self._tasks.cancel(self._id, type(error).__name__)


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
        input_type: type[PatternInput],
        debater: Block[Any, Any],
        record: Block[Any, Any],
        stand_in: Block[Any, Any] | None = None,
        skips: bool = False,
        timeout: float | None = None,
    ) -> None:
        speakers = [debater] if stand_in is None else [debater, stand_in]
        shared, hidden = merged_resources(f"turn {name!r}", [*speakers, record], closed=speakers)
        super().__init__(name, resources=shared, hidden=hidden)
        self._agent_name = agent_name
        self._stance = stance
        self._input_type = input_type
        self._debater = debater
        self._record = record
        self._stand_in = stand_in
        self._skips = skips
        self._timeout = timeout

    async def act(self, _: object, ctx: Context, /) -> Any:  # noqa: ANN401 - what is recorded
        number = pattern_state(ctx).round
        about: dict[str, Any] = {"block": self._debater.name, "agent_name": self._agent_name, "stance": self._stance}
        goal = f"Speak in round {number}" if self._stance is None else f"Argue {self._stance!r} in round {number}"
        metadata = {"round": number} if self._stance is None else {"round": number, "stance": self._stance}
        try:
            with TurnTask(ctx, goal, agent_name=self._agent_name, metadata=metadata) as task:
                ctx.emit(TurnStarted(round=number, path=ctx.path, **about))
                said = await self._argued(ctx, task.heard)
        except Exception as error:
            if not (self._skips and is_provider_failure(error)):
                raise
            self._lose(error, ctx, "skipped")
            return None
        ctx.emit(TurnFinished(round=number, path=ctx.path, **about))
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
        asked = self._input_type.about(pattern_state(ctx).question)
        call = debater(asked, self._inside(debater, ctx))
        said = await in_time(call, ctx, block=debater.name, timeout=self._timeout, losses=self._goes_on)
        heard()
        return await self._record(said, self._inside(self._record, ctx))

    def _goes_on(self, error: BaseException) -> bool:
        """Whether the turn ends in something all the same."""
        return (self._skips or self._stand_in is not None) and is_provider_failure(error)

    def _lose(self, error: Exception, ctx: Context, instead: Recovery) -> None:
        record_failure(
            error,
            ctx,
            block=self._debater.name,
            role="debater",
            name=self._agent_name,
            stance=self._stance,
            instead=instead,
        )

    def _inside(self, block: Block[Any, Any], ctx: Context) -> Context:
        return ctx.child(block.name, f"{ctx.path}/{block.place}")

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=(self._debater.outline(), self._record.outline()))
