"""Rounds of a pattern: its opening, its turns, and the reason for which they end.

An assembly adds the steps from top to bottom:

    pipeline = loop.opening()                          # clears the transcript, opens the first round
    pipeline = loop.with_turns(pipeline, turns)        # what a round consists of
    pipeline = loop.until_stopped(pipeline)            # back to the next round, or on
    pipeline = pipeline.then(build_output(loop))
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate._util.frozen import frozen
from flowdebate._util.text import clean_text, is_blank
from flowdebate._util.validation import check_count
from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.generator import as_visibility
from flowdebate.blocks.handler import Handler, as_block, handler
from flowdebate.blocks.outline import Outline
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.errors import ConfigurationError, FlowDebateWarning, QuorumLost
from flowdebate.models.output import OutputSchema
from flowdebate.models.resolve import check_model
from flowdebate.patterns.events import RoundsEnded, RoundStarted, TurnsOrdered
from flowdebate.patterns.output import stamp_subject
from flowdebate.patterns.roles import RosterBlock
from flowdebate.patterns.roster import (
    Persona,
    check_choice,
    check_failure_policy,
    check_name,
    check_predicate,
    check_prompt_options,
    check_roster,
    check_transcript,
    is_own,
    make_default,
    merge_options,
    options_for_all,
    own_options,
    with_answer_schema,
)
from flowdebate.patterns.state import PatternInput, anything_heard, entries_of, pattern_state
from flowdebate.patterns.turn import (
    MISSING,
    FailurePolicy,
    IfHeard,
    Turn,
    audit_resources,
    create_init_transcript,
    guarded,
    record_failure,
    start_clock,
)
from flowdebate.runs.context import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.blocks.generator import Visibility
    from flowdebate.patterns.output import PatternOutput
    from flowdebate.patterns.roles import Members, RoleOptions
    from flowdebate.patterns.roster import Debater, Role
    from flowdebate.patterns.state import PatternState, TurnOrder
    from flowdebate.resources.resource import StateResource
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.stop import StopWhen


InputT = TypeVar("InputT", bound=PatternInput)


@dataclass(frozen=True, kw_only=True, eq=False)
class PatternSpec:
    """A pattern as it is declared: its roles, its data and its end; checks, blocks and steps are made of it."""

    name: str
    """The function that builds it."""
    speaker: Role
    """The role of those on the roster."""
    roles: Sequence[Role] = ()
    """The other roles, in the order in which their options are checked."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Options that are one of a few words, with the type that lists them."""
    input_type: type[PatternInput]
    """The pattern's input; each speaker is given one as well."""
    new_state: Callable[[Loop], PatternState]
    """Makes the state with which the pattern's sequencer begins."""
    make_output: Callable[[Loop, Context, RunStatus], PatternOutput]
    """Builds the raw output from the state, finished or cut short."""
    create_transcript: Callable[[], StateResource[Any]]
    stop_reason: Callable[[Any, int], str | None] | None = None
    """The pattern's own reason to end the rounds, by the state and the most rounds; None for the number alone."""
    voice_of: Callable[[Any], str] | None = None
    """The voice that an entry of the transcript counts as for the quorum; None for a pattern without a quorum."""
    roster: str = "debaters"
    """The option that has the roster."""
    member: type[Debater | Persona] = Persona
    """Who is on the roster."""
    cap: str = "max_rounds"
    """The option that has the most rounds, and the stop reason for it."""
    round: str = "round"
    """The word for a pass of the loop in the paths of blocks."""
    many_rounds: int | None = None
    """More rounds than this are warned of."""


MANY_ROUNDS = 4
"""The measured bound of `many_rounds`: the debaters of a debate tend to agree after it."""


