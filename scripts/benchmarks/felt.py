"""Latency and cost as users experience them, compared with LangGraph, the openai SDK, plain aiohttp and a manual loop.

A server in a separate process answers immediately over HTTP. All arguments have 640 characters and differ. Seconds are
CPU time. A pause is the CPU time of one turn of the event loop, so other work on the machine does not count.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from contextlib import suppress
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate
from flowdebate.models import OpenAIModel, keep_connections
from flowdebate.store import SqliteStore
from flowdebate.testing import FunctionModel
from overhead import BRIEFING, NAMES, QUESTION, STANCES, VERDICT, calls_of, distinct, flowdebate_loop, langgraph_loop
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.testing import ModelRequest, Reply

SIDES = {name: STANCES[name] for name in NAMES}
DECISION = {"nextSpeakers": list(SIDES), "briefing": BRIEFING, "newAngle": None, "done": False}
PROCESSES = 5
DEBATES = 10
AT_ONCE, SECONDS = 1_000, 0.2
COMMANDS = (10_000, 10, 10)  # arguments of `gc.set_threshold`, as in flowdebate's commands


def answer_to(request: ModelRequest, replies: Iterator[str]) -> Reply:
    """Return the answer of a debater, a moderator or a judge."""
    if request.output is None:
        return next(replies)
    return VERDICT if request.block.endswith("judge") else DECISION


def pattern(rounds: int = 3, *, moderator: bool = True) -> Sequencer[Any, Any]:
    """Build a debate with three sides, a judge and, by default, a moderator in each round."""
    sides = [Debater(name, stance) for name, stance in SIDES.items()]
    with warnings.catch_warnings(action="ignore"):  # suppress the warning that eight rounds are too many
        return debate(name="power", debaters=sides, max_rounds=rounds, moderator=moderator, synthesizer=False)


# Over HTTP

_PROBE = """
import resource, sys, time
began = time.process_time()
{imports}
imported = time.process_time()
{work}
done = time.process_time()
print(imported - began, done - imported, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_BARE = (
    "import asyncio, json, aiohttp",
    """
async def main():
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
            async with session.post(sys.argv[1] + "/chat/completions", json=body) as response:
                (await response.json())["choices"][0]["message"]["content"]
asyncio.run(main())
""",
)
_SDK = (
    "import asyncio, openai",
    """
async def main():
    async with openai.AsyncOpenAI(base_url=sys.argv[1], api_key="k") as client:
        for _ in range(3):
            messages = [{"role": "user", "content": "x"}]
            (await client.chat.completions.create(model="m", messages=messages)).choices[0].message.content
asyncio.run(main())
""",
)
_DEBATE = (
    "from flowdebate import Debater, OpenAIModel, debate",
    """
sides = [Debater("ann", "build dams"), Debater("ben", "use less")]
power = debate(name="power", debaters=sides, max_rounds=1, synthesizer=False)
power.run_sync("How should we make power?", model=OpenAIModel("m", base_url=sys.argv[1]%s))
""",
)
FIRST = {
    "aiohttp alone, three calls": _BARE,
    "the openai SDK alone, three calls": _SDK,
    "flowdebate, a debate of three calls": (_DEBATE[0], _DEBATE[1] % ""),
    'flowdebate, transport="openai"': (_DEBATE[0], _DEBATE[1] % ', transport="openai"'),
}


def first_over_http(base_url: str) -> None:
    """Measure the first debate in a process."""
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in FIRST}
    for turn in range(PROCESSES + 1):
        for name, (imports, work) in FIRST.items():
            command = [sys.executable, "-c", _PROBE.format(imports=imports, work=work), base_url]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
            if turn:  # the first turn warms the disk cache
                times[name].append(tuple(map(float, output.split())))
    medians = {name: tuple(map(statistics.median, zip(*rows, strict=True))) for name, rows in times.items()}
    base = sum(medians[next(iter(FIRST))][:2])
    print_table(
        "The first debate over HTTP in a process (goal: 300 ms more than aiohttp alone, 60 MB)",
        ["", "imports, CPU ms", "then, CPU ms", "both, more than the first", "peak MB"],
        [
            [name, *(f"{part * 1e3:.0f}" for part in (imports, work, imports + work - base)), f"{size:.0f}"]
            for name, (imports, work, size) in medians.items()
        ],
        note=f"Medians of {PROCESSES} processes each, in turn.",
    )


