"""`OpenAIModel` connections, separate for each event loop: kept open while in use, and closed afterwards.

Connections are closed even after a cancellation.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdebate import generator
from flowdebate.errors import ModelTimeout, ModelUnavailable
from flowdebate.models import (
    ConcurrencyLimit,
    Fallback,
    ModelRequest,
    ModelSettings,
    OpenAIModel,
    OutputSchema,
    Retry,
    keep_connections,
)
from flowdebate.models.call import ask

from .server import ChatServer, chunk, completion

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models import Model

    from .server import Exchange

pytestmark = pytest.mark.anyio


def question(timeout: float = 20, on_text: Callable[[str], None] | None = None) -> ModelRequest:
    messages = [{"role": "user", "content": "hello"}]
    return ModelRequest(messages=messages, block="b", on_text=on_text, settings=ModelSettings(timeout=timeout))


def open_files() -> int:
    """Return the file descriptors of this process, including sockets."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count of entries that come and go


async def silent(exchange: Exchange) -> None:
    """Accept the request and never answer."""
    await exchange.until_gone()


async def stalling(exchange: Exchange) -> None:
    """Begin a stream and never continue."""
    await exchange.begin_events()
    await exchange.event(chunk("so"))
    await exchange.until_gone()


async def test_an_open_model_reuses_one_connection() -> None:
    """A run keeps its model open, and the connection closes when the run ends."""
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None)
        async with model.open_connections():
            for _ in range(3):
                await ask(model, question())
            assert (server.accepted, server.open_connections) == (1, 1)
        await server.wait_until_left()
        assert server.posts == 3


async def test_each_call_closes_its_connection_by_default() -> None:
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None)
        await ask(model, question())
        await server.wait_until_left()
        await ask(model, question())
        await server.wait_until_left()
        assert server.accepted == 2


async def test_the_connection_closes_when_the_last_open_block_ends() -> None:
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None)
        first, second = model.open_connections(), model.open_connections()
        await first.__aenter__()
        await second.__aenter__()
        async with model:
            await ask(model, question())
            await first.__aexit__(None, None, None)
            await ask(model, question())
        assert (server.accepted, server.open_connections) == (1, 1)
        await second.__aexit__(None, None, None)
        await server.wait_until_left()


async def test_open_connections_outlive_runs_and_are_shared_per_endpoint() -> None:
    """Connections stay open until the outermost `open_connections` block ends.

    A model with a different key uses a separate connection.
    """
    async with ChatServer() as server:
        async with keep_connections():
            async with keep_connections():
                for _ in range(2):
                    await ask(OpenAIModel("m", base_url=server.base_url, retry=None), question())
            await ask(OpenAIModel("n", base_url=server.base_url, retry=None), question())
            assert (server.accepted, server.open_connections) == (1, 1)
            await ask(OpenAIModel("m", base_url=server.base_url, api_key="another", retry=None), question())
            assert (server.accepted, server.open_connections) == (2, 2)
        await server.wait_until_left()


async def test_a_batch_keeps_the_connection_between_rows() -> None:
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None)
        batch = generator(name="tenant").batch(["a", "b", "c"], model=model, max_concurrency=1)
        assert [item.output async for item in batch] == ["fine"] * 3
        assert server.accepted == 1
        await server.wait_until_left()


async def test_an_unused_model_opens_no_connection() -> None:
    async with ChatServer() as server, OpenAIModel("m", base_url=server.base_url, retry=None):
        assert server.accepted == 0


async def test_concurrent_calls_get_their_own_answers() -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.json(completion(exchange.body["messages"][0]["content"]))

    async with ChatServer({"echo": echo}) as server:
        model = OpenAIModel("echo", base_url=server.base_url, retry=None)

        async def one(text: str) -> str:
            request = ModelRequest(messages=[{"role": "user", "content": text}], block="b")
            return (await ask(model, request)).text

        async with model.open_connections():
            texts = [f"text {number}" for number in range(200)]
            assert await asyncio.gather(*map(one, texts)) == texts
        await server.wait_until_left()


@pytest.mark.parametrize("scenario", ["silent", "stalling"])
async def test_the_deadline_ends_a_call_to_a_silent_server(scenario: str) -> None:
    """`ModelTimeout` is raised, and the connection is closed instead of being reused."""
    listener = (lambda _: None) if scenario == "stalling" else None
    async with ChatServer({"silent": silent, "stalling": stalling}) as server:
        model = OpenAIModel(scenario, base_url=server.base_url, retry=None)
        async with model.open_connections():
            with pytest.raises(ModelTimeout):
                await ask(model, question(0.3, listener))
            await server.wait_until_left()


async def test_the_deadline_ends_a_call_to_a_dripping_server() -> None:
    """Neither an occasional byte nor a keep-alive comment extends the deadline."""

    async def drip(exchange: Exchange) -> None:
        await exchange.begin_events()
        while True:
            await exchange.raw(b": keep-alive\n\n")
            await asyncio.sleep(0.01)

    async with ChatServer({"drip": drip}) as server:
        with pytest.raises(ModelTimeout):
            await ask(OpenAIModel("drip", base_url=server.base_url, retry=None), question(0.3, lambda _: None))
        await server.wait_until_left()


async def test_the_shorter_deadline_applies() -> None:
    """The model's `settings.timeout` of 0.2 seconds is shorter than the request's 60 seconds."""
    async with ChatServer({"silent": silent}) as server:
        model = OpenAIModel("silent", base_url=server.base_url, retry=None, settings=ModelSettings(timeout=0.2))
        with pytest.raises(ModelTimeout, match=r"0\.2 s"):
            await ask(model, question(60))


