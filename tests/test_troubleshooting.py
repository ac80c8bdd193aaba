"""Errors in docs/troubleshooting.md, compared with the library's actual messages."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

import flowdebate
from flowdebate import Debater, FailurePolicy, Limits, Persona, debate, errors, generator, handler, human
from flowdebate.chassis.state import DebateStatus
from flowdebate.models import CircuitBreaker, ModelSettings, OpenAIModel, RecordingModel, ReplayModel
from flowdebate.models.local.gguf import WAYS_OUT
from flowdebate.patterns.debate.transcript import parse_entries
from flowdebate.service import Service
from flowdebate.store import MemoryStore, SqliteStore, StoredStatus
from flowdebate.testing import FunctionModel, ScriptedModel, ToolCall, check_debate, forbid_real_models
from tests.models.server import ChatServer, Exchange, completion

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parent.parent / "docs" / "troubleshooting.md").read_text("utf-8")
SHOWN = {
    name: {" ".join(fence.split()) for fence in re.findall(r"^```text\n(.*?)\n```$", part, re.MULTILINE | re.DOTALL)}
    for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)
    for name in re.findall(r"`(\w+)`", part.partition("\n")[0]) or [part.partition("\n")[0]]
}
"""Messages shown below each heading, keyed by the class name in the heading or by the heading's words."""
BASES = {"BadAnswer", "FlowDebateError", "ModelError", "RequestRejected", "TaskError"}
QUESTION = "Should rents be capped?"
SIDES = [Debater("ann", "cap rents"), Debater("ben", "build more")]
VERDICT = {"reasoning": "It was answered.", "winner": "cap rents", "verdict": "Cap them."}


def make_debate(**options: Any) -> Any:
    """Build a one-round debate."""
    return debate(name="rent", debaters=SIDES, **{"max_rounds": 1, "synthesizer": False, **options})


def model_with_reply(*replies: Any) -> ScriptedModel:
    """Create a scripted model that gives these replies."""
    return ScriptedModel(*replies, name="m")


async def never_answer(_: Any = None) -> str:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def call_server(handle: Callable[[Exchange], Awaitable[None]], *, schema: Any = None, **settings: Any) -> None:
    """Call a server with this handler."""
    async with ChatServer({"m": handle}) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k", retry=None, settings=ModelSettings(**settings))
        await generator(name="ann", output_schema=schema).run(QUESTION, model=model)


def respond_with_status(code: int, error: dict[str, str]) -> Callable[[Exchange], Awaitable[None]]:
    """Create a handler that responds with an error status."""

    async def handle(exchange: Exchange) -> None:
        await exchange.json({"error": error}, status=code)

    return handle


def respond_with_answer(content: Any, **more: Any) -> Callable[[Exchange], Awaitable[None]]:
    """Create a handler that responds with this answer."""

    async def handle(exchange: Exchange) -> None:
        await exchange.json(completion(content, **more))

    return handle


async def respond_with_html(exchange: Exchange) -> None:
    """Return a login page."""
    await exchange.answer(b"<!doctype html><title>Sign in</title>", kind="text/html")


