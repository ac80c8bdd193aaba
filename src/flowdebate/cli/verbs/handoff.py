"""`flowdebate handoff`: whoever has spoken says who speaks next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import carry_out
from flowdebate.cli.keys import Given, Key, choice, count, text
from flowdebate.cli.plan import COMMON_KEYS, Models, Plan, common
from flowdebate.cli.speakers import personas, personas_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.keys import PlanFile
    from flowdebate.cli.page import Page
    from flowdebate.cli.pages.handoff import HandoffDocument, HandoffView

__all__ = ("KEYS", "HandoffPlan", "handoff", "make_plan")

KEYS: Mapping[str, Key] = {
    "proposition": text("PROPOSITION"),
    "debaters": personas("--debater"),
    "turns": count("--turns"),
    "transition": choice("--transition", ("structured", "tool", "text")),
    "on_invalid": choice("--on-invalid", ("retry", "random", "error")),
    "first": text("--first"),
    **{key: value for key, value in COMMON_KEYS.items() if key != "judge_model"},
}
DEBATERS = (
    {
        "name": "Proponent",
        "role": "agrees with the proposition",
        "system_prompt": 'You are the proponent. You agree with the proposition "{proposition}".',
    },
    {
        "name": "Opponent",
        "role": "disagrees with the proposition",
        "system_prompt": 'You are the opponent. You disagree with the proposition "{proposition}".',
    },
    {
        "name": "Neutral",
        "role": "has not decided",
        "system_prompt": 'You are neutral. You have not decided about the proposition "{proposition}", and ask what '
        "would decide it.",
    },
)
"""For, against, and in between."""


def handoff(  # noqa: PLR0913 - the options of the command
    *,
    proposition: opt.Subject = None,
    debaters: Annotated[
        list[str] | None,
        typer.Option(
            "--debater",
            metavar="NAME[=ROLE]",
            help="Who takes part, and what it is; once for each. Default: a proponent, an opponent and a neutral one.",
        ),
    ] = None,
    turns: Annotated[int | None, typer.Option(help="How many turns there are. Default: 10.")] = None,
    transition: Annotated[
        str | None,
        typer.Option(
            metavar="structured|tool|text",
            help="How a model says who is next: in JSON, by calling a function, in its last line. Default: structured.",
        ),
    ] = None,
    on_invalid: Annotated[
        str | None,
        typer.Option(
            metavar="retry|random|error",
            help="What is done where it names nobody who can be next: it is asked once more and then the lot decides, "
            "the lot decides, or it all fails. Default: retry.",
        ),
    ] = None,
    first: Annotated[str | None, typer.Option(metavar="NAME", help="Who begins. Default: the first debater.")] = None,
    model: opt.ModelSpec = None,
    base_url: opt.BaseUrl = None,
    file: opt.File = None,
    seed: opt.Seed = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    attempts: opt.Attempts = None,
    fallback: opt.Fallback = None,
    on_failure: opt.OnFailure = None,
    record: opt.Record = None,
    replay: opt.Replay = None,
    store: opt.StoreName = None,
    no_store: opt.NoStore = False,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
) -> None:
    """Debate a proposition, one speaker at a time: whoever has spoken says who speaks next.

    The result is what was said.
    """
    carry_out(make_plan, dict(locals()))


@dataclass(frozen=True, kw_only=True)
class HandoffPlan(Plan):
    """Everything that a handoff is made of; its rounds are turns."""

    NAME: ClassVar[str] = "handoff"
    VERB: ClassVar[str] = "handoff"

    def pattern(self) -> Sequencer[Any, Any]:
        from flowdebate.patterns.handoff import handoff as pattern

        given = self.given
        with given.placing({"first": "first"}):
            return pattern(
                name=self.NAME,
                debaters=self.speakers,
                first=given["first"],
                transition=given.get("transition", "structured"),
                max_turns=self.rounds,
                on_invalid=given.get("on_invalid", "retry"),
                instructions=self.instructions,
                on_failure=self.on_failure,
            )

    def document(self, raw: Any, _: object, /, **facts: Any) -> HandoffDocument:  # noqa: ANN401 - of any run
        from flowdebate.cli.document import speakers_of
        from flowdebate.cli.pages.handoff import HandoffDocument
        from flowdebate.patterns.handoff.schemas import HandoffOutput

        nothing = HandoffOutput(
            proposition=self.subject, turns=0, transcript=[], status="interrupted", seed=facts["seed"]
        )
        return HandoffDocument(
            raw=nothing if raw is None else raw,
            debaters=speakers_of(self.speakers),
            max_turns=self.rounds,
            **facts,
        )

    def view(self, page: Page) -> HandoffView:
        from flowdebate.cli.pages.handoff import HandoffDocument, HandoffView

        page.subject(HandoffDocument.LABEL, self.subject)
        return HandoffView(page, max_turns=self.rounds)


def make_plan(options: Mapping[str, Any], *, file: PlanFile = None) -> HandoffPlan:
    """The plan of what was given on the command line (None: not given), over what `file` says.

    ConfigurationError or BadFile for what cannot be; it names the option, or the file and the key.
    """
    given = Given(KEYS, options, file)
    made = Models(given["base_url"])
    return HandoffPlan(
        **common(given, made, subject="proposition", rounds=10, cap="turns"),
        speakers=personas_of(given, made, key="debaters", default=DEBATERS),
    )
