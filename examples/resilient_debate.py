"""Keep a debate going within a budget when providers fail, and report what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Debater, FailurePolicy, Limits, Retry, debate
from flowdebate.events import CallFellBack
from flowdebate.models import CircuitBreaker, Fallback, RateLimit, Retrying, Timeout

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model

QUESTION = "Should the night train come back?"

pattern = debate(
    name="train",
    debaters=[
        Debater("rider", "the night train should come back"),
        Debater("treasurer", "the money should go to regional lines"),
        Debater("neighbour", "no train should run at night"),
    ],
    synthesizer=False,
    # Skip failed turns, but require at least two sides in every round.
    failures=FailurePolicy(on_failure="skip", quorum=2, turn_timeout=120),
)


def guarded(model: Model | str) -> Model:
    """Wrap a model so that it survives occasional failures; policies for a single request go innermost."""
    limited = RateLimit(Timeout(model, 60), requests=300, per=60)
    return CircuitBreaker(Retrying(limited, Retry(attempts=3, first_wait=0.2)))


def main(model: Model | str = "openai/gpt-5-mini", *, spare: Model | str = "local", calls: int = 40) -> DebateRawOutput:
    result = pattern.run_sync(QUESTION, model=Fallback(guarded(model), guarded(spare)), limits=Limits(calls=calls))
    raw: DebateRawOutput = result.raw
    print(f"{result.status}: {len(raw.transcript)} arguments in {raw.rounds} rounds, {result.usage.calls} calls")
    for loss in raw.losses:
        print(f"lost in round {loss.round}: {loss.role} {loss.name} ({loss.instead})")
    for event in result.events:
        if isinstance(event, CallFellBack):
            print(f"{event.model} failed ({event.error}), {event.to} answered for {event.block}")
    print("No verdict." if raw.verdict is None else f"Winner: {raw.found.winner}")
    return raw


if __name__ == "__main__":
    main()
