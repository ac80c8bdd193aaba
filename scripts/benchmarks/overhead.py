"""Overhead of the library: whole debates with models that answer immediately, compared with the same loop in LangGraph.

13 calls are 3 debaters, 3 rounds, a moderator in each round and a judge; 121 calls are 5 debaters in 20 such rounds.
Every argument has 640 characters in four lines, and all arguments differ, so that nothing rendered or searched in one
debate helps the next. Both sides call an asynchronous function that answers immediately.
"""

from __future__ import annotations

import asyncio
import json
import operator
import statistics
import subprocess
import sys
from contextlib import AsyncExitStack
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from flowdebate import Debater, debate
from flowdebate.testing import FunctionModel
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.runs.result import RunResult
    from flowdebate.store import StoreChoice
    from flowdebate.testing import ModelRequest, Reply

QUESTION = "How should we make power?"
STANCES = {
    "ada": "build dams",
    "ben": "build turbines",
    "cy": "use less",
    "dee": "buy it abroad",
    "eve": "wait for a better battery",
}
NAMES = tuple(STANCES)[:3]
ROUNDS = 3
DEBATES = 100
CHARACTERS = 640
LINE = "Rivers run at night as well, and what they give can be stored without a single battery in winter. "
BRIEFING = "Power is short in winter."
VERDICT = {"verdict": "Use less.", "winner": "use less", "reasoning": "It was answered least."}
REPEATS = 9
PROCESSES = 15


