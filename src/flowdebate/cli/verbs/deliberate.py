"""`flowdebate deliberate`: personas argue at the same time, a moderator closes each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

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
    from flowdebate.cli.pages.deliberation import DeliberationDocument, DeliberationView

__all__ = ("KEYS", "DeliberationPlan", "deliberate", "make_plan")

KEYS: Mapping[str, Key] = {
    "topic": text("TOPIC"),
    "debaters": personas("--debater"),
    "rounds": count("--rounds"),
    "report": choice("--report", ("structured", "text")),
    **COMMON_KEYS,
}
DEBATERS = (
    {
        "name": "Optimist",
        "role": "wants the bold answer",
        "system_prompt": "You are an optimist. You want the bold answer, because you see what can be won by it.",
    },
    {
        "name": "Skeptic",
        "role": "wants the careful answer",
        "system_prompt": "You are a skeptic. You want the careful answer, because you see what can go wrong.",
    },
)
"""Two who differ about any topic."""


def deliberate(  # noqa: PLR0913 - the options of the command
    *,
    topic: opt.Subject = None,
    debaters: Annotated[
        list[str] | None,
        typer.Option(
            "--debater",
            metavar="NAME[=ROLE]",
            help="Who takes part, and what it is; once for each. Default: an optimist and a skeptic.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most. Default: 3.")] = None,
    report: Annotated[
        str | None,
        typer.Option(
            metavar="structured|text",
            help="How the moderator's model is asked: by a schema, or for lines of text. Default: structured.",
        ),
    ] = None,
    model: opt.ModelSpec = None,
    judge_model: opt.JudgeModel = None,
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
    """Let personas deliberate on a topic. A moderator closes each round, and says when the matter is settled.

    All speak at the same time, so that none sees what the others say in that round. The result is a decision.
    """
    carry_out(make_plan, dict(locals()))


@dataclass(frozen=True, kw_only=True)
class DeliberationPlan(Plan):
    """Everything that a deliberation is made of."""

    NAME: ClassVar[str] = "deliberation"
    VERB: ClassVar[str] = "deliberate"
    report: Literal["structured", "text"]

    def pattern(self) -> Sequencer[Any, Any]:
        from flowdebate.patterns.deliberation import deliberation

        return deliberation(
            name=self.NAME,
            debaters=self.speakers,
            max_rounds=self.rounds,
            report=self.report,
            instructions=self.instructions,
            on_failure=self.on_failure,
        )

    def document(self, raw: Any, _: object, /, **facts: Any) -> DeliberationDocument:  # noqa: ANN401 - of any run
        from flowdebate.cli.document import speakers_of
        from flowdebate.cli.pages.deliberation import DeliberationDocument
        from flowdebate.patterns.deliberation.schemas import DeliberationOutput

        nothing = DeliberationOutput(
            topic=self.subject,
            rounds=0,
            history=[],
            summaries=[],
            final_decision=None,
            is_settled=False,
            status="interrupted",
            seed=facts["seed"],
        )
        return DeliberationDocument(
            raw=nothing if raw is None else raw,
            debaters=speakers_of(self.speakers),
            max_rounds=self.rounds,
            **facts,
        )

    def view(self, page: Page) -> DeliberationView:
        from flowdebate.cli.pages.deliberation import DeliberationDocument, DeliberationView

        page.subject(DeliberationDocument.LABEL, self.subject)
        return DeliberationView(page)


def make_plan(options: Mapping[str, Any], *, file: PlanFile = None) -> DeliberationPlan:
    """The plan of what was given on the command line (None: not given), over what `file` says.

    ConfigurationError or BadFile for what cannot be; it names the option, or the file and the key.
    """
    given = Given(KEYS, options, file)
    made = Models(given["base_url"])
    return DeliberationPlan(
        **common(given, made, subject="topic", rounds=3),
        speakers=personas_of(given, made, key="debaters", default=DEBATERS),
        report=given.get("report", "structured"),
    )
