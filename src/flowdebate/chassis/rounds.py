"""Rounds of a pattern: input validation, turn order, and reasons to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from flowdebate._text import clean_text, short_repr
from flowdebate._util.validation import check_text
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.functions import Handler, handler
from flowdebate.chassis.state import (
    PatternInput,
    PatternState,
    RoundsEnded,
    TurnOrder,
    TurnsOrdered,
    entries_of,
    pattern_state,
    round_of,
)
from flowdebate.errors import ConfigurationError, OutputError, QuorumLost
from flowdebate.runs.context import Context, Scope

if TYPE_CHECKING:
    from flowdebate.chassis.turn import Turn
    from flowdebate.stop import StopWhen


InputT = TypeVar("InputT", bound=PatternInput)
Wave: TypeAlias = Mapping[str, Any]
"""Names of simultaneous speakers, each mapped to the speaker's task, or to None if the pattern assigns no tasks."""


def input_validator(location: str, model: type[InputT]) -> Callable[[object], InputT]:
    """Return a function that converts a str, a dict of fields, or a `PatternInput` to an instance of `model`.

    The function raises ConfigurationError if the value is blank or of any other type. All fields except the first are
    optional strings. The input may belong to another pattern, so that one pattern can play a role in another.
    """
    field, *optional = model.model_fields

    def check(value: object) -> InputT:
        checked = read(value)
        for name in (field, *optional):
            check_text(location, {name: getattr(checked, name)}, optional=True)
        return checked

    def read(value: object) -> InputT:
        if isinstance(value, model):
            return value
        if isinstance(value, PatternInput):
            return model(**{field: value.subject})
        is_table = isinstance(value, Mapping) and {field} <= set(value) <= {field, *optional}
        texts: Mapping[str, Any] = value if isinstance(value, Mapping) and is_table else {field: value}
        fields = {name: text for name, text in texts.items() if name == field or text is not None}
        if not all(isinstance(text, str) for text in fields.values()):
            article = "an" if field[0] in "aeiou" else "a"
            keys = ", ".join(f'"{name}": str' for name in (field, *optional))
            problem = f"must be {article} {field}, given as a str, {{{keys}}} or a {model.__name__}"
            raise ConfigurationError(location, "input", value, problem)
        return model(**{name: clean_text(text) for name, text in fields.items()})

    return check


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundCondition:
    """Loop condition that decides whether a pattern plays another round; the stop reason is stored in the state.

    `terminate_when` is evaluated only if the pattern itself has no reason to stop.
    """

    stop_reason: Callable[[Any], str | None]
    terminate_when: StopWhen | None
    quorum: int = 1
    voice_of: Callable[[Any], str] | None = None
    earlier_rounds: int = 0
    """Number of rounds in the run being continued; the loop never stops after any of these rounds."""

    async def __call__(self, _: object, ctx: Context) -> bool:
        end_turns(ctx, self.quorum, self.voice_of)
        state = pattern_state(ctx)
        if state.round <= self.earlier_rounds:
            return True
        reason: str | None = self.stop_reason(state)
        if reason is None and self._condition_block is not None:
            # use a separate path for each round, so that a resumed run finds the answer recorded for that round
            inside = ctx.child(self._condition_block.name, f"{ctx.path}/{self._condition_block.place}[{state.round}]")
            answer = await ctx.run.decide(inside.path, partial(self._condition_block, None, inside), place=inside.path)
            reason = "predicate" if answer is True else answer or None
        if reason is None:
            return True
        ctx.scope.handle.update(stop_reason=reason)
        ctx.emit(RoundsEnded(rounds=state.round, reason=reason, path=ctx.path))
        return False

    @cached_property
    def _condition_block(self) -> Handler[Any, bool | str] | None:
        """Block for the `terminate_when` condition; for a plain function, the block returns True or False."""
        if self.terminate_when is None:
            return None
        from flowdebate.stop import PATTERNS_OWN, as_condition

        condition = as_condition(self.terminate_when)
        plain = condition is not self.terminate_when

        @handler(name="terminate_when")
        async def ask(_: object, ctx: Context) -> bool | str:
            reason = await condition.reason(ctx)
            # only possible with an application's own condition class: `stop.when` rejects reserved names
            if reason in PATTERNS_OWN:
                expected = "a reason not reserved for patterns"
                raise OutputError("terminate_when", expected, [("", f"got {short_repr(reason)}")])
            return reason is not None if plain else reason or False

        return ask


