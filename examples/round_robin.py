"""Let debaters with roles take turns; a referee checks their claims, and the result is a plan.

Run it with `python examples/round_robin.py`. It uses the default model (see docs/models.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from flowdebate import Persona, round_robin
from flowdebate.patterns.round_robin import create_referee, create_round_robin_transcript

if TYPE_CHECKING:
    from flowdebate.models import Model

QUESTION = "How can our town make the way to school safer for children who walk?"

DEBATERS = [
    Persona("Ruth", "traffic engineer", "You think of what makes drivers slow down, and of what can be built."),
    Persona("Omar", "town treasurer", "You count what each idea costs a year, and who is to pay for it."),
    Persona("Lena", "mother of two children", "You walk to school with them each morning and see what frightens them."),
]


class Plan(BaseModel):
    """The deliverable."""

    reasons: list[str] = Field(description="The points of the panel that carry the plan")
    plan: str = Field(description="What should be done, in two or three sentences")
    first_step: str
    open_risks: list[str]


transcript = create_round_robin_transcript()

pattern = round_robin(
    name="way-to-school",
    debaters=DEBATERS,
    transcript=transcript,
    # The referee audits each round without deciding anything. It reads the arguments, so it shares the transcript.
    referee=create_referee(
        name="way-to-school", roster_names=[debater.name for debater in DEBATERS], transcript=transcript, max_rounds=2
    ),
    output_schema=Plan,
)


def main(model: Model | str | None = None) -> Plan:
    result = pattern.run_sync(QUESTION, model=model)
    for entry in result.raw.transcript:
        print(f"{entry.round}. [{entry.agent_name}, {entry.role}] {entry.text}")
    for audit in result.raw.audits:
        print(f"Referee on round {audit.round}: {audit.notes}")
        for found in audit.assessments:
            print(f"   {found.agent_name}: {found.score} of 100; {'; '.join(found.issues) or 'no issues'}")
    plan: Plan = result.output
    print(f"Plan: {plan.plan}")
    print(f"First step: {plan.first_step}")
    print(f"Risks: {'; '.join(plan.open_risks) or 'none'}")
    return plan


if __name__ == "__main__":
    main()