def first_word(base_url: str) -> None:
    """Measure the seconds from pressing Enter to the first word of a debate in a terminal."""
    sides = ["--debater", "ann=Build dams", "--debater", "ben=Use less"]
    location = ["--max-rounds", "1", "--model", "openai/m", "--base-url", base_url, "--no-store"]
    command = [str(Path(sys.executable).with_name("flowdebate")), "debate", QUESTION, *sides, *location]
    times: list[tuple[float, float]] = []
    for _ in range(PROCESSES + 1):
        start = time.perf_counter()
        child, terminal = pty.fork()
        if not child:
            os.execve(command[0], command, {**os.environ, "OPENAI_API_KEY": "k"})  # noqa: S606 - no shell
        output = b""
        while b"Argument" not in output:
            output += os.read(terminal, 65_536)
        seconds, fields = (
            time.perf_counter() - start,
            Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split(),
        )
        times.append((seconds, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")))
        with suppress(OSError):  # raised on Linux when the terminal is closed
            while os.read(terminal, 65_536):
                pass
        os.waitpid(child, 0)
        os.close(terminal)
    seconds, cpu = map(statistics.median, zip(*times[1:], strict=True))  # the first run warms the disk cache
    print(f"The first word in a terminal: {seconds:.2f} s after Enter, {cpu:.2f} s of them CPU (goal: 1.5 s, idle).\n")


def calls_over_http(base_url: str) -> None:
    """Measure thirteen calls in a debate, and the same requests by other clients."""
    import aiohttp
    import openai

    power, bodies = pattern(), list[dict[str, Any]]()

    async def ours(**options: Any) -> None:  # noqa: ANN401 - of OpenAIModel
        async with keep_connections():
            for seed in range(DEBATES):
                model = OpenAIModel("m", base_url=base_url, retry=None, **options)
                result = await power.run(QUESTION, model=model, seed=seed)
                assert result.usage.calls == calls_of(3, 3)  # noqa: S101 - what the figure is for

    async def by_sdk() -> None:
        http = openai.DefaultAioHttpClient()
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k", http_client=http) as client:
            for _ in range(DEBATES):
                for parameters in bodies:
                    assert (await client.chat.completions.create(**parameters)).choices[0].message.content  # noqa: S101

    async def bare() -> None:
        async with aiohttp.ClientSession() as session:
            for _ in range(DEBATES):
                for parameters in bodies:
                    async with session.post(f"{base_url}/chat/completions", json=parameters) as response:
                        assert (await response.json())["choices"]  # noqa: S101

    for request in asked_by(3):
        form = {"name": "answer", "schema": request.output_schema}
        structured = {"response_format": {"type": "json_schema", "json_schema": form}} if request.output else {}
        bodies.append({"model": "m", "messages": list(request.messages), **structured})
    works: dict[str, Callable[[], object]] = {
        "the openai SDK, one client": lambda: asyncio.run(by_sdk()),
        "flowdebate": lambda: asyncio.run(ours()),
        'flowdebate, transport="openai"': lambda: asyncio.run(ours(transport="openai")),
        "aiohttp alone": lambda: asyncio.run(bare()),
    }
    medians = alternating(works, repeats=5)
    base = next(iter(medians.values()))
    print_table(
        "Thirteen calls over HTTP (goal: half of the SDK)",
        ["", "CPU ms", "to the SDK"],
        [[name, f"{seconds / DEBATES * 1e3:.1f}", f"{seconds / base:.2f}"] for name, seconds in medians.items()],
        note="The same requests. Only flowdebate writes them, checks the answers, and has events and an audit trail.",
    )


# In process


def loop_and_store() -> None:
    """Measure 13 and 121 calls, the growth to 481 calls, and SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {13: (3, 3, 50), 121: (5, 20, 5), 481: (5, 80, 2)}
        works: dict[str, Callable[[], object]] = {}
        with warnings.catch_warnings(action="ignore"):
            for calls, (debaters, rounds, debates) in sizes.items():
                size: dict[str, Any] = {"debaters": debaters, "rounds": rounds, "debates": debates}
                works[f"flowdebate, {calls} calls"] = flowdebate_loop(**size)
                if calls < 481:
                    works[f"functions, {calls} calls"] = langgraph_loop(**size)
                    works[f"langgraph, {calls} calls"] = langgraph_loop(**size, langchain=True)
            works["flowdebate, 13 calls, SQLite"] = flowdebate_loop(store=SqliteStore(f"{folder}/a"), debates=50)
            works["langgraph, 13 calls, SQLite saver"] = langgraph_loop(f"{folder}/b", debates=50)
            medians = alternating(works, repeats=5)
    per_call = {}
    for name, seconds in medians.items():
        calls = int(name.split()[1])
        per_call[name] = seconds / sizes[calls][2] / calls * 1e6
    pairs = [
        ("13 calls to langgraph", "flowdebate, 13 calls", "langgraph, 13 calls", ".44"),
        ("the same, its nodes await a function", "flowdebate, 13 calls", "functions, 13 calls", ""),
        ("121 calls to langgraph", "flowdebate, 121 calls", "langgraph, 121 calls", ".35"),
        ("the same, its nodes await a function", "flowdebate, 121 calls", "functions, 121 calls", ""),
        ("481 calls to 13, each", "flowdebate, 481 calls", "flowdebate, 13 calls", "1.2"),
        ("SQLite to langgraph's saver", "flowdebate, 13 calls, SQLite", "langgraph, 13 calls, SQLite saver", ".5"),
    ]
    print_table(
        "The loop, an instant model",
        ["", "CPU µs a call", "of", "ratio", "goal"],
        [
            [title, f"{per_call[a]:.0f}", f"{per_call[b]:.0f}", f"{per_call[a] / per_call[b]:.2f}", goal]
            for title, a, b, goal in pairs
        ],
        note="langgraph's nodes ask a chat model of LangChain: no prompts beyond a join, no checks, no events. The one "
        "with SQLite awaits functions.",
    )


class _Timed(asyncio.SelectorEventLoop):
    """Event loop that records the CPU seconds of each of its turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []

    def _run_once(self) -> None:
        start = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # asyncio's own, which is not public
        self.turns.append(time.thread_time() - start)


def many_at_once() -> None:
    """Measure a thousand debates, each with nine calls of 0.2 s."""
    replies = distinct()
    power, calls = pattern(2), calls_of(3, 2)

    async def held(debates: int, seconds: float) -> None:
        async def answer(request: ModelRequest) -> Reply:
            await asyncio.sleep(seconds)
            return answer_to(request, replies)

        model = FunctionModel(answer)
        if seconds:
            await asyncio.gather(*(power.run(QUESTION, model=model, seed=seed) for seed in range(debates)))
        else:
            for seed in range(debates):
                await power.run(QUESTION, model=model, seed=seed)

    def timed(debates: int, seconds: float) -> tuple[float, float, float]:
        gc.collect()
        with asyncio.Runner(loop_factory=_Timed) as runner:
            cpu, wall = time.process_time(), time.perf_counter()
            runner.run(held(debates, seconds))
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            loop: Any = runner.get_loop()
            return cpu / debates / calls, wall, max(loop.turns)

    timed(20, 0)
    one, _, _ = timed(200, 0)
    rows = [["one after the other, instant", f"{one * 1e6:.0f}", "1", "", ""]]
    before = gc.get_threshold()
    for name, threshold in (("at once", before), ("at once, gc as the commands have it", COMMANDS)):
        gc.set_threshold(*threshold)
        cpu, wall, pause = timed(AT_ONCE, SECONDS)
        rows.append([name, f"{cpu * 1e6:.0f}", f"{cpu / one:.2f}", f"{wall:.1f}", f"{pause * 1e3:.0f}"])
    gc.set_threshold(*before)
    print_table(
        f"{AT_ONCE:,} debates of {calls} calls of {SECONDS} s (goal: 1.3 of one; a pause of 200 ms)",
        ["", "CPU µs a call", "to one", "wall s", "longest pause, CPU ms"],
        rows,
        note=f"The calls alone take {calls * SECONDS:.1f} s.",
    )


def held_by_results() -> float:
    """Measure how many bytes of memory a result uses per call."""
    results: list[object] = []
    work = flowdebate_loop(debates=30, look=results.append)
    work()
    results.clear()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return size / len(results) / calls_of(3, 3)


# Prompts


def asked_by(rounds: int) -> list[ModelRequest]:
    """Return the requests of a moderated debate."""
    replies, requests = distinct(), list[Any]()

    def answer(request: ModelRequest) -> Reply:
        requests.append(request)
        return answer_to(request, replies)

    pattern(rounds).run_sync(QUESTION, model=FunctionModel(answer), seed=1)
    return requests


def by_hand(rounds: int) -> list[tuple[str, int]]:
    """Return the prompts of the same debate in a manually written loop, and the lengths of the answers."""
    replies, transcript, prompts = distinct(), list[str](), list[tuple[str, int]]()

    def ask(rules: str, task: str, answer: str) -> str:
        positions = ", ".join(SIDES.values())
        history = "\n".join(transcript)
        system = f"{rules}\nQuestion: {QUESTION}\nPositions: {positions}"
        prompts.append((f"system{system}userSo far:\n{history}\n\n{task}", len(answer)))
        return answer

    for number in range(1, rounds + 1):
        moderate = "You moderate a debate. Brief the debaters before each round, and say who speaks."
        ask(moderate, f"Open round {number}.", json.dumps(DECISION))
        for name, stance in SIDES.items():
            rules = f"You are {name}, and argue that we should {stance}. Answer the others, then add a new reason."
            text = ask(rules, f"{BRIEFING}\nIt is your turn in round {number}.", next(replies))
            transcript.append(f"[{stance}] {text}")
    ask("You judge a debate by its arguments.", "Who argued best, and why?", json.dumps(VERDICT))
    return prompts


def billed(prompts: list[tuple[str, int]]) -> tuple[int, float, float]:
    """Compute all characters, the uncached characters, and the price in dollars.

    Prices per million tokens are $1.25, $0.125 (cached) and $10 (output). A token has four characters; a cache applies
    to a prefix of 1,024 or more tokens, in steps of 128.
    """
    earlier: list[str] = []
    fresh = cost = 0.0
    for text, answer in prompts:
        prefix = max((len(commonprefix([text, before])) for before in earlier), default=0)  # noqa: RUF071 - of texts
        earlier.append(text)
        fresh += len(text) - prefix
        cached = prefix // 4 // 128 * 128 if prefix // 4 >= 1_024 else 0
        cost += (len(text) / 4 - cached) * 1.25e-6 + cached * 0.125e-6 + answer / 4 * 10e-6
    return sum(len(text) for text, _ in prompts), fresh / len(prompts), cost


def prompts() -> None:
    """Measure the length and cost of the prompts."""
    rows = []
    for rounds in (3, 8):
        replies, prompts_sent = distinct(), []
        for request in asked_by(rounds):
            text = "".join(f"{message['role']}{message['content']}" for message in request.messages)
            answer = answer_to(request, replies)
            prompts_sent.append((text, len(answer if isinstance(answer, str) else json.dumps(answer))))
        hand, library = billed(by_hand(rounds)), billed(prompts_sent)
        rows.append([f"by hand, {rounds} rounds", f"{hand[0] / 1e3:.1f} k", "1", f"{hand[1]:.0f}", "1"])
        ratios = f"{library[0] / hand[0]:.2f}", f"{library[1]:.0f}", f"{library[2] / hand[2]:.2f}"
        rows.append([f"flowdebate, {rounds} rounds", f"{library[0] / 1e3:.1f} k", *ratios])
    print_table(
        "Prompts: three sides, a moderator, a judge",
        ["", "characters", "to by hand", "not sent before, a call", "money to by hand"],
        rows,
        note="By hand: three sentences of instructions for each role, stance first; no rules against injection.",
    )


def main() -> None:
    server = Path(__file__).with_name("latency_server.py")
    command = [sys.executable, str(server), "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101 - a pipe
        base_url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        first_over_http(base_url)
        first_word(base_url)
        calls_over_http(base_url)
        process.communicate()
    loop_and_store()
    many_at_once()
    print(f"A result holds {held_by_results() / 1e3:.1f} KB for each call (goal: 2).")
    prompts()


if __name__ == "__main__":
    main()
