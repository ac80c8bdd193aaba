"""What fair judging costs in process: aliases, ballots and the audit, as shares of the loop of 13 calls.

Arguments differ in each turn and debate, 600 characters each, so that nothing that was looked at is looked at again.
"""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, create_debate_transcript, create_moderator, debate
from flowdebate.testing import FunctionModel
from overhead import DEBATES, DECISION, NAMES, ROUNDS, STANCES, VERDICT
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.testing import ModelRequest, Reply

WORDS = """
rivers run at night as well and what they give can be stored without a battery so a dam answers when wind does not
while turbines wait for weather and whoever uses less needs neither of them in any winter that we have seen
"""
CHARACTERS = 600


def texts() -> list[str]:
    """Arguments of which none is like another; a tenth of them names somebody."""
    source, words_of = random.Random(1), WORDS.split()
    made = []
    for index in range(DEBATES * len(NAMES) * ROUNDS):
        words = f"As {NAMES[index % 3]}, I say that " if index % 10 == 0 else "I say that "
        while len(words) < CHARACTERS:
            words += f"{source.choice(words_of)} "
        made.append(f"{words.strip()}.")
    return made


def loop(arguments: list[str], *, audited: bool = False, **options: Any) -> Callable[[], object]:  # noqa: ANN401 - of debate()
    """The loop of `overhead.py` with these arguments, and with further options of `debate()`."""
    places = count()

    def answer(request: ModelRequest) -> Reply:
        if request.output is None:
            return arguments[next(places) % len(arguments)]
        if not request.block.endswith("judge"):
            return DECISION
        if "scores" in (request.output_schema or {}).get("properties", {}):
            return {"reasoning": "Weighed.", "scores": dict.fromkeys(STANCES, 50), "verdict": "A tie."}
        return VERDICT

    model = FunctionModel(answer)
    transcript = create_debate_transcript()
    pattern = debate(
        name="power",
        debaters=[Debater(name, stance) for name, stance in zip(NAMES, STANCES, strict=True)],
        max_rounds=ROUNDS,
        moderator=create_moderator(name="power", roster_names=NAMES, transcript=transcript),
        transcript=transcript,
        synthesizer=False,
        **options,
    )

    async def many() -> None:
        for seed in range(DEBATES):
            result = await pattern.run("How should we make power?", model=model, seed=seed)
            if audited:
                assert result.audit.findings  # noqa: S101 - it is made when it is looked at

    return lambda: asyncio.run(many())


def main() -> None:
    arguments = texts()
    medians = alternating(
        {
            "names as they are": loop(arguments, hide_names=False),
            "aliases": loop(arguments),
            "aliases, and the audit read": loop(arguments, audited=True),
            "aliases, judge='cyclic' (2 calls more)": loop(arguments, judge="cyclic"),
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
