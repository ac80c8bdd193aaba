"""`deliberation()`: its options, checked before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.patterns import checks
from flowdebate.patterns.deliberation.assembly import DeliberationOptions, assemble, deliberation_spec
from flowdebate.patterns.deliberation.moderator import ReportForm, check_report_form
from flowdebate.patterns.deliberation.transcript import DeliberationTranscript, create_deliberation_transcript
from flowdebate.patterns.loop import checked_loop
from flowdebate.patterns.roles import NOT_KEPT, SHOWN, RoleOptions
from flowdebate.patterns.roster import Persona, checked_roster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.handler import BlockLike, Function
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.deliberation.schemas import DeliberationOutput
    from flowdebate.patterns.failures import FailurePolicy
    from flowdebate.patterns.roles import ModeratorOptions

__all__ = ("deliberation",)


def deliberation(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    max_rounds: int = 3,
    moderator: BlockLike | ModeratorOptions | bool | None = None,
    report: ReportForm = "structured",
    terminate_when: Function | None = None,
    transcript: DeliberationTranscript | None = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    moderator_visibility: Visibility | Mapping[str, bool] | None = None,
    debater_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, DeliberationOutput]:
    """Build a deliberation, a block that discusses a topic: `await pattern.run("Should we invest?")`.

    In each round all debaters speak once, at the same time, so nobody sees what the others say in it. Then the
    moderator reads everything and reports `{summary, status, decision}`. The deliberation ends when the moderator
    reports SETTLED, after `max_rounds`, or if `terminate_when(ctx)` returns true after a round. The output is a
    `DeliberationOutput` with everything said and the decision; if the topic is settled without one, the summary is the
    decision.

    - `debaters`: at least two `Persona`s, or dicts with `name`, `role`, `system_prompt` (and `block`, `model`).
    - `moderator`, a debater's `block`: a block or a function of `(input, ctx)` or `(input)`; None is the default block.
      `moderator=False` runs without one, so nothing settles the topic. Your own moderator returns a `ModeratorReport`,
      a dict, or text for `parse_report`.
    - `report`: form of the default moderator's answer: "structured" uses a schema, "text" asks for lines of text.
    - `transcript`: one from `create_deliberation_transcript()`, to share with your own blocks; None creates one.
    - `model` reaches all blocks inside that name none; it is one model, or one by intent. A role's own options
      (`ModeratorOptions`, `Persona(…, options=DebaterOptions(…))`) take the place of these.
    - `instructions`, `tools`, `uses`, `context`, `settings` and the visibilities apply to the default blocks only. By
      default the client sees the items of all blocks, and those of debaters are not added to the history.
    - `collection_id`: the id of the audit trail (default: `name`).
    - `failures`: a `FailurePolicy`. `on_failure` is "fail" (default: the run raises the error), "skip" or
      `StandIn(model)`. With the latter two, a round whose report failed closes without one. With fewer personas than
      `quorum` (2) in a round with skipped turns, `QuorumLost` ends the deliberation. `turn_timeout` bounds each turn
      and the report in seconds, `round_timeout` all turns of a round together; exceeding them counts as a provider
      failure. Exceptions from your own code are always raised.

    The input is a topic: a str, `{"topic": str}` or a `DeliberationInput`. Invalid options raise `ConfigurationError`
    before anything is built.

    >>> from flowdebate.testing import ScriptedModel
    >>> bull, bear = {"name": "Bull", "role": "optimist"}, {"name": "Bear", "role": "risk analyst"}
    >>> pattern = deliberation(name="deal", debaters=[bull, bear])
    >>> settled = {"summary": "Both want milestones.", "status": "SETTLED", "decision": "Invest half now."}
    >>> output = pattern.run_sync("Invest $1M?", model=ScriptedModel("It grows.", "It burns.", settled)).output
    >>> output.rounds, output.is_settled, output.final_decision
    (1, True, 'Invest half now.')
    """
    checks.check_name(name, where="deliberation", field="name")
    where = f"deliberation {name!r}"
    roster = checked_roster(debaters, where=where, kind=Persona)
    if not isinstance(moderator, bool):
        checks.check_role(
            where, "moderator", moderator, "None, which is the default block, False, which leaves it out,"
        )
    check_report_form(report, where=where)
    loop = checked_loop(
        name=name,
        where=where,
        max_rounds=max_rounds,
        terminate_when=terminate_when,
        transcript=transcript,
        create_transcript=create_deliberation_transcript,
        model=model,
        collection_id=collection_id,
        failures=failures,
        spec=deliberation_spec(roster, max_rounds),
    )
    defaults = RoleOptions(tools=tools, uses=uses, context=context, instructions=instructions, settings=settings)
    return assemble(
        DeliberationOptions(
            loop=loop,
            roster=roster,
            moderator=moderator,
            report=report,
            of_debaters=defaults.shown(debater_visibility, NOT_KEPT, where=where, field="debater_visibility"),
            of_moderator=defaults.shown(moderator_visibility, SHOWN, where=where, field="moderator_visibility"),
        )
    )
