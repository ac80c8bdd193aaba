"""Recount a debate by every decision rule, from its ballots, to see whether the outcome depends on the rule.

Run it with `python examples/recount.py`: it needs no model, since debaters and judges are functions. The debate is
held once; deciding again makes no call, for this one as for any that is stored. From the command line it is
`flowdebate recount RUN`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate import Debater, debate
from flowdebate.evaluation import recount
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.evaluation import Recount
    from flowdebate.models import Model

SIDES = ("cap rents", "build homes", "do nothing")
OPINIONS = {
    "strict": (40, 38, 22),
    "bold": (44, 43, 13),
    "cautious": (5, 45, 50),
    "frugal": (2, 40, 58),
    "practical": (5, 90, 5),
}
"""What each judge gives each side, whatever is argued."""


def judge(name: str) -> FunctionModel:
    """A judge of this opinion."""
    points = dict(zip(SIDES, OPINIONS[name], strict=True))
    best = max(SIDES, key=lambda side: points[side])
    return FunctionModel(lambda _: {"reasoning": "I weighed it.", "scores": points, "verdict": f"{best}."}, name=name)


pattern = debate(
    name="rents",
    debaters=[Debater(f"debater-{number}", side) for number, side in enumerate(SIDES, 1)],
    max_rounds=1,
    judge=JudgeOptions(models=[judge(name) for name in OPINIONS]),
    synthesizer=False,
)
"""Three sides, and a panel of five judges, each of which reads the debate once."""

debaters = FunctionModel(lambda request: f"The case of {request.block}.")


async def main(model: Model | str | None = None) -> Recount:
    """Hold the debate, and decide it again."""
    result = await pattern.run("How can rents be affordable?", model={"chat": debaters if model is None else model})
    judging = result.output.found.judging
    found = recount(judging or [], sides=SIDES)
    for row in found.rows:
        print(f"{row.rule:16} {row.winner or row.end:12} {row.why}")
    for finding in found.findings:
        print("-", finding)
    return found


if __name__ == "__main__":
    asyncio.run(main())
