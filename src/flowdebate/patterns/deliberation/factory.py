"""The `deliberation()` factory: it validates the options and assembles the steps in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from flowdebate._util.option_types import check_option
from flowdebate._util.validation import suggesting
from flowdebate.blocks.functions import BlockLike, Capability, Handler, ToolLike, handler
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.options import CommonOptions, PromptOptions, quorum_of
from flowdebate.chassis.output import build_output, ending_of
from flowdebate.chassis.roles import NOT_KEPT, ModeratorOptions
from flowdebate.chassis.roster import MemberLike, Role, is_custom_code
from flowdebate.chassis.spec import Loop, PatternSpec, check_options
from flowdebate.chassis.state import entries_of, state_of
from flowdebate.chassis.turn import FailurePolicy, record_turn

from .agents import ReportForm, create_moderator, create_persona_debater, stash_report
from .schemas import (
    DeliberationEntry,
    DeliberationInput,
    DeliberationOutput,
    DeliberationState,
    DeliberationTranscript,
    ModeratorReport,
    create_deliberation_transcript,
)

if TYPE_CHECKING:
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.chassis.material import Material
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike
    from flowdebate.stop import StopWhen


@suggesting
def deliberation(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 3,
    moderator: BlockLike | ModeratorOptions | bool | None = None,
    model: ModelChoice = None,
    report: ReportForm = "structured",
    terminate_when: StopWhen | None = None,
    transcript: DeliberationTranscript | None = None,
    instructions: TextSlot | None = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    sources: SourcesLike | Sources | Material | None = None,
    moderator_visibility: Visibility | Mapping[str, bool] | None = None,
    debater_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, DeliberationOutput, DeliberationOutput]:
    """Build a deliberation, a block that discusses a topic until it is settled: `await pattern.run("Invest $1M?")`.

    In each round all debaters speak at the same time, and then the moderator reports `{summary, status, decision}`. The
    deliberation ends when the moderator reports SETTLED, after `max_rounds`, or when `terminate_when(ctx)` is true. The
    output is a `DeliberationOutput`.

    - `debaters`: at least two `Persona`s, dicts (`name`, `role`, `system_prompt`) or models.
    - `moderator`: a block, a function of `(input, ctx)`, or `ModeratorOptions`. If there is no moderator (False), the
      topic is never settled.
    - `model`: the default model for all roles.
    - `report`: the format of the default moderator's answers, "structured" (with a schema) or "text" (in three lines).
    - `failures`: what to do when a provider fails, and time limits for turns and rounds.
    - All other options: see `debate()`.

    The input is a str, `{"topic": str}` or a `DeliberationInput`. Invalid options raise `ConfigurationError`.

    >>> from flowdebate.testing import ScriptedModel
    >>> bull, bear = {"name": "Bull", "role": "optimist"}, {"name": "Bear", "role": "risk analyst"}
    >>> settled = {"summary": "Both want milestones.", "status": "SETTLED", "decision": "Invest half."}
    >>> model = ScriptedModel("It grows.", "It burns.", settled)
    >>> deliberation(name="deal", debaters=[bull, bear]).run_sync("Invest $1M?", model=model).output.final_decision
    'Invest half.'
    """
    loop = check_options(
        DELIBERATION,
        CommonOptions(
            name=name,
            roster=debaters,
            max_rounds=max_rounds,
            roles={"moderator": moderator},
            visibilities={"moderator": moderator_visibility, "debater": debater_visibility},
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
    check_option(ReportForm, "report", report, location=loop.location, optional=False)
    turns = {
        persona.name: loop.turn(
            persona,
            partial(record_turn, entry=None),
            role=persona.role,
            system_prompt=persona.system_prompt,
            participants=loop.members,
            max_rounds=max_rounds,
        )
        for persona in loop.roster
    }
    round_ = sequencer(name=f"{name}-debate-round").parallel(turns, finish=True).then(_record_round(loop))
    pipeline = loop.opening().tap(round_).tap(loop.end_of_turns())  # the moderator has a separate time limit
    if not loop.has(MODERATOR):
        return loop.until_stopped(pipeline).then(build_output(loop))
    closing = loop.role(
        MODERATOR,
        answer=lambda: ModeratorReport,
        transcript=loop.transcript,
        participants=loop.members,
        max_rounds=max_rounds,
        report=report,
    )
    close = (
        sequencer(name=f"{name}-close-round")
        .then(loop.guard(MODERATOR, closing))
        .then(stash_report(name, closing.name, custom=is_custom_code(moderator)))
    )
    return loop.until_stopped(pipeline.tap(close), "settled (moderator)").then(build_output(loop))


def _in_progress(loop: Loop[CommonOptions], ctx: Context) -> list[DeliberationEntry]:
    """Return the contributions made so far in the current round."""
    number = state_of(ctx, DeliberationState).round
    return loop.collect_spoken(
        ctx, round=number, make=lambda name, **fields: DeliberationEntry(round=number, name=name, **fields)
    )


def _record_round(loop: Loop[CommonOptions]) -> Handler[object, list[DeliberationEntry]]:
    """Create a block that adds the round's contributions to the transcript once all debaters have spoken."""

    @handler(name=f"{loop.name}-record-round", resources={"transcript": loop.transcript})
    def record(_: object, ctx: Context) -> list[DeliberationEntry]:
        entries = _in_progress(loop, ctx)
        handle = ctx.scope.handles["transcript"]
        handle.set(handle.state.with_entry(*entries))
        # otherwise, if a later round is cut short, these contributions would be shown again
        ctx.scope.handle.update(spoken={})
        return entries

    return record


def stop_reason(state: DeliberationState, max_rounds: int) -> str | None:
    """Return the reason for ending the deliberation after the round that has just closed, or None to continue.

    >>> from flowdebate.patterns.deliberation.schemas import DeliberationState
    >>> stop_reason(DeliberationState(round=3), 3)
    'max_rounds'
    """
    # checked before `max_rounds`: a topic settled in the last round counts as settled, not as out of rounds
    if state.is_settled:
        return "settled"
    return "max_rounds" if state.round >= max_rounds else None


def raw_output(loop: Loop[CommonOptions], ctx: Context, status: RunStatus) -> DeliberationOutput:
    """Return the enclosing deliberation's current raw output, including an unfinished round."""
    state = state_of(ctx, DeliberationState)
    decision = None if state.report is None else state.report.decision
    # the topic is settled without an explicit decision, so the summary describes the agreement
    if state.report is not None and decision is None and state.is_settled:
        decision = state.report.summary
    return DeliberationOutput(
        topic=state.question,
        rounds=state.round,
        history=[*entries_of(ctx), *_in_progress(loop, ctx)],
        summaries=["" if report is None else report.summary for report in state.reports],
        final_decision=decision,
        is_settled=state.is_settled,
        reports=list(state.reports),
        **ending_of(ctx, status),
    )


MODERATOR = Role(name="moderator", create=[create_moderator], instead="no_report", absent="if False")
DELIBERATION = PatternSpec(
    name="deliberation",
    speaker=Role(name="debater", create=[create_persona_debater], visibility=NOT_KEPT),
    shares_sources=True,
    roles=[MODERATOR],
    constraints=[quorum_of("debaters")],
    input_type=DeliberationInput,
    new_state=lambda _: DeliberationState(),
    make_output=raw_output,
    create_transcript=create_deliberation_transcript,
    stop_reason=stop_reason,
    voice_of=attrgetter("speaker"),
)
