"""Two systems compared over many questions: which answers better, and whether the judge favours a place.

Run again, it pays for nothing twice: what was judged is in the store.
"""

import asyncio

from flowdebate.evaluation import compare_all

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


async def main() -> None:
    table = await compare_all(ROWS, criteria={"correct": 3, "clear": 1}, store="comparisons.sqlite3")
    for system in table.systems:
        scores = ", ".join(f"{name} {score:.0f}" for name, score in (system.criteria or {}).items())
        print(f"{system.name}: {system.wins} of {system.rows} rows, {system.characters:.0f} characters; {scores}")
    for finding in table.findings:
        print(f"- {finding}")


if __name__ == "__main__":
    asyncio.run(main())
