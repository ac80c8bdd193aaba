"""Let a moderator open each round: it looks up facts with a tool, briefs the debaters and decides when to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate import Debater, create_debate_transcript, create_moderator, debate

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.blocks import Sequencer
    from flowdebate.models import Model

QUESTION = "Should we move the checkout service to another region?"

MEASURED = {"latency": "p95 is 240 ms now, 90 ms in a test in the other region", "cost": "plus 1,200 EUR a month"}


def look_up(topic: str) -> str:
    """Look up what was measured.

    Args:
        topic: what to look up, "latency" or "cost"
    """
    return MEASURED.get(topic, f"nothing was measured; topics: {', '.join(MEASURED)}")


def build() -> Sequencer[Any, Any]:
    names = {"mover": "the checkout service should move", "stayer": "the checkout service should stay"}
    # The moderator and the debate read the same transcript, so it is created once and passed to both.
    transcript = create_debate_transcript()
    return debate(
        name="region",
        debaters=[Debater(name, stance) for name, stance in names.items()],
        transcript=transcript,
        max_rounds=3,
        moderator=create_moderator(
            name="region", roster_names=list(names), transcript=transcript, max_rounds=3, tools=[look_up]
        ),
        synthesizer=False,
    )


def main(model: Model | str | None = None) -> DebateRawOutput:
    raw: DebateRawOutput = build().run_sync(QUESTION, model=model).output
    for decision in raw.moderator_decisions:
        print(f"Round {decision.round}: {', '.join(decision.next_speakers)}; briefing: {decision.briefing or '-'}")
    print(f"Ended by {raw.stop_reason} after {raw.rounds} rounds. Verdict: {raw.found.verdict}")
    return raw


if __name__ == "__main__":
    main()