async def close_connection(exchange: Exchange) -> None:
    """Close the connection in the middle of an answer."""
    await exchange.raw(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"id":')
    exchange.close = True


async def interrupt_run(store: Any) -> None:
    """Leave behind a run that was interrupted in its second call."""
    reached = asyncio.Event()

    async def answer(request: Any) -> str:
        if request.block.endswith("ann"):
            return "Homes first."
        reached.set()
        return await never_answer()

    running = asyncio.create_task(
        make_debate().run(QUESTION, model=FunctionModel(answer), store=store, run_id="rent-1")
    )
    await reached.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def circuit_open() -> None:
    """Fail twice in a row, then make another call."""
    down = CircuitBreaker(
        FunctionModel(lambda _: (_ for _ in ()).throw(errors.ProviderFailed("down")), name="m"), failures=1
    )
    with contextlib.suppress(errors.ProviderFailed):
        await generator(name="ann").run(QUESTION, model=down)
    await generator(name="ann").run(QUESTION, model=down)


async def no_connection() -> None:
    """Call an address at which nothing listens."""
    async with ChatServer() as server:
        address = server.base_url
    await generator(name="ann").run(QUESTION, model=OpenAIModel("m", base_url=address, api_key="k", retry=None))


async def mismatched_cassette(folder: Path) -> None:
    """Ask a question that differs from the recorded one."""
    path = folder / "rent.jsonl"
    await generator(name="ann").run("Should rents be capped?", model=RecordingModel(model_with_reply("Yes."), path))
    await generator(name="ann").run("Should rents be free?", model=ReplayModel(path))


async def stores_conflict(folder: Path) -> None:
    """Resume a run that another process is executing."""
    entered, path = asyncio.Event(), folder / "runs.sqlite3"

    async def wait(request: Any) -> str:
        entered.set()
        return await never_answer()

    running = asyncio.create_task(make_debate().run(QUESTION, model=FunctionModel(wait), store=path, run_id="rent-1"))
    await entered.wait()
    try:
        await make_debate().resume("rent-1", model=model_with_reply(), store=path)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def locked_file(folder: Path) -> None:
    """Open a file that another program keeps locked."""
    path = folder / "runs.sqlite3"
    store = SqliteStore(path, patience=0.05)
    await store.runs()
    other = sqlite3.connect(path)
    other.execute("begin exclusive")
    try:
        await make_debate().run(QUESTION, model=model_with_reply(), store=store, run_id="rent-1")
    finally:
        other.close()
        await store.close()


async def lost_file(folder: Path) -> None:
    """Delete the store's file during a run."""
    path = folder / "runs.sqlite3"

    def answer(request: Any) -> str:
        path.unlink(missing_ok=True)
        return "Yes."

    await make_debate().run(QUESTION, model=FunctionModel(answer), store=path)


async def duplicate_id() -> None:
    """Start a run with an existing id."""
    store = MemoryStore()
    for _ in range(2):
        await make_debate().run(
            QUESTION, model=model_with_reply("Cap.", "Build.", VERDICT), store=store, run_id="rent-1"
        )


async def changed_block() -> None:
    """Resume a run with a different block."""
    store = MemoryStore()
    await interrupt_run(store)
    await make_debate(max_rounds=2).resume("rent-1", model=FunctionModel(lambda _: "x"), store=store)


async def changed_prompt() -> None:
    """Resume a run with a different prompt."""
    store = MemoryStore()
    await interrupt_run(store)
    await make_debate(instructions="Rhyme.").resume("rent-1", model=FunctionModel(lambda _: "x"), store=store)


async def uncertain_call() -> None:
    """Refuse to repeat a call that may have been paid for."""
    store = MemoryStore()
    await interrupt_run(store)
    await make_debate().resume("rent-1", model=FunctionModel(lambda _: "x"), store=store, on_uncertain="raise")


async def dead_letter() -> None:
    """Let processes crash on a run repeatedly."""
    store = MemoryStore()
    await interrupt_run(store)
    for _ in range(26):
        await store.take("rent-1")
        await store.release("rent-1")
    await make_debate().resume("rent-1", model=FunctionModel(lambda _: "x"), store=store)


async def answered_twice() -> None:
    """Answer a request twice."""
    store = MemoryStore()
    await make_debate(judge=human(name="jo")).run(
        QUESTION, model=model_with_reply("Cap.", "Build."), store=store, run_id="rent-1"
    )
    for _ in range(2):
        await flowdebate.submit_answer(store, "rent-1", VERDICT)


async def exhausted_budget() -> None:
    """Start a run after a service has spent its budget."""
    async with Service(
        {"rent": make_debate()}, store="memory:", model=model_with_reply("Cap."), budget=Limits(calls=1)
    ) as service:
        run = await service.begin("rent", QUESTION)
        await service.wait(run.run_id)
        await service.begin("rent", QUESTION)


async def too_many_runs() -> None:
    """Start more runs than a service has capacity for."""
    end = asyncio.Event()

    async def answer(request: Any) -> Any:
        await end.wait()
        return VERDICT if request.output_schema else "Yes."

    patterns, model = {"rent": make_debate()}, FunctionModel(answer)
    async with Service(patterns, store="memory:", model=model, max_concurrency=1, max_queued=1) as service:
        await service.begin("rent", QUESTION)
        await service.begin("rent", QUESTION)
        try:
            await service.begin("rent", QUESTION)
        finally:
            end.set()


def two_transcripts() -> None:
    """Build a debate with a custom debater that uses a different transcript."""
    make = flowdebate.create_debate_transcript
    custom = flowdebate.create_debater(agent_name="ann", stance="cap rents", name="own", transcript=make())
    debate(name="rent", debaters=[Debater("ann", "cap rents", block=custom), SIDES[1]], transcript=make())


def clear_transcript(value: Any, ctx: Any) -> str:
    """Clear the transcript as a debater."""
    ctx.resources.transcript.state.entries.clear()
    return "I win."


def moderated_debate(*replies: Any) -> Any:
    """Build a debate with a function as its moderator."""
    decided = {"next_speakers": list(replies), "briefing": None, "new_angle": None, "done": False}
    return make_debate(moderator=lambda value, ctx: decided).run(QUESTION, model=model_with_reply())


def fail_call(request: Any) -> Any:
    """Fail as an unavailable provider would."""
    raise errors.ProviderFailed("the endpoint answered 503", status=503)


def broken_promise() -> Any:
    """Build a pattern whose judge breaks a promise by choosing a position that nobody holds."""
    return make_debate(judge=lambda value, ctx: {"winner": "caps", "verdict": "-", "reasoning": "-"})


async def completed_twice() -> None:
    """Complete a task twice."""
    board = flowdebate.TaskCollection("board")
    task = board.add_task("Read it", id="read")
    board.cancel(task.id)
    board.complete(task.id)


CASES: dict[str, Callable[[Path], Any]] = {
    "ConfigurationError": lambda _: make_debate(max_rounds=0),
    "ConflictingOptions": lambda _: make_debate(mirror=True, turn_order="simultaneous"),
    "ResourceConflict": lambda _: two_transcripts(),
    "ModelUnavailable": lambda _: no_connection(),
    "ConnectionLost": lambda _: call_server(close_connection),
    "ModelTimeout": lambda _: generator(name="ann", settings=ModelSettings(timeout=0.01)).run(
        QUESTION, model=FunctionModel(never_answer, name="m")
    ),
    "AuthenticationFailed": lambda _: call_server(respond_with_status(401, {"message": "Incorrect API key provided"})),
    "ModelNotFound": lambda _: call_server(respond_with_status(404, {"message": "The model `m` does not exist"})),
    "ContextTooLong": lambda _: call_server(
        respond_with_status(
            400, {"message": "maximum context length is 8192 tokens", "code": "context_length_exceeded"}
        )
    ),
    "RateLimited": lambda _: call_server(
        respond_with_status(429, {"message": "Rate limit reached", "code": "rate_limit_exceeded"})
    ),
    "ProviderFailed": lambda _: call_server(respond_with_status(503, {"message": "The server is overloaded"})),
    "CircuitOpen": lambda _: circuit_open(),
    "MalformedResponse": lambda _: call_server(respond_with_html),
    "ResponseTooLarge": lambda _: generator(name="ann", settings=ModelSettings(max_chars=200)).run(
        QUESTION, model=model_with_reply("Homes. " * 60)
    ),
    "EmptyResponse": lambda _: call_server(respond_with_answer("")),
    "OutputTruncated": lambda _: call_server(
        respond_with_answer('{"winner": "cap', finish="length"), schema={"type": "object"}
    ),
    "LostToThinking": lambda _: call_server(respond_with_answer("", finish="length")),
    "Refused": lambda _: call_server(respond_with_answer(None, refusal="I will not argue that.")),
    "ContentFiltered": lambda _: call_server(respond_with_answer("", finish="content_filter")),
    "SchemaViolation": lambda _: make_debate(failures=FailurePolicy(on_failure="fail")).run(
        QUESTION,
        model=model_with_reply(
            "Cap.", "Build.", {"reasoning": "It was answered.", "winner": "caps", "verdict": "Cap."}
        ),
    ),
    "ToolLoopExceeded": lambda _: generator(name="ann", tools=[look_up], max_tool_rounds=2).run(
        QUESTION, model=FunctionModel(lambda _: ToolCall(id="1", name="look_up", arguments="{}"), name="m")
    ),
    "RealModelForbidden": lambda _: forbidden_call(),
    "CassetteMismatch": mismatched_cassette,
    "ScriptError": lambda _: make_debate().run(QUESTION, model=model_with_reply("Cap.")),
    "OutputError": lambda _: make_debate(judge=lambda value, ctx: {"winner": "caps", "verdict": "Cap them."}).run(
        QUESTION, model=model_with_reply("Cap.", "Build.")
    ),
    "RosterError": lambda _: moderated_debate("ann", "bob"),
    "ReadOnly": lambda _: debate(
        name="rent", debaters=[Debater("ann", "cap rents"), Debater("ben", "build more", block=clear_transcript)]
    ).run(QUESTION, model=model_with_reply("Cap.")),
    "LimitReached": lambda _: (
        flowdebate.sequencer(name="two")
        .then(generator(name="ann"))
        .then(generator(name="ben"))
        .run(QUESTION, model=model_with_reply("Yes."), limits=Limits(calls=1))
    ),
    "BudgetReached": lambda _: exhausted_budget(),
    "TooManyRuns": lambda _: too_many_runs(),
    "QuorumLost": lambda _: make_debate(failures=FailurePolicy(on_failure="skip", quorum=2)).run(
        QUESTION, model=FunctionModel(lambda r: fail_call(r) if r.block.endswith("ann") else "Build.")
    ),
    "NoProposals": lambda _: flowdebate.consensus(name="plan", agents=[Persona("ann"), Persona("ben")]).run(
        QUESTION, model=FunctionModel(fail_call, name="m")
    ),
    "LoopLimitExceeded": lambda _: (
        flowdebate.sequencer(name="search").do_while(handler(lambda n: n), lambda n: True, max_iterations=3).run(1)
    ),
    "PromiseBroken": lambda _: check_debate(broken_promise, seed=1, max_examples=20),
    "ViewError": lambda _: parse_entries("Round 1:\nCap them."),
    "BadFile": lambda folder: ReplayModel(folder / "missing.jsonl"),
    "StoreError": locked_file,
    "StoreLost": lost_file,
    "RunNotFound": lambda _: make_debate().resume("rent-2", store=MemoryStore()),
    "RunExists": lambda _: duplicate_id(),
    "RunConflict": stores_conflict,
    "RunChanged": lambda _: changed_block(),
    "RunUncertain": lambda _: uncertain_call(),
    "JournalMismatch": lambda _: changed_prompt(),
    "NotRecordable": lambda _: handler(set_in_step, name="facts").run(1, store=MemoryStore(), run_id="rent-1"),
    "NotAwaited": lambda _: answered_twice(),
    "DeadLetter": lambda _: dead_letter(),
    "TaskNotFound": lambda _: flowdebate.TaskCollection("board").get("t-9"),
    "IllegalTransition": lambda _: completed_twice(),
}


async def set_in_step(value: Any, ctx: Any) -> Any:
    """Return a set from a step, although it is not JSON data."""

    async def look() -> set[str]:
        return {"load"}

    return await ctx.step(look)


def look_up() -> str:
    """Look up a fact."""
    return "nothing"


async def forbidden_call() -> None:
    """Call a real model in a test."""
    with forbid_real_models():
        await generator(name="ann").run(QUESTION, model="openai/gpt-5-mini")


def normalize(message: str, folder: Path) -> str:
    """Return a message without machine-dependent parts."""
    message = message.replace(f"{folder}/", "")
    return " ".join(re.sub(r"127\.0\.0\.1(', |:)\d+", r"127.0.0.1\g<1>8080", message).split())


def is_quoted(message: str, texts: set[str]) -> bool:
    """Return whether one of the quotes is the message, or the message's beginning followed by an ellipsis."""
    return any(
        message.startswith(text.removesuffix("…").rstrip()) if text.endswith("…") else message == text for text in texts
    )


async def catch(case: Callable[[Path], Any], folder: Path) -> BaseException:
    """Return the exception that a case raises."""
    try:
        outcome = case(folder)
        if inspect.isawaitable(outcome):
            await outcome
    except Exception as error:  # noqa: BLE001 - whichever it is, it is compared
        return error
    raise AssertionError


@pytest.mark.filterwarnings("ignore:run .* ended as 'failed', which could not be recorded")
@pytest.mark.parametrize("name", [name for name in CASES if name != "PromiseBroken"])
async def test_page_quotes_library_messages(name: str, tmp_path: Path) -> None:
    """Below each error's heading, the page quotes one of its messages word for word, possibly without its end."""
    error = await catch(CASES[name], tmp_path)
    assert type(error).__name__ == name
    assert is_quoted(normalize(str(error), tmp_path), SHOWN[name])


def test_page_quotes_the_broken_promise_report() -> None:
    """`check_debate` runs its own debates, so this test must not run inside an event loop."""
    with pytest.raises(errors.PromiseBroken) as caught:
        check_debate(broken_promise, seed=1, max_examples=20)
    assert is_quoted(normalize(str(caught.value), Path()), SHOWN["PromiseBroken"])


def test_every_error_is_on_the_page() -> None:
    """Each error has its own heading or is mentioned as the base class of other errors."""
    assert set(CASES) == {name for name in errors.__all__ if name in SHOWN} - BASES
    assert [name for name in errors.__all__ if f"`{name}`" not in PAGE] == []


def test_every_status_is_on_the_page() -> None:
    rows = set(re.findall(r'^\| `"?(\w+)"?` \|', PAGE, re.MULTILINE))
    assert rows == {*get_args(DebateStatus), *get_args(StoredStatus), "left_behind"}


FIRST: dict[str, Callable[[Path], Any]] = {
    "No key": lambda _: generator(name="ann").run(QUESTION, model="openai/gpt-5-mini"),
    "The model name": lambda _: make_debate(model="openai:gpt-5-mini"),
    "The run waits": lambda _: make_debate(judge=human(name="jo")).run(
        QUESTION, model=model_with_reply("Cap.", "Build.")
    ),
    "rounds": lambda _: make_debate(rounds=3),
}


@pytest.mark.parametrize("heading", FIRST)
async def test_page_quotes_typical_first_errors(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users who search for the text of their first failure must find the page."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    message = normalize(str(await catch(FIRST[heading], tmp_path)), tmp_path)
    assert is_quoted(message, set().union(*SHOWN.values()))


def test_page_lists_the_ways_to_get_a_model() -> None:
    (text,) = SHOWN["No model"]
    assert WAYS_OUT in text
    (text,) = SHOWN["The local model is not installed"]
    assert WAYS_OUT.startswith(text.partition(": ")[2])


def test_page_quotes_library_warnings() -> None:
    with pytest.warns(errors.FlowDebateWarning) as caught:
        make_debate(max_rounds=6)
    assert {str(warning.message) for warning in caught} == SHOWN["Warnings"]
