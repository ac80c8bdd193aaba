"""Declarative patterns: how a pattern describes itself, and the checks, blocks and steps derived from its declaration.

A pattern declares its roles and its data in a `PatternSpec`. The pattern's function passes on its arguments and
assembles the steps from top to bottom:

    loop = check_options(SPEC, CommonOptions(name=name, roster=debaters, …))
    pipeline = loop.opening()                          # clears the transcript, opens the first round
    pipeline = loop.with_turns(pipeline, turns)        # the contents of a round
    pipeline = loop.until_stopped(pipeline)            # starts the next round, or moves on
    pipeline = pipeline.then(build_output(loop))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flowdebate._util.option_types import Rounds, check_option
from flowdebate._util.wire import freeze
from flowdebate.blocks.functions import Handler, as_block, handler
from flowdebate.blocks.generator import Generator, Visibility, as_visibility
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.anonymity.aliases import Anonymity
from flowdebate.chassis.material import (
    Material,
    SumUp,
    Window,
    create_summary,
    make_material,
    show_older,
)
from flowdebate.chassis.options import Constraint, OptionsT, PromptOptions, RoleChoice, check_prompts
from flowdebate.chassis.output import PatternOutput, stamp_subject
from flowdebate.chassis.own_words import LabelParser
from flowdebate.chassis.roles import BlockOptions, Members, RoleOptions, RosterBlock, SpeakerOptions
from flowdebate.chassis.roster import (
    Debater,
    Persona,
    Role,
    check_failure_policy,
    check_name,
    check_predicate,
    check_roster,
    check_transcript,
    is_custom,
    is_custom_code,
    listed_models,
    make_default,
    merge_options,
    role_options,
    speaker_options,
    with_answer_schema,
)
from flowdebate.chassis.rounds import RoundCondition, RoundOfTurns, end_turns, input_validator, note_of_ends
from flowdebate.chassis.seats import Seats, seat_models, with_first
from flowdebate.chassis.state import (
    FLAGS,
    Contribution,
    PatternInput,
    PatternState,
    RoundStarted,
    TranscriptState,
    TurnOrder,
    has_contributions,
    pattern_state,
)
from flowdebate.chassis.turn import (
    FAIL,
    MISSING,
    FailurePolicy,
    SkipIfSilent,
    Turn,
    audit_resources,
    create_init_transcript,
    guarded,
    record_failure,
    start_clock,
)
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.models.output import OutputSchema
from flowdebate.resources.resource import StateResource

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.models.base import Model
    from flowdebate.runs.context import Context
    from flowdebate.runs.durable.fork import Continuation
    from flowdebate.runs.events import RunStatus


@dataclass(frozen=True, kw_only=True, eq=False)
class PatternSpec(Generic[OptionsT]):
    """Declaration of a pattern: its roles, its data, and how it ends.

    The pattern's checks, blocks and steps are derived from this declaration.
    """

    name: str
    """Name of the function that builds the pattern."""
    speaker: Role
    """Role of the members on the roster."""
    roles: Sequence[Role] = ()
    """The pattern's other roles, in the order in which their options are checked."""
    constraints: Sequence[Constraint[OptionsT]] = ()
    """Constraints on which options can be combined."""
    prompt_options: Sequence[str] = ("history",)
    """Fields of `PromptOptions` supported by this pattern, in addition to those supported by every pattern."""
    input_type: type[PatternInput]
    """Type of the pattern's input; each speaker also receives an instance of this type."""
    new_state: Callable[[Loop[OptionsT]], PatternState]
    """Factory for the initial state of the pattern's sequencer."""
    make_output: Callable[[Loop[OptionsT], Context, RunStatus], PatternOutput]
    """Function that builds the raw output of a finished or interrupted run from its state."""
    failures: FailurePolicy = FAIL
    """Default policy for provider failures."""
    create_transcript: Callable[[], StateResource[Any]] = lambda: StateResource(
        key="transcript", initial=TranscriptState
    )
    """Factory for the transcript; patterns without a transcript use the default, which creates an unused
    placeholder.
    """
    stop_reason: Callable[[Any, int], str | None] | None = None
    """Function that returns the pattern's own stop reason, given the state and the maximum number of rounds.

    None if the pattern itself ends the loop only after the maximum number of rounds.
    """
    voice_of: Callable[[Any], str] | None = None
    """Function that returns the voice (a stance or name) represented by a transcript entry; used to check the quorum.

    None for a pattern without a quorum.
    """
    roster: str = "debaters"
    member: type[Debater | Persona] = Persona
    min_speakers: int = 2
    """Minimum number of speakers."""
    cap: str = "max_rounds"
    """Name of the option that limits the number of rounds, also used as the stop reason when the limit is reached."""
    round: str = "round"
    """Name for a loop iteration in block paths."""
    many_rounds: int | None = None
    """Number of rounds above which a warning is issued."""
    shares_sources: bool = False
    """True to show each speaker some passages not shown to the others, in addition to the best matches.

    Together, the speakers then see more of a long source. This suits patterns whose members do not compete over the
    same evidence.
    """


