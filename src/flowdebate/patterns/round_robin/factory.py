"""`round_robin()`: its options, checked before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from flowdebate.errors import ConfigurationError
from flowdebate.models.output import OutputSchema
from flowdebate.patterns import checks
from flowdebate.patterns.loop import checked_loop
from flowdebate.patterns.roles import NOT_KEPT, SHOWN, RoleOptions
from flowdebate.patterns.roster import Persona, checked_roster
from flowdebate.patterns.round_robin.assembly import RoundRobinOptions, assemble, round_robin_spec
from flowdebate.patterns.round_robin.referee import Referee
from flowdebate.patterns.round_robin.transcript import RoundRobinTranscript, create_round_robin_transcript

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.handler import BlockLike, Function
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.failures import FailurePolicy
    from flowdebate.patterns.roles import RefereeOptions, SynthesizerOptions
    from flowdebate.patterns.round_robin.schemas import RoundRobinOutput

__all__ = (
    "RoundRobinKeywords",
    "round_robin",
)

OutT = TypeVar("OutT")


class RoundRobinKeywords(TypedDict, total=False):
    """The options of `round_robin` that say nothing about the type of its output; their meaning is there."""

    max_rounds: int
    referee: BlockLike | RefereeOptions | bool | None
    terminate_when: Function | None
    transcript: RoundRobinTranscript | None
    instructions: TextSlot | None
    model: ModelChoice
    tools: Sequence[ToolLike] | None
    uses: Sequence[Capability] | None
    context: MessagesSlot | None
    settings: ModelSettings | None
    debater_visibility: Visibility | Mapping[str, bool] | None
    synthesizer_visibility: Visibility | Mapping[str, bool] | None
    collection_id: str | None
    failures: FailurePolicy | None


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


def round_robin(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    max_rounds: int = 2,
    referee: BlockLike | RefereeOptions | bool | None = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    terminate_when: Function | None = None,
    transcript: RoundRobinTranscript | None = None,
    output_schema: Any = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    debater_visibility: Visibility | Mapping[str, bool] | None = None,
    synthesizer_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, Any]:
    """Build a round robin, a block that works on a question and delivers: `await pattern.run("How do we launch?")`.

    In each round every debater speaks once, in declared order, and sees everything said before, in the same round too.
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
    - `transcript`: one from `create_round_robin_transcript()`, to share with your own blocks; None creates one.
    - `model` reaches all blocks inside that name none; it is one model, or one by intent. A role's own options
      (`RefereeOptions`, `SynthesizerOptions`, `Persona(…, options=DebaterOptions(…))`) take the place of these.
    - `instructions`, `tools`, `uses`, `context`, `settings` and the visibilities apply to the default blocks only. By
      default the client sees the items of all blocks, and those of debaters are not added to the history.
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
    checks.check_name(name, where="round_robin", field="name")
    where = f"round_robin {name!r}"
    roster = checked_roster(debaters, where=where, kind=Persona)
    _check_referee(referee, roster, where=where)
    checks.check_synthesizer(where, synthesizer, output_schema)
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
        spec=round_robin_spec(max_rounds),
    )
    defaults = RoleOptions(tools=tools, uses=uses, context=context, instructions=instructions, settings=settings)
    pipeline = assemble(
        RoundRobinOptions(
            loop=loop,
            roster=roster,
            referee=None if referee is False else referee,
            synthesizer=synthesizer,
            output_schema=None if output_schema is None else OutputSchema.of(output_schema, where=where),
            of_debaters=defaults.shown(debater_visibility, NOT_KEPT, where=where, field="debater_visibility"),
            of_referee=defaults,
            of_synthesizer=defaults.shown(synthesizer_visibility, SHOWN, where=where, field="synthesizer_visibility"),
        )
    )
    checks.warn_of_rounds(where, max_rounds, who="debaters")
    return pipeline


def _check_referee(value: object, roster: Sequence[Persona], *, where: str) -> None:
    """A referee is a block or a function; a default one audits the debaters of this round robin."""
    if not isinstance(value, bool):
        checks.check_role(where, "referee", value, "None or False, which leave it out, True, the default one,")
    names = [debater.name for debater in roster]
    if isinstance(value, Referee) and sorted(value.roster_names) != sorted(names):
        allowed = f"made with the debaters' names, roster_names={names}"
        raise ConfigurationError(where, "referee", list(value.roster_names), allowed)