def distinct(characters: int = CHARACTERS) -> Iterator[str]:
    """Yield an endless sequence of distinct arguments with four lines each."""
    for number in count():
        lines = [f"Argument {number}, line {line}: {LINE * 2}"[: characters // 4 - 1] for line in range(4)]
        yield "\n".join(lines).ljust(characters, ".")


def calls_of(debaters: int, rounds: int) -> int:
    """Return the number of calls in a debate: every debater and the moderator in each round, and the judge."""
    return (debaters + 1) * rounds + 1


def flowdebate_loop(
    *,
    debaters: int = len(NAMES),
    rounds: int = ROUNDS,
    debates: int = DEBATES,
    arguments: Iterable[str] | None = None,
    anew: bool = False,
    store: StoreChoice = False,
    look: Callable[[RunResult[Any]], object] | None = None,
    calls: int | None = None,
    **options: Any,  # noqa: ANN401 - of debate()
) -> Callable[[], object]:
    """Build a debate with validation, events and audit trail; with a store, each answer is stored before the next call.

    `arguments` are the debaters' answers, in order; with `anew`, every debate builds a new pattern; `look` is called
    with each result.
    """
    stances = dict(list(STANCES.items())[:debaters])
    replies = iter(distinct() if arguments is None else arguments)
    decision = {"nextSpeakers": list(stances), "briefing": BRIEFING, "newAngle": None, "done": False}

    def answer(request: ModelRequest) -> Reply:
        if request.output is None:
            return next(replies)
        if not request.block.endswith("judge"):
            return decision
        if "scores" in (request.output_schema or {}).get("properties", {}):
            return {"reasoning": "Weighed.", "scores": dict.fromkeys(stances.values(), 50), "verdict": "A tie."}
        return VERDICT

    model = FunctionModel(answer)

    def build() -> Sequencer[Any, Any]:
        return debate(
            name="power",
            debaters=[Debater(name, stance) for name, stance in stances.items()],
            max_rounds=rounds,
            moderator=True,
            synthesizer=False,
            **options,
        )

    reused = build()

    async def many() -> None:
        for seed in range(debates):
            pattern = build() if anew else reused
            result = await pattern.run(QUESTION, model=model, seed=seed, store=store)
            if look is not None:
                look(result)
            assert result.usage.calls == (calls or calls_of(debaters, rounds))  # noqa: S101 - what the figure is for
            assert result.tasks.count(status="completed") == debaters * rounds  # noqa: S101

    return lambda: asyncio.run(many())


def langgraph_loop(  # noqa: C901 - the nodes of one graph
    store: str | None = None,
    *,
    debaters: int = len(NAMES),
    rounds: int = ROUNDS,
    debates: int = DEBATES,
    prompts: bool = True,
    langchain: bool = False,
) -> Callable[[], object]:
    """Build a graph with the same calls as nodes: plain dicts, without validation, events or an audit trail.

    A node writes its messages (a system text, and the transcript as one line per argument) unless `prompts` is False,
    and calls an async function or, with `langchain`, a LangChain chat model, as most graphs do. With a `store`, the
    path of a SQLite file, the graph's saver stores each step and waits for it (durability "sync").
    """
    from langgraph.graph import END, START, StateGraph

    stances = dict(list(STANCES.items())[:debaters])
    replies = distinct()
    decision = {"next_speakers": list(stances), "briefing": BRIEFING, "new_angle": None, "done": False}

    class State(TypedDict):
        question: str
        round: int
        transcript: Annotated[list[dict[str, Any]], operator.add]
        decision: dict[str, Any]
        verdict: dict[str, Any]

    def messages(state: State, task: str) -> list[dict[str, str]]:
        if not prompts:
            return []
        system = f"This is a debate.\nQuestion: {state['question']}\nPositions: {', '.join(stances.values())}"
        history = "\n".join(f"[{entry['stance']}] {entry['text']}" for entry in state["transcript"])
        return [{"role": "system", "content": system}, {"role": "user", "content": f"So far:\n{history}\n\n{task}"}]

    async def function(_: list[dict[str, str]], reply: Any) -> Any:  # noqa: ANN401 - text or data
        return reply

    ask = langchain_model() if langchain else function

    async def moderator(state: State) -> dict[str, Any]:
        number = state["round"] + 1
        return {"round": number, "decision": await ask(messages(state, f"Open round {number}."), decision)}

    def debater(name: str, stance: str) -> Callable[[State], Any]:
        async def argue(state: State) -> dict[str, Any]:
            task = f"{state['decision']['briefing']}\nArgue for {stance} in round {state['round']}."
            text = await ask(messages(state, task), next(replies))
            return {"transcript": [{"round": state["round"], "agent_name": name, "stance": stance, "text": text}]}

        return argue

    async def judge(state: State) -> dict[str, Any]:
        return {"verdict": await ask(messages(state, "Name the winner."), VERDICT)}

    graph: Any = StateGraph(State)
    graph.add_node("moderator", moderator)
    graph.add_node("judge", judge)
    graph.add_edge(START, "moderator")
    before = "moderator"
    for name, stance in stances.items():
        graph.add_node(name, debater(name, stance))
        graph.add_edge(before, name)
        before = name
    graph.add_conditional_edges(before, lambda state: "judge" if state["round"] >= rounds else "moderator")
    graph.add_edge("judge", END)
    threads = count()
    start: Any = {"question": QUESTION, "round": 0, "transcript": [], "decision": {}, "verdict": {}}

    async def many() -> None:
        async with AsyncExitStack() as stack:
            options: dict[str, Any] = {}
            saver: Any = None
            if store is not None:
                from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

                saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(store))
                options["durability"] = "sync"
            app = graph.compile(checkpointer=saver)
            for _ in range(debates):
                config = {"configurable": {"thread_id": f"{next(threads)}"}, "recursion_limit": 1_000}
                state = await app.ainvoke(start, config, **options)
                assert len(state["transcript"]) == debaters * rounds  # noqa: S101

    return lambda: asyncio.run(many())


def langchain_model() -> Callable[[list[dict[str, str]], Any], Any]:
    """Return a function that calls a LangChain chat model, which immediately returns the given answers."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    replies: list[str] = []

    class Instant(BaseChatModel):  # type: ignore[misc]  # its package has no types here
        @property
        def _llm_type(self) -> str:
            return "instant"

        def _generate(self, *_: object, **__: object) -> ChatResult:
            raise NotImplementedError

        async def _agenerate(self, *_: object, **__: object) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content=replies.pop()))])

    model = Instant()

    async def ask(messages: list[dict[str, str]], reply: Any) -> Any:  # noqa: ANN401 - text or data
        replies.append(reply if isinstance(reply, str) else json.dumps(reply))
        message = await model.ainvoke(messages)
        return message.content if isinstance(reply, str) else json.loads(str(message.content))

    return ask


_FIRST = """
import sys, time
sys.path.insert(0, sys.argv[1])
import overhead
run = overhead.flowdebate_loop(debates=1)
times = []
for _ in range(6):
    started = time.process_time()
    run()
    times.append(time.process_time() - started)
print(times[0], min(times[1:]))
"""


def first_and_later() -> tuple[float, float]:
    """Measure the CPU seconds of the first debate in a fresh process, and of a later one there.

    Both are medians over many processes.
    """
    folder = __file__.rpartition("/")[0]
    command = [sys.executable, "-c", _FIRST, folder]
    rows = [
        tuple(map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()))  # noqa: S603
        for _ in range(PROCESSES)
    ]
    return statistics.median(first for first, _ in rows), statistics.median(later for _, later in rows)


def main() -> None:
    for debaters, rounds, debates in ((3, 3, 100), (5, 20, 8)):
        size: dict[str, Any] = {"debaters": debaters, "rounds": rounds, "debates": debates}
        works = {
            "flowdebate": flowdebate_loop(**size),
            "flowdebate, a pattern built for each debate": flowdebate_loop(**size, anew=True),
            "langgraph": langgraph_loop(**size),
            "langgraph, its nodes write no prompts": langgraph_loop(**size, prompts=False),
        }
        medians = alternating(works, repeats=REPEATS)
        calls = calls_of(debaters, rounds)
        print_table(
            f"CPU of a debate: {calls} calls, instant in-process model, arguments of {CHARACTERS} characters",
            ["", "ms a debate", "µs a call", "ratio to langgraph", "without its prompts"],
            [
                [
                    name,
                    f"{seconds / debates * 1e3:.2f}",
                    f"{seconds / debates / calls * 1e6:.0f}",
                    *(f"{seconds / medians[base]:.2f}" for base in list(works)[2:]),
                ]
                for name, seconds in medians.items()
            ],
            note="flowdebate: prompts, validation, events and audit trail on. langgraph: prompts of plain dicts, "
            "nothing else.",
        )
    first, later = first_and_later()
    print_table(
        "CPU of the first debate in a process: 13 calls",
        ["", "ms"],
        [
            ["the first", f"{first * 1e3:.1f}"],
            ["a later one", f"{later * 1e3:.1f}"],
            ["more", f"{(first - later) * 1e3:.1f}"],
        ],
        note=f"Medians of {PROCESSES} processes; importing flowdebate and building the pattern are not part of it.",
    )


if __name__ == "__main__":
    main()
