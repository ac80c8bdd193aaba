"""Debate three positions with a custom judge and a custom output schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from flowdebate import Debater, DebateVerdict, create_debate_transcript, debate, format_transcript_for_judge, generator

if TYPE_CHECKING:
    from flowdebate import DebateInput
    from flowdebate.models import Model
    from flowdebate.runs import Context

QUESTION = "How should we invest the reserve?"
STANCES = {
    "hawk": "put most of the reserve into shares",
    "dove": "keep the reserve in cash",
    "owl": "split the reserve evenly",
}


class Plan(BaseModel):
    """The deliverable."""

    shares_percent: int
    cash_percent: int
    why: str


transcript = create_debate_transcript()


def case_file(question: DebateInput, ctx: Context) -> str:
    """Return the judge's prompt: the whole transcript without names, shuffled with the run's random source."""
    arguments = format_transcript_for_judge(ctx.resources.transcript.state.entries, random=ctx.random)
    return f"{question.question}\n\n{arguments}"


# Any block can judge. This one is a model with a custom prompt; since it reads the transcript, it declares it as a
# resource.
risk_judge = generator(
    name="risk-judge",
    prompt=f"You judge by one measure: what is lost if things go badly. Positions: {'; '.join(STANCES.values())}",
    user=case_file,
    output_schema=DebateVerdict,
    model="intent/synthesize",
    resources={"transcript": transcript},
)

pattern = debate(
    name="reserve",
    debaters=[Debater(name, stance) for name, stance in STANCES.items()],
    transcript=transcript,
    judge=risk_judge,
    output_schema=Plan,
)


def main(model: Model | str | None = None) -> Plan:
    result = pattern.run_sync(QUESTION, model=model)
    plan: Plan = result.output
    print(f"{plan.shares_percent}% shares, {plan.cash_percent}% cash: {plan.why}")
    if result.raw.verdict is not None:
        print(f"The judge found: {result.raw.verdict.verdict}")
    return plan


if __name__ == "__main__":
    main()
