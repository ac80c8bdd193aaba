"""Rounds of a pattern: its opening, its turns, and the reason for which they end.

An assembly adds the steps from top to bottom:

    pipeline = loop.opening()                          # clears the transcript, opens the first round
    pipeline = loop.with_turns(pipeline, turns)        # what a round consists of
    pipeline = loop.until_stopped(pipeline)            # back to the next round, or on
    pipeline = pipeline.then(build_output(loop))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from flowdebate._util.text import clean_text, is_blank
from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.handler import Handler, as_block, handler
from flowdebate.blocks.outline import Outline
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.errors import ConfigurationError, QuorumLost
from flowdebate.models.resolve import check_model
from flowdebate.patterns.events import RoundsEnded, RoundStarted, TurnsOrdered
from flowdebate.patterns.output import stamp_subject
from flowdebate.patterns.roles import RosterBlock
from flowdebate.patterns.roster import (
    check_failure_policy,
    check_name,
    check_predicate,
    check_rounds,
    check_transcript,
    debater_of,
    role_block,
    with_answer_schema,
)
from flowdebate.patterns.state import TURN_ORDERS, PatternInput, entries_of, pattern_state
from flowdebate.patterns.turn import FailurePolicy, Turn, audit_resources, create_init_transcript, guarded, start_clock
from flowdebate.runs.context import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.output import PatternOutput
    from flowdebate.patterns.roles import RoleOptions
    from flowdebate.patterns.roster import Bindable, Debater, Persona
    from flowdebate.patterns.state import PatternState, TurnOrder
    from flowdebate.resources.resource import StateResource
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.stop import StopWhen


InputT = TypeVar("InputT", bound=PatternInput)


class PatternSpec(NamedTuple):
    """The parts of a pattern that the loop is filled in with."""

    input_type: type[PatternInput]
    """The pattern's input; each debater is given one as well."""
    new_state: Callable[[], PatternState]
    """Makes the state of the pattern's sequencer."""
    make_output: Callable[[Context, RunStatus], PatternOutput]
    """Builds the raw output from the state, finished or cut short."""
    stop_reason: Callable[[Any], str | None]
    """The pattern's own reason to end the rounds with a state; None for none, so that `terminate_when` decides."""
    voice_of: Callable[[Any], str] | None
    """The voice that an entry of the transcript counts as for the quorum; None for a pattern without a quorum."""
    speaker: str
    """The word in the names of the speaking blocks: `{name}-{speaker}-{member}`."""
    round: str = "round"
    """The word for a pass of the loop in the paths of blocks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """The checked options of a pattern's rounds, and the steps that are made of them."""

    name: str
    where: str
    max_rounds: int
    terminate_when: StopWhen | None
    transcript: StateResource[Any]
    owns_transcript: bool
    collection_id: str
    model: ModelChoice
    """The model of all blocks inside that name none."""
    failures: FailurePolicy
    spec: PatternSpec
    turn_order: TurnOrder = "declared"
    reverse: bool = False
    """Whether the speakers of each round have their turns in the reverse order."""

    def opening(self) -> Sequencer[Any, Any]:
        """The pattern's sequencer up to the first turn of a round."""
        resources = audit_resources(self.transcript, self.collection_id)
        owned = [resource for key, resource in resources.items() if key != "transcript" or self.owns_transcript]
        return (
            sequencer(
                name=self.name,
                state=self.spec.new_state,
                owns=owned,
                isolates=() if self.owns_transcript else (self.transcript,),
                accepts=input_validator(self.where, self.spec.input_type),
                model=self.model,
                protected=True,
            )
            .tap(create_init_transcript(name=self.name, transcript=self.transcript, collection_id=self.collection_id))
            .tap(stamp_subject(self.name, self.spec.make_output))
            .tap(self._increment_round())
        )

    def _increment_round(self) -> Handler[Any, None]:
        """A tap that opens the next round."""

        @handler(name=f"{self.name}-increment-round")
        def increment(_: object, ctx: Context) -> None:
            self.open_round(ctx, pattern_state(ctx).round + 1)

        return increment

    def open_round(self, ctx: Context, number: int) -> None:
        """Begin round `number`, and the time that its turns have."""
        ctx.scope.handle.update(round=number)
        start_clock(self.failures, ctx)
        ctx.emit(RoundStarted(round=number, max_rounds=self.max_rounds, path=ctx.path))

    def with_turns(
        self,
        pipeline: Sequencer[Any, Any],
        turns: Mapping[str, Turn],
        *,
        speakers: Callable[[Context], Sequence[str]] | None = None,
    ) -> Sequencer[Any, Any]:
        """`pipeline` with the `turns` of a round: of all (None), or of those whom `speakers(ctx)` names."""
        if speakers is None and self.turn_order == "declared":
            for turn in reversed([*turns.values()]) if self.reverse else turns.values():
                pipeline = pipeline.tap(turn)
            return pipeline
        name = f"{self.name}-turns"
        order, reverse = self.turn_order, self.reverse
        return pipeline.tap(RoundOfTurns(name, turns, turn_order=order, speakers=speakers, reverse=reverse))

    def until_stopped(self, pipeline: Sequencer[Any, Any], *ends: str) -> Sequencer[Any, Any]:
        """`pipeline`, which goes back to the next round until there is a reason to stop.

        `ends` says what else than the number of rounds and `terminate_when` ends them, for the outline.
        """
        return pipeline.loop_back(
            f"{self.name}-increment-round",
            when=AnotherRound(
                stop_reason=self.spec.stop_reason,
                terminate_when=self.terminate_when,
                quorum=self.failures.quorum,
                voice_of=self.spec.voice_of,
            ),
            max_iterations=self.max_rounds,
            label=self.spec.round,
            note=note_of_ends(*ends, terminate_when=self.terminate_when),
        )

    def end_of_turns(self) -> Handler[Any, None]:
        """A tap between a round's turns and what is made of them, which has its own time and needs the quorum."""

        @handler(name=f"{self.name}-end-of-turns")
        def check(_: object, ctx: Context) -> None:
            _end_turns(ctx, self.failures.quorum, self.spec.voice_of)

        return check

    def turn(
        self,
        member: Debater | Persona,
        *,
        debater: Block[Any, Any],
        stand_in: Block[Any, Any] | None,
        record: Block[Any, Any],
        stance: str | None = None,
    ) -> Turn:
        """A turn of `member`: `debater` speaks (or `stand_in`, where its model fails), then `record` records it."""
        return Turn(
            f"{self.name}-turn-{member.name}",
            agent_name=member.name,
            stance=stance,
            input_type=self.spec.input_type,
            debater=debater,
            record=record,
            stand_in=stand_in,
            failures=self.failures,
        )

    def own_debater(self, member: Debater | Persona) -> Block[Any, Any]:
        """The block that the application gave for `member`."""
        from flowdebate.blocks.human.prompt import render_who  # most debaters are models

        name = f"{self.name}-{self.spec.speaker}-{member.name}"
        block = as_block(member.block, name=name, where=self.where, field=f"block of {member.name!r}")
        who = render_who(member.name, stance=getattr(member, "stance", None), role=member.role)
        return with_answer_schema(block, who=who).in_role("debater")

    def speakers(
        self,
        member: Debater | Persona,
        create: Bindable[Any, Any],
        *,
        options: RoleOptions,
        **defaults: Any,  # noqa: ANN401 - what `create` takes
    ) -> tuple[Block[Any, Any], Block[Any, Any] | None]:
        """The block of `member`, its own or the default one that `create` makes, and that of its stand-in."""
        given = {"name": self.name, "agent_name": member.name, "transcript": self.transcript, **defaults}
        given |= options.for_block()
        block = debater_of(member, create, where=self.where, defaults=given)
        model = self.failures.stand_in
        if model is None:
            return block or self.own_debater(member), None
        stand_in = debater_of(member, create, where=self.where, defaults=given, stand_in=model)
        return block or self.own_debater(member), stand_in

    def role(
        self,
        value: Any,  # noqa: ANN401 - None, a bool, options, a block or a function
        role: str,
        *makers: Bindable[Any, Any],
        options: RoleOptions,
        answer: Callable[[], object],
        **defaults: Any,  # noqa: ANN401 - what the makers take
    ) -> Block[Any, Any]:
        """The block of `role`: the default one, made as `value` says, or the application's own.

        A human in the role is asked for `answer()`.
        """
        given = {"name": self.name, **defaults, **options.for_block()}
        block: Block[Any, Any] | None = role_block(value, makers, where=self.where, field=role, defaults=given)
        if block is None:
            own = as_block(value, name=f"{self.name}-{role}", where=self.where, field=role)
            block = with_answer_schema(own, answer)
        names = defaults.get("roster_names")
        if isinstance(block, RosterBlock) and names is not None and sorted(block.roster_names) != sorted(names):
            allowed = f"made with the debaters' names, roster_names={names}"
            raise ConfigurationError(self.where, role, list(block.roster_names), allowed)
        return block.in_role(role)

    def guarded(self, role: Block[Any, Any], recover: Callable[[Exception, Any, Context], object]) -> Block[Any, Any]:
        """`role` with its deadline; `recover` replaces its answer if its provider fails and failures are tolerated."""
        return guarded(role, self.failures, recover)


