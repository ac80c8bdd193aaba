"""The `round_robin()` factory: it validates the options and assembles the steps in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from flowdebate._util.validation import suggesting
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.options import NEEDS_SYNTHESIZER, CommonOptions, PromptOptions, quorum_of
from flowdebate.chassis.output import build_output, ending_of, with_synthesizer
from flowdebate.chassis.roles import NOT_KEPT, PatternKeywords, RefereeOptions, SynthesizerOptions
from flowdebate.chassis.roster import MemberLike, Role, is_custom_code
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
    """Options for `round_robin()` that do not affect its output type; see `round_robin()` for details."""

    transcript: RoundRobinTranscript | None
    turn_order: TurnOrder


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    model: ModelChoice = None,
    synthesizer: Literal[False],
    output_schema: None = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, RoundRobinOutput, RoundRobinOutput]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    model: ModelChoice = None,
    synthesizer: BlockLike | SynthesizerOptions | Literal[True] | None = None,
    output_schema: type[OutT],
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, OutT, RoundRobinOutput]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    model: ModelChoice = None,
    synthesizer: SynthesizerOptions | Literal[True] | None = None,
    output_schema: None = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, str, RoundRobinOutput]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    model: ModelChoice = None,
    synthesizer: Block[Any, OutT],
    output_schema: None = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, OutT, RoundRobinOutput]: ...


@overload
def round_robin(
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    model: ModelChoice = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    output_schema: object = None,
    **options: Unpack[RoundRobinKeywords],
) -> Sequencer[Any, Any, RoundRobinOutput]: ...


@suggesting
def round_robin(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    model: ModelChoice = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    terminate_when: StopWhen | None = None,
    turn_order: TurnOrder = "declared",
    transcript: RoundRobinTranscript | None = None,
    output_schema: object = None,
    instructions: TextSlot | None = None,
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
) -> Sequencer[Any, Any, RoundRobinOutput]:
    """Build a round robin, in which debaters discuss a question in turn: `await pattern.run("How do we launch?")`.

    In each round every debater speaks once, having seen all earlier contributions. After `max_rounds`, or when
    `terminate_when(ctx)` is true, the synthesizer turns the contributions into the output. `result.raw` is the
    `RoundRobinOutput`.

    - `debaters`: at least two `Persona`s, dicts (`name`, `role`, `system_prompt`) or models.
    - `referee`: True, `RefereeOptions`, a block or a function, to assess the debaters' arguments after each round.
    - `model`: the default model for all roles.
    - `synthesizer`: a block, a function of `(input, ctx)`, or `SynthesizerOptions`; False returns the
      `RoundRobinOutput`.
    - `output_schema`: the type of the synthesizer's answer.
    - `failures`: what to do when a provider fails; by default the round robin continues as long as two debaters
      contribute.
    - All other options: see `debate()`.

    The input is a str, `{"question": str}` or a `RoundRobinInput`. Invalid options raise `ConfigurationError`.

    >>> from flowdebate.testing import ScriptedModel
    >>> debaters = [{"name": "Ada", "role": "economist"}, {"name": "Ben", "role": "engineer"}]
    >>> launch = round_robin(name="launch", debaters=debaters, max_rounds=1)
    >>> launch.run_sync("Launch in May?", model=ScriptedModel("It pays.", "Test it first.", "In June.")).output
    'In June.'
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
            .tap(loop.end_of_turns())  # the referee has a separate time limit
            .then(loop.guard(REFEREE, auditor))
            .then(stash_audit(name, auditor.name, loop.transcript, custom=is_custom_code(referee)))
        )
    return with_synthesizer(loop.until_stopped(pipeline).then(build_output(loop)), loop, SYNTHESIZER)


def raw_output(loop: Loop[CommonOptions], ctx: Context, status: RunStatus) -> RoundRobinOutput:
    """Return the enclosing round robin's current raw output."""
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
    shares_sources=True,
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
