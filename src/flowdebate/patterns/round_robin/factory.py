"""`round_robin()`: its options, checked before anything is built, and its steps, from the first to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Required, TypeVar, Unpack, overload

from flowdebate._util.validation import suggesting
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.options import NEEDS_SYNTHESIZER, CommonOptions, PromptOptions, quorum_of
from flowdebate.chassis.output import build_output, ending_of, with_synthesizer
from flowdebate.chassis.roles import NOT_KEPT, PatternKeywords, RefereeOptions, SynthesizerOptions
from flowdebate.chassis.roster import MemberLike, Role, is_own
from flowdebate.chassis.spec import MANY_ROUNDS, Loop, PatternSpec, check_options
from flowdebate.chassis.state import TurnOrder, entries_of, state_of
from flowdebate.chassis.turn import SKIP, FailurePolicy, record_turn

from .prompts import create_round_robin_debater, create_round_robin_synthesizer
from .referee import create_referee, stash_audit
from .schemas import (
    RefereeReport,
    RoundRobinEntry,
    RoundRobinInput,
    RoundRobinOutput,
    RoundRobinState,
    RoundRobinTranscript,
    create_round_robin_transcript,
)

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.functions import BlockLike, Capability, ToolLike
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.chassis.material import Material
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike
    from flowdebate.stop import StopWhen


OutT = TypeVar("OutT")


class RoundRobinKeywords(PatternKeywords, total=False):
    """The options of `round_robin` that say nothing about the type of its output; their meaning is there."""

    max_rounds: int
    model: ModelChoice
    name: Required[str]
    debaters: Required[Sequence[MemberLike]]
    referee: BlockLike | RefereeOptions | bool | None
    transcript: RoundRobinTranscript | None
    turn_order: TurnOrder


@overload
def round_robin(
    *, synthesizer: Literal[False], output_schema: None = None, **options: Unpack[RoundRobinKeywords]
) -> Sequencer[Any, RoundRobinOutput]: ...


@overload
def round_robin(
    *,
    synthesizer: BlockLike | SynthesizerOptions | Literal[True] | None = None,
    output_schema: type[OutT],
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, OutT]: ...


@overload
def round_robin(
    *,
    synthesizer: SynthesizerOptions | Literal[True] | None = None,
    output_schema: None = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, str]: ...


@overload
def round_robin(
    *, synthesizer: Block[Any, OutT], output_schema: None = None, **options: Unpack[RoundRobinKeywords]
) -> Sequencer[Any, OutT]: ...


@overload
def round_robin(
    *,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    output_schema: object = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, Any]: ...


@suggesting
def round_robin(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    terminate_when: StopWhen | None = None,
    turn_order: TurnOrder = "declared",
    transcript: RoundRobinTranscript | None = None,
    output_schema: object = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    sources: SourcesLike | Sources | Material | None = None,
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

    - `debaters`: at least two `Persona`s, dicts with `name`, `role`, `system_prompt` (and `block`, `model`), or models,
      as in `council()`.
    - `referee`: audits after each round how well the debaters argued: True or `RefereeOptions` for the default one, a
      block or a function of `(input, ctx)` or `(input)` that returns a `RefereeReport` or a dict; None or False for
      none. Later rounds and the synthesizer see its report. It decides neither who speaks nor when the rounds end;
      assessments of debaters who did not speak in the round are dropped.
    - `synthesizer`, a debater's `block`: a block or a function; None is the default block. `synthesizer=False` returns
      the `RoundRobinOutput` itself.
    - `output_schema`: schema of the output; the result of your own synthesizer is validated against it as well.
    - `transcript`: one from `create_round_robin_transcript()`, to share with your own blocks; None creates one.
    - `failures`: a `FailurePolicy`. The round robin goes on without a debater that fails, as long as `quorum` (2) of
      them are heard in the round; `on_failure` may also be "fail" or `StandIn(model)`. A round whose report failed has
      no audit, and there is no output if the synthesizer fails.
    - All other options, such as `turn_order`, `model`, `prompts`, `sources` and `instructions`, are those of
      `debate()`.

    The input is a question: a str, `{"question": str}` or a `RoundRobinInput`. Invalid options raise
    `ConfigurationError` before anything is built; more than four rounds cause a `FlowDebateWarning`.

    >>> from flowdebate.testing import ScriptedModel
    >>> debaters = [{"name": "Ada", "role": "economist"}, {"name": "Ben", "role": "engineer"}]
    >>> pattern = round_robin(name="launch", debaters=debaters, max_rounds=1)
    >>> result = pattern.run_sync("Launch in May?", model=ScriptedModel("It pays.", "Test it first.", "In June."))
    >>> result.output, [entry.agent_name for entry in result.raw.transcript]
    ('In June.', ['Ada', 'Ben'])
    """
    loop = check_options(
        ROUND_ROBIN,
        CommonOptions(
            name=name,
            roster=debaters,
            max_rounds=max_rounds,
            roles={"referee": referee, "synthesizer": synthesizer},
            visibilities={"debater": debater_visibility, "synthesizer": synthesizer_visibility},
            turn_order=turn_order,
            output_schema=output_schema,
            terminate_when=terminate_when,
            transcript=transcript,
            instructions=instructions,
            model=model,
            tools=tools,
            uses=uses,
            context=context,
            settings=settings,
            prompts=prompts,
            sources=sources,
            collection_id=collection_id,
            failures=failures,
        ),
    )
    refereed = loop.has(REFEREE)
    turns = {
        member.name: loop.turn(
            member,
            partial(record_turn, entry=partial(RoundRobinEntry, agent_name=member.name, role=member.role)),
            role=member.role,
            system_prompt=member.system_prompt,
            members=loop.members,
            max_rounds=max_rounds,
            refereed=refereed,
        )
        for member in loop.roster
    }
    pipeline = loop.with_turns(loop.opening(), turns)
    if refereed:
        facts = {"roster_names": loop.names, "transcript": loop.transcript, "max_rounds": max_rounds}
        auditor = loop.role(REFEREE, answer=lambda: RefereeReport, **facts)
        pipeline = pipeline.tap(
            sequencer(name=f"{name}-audit-round")
            .tap(loop.end_of_turns())  # the referee's time is its own
            .then(loop.guard(REFEREE, auditor))
            .then(stash_audit(name, auditor.name, loop.transcript, own=is_own(referee)))
        )
    return with_synthesizer(loop.until_stopped(pipeline).then(build_output(loop)), loop, SYNTHESIZER)


def raw_output(loop: Loop[CommonOptions], ctx: Context, status: RunStatus) -> RoundRobinOutput:
    """The raw output of the round robin around a step, so far."""
    state = state_of(ctx, RoundRobinState)
    return RoundRobinOutput(
        question=state.question,
        rounds=state.round,
        transcript=list(entries_of(ctx)),
        audits=list(state.audits),
        turn_order=loop.turn_order,
        **ending_of(ctx, status),
    )


REFEREE = Role(name="referee", create=[create_referee], instead="no_report", absent="by default")
SYNTHESIZER = Role(name="synthesizer", create=[create_round_robin_synthesizer], instead="no_output", absent="if False")
ROUND_ROBIN = PatternSpec(
    name="round_robin",
    speaker=Role(name="debater", create=[create_round_robin_debater], visibility=NOT_KEPT),
    roles=[REFEREE, SYNTHESIZER],
    constraints=[NEEDS_SYNTHESIZER, quorum_of("debaters")],
    input_type=RoundRobinInput,
    new_state=lambda _: RoundRobinState(),
    make_output=raw_output,
    failures=SKIP,
    create_transcript=create_round_robin_transcript,
    voice_of=attrgetter("speaker"),
    many_rounds=MANY_ROUNDS,
)
