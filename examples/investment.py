"""Let Bull and Bear deliberate on an investment of $1M until a moderator considers it settled.

Run it with `python examples/investment.py`. It uses the local model (see docs/models.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import deliberation
from flowdebate.patterns.deliberation import render_deliberation

if TYPE_CHECKING:
    from flowdebate import DeliberationOutput
    from flowdebate.models import Model

TOPIC = "Should we invest $1M in an AI startup at a $50M valuation?"

DEBATERS = [
    {
        "name": "Bull",
        "role": "Optimistic investor",
        "system_prompt": (
            "You are Bull, an optimistic tech investor. You want to invest the $1M now, because the market is huge and "
            "early investors win the most. You see growth where others see risk."
        ),
    },
    {
        "name": "Bear",
        "role": "Cautious risk analyst",
        "system_prompt": (
            "You are Bear, a cautious risk analyst. You do not want to pay this price, because most AI startups burn "
            "their money before they earn any. You see risk where others see growth."
        ),
    },
]

pattern = deliberation(name="investment", debaters=DEBATERS, max_rounds=3)


def main(model: Model | str | None = "local", *, topic: str = TOPIC) -> DeliberationOutput:
    output: DeliberationOutput = pattern.run_sync(topic, model=model).output
    print(render_deliberation(output, title="DEBATE PATTERN — Investment Decision"))
    return output


if __name__ == "__main__":
    main()