def checked_loop(  # noqa: PLR0913 - the options that the patterns have in common
    *,
    name: str,
    where: str,
    max_rounds: int,
    terminate_when: StopWhen | None,
    transcript: StateResource[Any] | None,
    create_transcript: Callable[[], StateResource[Any]],
    model: ModelChoice,
    collection_id: str | None,
    failures: FailurePolicy | None,
    spec: PatternSpec,
    turn_order: TurnOrder = "declared",
) -> Loop:
    """The loop with these options, or ConfigurationError.

    Without a `transcript` the pattern makes its own; without a `collection_id` the audit trail has the pattern's name.
    """
    check_rounds(max_rounds, where=where)
    check_transcript(transcript, create_transcript, where=where)
    check_predicate(terminate_when, where=where)
    check_model(model, where=where)
    check_turn_order(turn_order, where=where)
    policy = FailurePolicy() if failures is None else failures
    check_failure_policy(policy, where=where)
    if collection_id is not None:
        check_name(collection_id, where=where, field="collection_id")
    return Loop(
        name=name,
        where=where,
        max_rounds=max_rounds,
        terminate_when=terminate_when,
        transcript=create_transcript() if transcript is None else transcript,
        owns_transcript=transcript is None,
        collection_id=name if collection_id is None else collection_id,
        model=model,
        failures=policy,
        spec=spec,
        turn_order=turn_order,
    )


