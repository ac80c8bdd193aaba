"""`flowdebate consensus`: agents propose, criticise each other, revise, and vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import carry_out
from flowdebate.cli.keys import Given, Key, choice, count, flag, or_off, seconds, share, text
from flowdebate.cli.plan import COMMON_KEYS, Models, Plan, common
from flowdebate.cli.speakers import personas, personas_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.keys import PlanFile
    from flowdebate.cli.page import Page
    from flowdebate.cli.pages.consensus import ConsensusDocument
    from flowdebate.cli.pages.consensus_view import ConsensusView

__all__ = ("KEYS", "ConsensusPlan", "consensus", "make_plan")

KEYS: Mapping[str, Key] = {
    "task": text("TASK"),
    "agents": personas("--agent"),
    "rounds": count("--rounds"),
    "topology": choice("--topology", ("all-to-all", "round-robin", "ring", "star", "sparse", "random-graph")),
    "hub": text("--hub"),
    "sparsity": share("--sparsity"),
    "convergence": or_off(share("--convergence")),
    "voting": choice("--voting", ("majority", "supermajority", "unanimous", "weighted")),
    "weights": Key(fits=lambda value: isinstance(value, dict), allowed="a table of numbers by agent"),
    "quorum": count("--quorum"),
    "judge": flag("--judge"),
    "tie_break": flag("--tie-break"),
    "turn_timeout": or_off(seconds("--turn-timeout")),
    **{key: value for key, value in COMMON_KEYS.items() if key != "on_failure"},
}
AGENTS = (
    {
        "name": "Planner",
        "role": "wants what works in the long run",
        "system_prompt": "You are a planner. You look for the answer that still holds in ten years.",
    },
    {
        "name": "Maker",
        "role": "wants what can be done now",
        "system_prompt": "You are a maker. You look for the simplest answer that can be started tomorrow.",
    },
    {
        "name": "Guardian",
        "role": "wants what is safe and fair",
        "system_prompt": "You are a guardian. You look for the answer that harms nobody and that all can live with.",
    },
)
"""Three who look for different things in any answer."""


def consensus(  # noqa: PLR0913 - the options of the command
    *,
    task: opt.Subject = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="NAME[=ROLE]",
            help="An agent, and what it is; once for each. Default: a planner, a maker and a guardian.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of critique at most. Default: 3.")] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who criticises whom: all-to-all (the default), round-robin, ring, star, sparse or random-graph.",
        ),
    ] = None,
    hub: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The agent in the middle of the star. Default: the first by name."),
    ] = None,
    sparsity: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="How many of the others review a proposal, for sparse and random-graph."),
    ] = None,
    convergence: Annotated[
        str | None,
        typer.Option(metavar="SHARE|off", help="How alike proposals are when the rounds end early. Default: 0.85."),
    ] = None,
    voting: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="majority (the default), supermajority, unanimous or weighted (see --file)."),
    ] = None,
    quorum: Annotated[
        int | None, typer.Option(metavar="N", help="Valid votes that it takes. Default: of half of the agents.")
    ] = None,
    judge: Annotated[
        bool | None, typer.Option("--judge/--no-judge", help="A judge may end the rounds when all is said.")
    ] = None,
    tie_break: Annotated[
        bool | None, typer.Option("--tie-break/--no-tie-break", help="A judge chooses among tied proposals.")
    ] = None,
    turn_timeout: Annotated[
        str | None,
        typer.Option(metavar="S|off", help="Time at most for one answer, in which it may have to wait. Default: 90."),
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
    record: opt.Record = None,
    replay: opt.Replay = None,
    store: opt.StoreName = None,
    no_store: opt.NoStore = False,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
) -> None:
    """Let agents look for the best answer to a task: they propose, criticise each other, revise, and vote.

    What an agent's model loses is left out, and told. The result is an answer that enough of them voted for.
    """
    carry_out(make_plan, dict(locals()))


@dataclass(frozen=True, kw_only=True)
class ConsensusPlan(Plan):
    """Everything that a consensus debate is made of."""

    NAME: ClassVar[str] = "consensus"
    VERB: ClassVar[str] = "consensus"

    def pattern(self) -> Sequencer[Any, Any]:
        from flowdebate.patterns.consensus import consensus as pattern

        given = self.given
        bound, patience = given.get("convergence", 0.85), given.get("turn_timeout", 90.0)
        with given.placing({key: key for key in KEYS}):
            return pattern(
                name=self.NAME,
                agents=self.speakers,
                max_rounds=self.rounds,
                topology=given.get("topology", "all-to-all"),
                hub=given["hub"],
                sparsity=given.get("sparsity", 0.5),
                convergence=None if bound is False else bound,
                diverging=0.40 if bound is False else min(0.40, bound),
                voting=given.get("voting", "majority"),
                weights=given["weights"],
                quorum=given["quorum"],
                turn_timeout=None if patience is False else patience,
                instructions=self.instructions,
                **self._judges(),
            )

    def _judges(self) -> dict[str, Any]:
        """The default blocks for the seats that are wanted."""
        from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge

        names = [agent.name for agent in self.speakers]
        judge = create_conclusive_judge(name=self.NAME) if self.given["judge"] else None
        tie_break = create_tie_judge(name=self.NAME, choices=names) if self.given["tie_break"] else None
        return {"judge": judge, "tie_break": tie_break}

    def document(self, raw: Any, _: object, /, **facts: Any) -> ConsensusDocument:  # noqa: ANN401 - of any run
        from flowdebate.cli.document import speakers_of
        from flowdebate.cli.pages.consensus import ConsensusDocument
        from flowdebate.patterns.consensus.schemas import ConsensusContext, ConsensusOutput

        nothing = ConsensusOutput(
            task=self.subject,
            outcome=None,
            answer=None,
            winner=None,
            context=ConsensusContext(),
            proposals=[],
            rounds=[],
            final_proposals=[],
            ballots=[],
            stages=[],
            status="interrupted",
            seed=facts["seed"],
        )
        return ConsensusDocument(
            raw=nothing if raw is None else raw,
            agents=speakers_of(self.speakers),
            max_rounds=self.rounds,
            **facts,
        )

    def view(self, page: Page) -> ConsensusView:
        from flowdebate.cli.pages.consensus import ConsensusDocument
        from flowdebate.cli.pages.consensus_view import ConsensusView

        page.subject(ConsensusDocument.LABEL, self.subject)
        return ConsensusView(page)


def make_plan(options: Mapping[str, Any], *, file: PlanFile = None) -> ConsensusPlan:
    """The plan of what was given on the command line (None: not given), over what `file` says.

    ConfigurationError or BadFile for what cannot be; it names the option, or the file and the key.
    """
    given = Given(KEYS, options, file)
    made = Models(given["base_url"])
    return ConsensusPlan(
        **common(given, made, subject="task", rounds=3),
        speakers=personas_of(given, made, key="agents", default=AGENTS, least=1),
    )
