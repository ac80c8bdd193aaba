"""What the loop itself costs: 13 calls (3 debaters, 3 rounds, a moderator each round, a judge), instant answers.

LangGraph runs the same loop of 13 nodes that call the same instant function, without schemas, events or audit.
"""

from __future__ import annotations

import asyncio
import operator
from contextlib import AsyncExitStack
from itertools import count, repeat
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from flowdebate import Debater, create_debate_transcript, create_moderator, debate
from flowdebate.testing import FunctionModel
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flowdebate.runs.result import RunResult
    from flowdebate.store import StoreChoice
    from flowdebate.testing import ModelRequest, Reply

NAMES = ("ada", "ben", "cy")
STANCES = ("build dams", "build turbines", "use less")
ROUNDS = 3
DEBATES = 100
TEXT = "Rivers run at night as well, and what they give can be stored without a single battery."
DECISION = {"nextSpeakers": list(NAMES), "briefing": "Power is short in winter.", "newAngle": None, "done": False}
VERDICT = {"verdict": "Use less.", "winner": "use less", "reasoning": "It was answered least."}


def flowdebate_loop(
    *,
    store: StoreChoice = False,
    arguments: Iterable[str] = repeat(TEXT),
    look: Callable[[RunResult[Any]], object] | None = None,
    calls: int = 13,
    **options: Any,  # noqa: ANN401 - of debate()
) -> Callable[[], object]:
    """Everything on: validation, events, audit trail; with a store, each answer is kept before the next call.

    `arguments` are what debaters say, in turn; `look` is given each result.
    """
    said = iter(arguments)

    def answer(request: ModelRequest) -> Reply:
        if request.output is None:
            return next(said)
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
            result = await pattern.run("How should we make power?", model=model, seed=seed, store=store)
            if look is not None:
                look(result)
            assert result.usage.calls == calls  # noqa: S101 - the figure is for so many calls
            assert result.tasks.count(status="completed") == 9  # noqa: S101

    return lambda: asyncio.run(many())


def langgraph_loop(store: str | None = None) -> Callable[[], object]:
    """The same calls as nodes of a graph; plain dicts, no validation, no events, no audit.

    With a `store`, the path of a SQLite file, its saver keeps each step, and waits for it (durability "sync").
    """
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        question: str
        round: int
        transcript: Annotated[list[dict[str, Any]], operator.add]
        decision: dict[str, Any]
        verdict: dict[str, Any]

    async def moderator(state: State) -> dict[str, Any]:
        return {"round": state["round"] + 1, "decision": DECISION}

    def debater(name: str, stance: str) -> Callable[[State], Any]:
        async def argue(state: State) -> dict[str, Any]:
            entry = {"round": state["round"], "agent_name": name, "stance": stance, "text": TEXT}
            return {"transcript": [entry]}

        return argue

    async def judge(_: State) -> dict[str, Any]:
        return {"verdict": VERDICT}

    graph: Any = StateGraph(State)
    graph.add_node("moderator", moderator)
    graph.add_node("judge", judge)
    graph.add_edge(START, "moderator")
    before = "moderator"
    for name, stance in zip(NAMES, STANCES, strict=True):
        graph.add_node(name, debater(name, stance))
        graph.add_edge(before, name)
        before = name
    graph.add_conditional_edges(before, lambda state: "judge" if state["round"] >= ROUNDS else "moderator")
    graph.add_edge("judge", END)
    threads = count()
    start: Any = {"question": "How should we make power?", "round": 0, "transcript": [], "decision": {}, "verdict": {}}

    async def many() -> None:
        async with AsyncExitStack() as stack:
            options: dict[str, Any] = {}
            saver: Any = None
            if store is not None:
                from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

                saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(store))
                options["durability"] = "sync"
            app = graph.compile(checkpointer=saver)
            for _ in range(DEBATES):
                config = {"configurable": {"thread_id": f"{next(threads)}"}}
                state = await app.ainvoke(start, config, **options)
                assert len(state["transcript"]) == 9  # noqa: S101

    return lambda: asyncio.run(many())


def main() -> None:
    medians = alternating({"flowdebate": flowdebate_loop(), "langgraph": langgraph_loop()}, repeats=9)
    base = medians["langgraph"]
    print_table(
        "CPU of the loop: 13 calls, instant in-process model",
        ["", "ms a debate", "µs a call", "ratio"],
        [
            [name, f"{value / DEBATES * 1e3:.2f}", f"{value / DEBATES / 13 * 1e6:.0f}", f"{value / base:.2f}"]
            for name, value in medians.items()
        ],
        note="flowdebate: validation, events and audit trail on. langgraph: plain dicts, none of these.",
    )


if __name__ == "__main__":
    main()