@pytest.mark.parametrize("failures", [0, 1])
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: ConcurrencyLimit(model, 1), Fallback])
async def test_a_model_deadline_covers_all_attempts(failures: int, wrap: Callable[[Model], Model]) -> None:
    """An attempt that misses the deadline is not repeated. A retry after a failure gets only the remaining time."""

    async def fail_slowly(exchange: Exchange) -> None:
        if server.posts > failures:
            await exchange.until_gone()
        else:
            await asyncio.sleep(0.3)
            await exchange.json({"error": {"message": "try again"}}, status=500)

    async with ChatServer({"slow": fail_slowly}) as server:
        retry, settings = Retry(first_wait=0), ModelSettings(timeout=0.5)
        model = OpenAIModel("slow", base_url=server.base_url, retry=retry, settings=settings)
        request = question(60)
        start = asyncio.get_running_loop().time()
        with pytest.raises(ModelTimeout, match=r"0\.5 s") as late:
            await ask(wrap(model), request)
        assert asyncio.get_running_loop().time() - start < 0.75
        assert late.value.model == model.name
        assert len(request.attempts.made) == failures + 1
        assert request.attempts.made[-1].error == "ModelTimeout"


async def test_mass_cancellation_leaves_a_working_model_and_no_open_connections() -> None:
    """Cancelled calls release their resources, whether they were connecting, waiting or reading."""
    async with ChatServer({"silent": silent, "stalling": stalling}) as server:
        async with OpenAIModel("warm", base_url=server.base_url, retry=None) as warm:
            await ask(warm, question())
        await server.wait_until_left()
        before, tasks = open_files(), len(asyncio.all_tasks())
        for scenario, listener in (("silent", None), ("stalling", lambda _: None)):
            model = OpenAIModel(scenario, base_url=server.base_url, retry=None)
            async with model.open_connections():
                for ticks in range(40):
                    calls = [asyncio.create_task(ask(model, question(60, listener))) for _ in range(5)]
                    for _ in range(ticks):
                        await asyncio.sleep(0)
                    for call in calls:
                        call.cancel()
                    ends = await asyncio.gather(*calls, return_exceptions=True)
                    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        await server.wait_until_left()
        fine = OpenAIModel("fine", base_url=server.base_url, retry=None)
        assert (await ask(fine, question())).text == "fine"
        await server.wait_until_left()
        assert (open_files(), len(asyncio.all_tasks())) == (before, tasks)


async def test_a_close_cancelled_twice_leaves_nothing_open() -> None:
    """Sockets are closed before the first point at which another cancellation can arrive."""
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None)
        inside = asyncio.Event()

        async def hold() -> None:
            async with model.open_connections():
                await ask(model, question())
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await inside.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_until_left()


def test_one_model_serves_several_event_loops_and_threads() -> None:
    """Two successive and two concurrent event loops each use a separate connection."""
    ports: list[int] = []
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        async with ChatServer() as server:
            done = asyncio.Event()
            loop = asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(done.set))
            ports.append(server.port)
            ready.set()
            await done.wait()
            await server.wait_until_left()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    model = OpenAIModel("m", base_url=f"http://127.0.0.1:{ports[0]}/v1")
    texts: list[str] = []

    async def run() -> None:
        async with model.open_connections():
            texts.extend([(await ask(model, question())).text for _ in range(2)])

    try:
        asyncio.run(run())
        asyncio.run(run())
        threads = [threading.Thread(target=lambda: asyncio.run(run()), daemon=True) for _ in range(2)]
        for worker in threads:
            worker.start()
        for worker in threads:
            worker.join(60)
    finally:
        stop[0]()
        thread.join(60)
    gc.collect()  # a socket left open would warn here, and warnings are errors
    assert texts == ["fine"] * 8


async def test_a_proxy_is_not_used_for_loopback() -> None:
    """Whatever HTTP_PROXY contains, a loopback endpoint is called directly."""
    async with ChatServer() as server:
        script = (
            "import asyncio, sys\n"
            "from flowdebate.models import ModelRequest, OpenAIModel\n"
            "from flowdebate.models.call import ask\n"
            "request = ModelRequest(messages=[{'role': 'user', 'content': 'x'}], block='b')\n"
            "print(asyncio.run(ask(OpenAIModel('m', base_url=sys.argv[1]), request)).text)\n"
        )
        env = {**os.environ, "HTTP_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", script, server.base_url, env=env, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert output.strip() == b"fine"


async def test_importing_the_package_imports_no_sdk() -> None:
    script = (
        "import sys, flowdebate.models; print(*{'openai', 'instructor', 'aiohttp', 'xllamacpp'} & set(sys.modules))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parent
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, output.strip()) == (0, b"")


async def test_a_call_for_a_structured_answer_can_be_cancelled() -> None:
    async with ChatServer({"silent": silent}) as server:
        model = OpenAIModel("silent", base_url=server.base_url, retry=None)
        request = ModelRequest(messages=[], block="b", output=OutputSchema.of(list[int]))
        task = asyncio.create_task(ask(model, request))
        await server.wait_for_posts(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_until_left()


async def test_the_error_names_an_unreachable_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is transient, and it lists the environment variables that can set the proxy."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    model = OpenAIModel("gpt-5-mini", base_url="https://api.openai.example/v1", api_key="k", retry=None)
    with pytest.raises(ModelUnavailable, match=r"through the proxy set in the environment .*HTTPS_PROXY") as caught:
        await ask(model, ModelRequest(messages=[{"role": "user", "content": "Hello"}], block="b"))
    assert caught.value.transient
