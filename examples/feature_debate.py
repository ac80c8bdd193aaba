"""Hold a debate with two sides, a judge and a structured decision, with or without a moderator.

Run it with `python examples/feature_debate.py`, and add `--moderated` for a moderator. It uses the default model (see
docs/models.md).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from flowdebate import Debater, create_debate_transcript, create_moderator, debate

if TYPE_CHECKING:
    from flowdebate.models import Model
    from flowdebate.runs import Context

QUESTION = "Should we ship the new search this week?"
DEBATERS = [
    # Write stances as complete claims: a model defends a claim better than a bare "for".
    Debater("advocate", "the new search should ship this week"),
    Debater("skeptic", "the new search should wait for the load test", role="an engineer who is on call"),
]


class Decision(BaseModel):
    """Decision reached by the debate."""

    decision: str = Field(description="What to do, in one sentence")
    rationale: str = Field(description="Why, in two or three sentences")


# Without a moderator, every debater speaks in every round, in declared order.
pattern = debate(
    name="feature-debate",
    debaters=DEBATERS,
    max_rounds=2,
    output_schema=Decision,
)


def budget_is_exhausted(ctx: Context) -> bool:
    """End the debate after the round in which the application's session requests it."""
    return ctx.session.state.get("budget_exhausted") is True


# A moderator picks the speakers when it opens a round. It reads the transcript, so both get the same object.
transcript = create_debate_transcript()

moderated = debate(
    name="feature-debate",
    transcript=transcript,
    debaters=DEBATERS,
    max_rounds=4,
    moderator=create_moderator(
        name="feature-debate",
        roster_names=["advocate", "skeptic"],
        transcript=transcript,
    ),
    terminate_when=budget_is_exhausted,
    output_schema=Decision,
)


def main(
    model: Model | str | None = None, *, moderator: bool = False, session: dict[str, object] | None = None
) -> Decision:
    result = (moderated if moderator else pattern).run_sync(QUESTION, model=model, session=session)
    for decided in result.raw.moderator_decisions:
        print(f"Round {decided.round}: {', '.join(decided.next_speakers)}; {decided.new_angle or 'no new angle'}")
    for entry in result.raw.transcript:
        print(f"{entry.round}. [{entry.stance}] {entry.text}")
    if (verdict := result.raw.verdict) is not None:
        print(f"Winner: {verdict.winner or 'none, a synthesis'}")
    print(f"Finished after {result.raw.rounds} rounds: {result.raw.stop_reason}")
    decision: Decision = result.output
    print(f"Decision: {decision.decision}")
    return decision


if __name__ == "__main__":
    main(moderator="--moderated" in sys.argv)