def note_of_ends(*ends: str, terminate_when: StopWhen | None) -> str:
    """Describe, for the outline, what may end the rounds early; return "" if nothing can.

    >>> from flowdebate import stop
    >>> note_of_ends("done", terminate_when=stop.rounds(2) & stop.flag("enough"))
    'unless done or terminate_when (rounds(2) & flag("enough"))'
    """
    if terminate_when is not None:
        from flowdebate.stop import name_of

        ends = (*ends, f"terminate_when ({name_of(terminate_when)})")
    return f"unless {' or '.join(ends)}" if ends else ""


def end_turns(ctx: Context, quorum: int, voice_of: Callable[[Any], str] | None) -> None:
    """Clear the time limit shared by the turns of a round, and check the quorum."""
    ctx.scope.handle.deadline = None
    state = pattern_state(ctx)
    if state.losses and voice_of is not None:
        heard = [entry for entry in entries_of(ctx) if entry.round == state.round and entry.flag != "empty"]
        voices = [voice_of(entry) for entry in heard]
        check_quorum(state, voices, quorum=quorum, block=ctx.block)


def check_quorum(state: PatternState, heard: Sequence[str], *, quorum: int, block: str) -> None:
    """Raise QuorumLost if turns in this round were skipped and fewer than `quorum` voices were `heard`.

    A voice is a stance or, in a pattern without stances, a name. If a round has fewer voices than the quorum, all of
    them must be heard.
    """
    skipped = [loss for loss in state.losses if loss.round == state.round and loss.instead == "skipped"]
    lost = {loss.name if loss.stance is None else loss.stance for loss in skipped}  # team members share one voice
    if len(set(heard)) < min(quorum, len(lost.union(heard))):
        failures = {loss.name: loss.error for loss in skipped}
        voices = list(dict.fromkeys(heard))
        raise QuorumLost(block, round=state.round, heard=voices, quorum=quorum, failures=failures)


def order_of_turns(speakers: Sequence[str], turn_order: TurnOrder, *, round: int, random: Random) -> list[str]:  # noqa: A002 - the field's word for it
    """Return `speakers` in the order in which they take their turns in `round`.

    >>> from random import Random
    >>> [order_of_turns(["a", "b", "c"], "rotated", round=number, random=Random(0)) for number in (1, 2)]
    [['a', 'b', 'c'], ['b', 'c', 'a']]
    """
    match turn_order:
        case "rotated" if speakers:
            first = (round - 1) % len(speakers)
            return [*speakers[first:], *speakers[:first]]
        case "shuffled":
            return random.sample(speakers, len(speakers))
        case _:
            return list(speakers)


def waves_of(speakers: Sequence[str]) -> list[list[str]]:
    """Group `speakers` into waves; a repeated name speaks again in a later wave.

    >>> waves_of(["a", "b", "a", "c"])
    [['a', 'b', 'c'], ['a']]
    """
    waves: list[list[str]] = []
    for name in speakers:
        wave = next((wave for wave in waves if name not in wave), None)
        if wave is None:
            waves.append(wave := [])
        wave.append(name)
    return waves


