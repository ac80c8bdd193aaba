"""Memory held by a live debate: 1,000 debates, each waiting in its eighth turn or right after it."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import tracemalloc
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from flowdebate import Debater, debate
from flowdebate.store import SqliteStore
from flowdebate.testing import FunctionModel
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from flowdebate.runs.context import Context
    from flowdebate.store import StoreChoice
    from flowdebate.testing import ModelRequest, Reply

DEBATES = 1_000
TURNS = 8
TEXT = "An argument of some length, as a model would give it in two or three sentences of text. " * 4
VERDICT = {"verdict": "For.", "winner": "for", "reasoning": "Better argued."}


async def held(start: Callable[[asyncio.Event, Callable[[], None]], Awaitable[Any]]) -> float:
    """Measure with tracemalloc how many bytes a live debate holds while all debates wait at the gate."""
    gate = asyncio.Event()
    waiting = asyncio.Semaphore(0)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tasks = [asyncio.ensure_future(start(gate, waiting.release)) for _ in range(DEBATES)]
    for _ in range(DEBATES):
        await waiting.acquire()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    gate.set()
    await asyncio.gather(*tasks)
    return (after - before) / DEBATES


def flowdebate_start(
    *, store: StoreChoice = False, in_call: bool = True
) -> Callable[[asyncio.Event, Callable[[], None]], Awaitable[Any]]:
    """Return a function that starts a debate, which then waits at the gate.

    With `in_call`, it waits inside the call for its last argument; otherwise, it waits after that call, while deciding
    whether to continue.
    """
    callback: ContextVar[Callable[[], Awaitable[object]]] = ContextVar("here")

    async def enough(ctx: Context) -> bool:
        if not in_call and ctx.usage.calls == TURNS:
            await callback.get()()
        return ctx.usage.calls == TURNS

    pattern = debate(
        name="held",
        debaters=[Debater("a", "for"), Debater("b", "against")],
        max_rounds=TURNS,
        terminate_when=enough,
        synthesizer=False,
    )

    async def start(gate: asyncio.Event, arrived: Callable[[], None]) -> None:
        calls = 0

        async def wait() -> None:
            arrived()
            await gate.wait()

        async def answer(request: ModelRequest) -> Reply:
            nonlocal calls
            calls += 1
            if in_call and calls == TURNS:
                await wait()
            return VERDICT if request.output is not None else f"{calls} {TEXT}"

        callback.set(wait)

        await pattern.run("Is it so?", model=FunctionModel(answer), store=store)

    return start


def langgraph_start() -> Callable[[asyncio.Event, Callable[[], None]], Awaitable[Any]]:
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        gate: Any
        arrived: Any
        turns: int
        transcript: list[dict[str, Any]]

    def side(name: str) -> Callable[[State], Any]:
        async def argue(state: State) -> dict[str, Any]:
            turns = state["turns"] + 1
            if turns == TURNS:
                state["arrived"]()
                await state["gate"].wait()
            entry = {"round": (turns + 1) // 2, "agent_name": name, "stance": name, "text": f"{turns} {TEXT}"}
            return {"turns": turns, "transcript": [*state["transcript"], entry]}

        return argue

    graph: Any = StateGraph(State)
    graph.add_node("a", side("a"))
    graph.add_node("b", side("b"))
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges("b", lambda state: END if state["turns"] >= TURNS else "a")
    app = graph.compile()

    async def start(gate: asyncio.Event, arrived: Callable[[], None]) -> None:
        first: Any = {"gate": gate, "arrived": arrived, "turns": 0, "transcript": []}
        await app.ainvoke(first)

    return start


def main() -> None:
    text = TURNS * len(TEXT)
    figures = {
        "flowdebate": asyncio.run(held(flowdebate_start())),
        "flowdebate, between two calls": asyncio.run(held(flowdebate_start(in_call=False))),
    }
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "runs.sqlite3")
        figures["flowdebate, kept in SQLite"] = asyncio.run(held(flowdebate_start(store=store)))
        asyncio.run(store.close())
    figures["langgraph"] = asyncio.run(held(langgraph_start()))
    print_table(
        f"Memory of a live debate ({DEBATES:,} at once, waiting in turn {TURNS})",
        ["", "KB a debate", "of which text", "without text"],
        [
            [name, f"{size / 1024:.1f}", f"{text / 1024:.1f}", f"{(size - text) / 1024:.1f}"]
            for name, size in figures.items()
        ],
        note="Python objects, by tracemalloc; flowdebate also holds events, audit trail and the prompt in flight.",
    )


if __name__ == "__main__":
    main()