EntryT = TypeVar("EntryT", bound=Contribution)

MANY_ROUNDS = 4
"""Default for `many_rounds`; in measurements, debaters tended to agree after this many rounds."""


def check_options(spec: PatternSpec[OptionsT], options: OptionsT) -> Loop[OptionsT]:
    """Check a pattern's options and return its loop; raise ConfigurationError for invalid options.

    The pattern's function must call `check_options` directly, so that warnings point to that function's caller.
    """
    name, roster_field = options.name, spec.roster
    check_name(name, location=spec.name, field="name")
    location = f"{spec.name} {name!r}"
    # the caller of the pattern's function is five frames up, above this function, the factory and its wrapper
    roster = check_roster(
        options.roster, location=location, kind=spec.member, field=roster_field, minimum=spec.min_speakers, stacklevel=5
    )
    for role in spec.roles:
        role.check(options.roles.get(role.name), location=location)
    check_option(TurnOrder, "turn_order", options.turn_order, location=location, optional=False)
    schema = options.output_schema
    check_option(Rounds, spec.cap, options.max_rounds, location=location, optional=False)
    check_transcript(options.transcript, spec.create_transcript, location=location)
    check_predicate(options.terminate_when, location=location)
    seats = _seat_models(spec, options, roster, location=location)
    policy = FailurePolicy() if options.failures is None else options.failures
    check_failure_policy(policy, location=location)
    failures = spec.failures if options.failures is None else policy.over(spec.failures)
    if options.collection_id is not None:
        check_name(options.collection_id, location=location, field="collection_id")
    template = spec.speaker.create[0].template
    prompts = check_prompts(options.prompts, template, accepted=spec.prompt_options, location=location)
    for constraint in spec.constraints:
        constraint.check(options, location=location)
    _warn_about_rounds(spec, options, location=location)
    return Loop(
        spec=spec,
        name=name,
        location=location,
        options=replace(options, model=seats.rest),
        roster=tuple(replace(debater, model=seats.members.get(debater.name, debater.model)) for debater in roster),
        models=seats.roles,
        prompts=prompts,
        max_rounds=options.max_rounds,
        transcript=spec.create_transcript() if options.transcript is None else options.transcript,
        owns_transcript=options.transcript is None,
        collection_id=name if options.collection_id is None else options.collection_id,
        failures=failures,
        judge_failures=failures if policy.on_failure is not None else replace(failures, on_failure="skip"),
        material=make_material(options.sources, location=location),
        window=prompts.history if isinstance(prompts.history, Window) else None,
        schema=None if schema is None else OutputSchema.of(schema, location=location),
        visibilities={
            role.name: as_visibility(
                options.visibilities.get(role.name), role.visibility, location=location, field=f"{role.name}_visibility"
            )
            for role in (spec.speaker, *spec.roles)
        },
    )


def _seat_models(
    spec: PatternSpec[OptionsT], options: OptionsT, roster: Sequence[Debater | Persona], *, location: str
) -> Seats:
    """Assign models to the members and roles that have default blocks."""
    return seat_models(
        with_first(options.model, listed_models(options.roster)),
        {member.name: member.model for member in roster if role_options(member.block) is not None},
        [
            role.name
            for role in spec.roles
            if role.is_filled(choice := options.roles.get(role.name)) and role_options(choice) is not None
        ],
        speaker=spec.speaker.name,
        location=location,
    )