def check_options(spec: PatternSpec, given: Mapping[str, Any], *, max_rounds: int | None = None) -> Loop:
    """The loop of a pattern that was called with the options `given`; ConfigurationError for one that cannot be.

    `given` are the arguments of the pattern's function by name: `check_options(SPEC, locals())`. `max_rounds` is for a
    pattern that has no option for it.
    """
    name = given["name"]
    check_name(name, where=spec.name, field="name")
    where = f"{spec.name} {name!r}"
    # five frames up is the caller of the pattern's function: that one, its wrapper and this one are between
    roster = check_roster(given[spec.roster], where=where, kind=spec.member, field=spec.roster, stacklevel=5)
    for role in spec.roles:
        role.check(given[role.name], where=where)
    for option, kind in spec.choices.items():
        check_choice(given[option], kind, where=where, field=option)
    schema = given.get("output_schema")
    if schema is not None and given.get("synthesizer") is False:
        allowed = "None with synthesizer=False: there is nothing to apply it to"
        raise ConfigurationError(where, "output_schema", schema, allowed)
    if max_rounds is None:
        max_rounds = given[spec.cap]
        check_count(where, **{spec.cap: max_rounds})
    transcript, collection_id = given["transcript"], given["collection_id"]
    check_transcript(transcript, spec.create_transcript, where=where)
    check_predicate(given.get("terminate_when"), where=where)
    check_model(given["model"], where=where)
    failures = FailurePolicy() if given["failures"] is None else given["failures"]
    check_failure_policy(failures, where=where)
    if collection_id is not None:
        check_name(collection_id, where=where, field="collection_id")
    check_prompt_options(given, spec.speaker.create[0].template, where=where)
    if spec.many_rounds is not None and max_rounds > spec.many_rounds:
        warnings.warn(
            f"{where}: max_rounds={max_rounds}: debaters tend to agree after {spec.many_rounds} rounds, and each turn "
            f"sends the whole transcript; use max_rounds <= {spec.many_rounds}",
            FlowDebateWarning,
            stacklevel=4,
        )
    return Loop(
        spec=spec,
        name=name,
        where=where,
        given=given,
        roster=roster,
        max_rounds=max_rounds,
        transcript=spec.create_transcript() if transcript is None else transcript,
        owns_transcript=transcript is None,
        collection_id=name if collection_id is None else collection_id,
        failures=failures,
        schema=None if schema is None else OutputSchema.of(schema, where=where),
        visibilities={
            role.name: as_visibility(
                given.get(f"{role.name}_visibility"), role.visibility, where=where, field=f"{role.name}_visibility"
            )
            for role in (spec.speaker, *spec.roles)
        },
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """The checked options of a pattern, and the blocks and steps that are made of them."""

    spec: PatternSpec
    name: str
    where: str
    given: Mapping[str, Any]
    """All options, as the application gave them."""
    roster: tuple[Any, ...]
    """The `Debater`s or `Persona`s."""
    max_rounds: int
    transcript: StateResource[Any]
    owns_transcript: bool
    collection_id: str
    failures: FailurePolicy
    schema: OutputSchema | None
    """The output schema; None without one."""
    visibilities: Mapping[str, Visibility]
    """Those of default blocks, by role."""
    reverse: bool = False
    """Whether the speakers of each round have their turns in the reverse order."""

    @property
    def names(self) -> list[str]:
        """The names on the roster, in declared order."""
        return [member.name for member in self.roster]

    @property
    def members(self) -> Members:
        """The roles of all on the roster, by name, in declared order."""
        return {member.name: member.role for member in self.roster}

    @property
    def turn_order(self) -> TurnOrder:
        """The order of the turns of a round."""
        order: TurnOrder = self.given.get("turn_order", "declared")
        return order

    def with_given(self, **options: Any) -> Loop:  # noqa: ANN401 - any option's value
        """This loop with other values of options, or with what a pattern derives from them."""
        return replace(self, given={**self.given, **options})

    def has(self, role: Role) -> bool:
        """Whether the pattern is built with `role`."""
        return role.is_filled(self.given[role.name])

    def make_output(self, ctx: Context, status: RunStatus) -> PatternOutput:
        """The raw output of the pattern around a step, so far."""
        return self.spec.make_output(self, ctx, status)

    def opening(self) -> Sequencer[Any, Any]:
        """The pattern's sequencer up to the first turn of a round."""
        resources = audit_resources(self.transcript, self.collection_id)
        owned = [resource for key, resource in resources.items() if key != "transcript" or self.owns_transcript]
        start = frozen(self.spec.new_state(self))  # validated once, and shared by all runs
        return (
            sequencer(
                name=self.name,
                state=lambda: start,
                owns=owned,
                isolates=() if self.owns_transcript else (self.transcript,),
                accepts=input_validator(self.where, self.spec.input_type),
                model=self.given["model"],
                protected=True,
            )
            .tap(create_init_transcript(name=self.name, transcript=self.transcript, collection_id=self.collection_id))
            .tap(stamp_subject(self.name, self.make_output))
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
        terminate_when = self.given["terminate_when"]
        return pipeline.loop_back(
            f"{self.name}-increment-round",
            when=AnotherRound(
                stop_reason=self._stop_reason,
                terminate_when=terminate_when,
                quorum=self.failures.quorum,
                voice_of=self.spec.voice_of,
            ),
            max_iterations=self.max_rounds,
            label=self.spec.round,
            note=note_of_ends(*ends, terminate_when=terminate_when),
        )

    def _stop_reason(self, state: PatternState) -> str | None:
        if self.spec.stop_reason is not None:
            return self.spec.stop_reason(state, self.max_rounds)
        return self.spec.cap if state.round >= self.max_rounds else None

    def end_of_turns(self) -> Handler[Any, None]:
        """A tap between a round's turns and what is made of them, which has its own time and needs the quorum."""

        @handler(name=f"{self.name}-end-of-turns")
        def check(_: object, ctx: Context) -> None:
            _end_turns(ctx, self.failures.quorum, self.spec.voice_of)

        return check

    def turn(
        self,
        member: Debater | Persona,
        record: Callable[..., Block[Any, Any]],
        *,
        answer: Callable[[], object] | None = None,
        **facts: Any,  # noqa: ANN401 - what the default block takes
    ) -> Turn:
        """A turn of `member`: its block speaks (or a stand-in, where its model fails), and `record(…)` records it.

        `facts` are what its default block is told; `answer` is the schema of what a human says in its place.
        """
        block, stand_in = self.speakers(member, answer=answer, **facts)
        return Turn(
            f"{self.name}-turn-{member.name}",
            agent_name=member.name,
            stance=getattr(member, "stance", None),
            input_type=self.spec.input_type,
            debater=block,
            record=record(
                name=self.name,
                agent_name=member.name,
                transcript=self.transcript,
                collection_id=self.collection_id,
                own=is_own(member.block),
            ),
            stand_in=stand_in,
            failures=self.failures,
        )

    def speakers(
        self,
        member: Debater | Persona,
        *,
        answer: Callable[[], object] | None = None,
        **facts: Any,  # noqa: ANN401 - what the default block takes
    ) -> tuple[Block[Any, Any], Block[Any, Any] | None]:
        """The block of `member`, its own or the default one, and that of its stand-in."""
        makers = self.spec.speaker.create
        known = {"name": self.name, "agent_name": member.name, "transcript": self.transcript, **facts}
        options = merge_options(known, self.options_of(self.spec.speaker, member))
        field, model = f"block of {member.name!r}", self.failures.stand_in
        block = make_default(member.block, makers, options, where=self.where, field=field)
        stand_in: Block[Any, Any] | None = None
        if model is not None:
            last = {"model": model, "name": f"{self.name}-stand-in"}
            stand_in = makers[0].create(**merge_options(options, own_options(member.block), last))
        return block or self.own_speaker(member, answer), stand_in

    def own_speaker(self, member: Debater | Persona, answer: Callable[[], object] | None = None) -> Block[Any, Any]:
        """The block that the application gave for `member`."""
        from flowdebate.blocks.human.prompt import render_who  # most speakers are models

        name = f"{self.name}-{self.spec.speaker.word or self.spec.speaker.name}-{member.name}"
        block = as_block(member.block, name=name, where=self.where, field=f"block of {member.name!r}")
        who = render_who(member.name, stance=getattr(member, "stance", None), role=member.role)
        return with_answer_schema(block, answer, who=who).in_role("debater")

    def options_of(self, role: Role, member: Debater | Persona | None = None) -> dict[str, Any]:
        """The options of the default blocks of `role`, and of one `member` in it, without those left open."""
        given = self.given
        layers: list[Mapping[str, Any] | RoleOptions | None] = [
            options_for_all(given),
            {"visibility": self.visibilities[role.name]},
        ]
        if role is self.spec.speaker:
            layers.append({"length": given["length"], "template": given["template"]})
        if member is not None:
            layers += [{"model": member.model}, member.options]
        return merge_options(*layers)

    def role(
        self,
        role: Role,
        *,
        answer: Callable[[], object],
        **facts: Any,  # noqa: ANN401 - what the default block takes
    ) -> Block[Any, Any]:
        """The block of `role`: the default one, which is told `facts`, or the application's own.

        A human in the role is asked for `answer()`.
        """
        value = self.given[role.name]
        options = merge_options({"name": self.name, **facts}, self.options_of(role))
        block: Block[Any, Any] | None = make_default(value, role.create, options, where=self.where, field=role.name)
        if block is None:
            own = as_block(value, name=f"{self.name}-{role.name}", where=self.where, field=role.name)
            block = with_answer_schema(own, answer)
        names = facts.get("roster_names")
        if isinstance(block, RosterBlock) and names is not None and sorted(block.roster_names) != sorted(names):
            allowed = f"made with the debaters' names, roster_names={names}"
            raise ConfigurationError(self.where, role.name, list(block.roster_names), allowed)
        return block.in_role(role.name)

    def guard(
        self, role: Role, block: Block[Any, Any], heard: Callable[[Context], bool] = anything_heard
    ) -> Block[Any, Any]:
        """`block`, which decides about what was `heard`, within its time.

        Its answer is `MISSING` if there is nothing to decide about, or if its provider fails and that is tolerated.
        """

        def recover(error: Exception, _: object, ctx: Context) -> object:
            record_failure(error, ctx, block=ctx.block, role=role.name, name=ctx.block, instead=role.instead)
            return MISSING

        return IfHeard(guarded(block, self.failures, recover), role=role.name, instead=role.instead, heard=heard)


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
