"""The quotes of a debate are looked up, its arguments weighed as a graph, and one of them contested.

Run it with `python examples/argument_graph.py`: it takes the default model (see docs/models.md). What is computed from
the transcript takes no further call.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flowdebate import Debater, debate
from flowdebate.evaluation import claim_strengths, contest, graph_of_debate, to_aif
from flowdebate.patterns.debate.quotes.prompt import render_quotes
from flowdebate.patterns.debate.quotes.verify import verify_quotes

if TYPE_CHECKING:
    from flowdebate import DebateContributionEntry
    from flowdebate.evaluation.arguments.graph import Contested
    from flowdebate.models import Model

REPORT = (
    "Two years after the town closed Mill Street to cars, 1.5 times as many people walk there. Shops report "
    "that takings rose by 4 per cent in the first year, and fell by 6 per cent in the second. Deliveries are late."
)
SOURCES = {"the town's report": REPORT}

pattern = debate(
    name="mill-street",
    debaters=[
        Debater("walker", "Mill Street should stay closed to cars"),
        Debater("driver", "Mill Street should be opened again"),
    ],
    max_rounds=2,
    synthesizer=False,
    sources=SOURCES,
)


def base_score(entry: DebateContributionEntry) -> float:
    """Half, more with a quote that the report has, less with one that it has not: a rule of this example's own."""
    statuses = {quote.status for quote in verify_quotes(entry.text, SOURCES)}
    return 0.5 + 0.2 * ("verified" in statuses) - 0.3 * ("unverified" in statuses)


def main(model: Model | str | None = None) -> Contested:
    raw = pattern.run_sync("Should Mill Street be opened to cars again?", model=model).raw
    transcript = raw.transcript
    graph = graph_of_debate(transcript, base=base_score)
    strengths = claim_strengths(graph)
    for entry, claim, quotes in zip(transcript, graph.claims, raw.quotes, strict=True):
        print(f"{claim.id}. [{claim.author}] {entry.text}")
        print(f"   base {claim.base:.2f}, strength {strengths[claim.id]:.2f} {render_quotes(quotes)}")
    print("attacks:", ", ".join(f"{one} → {other}" for one, other in graph.attacks))
    print("supports:", ", ".join(f"{one} → {other}" for one, other in graph.supports))

    last = graph.claims[-1].id
    result = contest(graph, last, base=0.0)
    print(f"Without argument {last}:")
    for change in result.changes:
        print(f"   {change.claim}: {change.before:.2f} → {change.after:.2f}")
    print(f"As AIF: {len(json.dumps(to_aif(result.graph)))} characters of JSON")
    return result


if __name__ == "__main__":
    main()
