"""Logic puzzles of known difficulty: who finished a race earlier, as can be deduced from notes in some steps."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

__all__ = ("STEPS", "puzzles")

STEPS = 5
"""Maximum number of steps from the notes to the answer; every number of steps is equally common."""
_NAMES = (
    *("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gail", "Hugo", "Ines", "Jan", "Kira", "Leo"),
    *("Mona", "Nils", "Olga", "Paul", "Rosa", "Sven", "Tess", "Uwe", "Vera", "Willa"),
)
_BESIDE = 3
"""Number of runners who have nothing to do with the answer; the notes relate them only to each other."""


def puzzles(count: int = 250, *, seed: int = 2) -> list[dict[str, Any]]:
    """Create a study's rows: two statements, the one that follows from `sources`, and the steps that it takes.

    >>> first = puzzles(1)[0]
    >>> first["steps"], first["answer"] in first["choices"], "." in first["sources"]["notes"]
    (1, True, True)
    """
    rows = []
    for number in range(count):
        random = Random(f"{seed}/{number}")
        steps = 1 + number % STEPS
        names = random.sample(_NAMES, steps + 1 + _BESIDE)
        chain, beside = names[: steps + 1], names[steps + 1 :]
        pairs = [pair for group in (chain, beside) for pair in pairwise(group)]
        notes = [f"{one} finished {random.randint(2, 9)} minutes before {second}." for one, second in pairs]
        random.shuffle(notes)
        first, last = chain[0], chain[-1]
        choices = [f"{first} finished before {last}", f"{last} finished before {first}"]
        rows.append(
            {
                "id": f"puzzle-{number:03}",
                "question": "Two people ran the same race. Which of the two statements is true?",
                "choices": sorted(choices),  # alphabetical order does not reveal the truth
                "answer": choices[0],
                "steps": steps,
                "sources": {"notes": " ".join(notes)},
            }
        )
    return rows