class RoundOfTurns(Block[Any, None]):
    """The turns of a round, in `turn_order`.

    Simultaneous speakers see the transcript as it was at the beginning of the round. A failure is raised only after all
    of them have finished, so that a stored run also records the other answers, which have been paid for.
    """

    def __init__(
        self,
        name: str,
        turns: Mapping[str, Turn],
        *,
        turn_order: TurnOrder,
        speakers: Callable[[Context], Sequence[str]] | None = None,
        reverse: bool = False,
    ) -> None:
        shared, hidden = merge_resources(f"turns {name!r}", turns.values())
        super().__init__(name, resources=shared, hidden=hidden)
        self.turns = turns
        self.turn_order = turn_order
        self._speakers = speakers
        self._reverse = reverse

    async def act(self, _: object, ctx: Context, /) -> None:
        names = list(self.turns) if self._speakers is None else self._speakers(ctx)
        turn_order, waves = self.plan(names, ctx)
        speakers = tuple(name for wave in waves for name in wave)
        if turn_order != "declared" or speakers != tuple(names):
            ctx.emit(TurnsOrdered(round=round_of(ctx), turn_order=turn_order, speakers=speakers))
        first = 0
        for wave in waves:
            self.open(wave, ctx)
            places = {
                name: ctx.child(self.turns[name].name, f"{ctx.path}[{index}]/{self.turns[name].place}")
                for index, name in enumerate(wave, start=first)  # each name occurs at most once per wave
            }
            if len(places) > 1:
                await self._at_once(places, ctx)
            else:
                for name, place in places.items():
                    await self.turns[name](None, place)
            first += len(wave)

    def plan(self, names: Sequence[str], ctx: Context) -> tuple[TurnOrder, list[Wave]]:
        """Plan the order of the round's turns, grouping the speakers into waves."""
        order = self.in_order(names, self.turn_order, ctx)
        waves = waves_of(order) if self.turn_order == "simultaneous" else [[name] for name in order]
        return self.turn_order, [dict.fromkeys(wave) for wave in waves]

    def open(self, wave: Wave, ctx: Context) -> None:
        """Prepare the turns of the speakers in `wave`."""

    def in_order(self, names: Sequence[str], turn_order: TurnOrder, ctx: Context) -> list[str]:
        number = round_of(ctx)
        # a mirrored debate must draw the same order as the debate enclosing it
        pattern = ctx.sequencer.path.rpartition("/")[0] if self._reverse else ctx.sequencer.path
        lot = Random(f"{ctx.seed}:{pattern}#turns[{number}]")  # noqa: S311 - repeatable on purpose
        order = order_of_turns(names, turn_order, round=number, random=lot)
        if self._reverse:
            order.reverse()
        return order

    async def _at_once(self, places: Mapping[str, Context], ctx: Context) -> None:
        """Run simultaneous turns, and sort their entries by position in the turn order."""
        transcript, heard = ctx.scope.handles["transcript"], len(entries_of(ctx))
        losses = len(pattern_state(ctx).losses)
        now, scope = transcript.snapshot(), ctx.scope  # a snapshot of the transcript, unaffected by later turns
        opened = {resource: now if handle is transcript else handle for resource, handle in scope.opened.items()}
        seen = Scope({**scope.handles, "transcript": now}, opened, scope.sequencer, scope.models)
        try:
            await in_order([partial(self.turns[name], seen, place) for name, place in places.items()], finish=True)
        finally:  # record the turns even if some were cancelled, because the other contributions count
            rank = {name: number for number, name in enumerate(places)}
            entries = transcript.state.entries
            spoken = sorted(entries[heard:], key=lambda entry: rank[entry.speaker])
            if spoken != list(entries[heard:]):
                transcript.set(transcript.state.with_entries([*entries[:heard], *spoken]))
            lost = pattern_state(ctx).losses
            if len(lost) > losses + 1:
                ordered = sorted(lost[losses:], key=lambda loss: rank.get(loss.name, len(rank)))
                ctx.scope.handle.update(losses=[*lost[:losses], *ordered])

    def outline(self) -> Outline:
        text = f"{self.name} ({'reversed, ' if self._reverse else ''}{self.turn_order})"
        kind = "parallel" if self.turn_order == "simultaneous" else "for_each"
        return Outline(text=text, kind=kind, children=[turn.outline() for turn in self.turns.values()])
