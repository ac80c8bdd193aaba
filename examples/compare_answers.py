"""Compare two systems on many questions, and see whether the judge favors a position.

Running it again costs nothing for judgments that are already in the store.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate.evaluation import compare_all

if TYPE_CHECKING:
    from flowdebate.evaluation import ComparisonTable
    from flowdebate.models import Model
    from flowdebate.store import StoreChoice

ROWS = [
    {
        "question": "What makes the sky blue?",
        "reference": "Rayleigh scattering: air scatters short wavelengths more.",
        "terse": "Air scatters blue light more than red light.",
        "chatty": "Great question! The sky is blue because it mirrors the oceans, which are blue.",
    },
    {
        "question": "Why do cats purr?",
        "terse": "Muscles of the larynx twitch; they do it when content, and when in pain.",
        "chatty": "Great question! Nobody knows for sure, but they purr when content and also when they suffer.",
    },
]


async def main(model: Model | str = "local", store: StoreChoice = "comparisons.sqlite3") -> ComparisonTable:
    """Print the winner, the scores by criterion, and findings about the judge."""
    table = await compare_all(ROWS, criteria={"correct": 3, "clear": 1}, judges=[model], store=store)
    for system in table.systems:
        scores = ", ".join(f"{name} {score:.0f}" for name, score in (system.criteria or {}).items())
        print(f"{system.name}: {system.wins} of {system.rows} rows, {system.characters:.0f} characters; {scores}")
    for finding in table.findings:
        print(f"- {finding}")
    return table


if __name__ == "__main__":
    asyncio.run(main())
