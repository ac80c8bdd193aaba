"""Hold a full consensus debate even though one agent keeps failing, then a second one that remembers the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Persona, consensus
from flowdebate.errors import ProviderFailed
from flowdebate.models import Breakers, Fallback
from flowdebate.resources import Archive

if TYPE_CHECKING:
    from flowdebate import ConsensusOutput
    from flowdebate.blocks import Sequencer
    from flowdebate.models import Model, ModelRequest, ModelResponse

TASKS = (
    "How should we migrate our payments to a new provider?",
    "How should we migrate our invoices to a new provider?",
)


class Flaky:
    """Provider that is always down."""

    name = "flaky"

    async def request(self, _: ModelRequest, /) -> ModelResponse:
        raise ProviderFailed("the server is on fire", status=503, model=self.name)


async def research(task: str) -> str:
    """Stand in for a search; all agents see its result."""
    return f"Three teams have done something like it before ({len(task.split())} words were looked up)."


def build(model: Model | str, archive: Archive) -> Sequencer[Any, ConsensusOutput]:
    return consensus(
        name="migration",
        agents=[
            Persona("architect", "software architect", "You want few moving parts, and a way back."),
            Persona("accountant", "head of accounting", "You want no payment to be lost or made twice."),
            Persona("operator", "site reliability engineer", "You want to sleep at night.", model=Flaky()),
            Persona("lawyer", "counsel", "You want contracts to be kept.", model=Fallback(Flaky(), model)),
        ],
        model=model,
        max_rounds=2,
        topology="ring",  # each agent criticizes both neighbors
        convergence=0.85,
        voting="weighted",  # weighted by the ratings in the archive
        breakers=Breakers(failures=3, cooldown=60.0, successes=2),
        archive=archive,  # past debates, critique patterns, ratings, positions
        history_limit=5,
        research=research,
    )


def report(output: ConsensusOutput) -> None:
    print(f"\n{output.task}")
    print(" → ".join(reached.label for reached in output.stages))
    print(f"past debates remembered: {len(output.context.past_debates)}")
    for left_out in output.context.skipped:
        print(f"left out: {left_out.source}, {left_out.reason}")
    for failure in output.losses:
        print(f"failed: {failure.name}, {failure.phase}: {failure.error_type}")
    for one in output.rounds:
        shown = "not measured" if one.convergence is None else one.convergence.status
        print(f"round {one.round}: {len(one.critiques)} critiques, {len(one.revisions)} revisions, {shown}")
    for ballot in output.ballots:
        print(f"{ballot.voter} votes for {ballot.choice} ({ballot.confidence:.0%})")
    print(f"{output.outcome}: {output.winner}, {output.strength}, confidence {output.confidence:.0%}")
    print(output.answer)
    if output.feedback is not None:
        print({name: round(change, 1) for name, change in output.feedback.rating_changes.items()})


def main(model: Model | str = "openai/gpt-5-mini") -> list[ConsensusOutput]:
    pattern = build(model, Archive())
    outputs = []
    for task in TASKS:  # the archive tells the second run about the first
        result = pattern.run_sync(task)
        report(result.output)
        outputs.append(result.output)
    return outputs


if __name__ == "__main__":
    main()
