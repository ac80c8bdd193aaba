"""In-process cost of fair judging: aliases, ballots and the audit, as shares of the loop of 13 calls.

Arguments have 600 characters and differ in each turn and debate, so caches of processed texts do not help.
"""

from __future__ import annotations

import random
from itertools import cycle

from flowdebate import PromptOptions
from flowdebate.evaluation import audit_run
from overhead import DEBATES, NAMES, ROUNDS, flowdebate_loop
from report import alternating, print_table

WORDS = """
rivers run at night as well and what they give can be stored without a battery so a dam answers when wind does not
while turbines wait for weather and whoever uses less needs neither of them in any winter that we have seen
"""
CHARACTERS = 600


def texts() -> list[str]:
    """Yield distinct arguments, a tenth of which mention a name."""
    source, words_of = random.Random(1), WORDS.split()
    passages = []
    for index in range(DEBATES * len(NAMES) * ROUNDS):
        words = f"As {NAMES[index % 3]}, I say that " if index % 10 == 0 else "I say that "
        while len(words) < CHARACTERS:
            words += f"{source.choice(words_of)} "
        passages.append(f"{words.strip()}.")
    return passages


def main() -> None:
    arguments = texts()
    medians = alternating(
        {
            "names as they are": flowdebate_loop(arguments=cycle(arguments), prompts=PromptOptions(hide_names=False)),
            "aliases": flowdebate_loop(arguments=cycle(arguments)),
            "aliases, and the audit read": flowdebate_loop(
                arguments=cycle(arguments), look=lambda result: audit_run(result).findings
            ),
            "aliases, judge='cyclic' (2 calls more)": flowdebate_loop(
                arguments=cycle(arguments), judge="cyclic", calls=15
            ),
        },
        repeats=9,
    )
    base = medians["names as they are"]
    print_table(
        "CPU of fair judging: 13 calls, instant in-process model, arguments of 600 characters",
        ["", "ms a debate", "more than the loop"],
        [[name, f"{seconds / DEBATES * 1e3:.2f}", f"{seconds / base - 1:+.0%}"] for name, seconds in medians.items()],
        note="All else is on: validation, events, audit trail.",
    )


if __name__ == "__main__":
    main()
