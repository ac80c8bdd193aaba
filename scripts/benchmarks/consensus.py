"""Cost of `consensus()` compared with the same work in aragora-debate, and a check that phases run concurrently.

Each run makes 36 calls, by three agents in three rounds, and every call is answered immediately in process.
aragora-debate makes 9 proposals, 18 critiques and 9 votes. flowdebate makes 3 proposals, 18 critiques, 9 revisions, 2
judge calls, 3 votes and a tie-break, with schemas, events, audit trail and circuit breakers enabled. On both sides the
agents are plain functions, so no prompt is rendered and no model is called.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING, Any

from flowdebate import ConvergenceOptions, Persona, consensus, deliberation
from flowdebate.measures import Jaccard
from flowdebate.testing import FunctionModel
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.testing import ModelRequest

NAMES = ("ada", "ben", "cy")
DEBATES = 100
TASK = "Should we migrate to services?"
MANY = [f"agent {number}" for number in range(10)]
CALL = 0.05


def proposed(name: str) -> str:
    return f"{name} would migrate the payments first, measure for a month, and then decide on the rest."


def ours() -> Callable[[], object]:
    """Build a flowdebate consensus with all features enabled."""

    def agent(name: str) -> Persona:
        async def act(request: Any) -> Any:  # noqa: ANN401 - each phase asks in a shape of its own
            match request.kind:
                case "proposal":
                    return proposed(name)
                case "critique":
                    return {"issues": ["no numbers"], "suggestions": ["measure"], "severity": 0.3, "reasoning": "thin"}
                case "revision":
                    return {"proposal": f"{proposed(name)} Revised {request.round} times.", "position": name}
                case _:
                    return {"choice": name, "reasoning": "clear", "confidence": 0.7}

        return Persona(name, block=act)

    pattern = consensus(
        name="plan",
        agents=[agent(name) for name in NAMES],
        max_rounds=3,
        judge=lambda _: False,
        tie_break=lambda _: "ada",
        convergence=ConvergenceOptions(similarity=Jaccard()),
    )

    async def many() -> None:
        for seed in range(DEBATES):
            output = (await pattern.run(TASK, seed=seed)).output
            assert [len(one.critiques) for one in output.rounds] == [6, 6, 6]  # noqa: S101 - the figure is for 36 calls
            assert output.winner == "ada"  # noqa: S101

    return lambda: asyncio.run(many())


def theirs(*, measured: bool) -> Callable[[], object]:
    """Build aragora's stock arena; `measured` adds event handling and convergence, which flowdebate always includes."""
    from aragora_debate import Agent, Arena, DebateConfig
    from aragora_debate.types import Critique, Vote

    class Answering(Agent):  # type: ignore[misc]  # it is not looked into
        async def generate(self, prompt: str, context: Any = None) -> str:  # noqa: ANN401, ARG002 - its interface
            return proposed(self.name)

        async def critique(self, proposal: str, task: str, context: Any = None, target_agent: Any = None) -> Any:  # noqa: ANN401, ARG002
            return Critique(
                agent=self.name,
                target_agent=target_agent,
                target_content=proposal,
                issues=["no numbers"],
                suggestions=["measure"],
                severity=3.0,
                reasoning="thin",
            )

        async def vote(self, proposals: dict[str, str], task: str) -> Any:  # noqa: ANN401, ARG002
            return Vote(agent=self.name, choice="ada", reasoning="clear", confidence=0.7)

    async def many() -> None:
        for _ in range(DEBATES):
            events: list[object] = []
            arena = Arena(
                question=TASK,
                agents=[Answering(name) for name in NAMES],
                config=DebateConfig(rounds=3, early_stopping=False, enable_convergence=measured),
                on_event=events.append if measured else None,
            )
            result = await arena.run()
            assert (len(result.critiques), len(result.votes)) == (18, 9)  # noqa: S101

    return lambda: asyncio.run(many())


def cost() -> None:
    work = {
        "flowdebate": ours(),
        "aragora-debate, events heard, convergence measured": theirs(measured=True),
        "aragora-debate, without both": theirs(measured=False),
    }
    medians = alternating(work, repeats=9)
    print_table(
        "CPU of a consensus debate: 36 calls, answered in process",
        ["", "ms a debate", "µs a call", "flowdebate / it"],
        [
            [
                name,
                f"{value / DEBATES * 1e3:.2f}",
                f"{value / DEBATES / 36 * 1e6:.0f}",
                f"{medians['flowdebate'] / value:.1f}",
            ]
            for name, value in medians.items()
        ],
        note="flowdebate: schemas, events, audit trail and circuits on, positions and similarity compared.",
    )


def waits() -> None:
    """Compare the duration of a run of ten agents, whose calls take 50 ms, with the sum of each step's longest call."""
    print_table(
        f"Ten agents at once, {CALL * 1e3:.0f} ms a call: wall time against the critical path",
        ["", "steps", "critical path s", "median s", "ratio"],
        [
            _waited("deliberation, 3 rounds", _deliberation(), steps=6),
            _waited("consensus, 2 rounds", _consensus(), steps=6),
        ],
        note="A deliberation's round is its debaters, then its moderator. A consensus debate is its proposals, then "
        "critiques and revisions in each round (90 and 10 calls at once), then the votes.",
    )


def _waited(name: str, pattern: Sequencer[Any, Any], *, steps: int) -> list[str]:
    async def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - text or data
        await asyncio.sleep(CALL)
        return _answer(request)

    model = FunctionModel(answer)

    async def one() -> float:
        start = time.perf_counter()
        await pattern.run(TASK, model=model)
        return time.perf_counter() - start

    asyncio.run(one())  # warm up
    median = statistics.median(asyncio.run(one()) for _ in range(7))
    path = steps * CALL
    return [name, str(steps), f"{path:.2f}", f"{median:.3f}", f"{median / path:.3f}"]


def _deliberation() -> Sequencer[Any, Any]:
    return deliberation(name="plan", debaters=[Persona(name) for name in MANY], max_rounds=3)


def _consensus() -> Sequencer[Any, Any]:
    agents = [Persona(name) for name in MANY]
    return consensus(
        name="plan", agents=agents, max_rounds=2, convergence=ConvergenceOptions(None, similarity=Jaccard())
    )


def _answer(request: ModelRequest) -> Any:  # noqa: ANN401 - text or data
    kind = request.block.split("-")[1]
    match kind:
        case "criticize":
            return {"reasoning": "thin", "issues": ["no numbers"], "suggestions": ["measure"], "severity": 0.3}
        case "revise":
            return {"proposal": f"As before: {request.block}", "position": request.block, "enough": False}
        case "vote":
            return {"reasoning": "clear", "choice": MANY[0], "confidence": 0.7}
        case "moderator":
            return {"summary": "Nothing is settled.", "status": "CONTINUE", "decision": None}
        case _:
            return proposed(request.block)


def main() -> None:
    cost()
    waits()


if __name__ == "__main__":
    main()
