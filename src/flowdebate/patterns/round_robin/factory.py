"""`round_robin()`: its options, checked before anything is built, and its steps, from the first to the last."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from flowdebate._util.validation import suggesting
from flowdebate.blocks.sequencer import sequencer
from flowdebate.models.output import OutputSchema
from flowdebate.patterns.output import build_output, with_synthesizer
from flowdebate.patterns.roles import NOT_KEPT, SHOWN, PatternKeywords, RoleOptions
from flowdebate.patterns.roster import (
    Persona,
    check_name,
    check_role,
    check_synthesizer,
    checked_roster,
    is_own,
    speaker_options,
    warn_of_rounds,
)
from flowdebate.patterns.round_robin.debater import RoundRobinDebaterTemplate, create_round_robin_debater
from flowdebate.patterns.round_robin.referee import create_referee, stash_audit, without_report
from flowdebate.patterns.round_robin.schemas import (
    RefereeReport,
    RoundRobinEntry,
    RoundRobinInput,
    RoundRobinOutput,
    RoundRobinState,
)
from flowdebate.patterns.round_robin.synthesizer import create_round_robin_synthesizer
from flowdebate.patterns.round_robin.transcript import RoundRobinTranscript, create_round_robin_transcript
from flowdebate.patterns.rounds import Loop, PatternSpec, checked_loop
from flowdebate.patterns.state import entries_of, state_of
from flowdebate.patterns.turn import IfHeard, record_turn
from flowdebate.prompts.template import check_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.roles import Members, RefereeOptions, SynthesizerOptions
    from flowdebate.patterns.state import TurnOrder
    from flowdebate.patterns.turn import FailurePolicy, Turn
    from flowdebate.prompts.template import Length, Profile
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.stop import StopWhen


OutT = TypeVar("OutT")


class RoundRobinKeywords(PatternKeywords, total=False):
    """The options of `round_robin` that say nothing about the type of its output; their meaning is there."""

    referee: BlockLike | RefereeOptions | bool | None
    transcript: RoundRobinTranscript | None
    template: RoundRobinDebaterTemplate | None
    turn_order: TurnOrder


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    synthesizer: Literal[False],
    output_schema: None = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, RoundRobinOutput]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    synthesizer: BlockLike | SynthesizerOptions | Literal[True] | None = None,
    output_schema: type[OutT],
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, OutT]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    synthesizer: SynthesizerOptions | Literal[True] | None = None,
    output_schema: None = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, str]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    synthesizer: Block[Any, OutT],
    output_schema: None = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, OutT]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    output_schema: Any = None,  # noqa: ANN401 - a JSON Schema, or a type form
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, Any]: ...


@suggesting
def round_robin(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    terminate_when: StopWhen | None = None,
    turn_order: TurnOrder = "declared",
    transcript: RoundRobinTranscript | None = None,
    output_schema: Any = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    profile: Profile | None = None,
    length: Length | None = None,
    template: RoundRobinDebaterTemplate | None = None,
    debater_visibility: Visibility | Mapping[str, bool] | None = None,
    synthesizer_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, Any]:
    """Build a round robin, a block that works on a question and delivers: `await pattern.run("How do we launch?")`.

    In each round every debater speaks once, in declared order, and sees everything said before, in the same round too
    (see `turn_order`).
    After `max_rounds`, or if `terminate_when(ctx)` returns true after a round, the synthesizer turns it all into the
    output. It is the loop of `debate()` without a moderator, with roles instead of stances and a deliverable instead of
    a verdict.

    - `debaters`: at least two `Persona`s, or dicts with `name`, `role`, `system_prompt` (and `block`, `model`).
    - `referee`: audits after each round how well the debaters argued: True for the default referee, a block or a
      function of `(input, ctx)` or `(input)` that returns a `RefereeReport` or a dict; None or False for none. Later
      rounds and the synthesizer see its report. It decides neither who speaks nor when the rounds end; assessments of
      debaters who did not speak in the round are dropped.
    - `synthesizer`, a debater's `block`: a block or a function; None is the default block. `synthesizer=False` returns
      the `RoundRobinOutput` itself.
    - `output_schema`: schema of the output; the result of your own synthesizer is validated against it as well.
    - `turn_order`: "declared" (default); "rotated": each round begins with the next debater; "shuffled": drawn for each
      round from the run's seed; "simultaneous": all speak at once, and see the contributions of earlier rounds only.
    - `transcript`: one from `create_round_robin_transcript()`, to share with your own blocks; None creates one.
    - `model` reaches all blocks inside that name none; it is one model, or one by intent. A role's own options
      (`RefereeOptions`, `SynthesizerOptions`, `Persona(…, options=DebaterOptions(…))`) take the place of these.
    - `profile`: default prompts for small models ("concise") or for others ("full"); None: as each model asks for.
      `length` of a turn: "short", "medium", "long" or a number of words; None: short with concise prompts, medium with
      full ones. `template`: the texts of the debaters' prompts, in place of the profile's.
    - `instructions`, `tools`, `uses`, `context`, `settings` and the visibilities apply to all default blocks, and to no
      others; instructions take precedence over the rules of their prompts. By default the client sees the items of all
      blocks, and those of debaters are not added to the history.
    - `collection_id`: the id of the audit trail (default: `name`).
    - `failures`: a `FailurePolicy`. `on_failure` is "fail" (default: the run raises the error), "skip" or
      `StandIn(model)`. With the latter two, a round whose report failed has no audit, and there is no output if the
      synthesizer fails; `raw.losses` lists every failure. With fewer debaters than `quorum` (2) in a round with skipped
      turns, `QuorumLost` ends the run. `turn_timeout` bounds each turn and audit in seconds, `round_timeout` all turns
      of a round together; exceeding them counts as a provider failure. Exceptions from your own code are always raised.

    The input is a question: a str, `{"question": str}` or a `RoundRobinInput`. Invalid options raise
    `ConfigurationError` before anything is built; more than four rounds cause a `FlowDebateWarning`.

    >>> from flowdebate.testing import ScriptedModel
    >>> debaters = [{"name": "Ada", "role": "economist"}, {"name": "Ben", "role": "engineer"}]
    >>> pattern = round_robin(name="launch", debaters=debaters, max_rounds=1)
    >>> result = pattern.run_sync("Launch in May?", model=ScriptedModel("It pays.", "Test it first.", "In June."))
    >>> result.output, [entry.agent_name for entry in result.raw.transcript]
    ('In June.', ['Ada', 'Ben'])
    """
    check_name(name, where="round_robin", field="name")
    where = f"round_robin {name!r}"
    roster = checked_roster(debaters, where=where, kind=Persona)
    if not isinstance(referee, bool):
        check_role(where, "referee", referee, "None or False, which leave it out, True, the default one,")
    check_synthesizer(where, synthesizer, output_schema)
    loop = checked_loop(
        name=name,
        where=where,
        max_rounds=max_rounds,
        terminate_when=terminate_when,
        transcript=transcript,
        create_transcript=create_round_robin_transcript,
        model=model,
        collection_id=collection_id,
        failures=failures,
        spec=round_robin_spec(max_rounds, turn_order),
        turn_order=turn_order,
    )
    check_profile(where, profile)
    defaults = RoleOptions(
        tools=tools, uses=uses, context=context, instructions=instructions, settings=settings, profile=profile
    )
    speakers = speaker_options(where, defaults, length=length, template=template, kind=RoundRobinDebaterTemplate)
    of_debaters = speakers.shown(debater_visibility, NOT_KEPT, where=where, field="debater_visibility")
    of_synthesizer = defaults.shown(synthesizer_visibility, SHOWN, where=where, field="synthesizer_visibility")
    schema = None if output_schema is None else OutputSchema.of(output_schema, where=where)

    members = {debater.name: debater.role for debater in roster}
    refereed = referee is not None and referee is not False
    turns = {debater.name: _turn(loop, debater, members, of_debaters, refereed=refereed) for debater in roster}
    pipeline = loop.with_turns(loop.opening(), turns)
    if referee is not None and referee is not False:
        pipeline = pipeline.tap(_audit(loop, referee, list(members), defaults))
    pipeline = loop.until_stopped(pipeline).then(build_output(loop.name, loop.spec.make_output))
    pipeline = with_synthesizer(
        pipeline, loop, synthesizer, create_round_robin_synthesizer, options=of_synthesizer, schema=schema
    )
    warn_of_rounds(where, max_rounds, who="debaters")
    return pipeline


def _turn(loop: Loop, debater: Persona, members: Members, options: RoleOptions, *, refereed: bool) -> Turn:
    block, stand_in = loop.speakers(
        debater,
        create_round_robin_debater,
        options=options,
        role=debater.role,
        system_prompt=debater.system_prompt,
        members=members,
        max_rounds=loop.max_rounds,
        refereed=refereed,
    )
    record = record_turn(
        name=loop.name,
        agent_name=debater.name,
        transcript=loop.transcript,
        collection_id=loop.collection_id,
        entry=partial(RoundRobinEntry, agent_name=debater.name, role=debater.role),
        own=is_own(debater.block),
    )
    return loop.turn(debater, debater=block, stand_in=stand_in, record=record)


def _audit(
    loop: Loop, own: BlockLike | RoleOptions | Literal[True], names: list[str], options: RoleOptions
) -> Block[Any, Any]:
    """The referee's audit of a round's turns; if its provider fails, the round has none."""
    referee = loop.role(
        own,
        "referee",
        create_referee,
        options=options,
        answer=lambda: RefereeReport,
        roster_names=names,
        transcript=loop.transcript,
        max_rounds=loop.max_rounds,
    )
    return (
        sequencer(name=f"{loop.name}-audit-round")
        .tap(loop.end_of_turns())
        .then(IfHeard(loop.guarded(referee, without_report), role="referee", instead="no_report"))
        .then(stash_audit(loop.name, referee.name, loop.transcript, own=is_own(own)))
    )


def round_robin_spec(max_rounds: int, turn_order: TurnOrder = "declared") -> PatternSpec:
    """The loop's parts for a round robin: it stops by its cap, and its voices are names."""

    def stops(state: RoundRobinState) -> str | None:
        return "max_rounds" if state.round >= max_rounds else None

    return PatternSpec(
        input_type=RoundRobinInput,
        new_state=RoundRobinState,
        make_output=partial(raw_output, turn_order=turn_order),
        stop_reason=stops,
        voice_of=attrgetter("agent_name"),
        speaker="panelist",
    )


def raw_output(ctx: Context, status: RunStatus, *, turn_order: TurnOrder = "declared") -> RoundRobinOutput:
    """The raw output of the round robin around a step, so far."""
    state = state_of(ctx, RoundRobinState)
    return RoundRobinOutput(
        question=state.question,
        rounds=state.round,
        transcript=list(entries_of(ctx)),
        audits=list(state.audits),
        stop_reason=state.stop_reason,
        status=status,
        losses=list(state.losses),
        seed=ctx.seed,
        turn_order=turn_order,
    )
