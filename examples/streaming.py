"""Follow a debate live: print its text as the models write it, along with the other events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate import Debater, debate
from flowdebate.events import ModelCalled, RoundsEnded, RoundStarted, TextDelta, TurnStarted
from flowdebate.patterns.debate import VerdictReached

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model

QUESTION = "Should code review be optional for small changes?"

pattern = debate(
    name="review",
    debaters=[Debater("swift", "small changes need no review"), Debater("careful", "every change needs a review")],
    synthesizer=False,
)


def show(event: object) -> None:
    match event:
        case RoundStarted(round=number, max_rounds=bound):
            print(f"\nRound {number} of at most {bound}")
        case TurnStarted(agent_name=name, stance=stance):
            print(f"\n{name} ({stance}): ", end="")
        case TextDelta(text=text):
            print(text, end="", flush=True)
        case RoundsEnded(rounds=rounds, reason=reason):
            print(f"\n\nFinished after {rounds} rounds: {reason}")
        case VerdictReached(verdict=verdict):
            print(f"Verdict: {verdict.verdict}")
        case ModelCalled(error=str() as error):
            print(f"\na model call failed: {error}")


async def follow(model: Model | str | None = None) -> DebateRawOutput:
    handle = pattern.start(QUESTION, model=model)
    async for event in handle:  # ends with the run; handle.cancel() would end both
        show(event)
    result = await handle  # raises the run's error; handle.transcript has the arguments so far
    raw: DebateRawOutput = result.output
    return raw


def main(model: Model | str | None = None) -> DebateRawOutput:
    return asyncio.run(follow(model))


if __name__ == "__main__":
    main()
