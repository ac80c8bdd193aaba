"""Look up every quote from a debate in its source, and tell the judge which ones were not found.

Run it with `python examples/verified_quotes.py`. It uses the default model (see docs/models.md). Looking up quotes
needs no additional calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate import Debater, debate
from flowdebate.patterns.debate.transcript import render_quotes

if TYPE_CHECKING:
    from flowdebate import DebateRawOutput
    from flowdebate.models import Model

REPORT = (
    "Two years after the town closed Mill Street to cars, 1.5 times as many people walk there. Shops report "
    "that takings rose by 4 per cent in the first year, and fell by 6 per cent in the second. Deliveries are late."
)

pattern = debate(
    name="mill-street",
    debaters=[
        Debater("walker", "Mill Street should stay closed to cars"),
        Debater("driver", "Mill Street should be opened again"),
    ],
    max_rounds=2,
    synthesizer=False,
    sources={"the town's report": REPORT},
)


def main(model: Model | str | None = None) -> DebateRawOutput:
    raw: DebateRawOutput = pattern.run_sync("Should Mill Street be opened to cars again?", model=model).raw
    for number, (entry, quotes) in enumerate(zip(raw.transcript, raw.quotes or [], strict=True), start=1):
        print(f"{number}. [{entry.agent_name}] {entry.text}")
        print(f"   {render_quotes(quotes)}")
    return raw


if __name__ == "__main__":
    main()
