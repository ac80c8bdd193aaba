"""`flowdebate panel`: roles speak round by round, and an answer is made of what they said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import carry_out
from flowdebate.cli.keys import Given, Key, count, flag, text
from flowdebate.cli.plan import COMMON_KEYS, OUTPUT_KEYS, Models, Plan, common, output_schema
from flowdebate.cli.speakers import personas, personas_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.keys import PlanFile
    from flowdebate.cli.page import Page
    from flowdebate.cli.pages.panel import PanelDocument, PanelView
    from flowdebate.models.output import OutputSchema

__all__ = ("KEYS", "PanelPlan", "make_plan", "panel")

KEYS: Mapping[str, Key] = {
    "question": text("QUESTION"),
    "panelists": personas("--panelist"),
    "rounds": count("--rounds"),
    "referee": flag("--referee"),
    **OUTPUT_KEYS,
    **COMMON_KEYS,
}
PANELISTS = (
    {
        "name": "Analyst",
        "role": "weighs the evidence",
        "system_prompt": "You are an analyst. You ask what is known, how well, and what it would take to know more.",
    },
    {
        "name": "Practitioner",
        "role": "knows how it is done",
        "system_prompt": "You are a practitioner. You ask what works in practice, what it costs, and who has to do it.",
    },
    {
        "name": "Critic",
        "role": "looks for what is missing",
        "system_prompt": "You are a critic. You ask what can go wrong, who was forgotten, and what would be simpler.",
    },
)
"""Three who look at any question from different sides."""


def panel(  # noqa: PLR0913 - the options of the command
    *,
    question: opt.Subject = None,
    panelists: Annotated[
        list[str] | None,
        typer.Option(
            "--panelist",
            metavar="NAME[=ROLE]",
            help="Who sits on the panel, and what it is; once for each. "
            "Default: an analyst, a practitioner and a critic.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most. Default: 2.")] = None,
    referee: Annotated[
        bool | None,
        typer.Option("--referee/--no-referee", help="A referee audits after each round how well was argued."),
    ] = None,
    model: opt.ModelSpec = None,
    judge_model: opt.JudgeModel = None,
    base_url: opt.BaseUrl = None,
    schema: opt.Schema = None,
    synthesize: opt.Synthesize = None,
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
    """Have a panel work on a question. Each speaks once in each round, one after the other.

    The result is what a synthesizer writes of it; with --no-synthesize it is what was said.
    """
    carry_out(make_plan, dict(locals()))


@dataclass(frozen=True, kw_only=True)
class PanelPlan(Plan):
    """Everything that a panel is made of."""

    NAME: ClassVar[str] = "panel"
    VERB: ClassVar[str] = "panel"
    referee: bool
    schema: OutputSchema | None
    synthesize: bool

    def pattern(self) -> Sequencer[Any, Any]:
        from flowdebate.patterns.round_robin import create_referee, create_round_robin_transcript, round_robin

        transcript = create_round_robin_transcript()
        referee = None
        if self.referee:
            referee = create_referee(
                name=self.NAME,
                roster_names=[panelist.name for panelist in self.speakers],
                transcript=transcript,
                max_rounds=self.rounds,
                instructions=self.instructions,
            )
        return round_robin(
            name=self.NAME,
            panelists=self.speakers,
            max_rounds=self.rounds,
            referee=referee,
            synthesizer=None if self.synthesize else False,
            transcript=transcript,
            output_schema=self.schema,
            instructions=self.instructions,
            on_failure=self.on_failure,
        )

    def document(self, raw: Any, output: object, /, **facts: Any) -> PanelDocument:  # noqa: ANN401 - of any run
        from flowdebate.cli.document import speakers_of
        from flowdebate.cli.pages.panel import PanelDocument
        from flowdebate.patterns.round_robin.schemas import RoundRobinOutput

        nothing = RoundRobinOutput(
            question=self.subject, rounds=0, transcript=[], status="interrupted", seed=facts["seed"]
        )
        return PanelDocument(
            raw=nothing if raw is None else raw,
            output=output if self.synthesize else None,
            panelists=speakers_of(self.speakers),
            max_rounds=self.rounds,
            **facts,
        )

    def view(self, page: Page) -> PanelView:
        from flowdebate.cli.pages.panel import PanelDocument, PanelView

        page.subject(PanelDocument.LABEL, self.subject)
        synthesizer = f"{self.NAME}-synthesizer" if self.synthesize else None
        return PanelView(page, synthesizer=synthesizer, refereed=self.referee)


def make_plan(options: Mapping[str, Any], *, file: PlanFile = None) -> PanelPlan:
    """The plan of what was given on the command line (None: not given), over what `file` says.

    ConfigurationError or BadFile for what cannot be; it names the option, or the file and the key.
    """
    given = Given(KEYS, options, file)
    made = Models(given["base_url"])
    return PanelPlan(
        **common(given, made, subject="question", rounds=2),
        speakers=personas_of(given, made, key="panelists", default=PANELISTS),
        referee=bool(given["referee"]),
        schema=output_schema(given),
        synthesize=given["synthesize"] is not False,
    )
