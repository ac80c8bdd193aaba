"""Turn order: the order in which the speakers of a round have their turns, or all of them at once."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.outline import Outline
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.events import TurnsOrdered
from flowdebate.patterns.state import entries_of, pattern_state
from flowdebate.runs.context import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context


TurnOrder: TypeAlias = Literal["declared", "rotated", "shuffled", "simultaneous"]
"""Order of the turns of a round: as declared (or as the moderator says), beginning with the next speaker each round,
drawn by lot each round, or all at once."""
TURN_ORDERS: tuple[TurnOrder, ...] = get_args(TurnOrder)


def check_turn_order(value: object, *, where: str) -> None:
    """ConfigurationError for what is no turn order."""
    if not isinstance(value, str) or value not in TURN_ORDERS:
        raise ConfigurationError(where, "turn_order", value, f"one of {', '.join(map(repr, TURN_ORDERS))}")


def is_declared(turn_order: object) -> bool:
    """Whether it is the default, which raw outputs do not write."""
    return turn_order == "declared"


def order_of_turns(speakers: Sequence[str], turn_order: TurnOrder, *, round: int, random: Random) -> list[str]:  # noqa: A002 - the field's word for it
    """`speakers`, in the order in which they have their turns in `round`.

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
    """`speakers` by those who speak at once: who is named twice speaks again when all of the first wave have spoken.

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

    Those who speak at once see the transcript as it was when the round began. All of them finish before a failure of
    one is raised: the answers of the others are paid for, and a stored run records them.
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
        shared, hidden = merged_resources(f"turns {name!r}", turns.values())
        super().__init__(name, resources=shared, hidden=hidden)
        self.turns = turns
        self.turn_order = turn_order
        self._speakers = speakers
        self._reverse = reverse

    async def act(self, _: object, ctx: Context, /) -> None:
        number = max(pattern_state(ctx).round, 1)
        names = list(self.turns) if self._speakers is None else self._speakers(ctx)
        order = order_of_turns(names, self.turn_order, round=number, random=self._random(number, ctx))
        if self._reverse:
            order.reverse()
        waves = waves_of(order) if self.turn_order == "simultaneous" else [[name] for name in order]
        speakers = [name for wave in waves for name in wave]
        ctx.emit(TurnsOrdered(round=number, turn_order=self.turn_order, speakers=tuple(speakers)))
        first = 0
        for wave in waves:
            places = [(name, self._place(index, name, ctx)) for index, name in enumerate(wave, start=first)]
            await self._at_once(places, ctx)
            first += len(wave)

    def _random(self, number: int, ctx: Context) -> Random:
        """The source of a round's lot, by the run's seed; the mirror of a debate draws the same."""
        pattern = ctx.sequencer.path
        held = pattern.rpartition("/")[0] if self._reverse else pattern
        return Random(f"{ctx.seed}:{held}#turns[{number}]")  # noqa: S311 - repeatable on purpose

    def _place(self, index: int, name: str, ctx: Context) -> Context:
        turn = self.turns[name]
        return ctx.child(turn.name, f"{ctx.path}[{index}]/{turn.place}")

    async def _at_once(self, places: Sequence[tuple[str, Context]], ctx: Context) -> None:
        """The turns of those who speak at once, each at its place; they are recorded in this order."""
        transcript, heard = ctx.scope.handles["transcript"], len(entries_of(ctx))
        losses = len(pattern_state(ctx).losses)
        seen = _as_of_now(ctx.scope) if len(places) > 1 else None
        try:
            await in_order([partial(self.turns[name], seen, place) for name, place in places], finish=True)
        finally:  # also where some were cut short: what the others said counts
            rank = {name: number for number, (name, _) in enumerate(places)}
            entries = transcript.state.entries
            said = sorted(entries[heard:], key=lambda entry: rank[entry.agent_name])
            if said != list(entries[heard:]):
                transcript.set(transcript.state.with_entries([*entries[:heard], *said]))
            lost = pattern_state(ctx).losses
            if len(lost) > losses + 1:
                ordered = sorted(lost[losses:], key=lambda loss: rank.get(loss.name, len(rank)))
                ctx.scope.handle.update(losses=[*lost[:losses], *ordered])

    def outline(self) -> Outline:
        text = f"{self.name} ({'reversed, ' if self._reverse else ''}{self.turn_order})"
        kind = "parallel" if self.turn_order == "simultaneous" else "for_each"
        return Outline(text=text, kind=kind, children=[turn.outline() for turn in self.turns.values()])


def _as_of_now(scope: Scope) -> Scope:
    """`scope` with the transcript as it is now, which no longer changes."""
    transcript = scope.handles["transcript"]
    now = transcript.snapshot()
    opened = {resource: now if handle is transcript else handle for resource, handle in scope.opened.items()}
    return Scope({**scope.handles, "transcript": now}, opened, scope.sequencer, scope.models)
