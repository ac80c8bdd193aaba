"""`deliberation()`: its options, checked before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

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

__all__ = ("deliberation",)


def deliberation(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[Persona | Mapping[str, Any]],
    max_rounds: int = 3,
    moderator: BlockLike | Literal[False] | None = None,
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
    """Make a block that deliberates on a topic: `await pattern.run("Should we invest?")`, or `{"topic": …}`.

    Each round, all debaters speak once, at the same time, so that none sees what the others say in it; then the
    moderator reads everything and reports `{summary, status, decision}`. When it finds the matter SETTLED, after
    `max_rounds` rounds, or when `terminate_when(ctx)` is true after a round, the deliberation is over. Its output is a
    `DeliberationOutput`: the decision (or, where it is settled without one, the summary), and all that was said.

    - `debaters`: at least two `Persona`s, or dicts with `name`, `role`, `system_prompt` (and `block`, `model`).
    - `moderator`, a debater's `block`: None is the default, else a block or a function of `(input, ctx)` or `(input)`.
      `moderator=False` leaves it out: then nothing settles the matter. A moderator of your own returns a
      `ModeratorReport`, a dict, or text, which `parse_report` reads.
    - `report`: how the default moderator's model is asked: "structured" by a schema, "text" for lines of text.
    - `transcript`: what `create_deliberation_transcript()` makes, to share it with blocks of your own; None makes one.
    - `instructions`, `tools`, `uses`, `context`, `settings` and the visibilities reach the default blocks
      only. Defaults of the visibilities: items of all are shown to the client; those of debaters are not kept in
      history.
    - `collection_id`: the id of the audit trail (default: `name`).
    - `failures`: a `FailurePolicy`. `on_failure` is what becomes of a turn whose provider failed for good: "fail" (the
      default: the run raises the error), "skip", or `StandIn(model)`. With the latter two a round whose report was lost
      is closed without one, and the deliberation goes on. Failures of the application's own code are always raised.
      `quorum` (2) is how many must be heard in a round with skipped turns, or else `QuorumLost` ends it. `turn_timeout`
      and `round_timeout` are the seconds that a role, and all turns of a round together, may take; the report has a
      role's time. What is late is lost as if its provider had failed.

    Raises `ConfigurationError` for what cannot be, before anything is built.

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
    if moderator is not False:
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
