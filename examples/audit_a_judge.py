"""Audit a judge to find out whether the better argument wins, or the one that it reads first.

Run it with `python examples/audit_a_judge.py`. It needs no model, because the judge is a function that prefers the
first argument in seven of ten cases. Pass your own model to `main` to audit that one instead: 60 debates in both orders
take 120 calls. P-values and intervals need `pip install "flowdebate[audit]"`.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from flowdebate import DebateContributionEntry
from flowdebate.evaluation import ArguedDebate, create_rejudge, full_audit
from flowdebate.patterns.debate import JudgeOptions
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.evaluation import JudgeAudit
    from flowdebate.models import Model
    from flowdebate.testing import ModelRequest, Reply

SIDES = ("for", "against")
BIAS = 0.7
"""Probability that the side read first wins, whatever it says."""

pattern = create_rejudge(stances=SIDES, judge=JudgeOptions(schedule="swap"))
"""Block that consists of only the judge, which reads each transcript in both orders."""


def argued(number: int) -> ArguedDebate:
    """Create a finished debate; a judge needs only its transcript."""
    said = {"for": f"It saved {number} million last year.", "against": f"It cost {number + 1} million to set up."}
    return ArguedDebate(
        question=f"Should programme {number} go on?",
        transcript=[DebateContributionEntry(round=1, agent_name=side, stance=side, text=said[side]) for side in SIDES],
    )


def judge_of_places(seed: int = 1) -> FunctionModel:
    """Create a judge that gives most of the points to the side read first in seven of ten cases."""
    source = Random(seed)  # noqa: S311 - the same judge every time

    def answer(request: ModelRequest) -> Reply:
        shown = str(request.messages[-1])
        first, last = sorted(SIDES, key=lambda side: shown.index(f"[{side}]"))
        winner = first if source.random() < BIAS else last
        points = {side: 70 if side == winner else 30 for side in SIDES}
        return {"reasoning": "It was put well.", "scores": points, "verdict": f"The case {winner} it is stronger."}

    return FunctionModel(answer)


async def main(model: Model | str | None = None) -> JudgeAudit:
    """Judge 60 debates in both orders, and print what this reveals about the judge."""
    judged = await pattern.batch(
        [argued(number) for number in range(60)],
        model=judge_of_places() if model is None else model,
        max_concurrency=1 if model is None else 8,
        store=False,
    ).all()
    found = full_audit([item.unwrap().output.ballots for item in judged])
    for finding in found.findings:
        print("-", finding)
    return found


if __name__ == "__main__":
    asyncio.run(main())