def input_validator(where: str, model: type[InputT]) -> Callable[[object], InputT]:
    """A function that makes a pattern's input of a str, a dict of its one field or a `model`, none of them blank.

    Else ConfigurationError. The input of another pattern will do as well, so that a pattern can take a role in another.
    """
    (field,) = model.model_fields

    def check(value: object) -> InputT:
        checked = read(value)
        if is_blank(checked.subject):
            raise ConfigurationError(where, field, checked.subject, "text that is not blank")
        return checked

    def read(value: object) -> InputT:
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


@dataclass(frozen=True, kw_only=True, eq=False)
class AnotherRound:
    """The condition of a pattern's loop: whether there is a further round. A stop reason is put into the state.

    `terminate_when` is asked only if the pattern itself has no reason to stop.
    """

    stop_reason: Callable[[Any], str | None]
    terminate_when: StopWhen | None
    quorum: int = 1
    voice_of: Callable[[Any], str] | None = None

    async def __call__(self, _: object, ctx: Context) -> bool:
        _end_turns(ctx, self.quorum, self.voice_of)
        state = pattern_state(ctx)
        reason = self.stop_reason(state) or await self._told_to_stop(ctx, state.round)
        if reason is None:
            return True
        ctx.scope.handle.update(stop_reason=reason)
        ctx.emit(RoundsEnded(rounds=state.round, reason=reason, path=ctx.path))
        return False

    async def _told_to_stop(self, ctx: Context, round: int) -> str | None:  # noqa: A002
        """The name of what holds of `terminate_when`; in a resumed run, of what held when it was first asked."""
        if self._asked is None:
            return None
        inside = ctx.child(self._asked.name, f"{ctx.path}/{self._asked.place}[{round}]")
        answer = await inside.decide(partial(self._asked, None, inside))
        return "predicate" if answer is True else answer or None

    @cached_property
    def _asked(self) -> Handler[Any, bool | str] | None:
        """`terminate_when` as a block; a function without a name answers with True or False."""
        if self.terminate_when is None:
            return None
        from flowdebate.stop import as_condition

        condition = as_condition(self.terminate_when)
        plain = condition is not self.terminate_when

        @handler(name="terminate_when")
        async def ask(_: object, ctx: Context) -> bool | str:
            reason = await condition.reason(ctx)
            return reason is not None if plain else reason or False

        return ask


def note_of_ends(*ends: str, terminate_when: StopWhen | None) -> str:
    """What ends the rounds early, for the outline; empty for nothing.

    >>> from flowdebate import stop
    >>> note_of_ends("done", terminate_when=stop.rounds(2) & stop.flag("enough"))
    'unless done or terminate_when (rounds(2) & flag("enough"))'
    """
    if terminate_when is not None:
        from flowdebate.stop import name_of

        ends = (*ends, f"terminate_when ({name_of(terminate_when)})")
    return f"unless {' or '.join(ends)}" if ends else ""


def _end_turns(ctx: Context, quorum: int, voice_of: Callable[[Any], str] | None) -> None:
    ctx.scope.handle.deadline = None
    state = pattern_state(ctx)
    if state.losses and voice_of is not None:
        heard = [entry for entry in entries_of(ctx) if entry.round == state.round and entry.flag != "empty"]
        voices = [voice_of(entry) for entry in heard]
        check_quorum(state, voices, quorum=quorum, block=ctx.block)


def check_quorum(state: PatternState, heard: Sequence[str], *, quorum: int, block: str) -> None:
    """QuorumLost if turns of this round were skipped and fewer voices than `quorum` were `heard` in it.

    Voices are stances, or names in a pattern without stances. A round with fewer speakers needs all of them.
    """
    skipped = [loss for loss in state.losses if loss.round == state.round and loss.instead == "skipped"]
    lost = {loss.name if loss.stance is None else loss.stance for loss in skipped}
    if len(set(heard)) < min(quorum, len(lost.union(heard))):
        raise QuorumLost(block, round=state.round, heard=list(dict.fromkeys(heard)), quorum=quorum)


def check_turn_order(value: object, *, where: str) -> None:
    """ConfigurationError for what is no turn order."""
    if not isinstance(value, str) or value not in TURN_ORDERS:
        raise ConfigurationError(where, "turn_order", value, f"one of {', '.join(map(repr, TURN_ORDERS))}")


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
