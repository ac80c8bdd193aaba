"""`Timeout`: deadlines for a request, for its first text, and for the pause between pieces of text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowdebate.errors import ConfigurationError, ConnectionLost, ModelTimeout
from flowdebate.models import ModelRequest, OpenAIModel, Retry, Timeout, ToolSpec
from flowdebate.models.call import ask
from tests.models.server import ChatServer, Exchange, chunk

from .helpers import Leaf, attempt_errors, delayed, hang, make_request, now, warped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.anyio


class Verdict(BaseModel):
    """A small structured answer."""

    winner: str


def drip_text(pauses: Sequence[float], end: float = 0) -> Callable[[ModelRequest], Any]:
    """Return an outcome that pauses before each piece of text and waits `end` seconds after the last one.

    The pieces are streamed if there is a listener.
    """

    async def drip(request: ModelRequest) -> str:
        for pause in pauses:
            await asyncio.sleep(pause)
            if request.on_text is not None:
                request.on_text("x")
        await asyncio.sleep(end)
        return "x" * len(pauses)

    return drip


async def time_call(model: Any, request: ModelRequest) -> tuple[float, str]:
    """Return how long a call takes and how it ends."""
    start = now()
    try:
        answered = await ask(model, request)
    except ModelTimeout as error:
        return now() - start, error.message
    return now() - start, answered.text


def check_end(model: Any, seconds: float, text: str, request: ModelRequest | None = None) -> None:
    """Check how long a call to `model` takes and how it ends."""
    ended = warped(time_call(model, request or make_request()))
    assert ended[0] == pytest.approx(seconds)
    assert ended[1] == text


def test_a_request_ends_at_its_deadline() -> None:
    check_end(Timeout(Leaf([delayed(4.9)]), 5), 4.9, "fine")
    check_end(Timeout(Leaf([hang]), 5), 5, "no answer within 5 s")


def test_each_request_in_a_call_has_a_separate_deadline() -> None:
    """The policy's deadline applies to each request separately, and the call's own deadline to all of them together."""
    leaf = Leaf([hang], retry=Retry(attempts=3, first_wait=0))
    request = make_request()
    check_end(Timeout(leaf, 5), 15, "no answer within 5 s", request)
    assert attempt_errors(request.attempts.made) == ["ModelTimeout"] * 3
    leaf = Leaf([hang], retry=Retry(attempts=3, first_wait=0))
    check_end(Timeout(leaf, 5), 12, "no answer within 12 s", make_request(timeout=12))
    assert len(leaf.requests) == 3


def test_inner_models_see_the_deadline() -> None:
    leaf = Leaf()

    async def twice() -> list[float]:
        start = now()
        await ask(Timeout(leaf, 5), make_request(timeout=60))
        await ask(Timeout(leaf, 5), make_request(timeout=3))
        return [(request.deadline or 0) - start for request in leaf.requests]

    assert warped(twice()) == pytest.approx([5, 3])


@given(
    pauses=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    end=st.integers(0, 9),
    first=st.none() | st.integers(1, 9).map(lambda value: value + 0.5),
    between=st.none() | st.integers(1, 9).map(lambda value: value + 0.5),
    listening=st.booleans(),
)
def test_silence_is_limited_before_and_between_chunks(
    pauses: list[int], end: int, first: float | None, between: float | None, *, listening: bool
) -> None:
    """The call ends at the first pause that is too long. Chunks that arrived before the pause have been passed on."""
    pieces: list[str] = []
    model = Timeout(Leaf([drip_text(pauses, end)]), 1000, first_text=first, between=between)
    request = make_request(on_text=pieces.append if listening else None)
    seconds, text = warped(time_call(model, request))
    limits = [first, *[between] * len(pauses)]
    silences = [*pauses, end]
    late = next((n for n, (limit, s) in enumerate(zip(limits, silences, strict=True)) if limit and s > limit), None)
    if late is None:
        assert seconds == pytest.approx(sum(silences))
        assert text == "x" * len(pauses)
    else:
        assert seconds == pytest.approx(sum(silences[:late]) + (limits[late] or 0))
        assert text == f"no text within {limits[late]:g} s"
    assert len(pieces) == (0 if not listening else len(pauses) if late is None else late)


def test_the_deadline_for_first_text_applies_to_a_non_streaming_model() -> None:
    """Until it has answered, a model that does not stream cannot be distinguished from one that hangs."""
    check_end(Timeout(Leaf([delayed(3)]), first_text=5), 3, "fine")
    check_end(Timeout(Leaf([delayed(3)]), first_text=2), 2, "no text within 2 s")


@pytest.mark.parametrize(
    "options", [{"output": Verdict}, {"tools": [ToolSpec(name="f", description="", parameters={})]}]
)
def test_unstreamed_answers_have_only_the_overall_deadline(options: dict[str, Any]) -> None:
    """Structured answers and answers with tools are not streamed, so limits on pauses do not apply."""
    leaf = Leaf([delayed(50, '{"winner": "a"}')])
    seconds, _ = warped(time_call(Timeout(leaf, 100, first_text=1, between=1), make_request(**options)))
    assert seconds == pytest.approx(50)
    assert leaf.requests[0].on_text is None


def test_cancellation_by_the_caller_is_not_reported_as_a_timeout() -> None:
    async def cancelled() -> None:
        call = asyncio.create_task(ask(Timeout(Leaf([hang]), 5, first_text=4), make_request()))
        await asyncio.sleep(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    warped(cancelled())


@pytest.mark.parametrize("options", [{"seconds": 5}, {"first_text": 5}], ids=["seconds", "first_text"])
def test_a_timeout_error_raised_by_the_model_is_not_mistaken_for_the_deadline(options: dict[str, float]) -> None:
    async def early() -> None:
        with pytest.raises(TimeoutError, match="mine"):
            await ask(Timeout(Leaf([TimeoutError("mine")]), **options), make_request())

    warped(early())


@pytest.mark.parametrize("options", [{"seconds": 5}, {"first_text": 5}], ids=["seconds", "first_text"])
def test_a_model_that_turns_cancellation_into_an_error_still_times_out(options: dict[str, float]) -> None:
    """The error raised by the model becomes the cause of the timeout."""

    async def stubborn(request: ModelRequest) -> None:
        try:
            await hang(request)
        except asyncio.CancelledError:
            raise ConnectionLost("cut off") from None

    async def late() -> None:
        with pytest.raises(ModelTimeout) as caught:
            await ask(Timeout(Leaf([stubborn]), **options), make_request())
        assert isinstance(caught.value.__cause__, ConnectionLost)

    warped(late())


def test_a_late_chunk_is_passed_on() -> None:
    tellers: list[Any] = []
    pieces: list[str] = []

    async def keep(request: ModelRequest) -> str:
        tellers.append(request.on_text)
        return "fine"

    async def late() -> None:
        await ask(Timeout(Leaf([keep]), between=1), make_request(on_text=pieces.append))
        tellers[0]("late")
        await asyncio.sleep(10)

    warped(late())
    assert pieces == ["late"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "seconds"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": True}, "seconds"),
        ({"first_text": float("inf")}, "first_text"),
        ({"between": "5"}, "between"),
    ],
    ids=str,
)
def test_invalid_options_are_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Timeout(Leaf(), **options)
    assert caught.value.field == field


# A real server


async def drip(exchange: Exchange) -> None:
    """Stream pieces forever."""
    await exchange.begin_events()
    while True:
        await exchange.event(chunk("a"))
        await asyncio.sleep(0.005)


async def stall(exchange: Exchange) -> None:
    """Stop after two pieces and send only comments to keep the connection alive."""
    await exchange.begin_events()
    for text in ("a", "b"):
        await exchange.event(chunk(text))
    await keep_alive(exchange)


async def silent(exchange: Exchange) -> None:
    """Begin a stream and send only comments."""
    await exchange.begin_events()
    await keep_alive(exchange)


async def keep_alive(exchange: Exchange) -> None:
    """Send comments forever."""
    while True:
        await exchange.raw(b": keep-alive\n\n")
        await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("drip", {"seconds": 0.3}, "no answer within 0.3 s"),
        ("stall", {"seconds": 20, "first_text": 15, "between": 0.1}, "no text within 0.1 s"),
        ("silent", {"seconds": 20, "first_text": 0.1, "between": 15}, "no text within 0.1 s"),
    ],
)
async def test_a_dripping_or_stalling_server_is_abandoned(model: str, options: dict[str, float], message: str) -> None:
    """Each call ends at its deadline and closes its connection, even if nobody reads the streamed text."""
    request = make_request()
    async with ChatServer({"drip": drip, "stall": stall, "silent": silent}) as server:
        inner = OpenAIModel(model, base_url=server.base_url, retry=Retry(attempts=2, first_wait=0))
        await ask(OpenAIModel("fine", base_url=server.base_url), make_request())  # the first call imports openai
        if model == "drip":
            request.on_text = lambda _: None
        async with Timeout(inner, **options).open_connections() as timeout:
            with pytest.raises(ModelTimeout) as caught:
                await ask(timeout, request)
            await server.wait_until_left()
        assert server.posts == 3
    assert caught.value.message == message
    assert attempt_errors(request.attempts.made) == ["ModelTimeout"] * 2