def _warn_about_rounds(spec: PatternSpec[OptionsT], options: OptionsT, *, location: str) -> None:
    if spec.many_rounds is not None and options.max_rounds > spec.many_rounds and not options.has_planned_rounds:
        warnings.warn(
            f"{location}: max_rounds={options.max_rounds}: debaters tend to agree after {spec.many_rounds} "
            f"rounds, and each turn sends the whole transcript; use max_rounds <= {spec.many_rounds}",
            FlowDebateWarning,
            stacklevel=5,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Loop(Generic[OptionsT]):
    """A pattern's validated options, along with methods that create its blocks and steps."""

    spec: PatternSpec[OptionsT]
    name: str
    location: str
    options: OptionsT
    """Options set by the application; their `model` applies to all roles and speakers without a model of their own."""
    roster: tuple[Any, ...]
    """The `Debater`s or `Persona`s, with models assigned to them."""
    models: Mapping[str, Model | str]
    """Models for the roles that have their own, keyed by role."""
    prompts: PromptOptions
    max_rounds: int
    transcript: StateResource[Any]
    owns_transcript: bool
    collection_id: str
    failures: FailurePolicy
    """Policy for failures of the speakers' providers."""
    judge_failures: FailurePolicy
    """Policy for failures of the judges' providers; by default, the run continues."""
    material: Material | None
    """The sources to quote from; None if there are none."""
    window: Window | None
    """The history window used in prompts; None to show the whole transcript."""
    schema: OutputSchema | None
    visibilities: Mapping[str, Visibility]
    """Visibility of default blocks, keyed by role."""
    reverse: bool = False
    """True to reverse the order of turns."""
    anonymity: Anonymity | None = None
    """Aliases shown in prompts instead of names; None to show the names themselves."""
    continuation: Continuation | None = None
    """Continuation of a finished run; None for a new run."""

    @property
    def names(self) -> list[str]:
        """The names on the roster, in declared order."""
        return [member.name for member in self.roster]

    @property
    def members(self) -> Members:
        """The roles of all members on the roster, keyed by name, in declared order."""
        return {member.name: member.role for member in self.roster}

    @property
    def turn_order(self) -> TurnOrder:
        return self.options.turn_order

    def choice(self, role: Role) -> RoleChoice:
        """Return the value that the application set for the option `role`."""
        return self.options.roles.get(role.name)

    def has(self, role: Role) -> bool:
        """Return whether the pattern includes `role`."""
        return role.is_filled(self.choice(role))

    def make_output(self, ctx: Context, status: RunStatus) -> PatternOutput:
        """Build the raw output of the enclosing pattern from its current state."""
        output = self.spec.make_output(self, ctx, status)
        if (older := pattern_state(ctx).older) is not None:
            output = output.model_copy(update={"older": older})
        if cut_answers := pattern_state(ctx).cut_answers:
            output = output.model_copy(update={"cut_answers": cut_answers})
        return output if self.material is None else self.material.add_sources(output, ctx)

    def opening(self, before: Block[Any, Any] | None = None) -> Sequencer[Any, Any]:
        """Build the steps that lead up to the first turn of a round; `before` runs before the first round."""
        resources = audit_resources(self.transcript, self.collection_id)
        owned = [resource for key, resource in resources.items() if key != "transcript" or self.owns_transcript]
        start = freeze(self.spec.new_state(self))  # validated once and shared by all runs

        @handler(name=f"{self.name}-increment-round")
        def increment(_: object, ctx: Context) -> None:
            self.open_round(ctx, pattern_state(ctx).round + 1)

        pipeline: Sequencer[Any, Any] = (
            sequencer(
                name=self.name,
                state=lambda: start,
                owns=owned,
                # a transcript passed by the application is also reset for each run, so that concurrent runs do not get
                # mixed up
                isolates=() if self.owns_transcript else (self.transcript,),
                accepts=input_validator(self.location, self.spec.input_type),
                model=self.options.model,
                # inner blocks may read the transcript and the audit trail, but only turns may write to them
                protected=True,
            )
            .tap(create_init_transcript(name=self.name, transcript=self.transcript, collection_id=self.collection_id))
            .tap(stamp_subject(self.name, self.make_output, self.material))
        )
        pipeline = (pipeline if before is None else pipeline.tap(before)).tap(increment)
        if self.window is not None:
            pipeline = pipeline.tap(SumUp(create_summary(self.name, self.options.settings), self.window))
        return pipeline

    def open_round(self, ctx: Context, number: int) -> None:
        """Begin round `number`, and start the clock for the time limit shared by its turns."""
        ctx.scope.handle.update(round=number)
        start_clock(self.failures, ctx)
        phase = pattern_state(ctx).phase_name
        ctx.emit(RoundStarted(round=number, max_rounds=self.max_rounds, phase=phase, path=ctx.path))

    def with_turns(
        self,
        pipeline: Sequencer[Any, Any],
        turns: Mapping[str, Turn],
        *,
        speakers: Callable[[Context], Sequence[str]] | None = None,
    ) -> Sequencer[Any, Any]:
        """Add a round's `turns` to `pipeline`; if `speakers` is set, only the members in `speakers(ctx)` speak."""
        # the order is fixed, so each turn can be a step of its own
        if speakers is None and self.turn_order == "declared":
            for turn in reversed([*turns.values()]) if self.reverse else turns.values():
                pipeline = pipeline.tap(turn)
            return pipeline
        name = f"{self.name}-turns"
        order, reverse = self.turn_order, self.reverse
        return pipeline.tap(RoundOfTurns(name, turns, turn_order=order, speakers=speakers, reverse=reverse))

    def until_stopped(
        self, pipeline: Sequencer[Any, Any], *ends: str, first: str = "increment-round"
    ) -> Sequencer[Any, Any]:
        """Repeat the rounds in `pipeline` until there is a reason to stop.

        `ends` describes, in the outline, any reasons to stop other than the number of rounds and `terminate_when`. Each
        round starts at the step whose name ends in `first`.
        """
        terminate_when, own_reason = self.options.terminate_when, self.spec.stop_reason

        def stop_reason(state: PatternState) -> str | None:
            if own_reason is not None:
                return own_reason(state, self.max_rounds)
            return self.spec.cap if state.round >= self.max_rounds else None

        return pipeline.loop_back(
            f"{self.name}-{first}",
            when=RoundCondition(
                stop_reason=stop_reason,
                terminate_when=terminate_when,
                quorum=self.failures.least,
                voice_of=self.spec.voice_of,
                earlier_rounds=0 if self.continuation is None else self.continuation.held,
            ),
            max_iterations=self.max_rounds,
            label=self.spec.round,
            note=note_of_ends(*ends, terminate_when=terminate_when),
        )

    def end_of_turns(self) -> Handler[Any, None]:
        """Create a tap that clears the time limit shared by a round's turns and checks the quorum."""

        @handler(name=f"{self.name}-end-of-turns")
        def check(_: object, ctx: Context) -> None:
            end_turns(ctx, self.failures.least, self.spec.voice_of)

        return check

    def collect_spoken(self, ctx: Context, *, round: int, make: Callable[..., EntryT]) -> list[EntryT]:  # noqa: A002 - the field's word for it
        """Collect a round's simultaneous contributions, each created by `make(name, role=, text=, flag=)`.

        They are sorted in declared order, because their order of arrival may vary, and a resumed run must produce the
        same transcript.
        """
        state: Any = pattern_state(ctx)
        flags = {loss.name: loss.instead for loss in state.losses if loss.round == round and loss.instead in FLAGS}
        return [
            make(name, role=role, text=state.spoken[name], flag=flags.get(name))
            for name, role in self.members.items()
            if name in state.spoken
        ]

    def turn(
        self,
        member: Debater | Persona,
        record: Callable[..., Block[Any, Any]],
        *,
        answer: Callable[[], object] | None = None,
        **facts: object,
    ) -> Turn:
        """Create a turn for `member`: its block (or the fallback) speaks, and `record(…)` records the text.

        `facts` are passed to the default block. If a human replaces the default block, `answer` is the schema for the
        human's answer.
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
                custom=is_custom_code(member.block),
            ),
            stand_in=stand_in,
            failures=self.failures,
        )

    def speakers(
        self,
        member: Debater | Persona,
        *,
        answer: Callable[[], object] | None = None,
        **facts: object,
    ) -> tuple[Block[Any, Any], Block[Any, Any] | None]:
        """Return the custom or default block for `member`, and the block for its fallback model."""
        makers = self.spec.speaker.create
        identity = {"name": self.name, "agent_name": member.name, "transcript": self.transcript}
        options = merge_options(identity, facts, self.options_of(self.spec.speaker, member))
        # a fallback gets the member's options but a different model; a custom block has no options to pass on
        field, model = f"block of {member.name!r}", self.failures.stand_in
        if is_custom(member.block):
            block = self.custom_speaker(member, answer)
        else:
            block = self.reading(
                make_default(member.block, makers, options, location=self.location, field=field), member
            )
        stand_in: Block[Any, Any] | None = None
        if model is not None:
            stand_in_options = {"model": model, "name": f"{self.name}-stand-in"}
            stand_in = makers[0].create(**merge_options(options, role_options(member.block), stand_in_options))
            stand_in = self.reading(stand_in, member)
        return block, stand_in

    def reading(self, block: Block[Any, Any], member: Debater | Persona) -> Block[Any, Any]:
        """Return `member`'s default `block`, modified to keep only the member's own words from each answer."""
        if isinstance(block, Generator) and block.output is None:
            return block.with_reading(LabelParser.of(member, self.roster))
        return block

    def custom_speaker(self, member: Debater | Persona, answer: Callable[[], object] | None = None) -> Block[Any, Any]:
        """Return the custom block for `member`."""
        from flowdebate.blocks.human.prompt import describe_role  # imported lazily, because most speakers are models

        name = f"{self.name}-{self.spec.speaker.name}-{member.name}"
        block = as_block(member.block, name=name, location=self.location, field=f"block of {member.name!r}")
        who = describe_role(member.name, stance=getattr(member, "stance", None), role=member.role)
        return with_answer_schema(block, answer, who=who, material=self.material).in_role("debater")

    def options_of(self, role: Role, member: Debater | Persona | None = None) -> SpeakerOptions:
        """Return the options for the default blocks of `role`, or of one `member`, omitting unset options."""
        layers: list[BlockOptions | SpeakerOptions | RoleOptions | None] = [
            self.options.for_blocks(),
            {"visibility": self.visibilities[role.name]},
        ]
        if role is self.spec.speaker:
            material = self.material
            if material is not None and member is not None and self.spec.shares_sources:
                material = material.for_speaker(self.roster.index(member), len(self.roster))
            layers.append({"length": self.prompts.length, "template": self.prompts.template, "sources": material})
        if (model := self.models.get(role.name)) is not None:
            layers.append({"model": model})
        if member is not None:
            layers += [{"model": member.model}, member.options]
        options = speaker_options(*layers)
        if self.window is not None:
            older = show_older() if self.anonymity is None else show_older(self.anonymity.hide)
            options["uses"] = [*options.get("uses", ()), older]
        return options

    def role(
        self,
        role: Role,
        *,
        answer: Callable[[], object] | None = None,
        **facts: object,
    ) -> Block[Any, Any]:
        """Return the block for `role`: the default one with `facts`, or a custom one.

        A human who plays the role must answer according to the schema `answer()`; if `answer` is None, the input
        determines the schema.
        """
        choice = self.choice(role)
        block: Block[Any, Any]
        if is_custom(choice):
            custom = as_block(
                choice, name=f"{self.name}-{role.block or role.name}", location=self.location, field=role.name
            )
            block = with_answer_schema(custom, answer, material=self.material)
        else:
            options = merge_options({"name": self.name}, facts, self.options_of(role))
            block = make_default(choice, role.create, options, location=self.location, field=role.name)
        # a block created with other names would make decisions about participants who are not present
        names = facts.get("roster_names")
        if isinstance(block, RosterBlock) and isinstance(names, list) and sorted(block.roster_names) != sorted(names):
            problem = f"must have roster_names={names}, the names of the debaters"
            raise ConfigurationError(self.location, role.name, list(block.roster_names), problem)
        return block.in_role(role.acts_as or role.name)

    def guard(
        self, role: Role, block: Block[Any, Any], heard: Callable[[Context], bool] = has_contributions
    ) -> Block[Any, Any]:
        """Apply the time limit and the failure policy for `role` to its `block`.

        The result is `MISSING` if a tolerated provider failure occurs, or if `heard` returns false because there is
        nothing to decide.
        """
        name = role.acts_as or role.name

        def recover(error: Exception, _: object, ctx: Context) -> object:
            record_failure(error, ctx, block=ctx.block, role=name, name=ctx.block, instead=role.instead)
            return MISSING

        guard = guarded(block, self.policy_of(role), recover, closes=role.closes)
        return SkipIfSilent(guard, role=name, instead=role.instead, heard=heard)

    def policy_of(self, role: Role) -> FailurePolicy:
        """Return the failure policy for `role`."""
        return self.judge_failures if role.instead == "no_verdict" else self.failures
