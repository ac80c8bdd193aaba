"""What the patterns' loops have in common: the input, the count of rounds, their end, and what is handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate._util.text import clean_text
from flowdebate.blocks.handler import Function, Handler, handler, result_of
from flowdebate.errors import ConfigurationError, OutputError, QuorumLost, SchemaViolation
from flowdebate.patterns.events import RoundsEnded, RoundStarted
from flowdebate.patterns.state import PatternInput, entries_of, pattern_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.state import PatternState
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "accept",
    "another_round",
    "begin",
    "check_quorum",
    "end_of_turns",
    "finish",
    "increment_round",
    "validate_output",
)

InputT = TypeVar("InputT", bound=PatternInput)


def accept(where: str, model: type[InputT]) -> Callable[[object], InputT]:
    """What a pattern takes as its input: a str, a dict of its one field, or `model`; else ConfigurationError.

    What another pattern was given will do as well: a pattern may sit on a seat of another.
    """
    (field,) = model.model_fields

    def check(value: object) -> InputT:
        if isinstance(value, model):
            return value
        if isinstance(value, PatternInput):
            return model(**{field: value.subject})
        subject = value.get(field) if isinstance(value, Mapping) and set(value) == {field} else value
        if not isinstance(subject, str):
            article = "an" if field[0] in "aeiou" else "a"
            allowed = f'{article} {field}: a str, {{"{field}": str}} or a {model.__name__}'
            raise ConfigurationError(where, "input", value, allowed)
        return model(**{field: clean_text(subject)})

    return check


def begin(name: str, raw: Callable[[Context, RunStatus], object]) -> Handler[Any, None]:
    """A tap that puts what it is about into the pattern's state; from then on the run knows what it came to so far.

    `raw(ctx, status)` makes the pattern's raw output, should the run end early.
    """

    @handler(name=f"{name}-stamp-question")
    def stamp(value: PatternInput, ctx: Context) -> None:
        ctx.sequencer.update(question=value.subject)
        ctx.run.began(ctx.sequencer.path, lambda status: raw(ctx, "failed" if status == "running" else status))

    return stamp


def finish(ctx: Context, raw: object) -> None:
    """Hand the pattern's raw output to the run."""
    ctx.run.finished(ctx.sequencer.path, raw)


def increment_round(name: str, max_rounds: int, seconds: float | None = None) -> Handler[Any, None]:
    """A tap that opens the next round, which may take `seconds`."""

    @handler(name=f"{name}-increment-round")
    def increment(_: object, ctx: Context) -> None:
        number = pattern_state(ctx).round + 1
        ctx.sequencer.update(round=number)
        if seconds is not None:
            ctx.sequencer.deadline = asyncio.get_running_loop().time() + seconds
        ctx.emit(RoundStarted(round=number, max_rounds=max_rounds, path=ctx.path))

    return increment


def another_round(
    reason: Callable[[Any], str | None],
    terminate_when: Function | None,
    *,
    quorum: int = 1,
    heard: Callable[[Any], str] | None = None,
) -> Function:
    """Whether a pattern goes on; where it does not, the reason is left in its state and told.

    `reason(state)` says why it ends by itself, or None; `heard(entry)` whose voice an entry is, for the quorum; None
    for a pattern whose rounds need none.
    """

    async def goes_on(_: object, ctx: Context) -> bool:
        if heard is not None:
            _end_turns(ctx, quorum, heard)
        state = pattern_state(ctx)
        why = reason(state)
        if why is None and terminate_when is not None and await result_of(terminate_when(ctx)):
            why = "predicate"
        if why is None:
            return True
        ctx.sequencer.update(stop_reason=why)
        ctx.emit(RoundsEnded(rounds=state.round, reason=why, path=ctx.path))
        return False

    return goes_on


def end_of_turns(name: str, *, quorum: int, heard: Callable[[Any], str]) -> Handler[Any, None]:
    """A tap between a round's turns and what is made of them: that has a time of its own, and needs the quorum."""

    @handler(name=f"{name}-end-of-turns")
    def check(_: object, ctx: Context) -> None:
        _end_turns(ctx, quorum, heard)

    return check


def _end_turns(ctx: Context, quorum: int, heard: Callable[[Any], str]) -> None:
    ctx.sequencer.deadline = None
    state = pattern_state(ctx)
    if state.losses:
        voices = [heard(entry) for entry in entries_of(ctx) if entry.round == state.round]
        check_quorum(state, voices, quorum=quorum, block=ctx.block)


def check_quorum(state: PatternState, heard: Sequence[str], *, quorum: int, block: str) -> None:
    """QuorumLost where turns of this round were lost, and fewer voices than `quorum` were `heard` in it.

    Voices are stances, or names where nobody has one. A round in which fewer were to speak needs all of them.
    """
    skipped = [loss for loss in state.losses if loss.round == state.round and loss.instead == "skipped"]
    lost = {loss.name if loss.stance is None else loss.stance for loss in skipped}
    if len(set(heard)) < min(quorum, len(lost.union(heard))):
        raise QuorumLost(block, round=state.round, heard=list(dict.fromkeys(heard)), quorum=quorum)


def validate_output(name: str, synthesizer: str, schema: OutputSchema) -> Handler[Any, Any]:
    """A block that holds the application's own synthesizer to the output schema."""

    @handler(name=f"{name}-validate-output")
    def validate(value: object) -> object:
        try:
            return schema.validate(value)
        except SchemaViolation as violation:
            raise OutputError(synthesizer, schema.name, violation.problems) from None

    return validate
