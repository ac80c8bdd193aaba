"""Two sides, two rounds, a judge, and a structured decision.

Run it with `python examples/feature_debate.py`: it takes the default model (see docs/models.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from flowdebate import Debater, debate

if TYPE_CHECKING:
    from flowdebate.models import Model

QUESTION = "Should we ship the new search this week?"


class Decision(BaseModel):
    """What the debate is to give us."""

    decision: str
    rationale: str


pattern = debate(
    name="feature-debate",
    debaters=[
        # Stances are whole claims: a model defends a claim better than a bare "for".
        Debater("advocate", "the new search should ship this week"),
        Debater("skeptic", "the new search should wait for the load test", role="an engineer who is on call"),
    ],
    output_schema=Decision,
)


def main(model: Model | str | None = None) -> Decision:
    result = pattern.run_sync(QUESTION, model=model)
    for entry in result.raw.transcript:
        print(f"{entry.round}. [{entry.stance}] {entry.text}")
    print(f"Winner: {result.raw.verdict.winner or 'none, a synthesis'}")
    decision: Decision = result.output
    print(f"Decision: {decision.decision}")
    return decision


if __name__ == "__main__":
    main()
