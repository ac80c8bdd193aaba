"""Reasoning effort: how it is requested, what it costs, and how an answer that is all thinking is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.errors import ConfigurationError, FlowDebateWarning, LostToThinking, RequestRejected
from flowdebate.models import LocalModel, ModelRequest, ModelSettings, OpenAIModel, Retry, Usage, resolve_model
from flowdebate.models.call import ask
from flowdebate.models.providers import PROVIDERS
from tests.vendors import THOUGHT, vendors

from .server import ChatServer, completion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.models.base import Effort
    from tests.vendors import Vendor, VendorName

pytestmark = pytest.mark.anyio


@pytest.fixture
def vendor_servers() -> Iterator[dict[VendorName, Vendor]]:
    """Return all stub servers."""
    with vendors() as running:
        yield running


def question(**settings: Any) -> ModelRequest:
    listener = settings.pop("on_text", None)
    messages = [{"role": "user", "content": "Why?"}]
    return ModelRequest(messages=messages, block="b", settings=ModelSettings(**settings), on_text=listener)


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "gemini/gemini-3-pro", "ollama/gemma3"])
@pytest.mark.parametrize("effort", ["low", "high"])
async def test_each_vendor_receives_the_effort_in_its_own_field(
    model: str, effort: Effort, vendor_servers: dict[VendorName, Vendor]
) -> None:
    """The usage includes reasoning tokens if the vendor reports them."""
    response = await ask(resolve_model(model), question(effort=effort))
    vendor = vendor_servers[model.partition("/")[0]]  # type: ignore[index]
    assert vendor.asked[-1].effort == effort
    assert response.usage.reasoning_tokens == (None if vendor.name == "ollama" else THOUGHT[effort])


async def test_the_effort_field_can_be_nested() -> None:
    """OpenRouter expects the effort in a nested object. Fields added by the application come last."""
    async with ChatServer() as server:
        dotted = OpenAIModel("m", base_url=server.base_url, effort=PROVIDERS["openrouter"].effort)
        await ask(dotted, question(effort="low"))
        await ask(dotted, question(effort="low", extra={"reasoning": {"max_tokens": 9}}))
    assert [body["reasoning"] for body in server.bodies] == [{"effort": "low"}, {"max_tokens": 9}]


async def test_the_model_effort_is_the_default() -> None:
    """A request can override the model's effort, like all of its settings."""
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, settings=ModelSettings(effort="low"))
        await ask(model, question())
        await ask(model, question(effort="high"))
    assert [body["reasoning_effort"] for body in server.bodies] == ["low", "high"]


async def test_an_unsupported_effort_is_rejected_before_sending() -> None:
    """The local model rejects any effort, as do servers without an effort field.

    Settings reject effort levels that do not exist.
    """
    async with ChatServer() as server:
        with pytest.raises(ConfigurationError, match="`effort` is not supported by this model"):
            await ask(OpenAIModel("m", base_url=server.base_url, effort=None), question(effort="low"))
        assert server.posts == 0
    with pytest.raises(ConfigurationError, match="must be low, medium or high"):
        ModelSettings(effort="max")  # type: ignore[arg-type]
    assert LocalModel().takes_effort is False


async def test_a_rejected_effort_is_omitted(vendor_servers: dict[VendorName, Vendor]) -> None:
    """Only the provider knows which of its models can think.

    If a model rejects the effort, its answers are flagged, and a single warning is emitted.
    """
    with pytest.warns(FlowDebateWarning, match="'gpt-4o' rejects effort"):
        answered = await ask(resolve_model("openai/gpt-4o"), question(effort="low"))
    second = await ask(resolve_model("openai/gpt-4o"), question(effort="low"))
    assert ["without_effort" in response.flags for response in (answered, second)] == [True, True]
    assert vendor_servers["openai"].refused == 0
    assert len(vendor_servers["openai"].asked) == 2


async def test_a_strict_model_raises_an_error_if_the_effort_is_rejected(
    vendor_servers: dict[VendorName, Vendor],
) -> None:
    """The error quotes the provider's message."""
    strict = OpenAIModel(
        "gpt-4o", base_url=vendor_servers["openai"].base_url, api_key=vendor_servers["openai"].key, strict=True
    )
    with pytest.raises(RequestRejected, match="reasoning_effort"):
        await ask(strict, question(effort="low"))
    assert vendor_servers["openai"].asked == []


@pytest.mark.parametrize("on_text", [None, lambda _: None], ids=["whole", "streamed"])
async def test_the_error_for_an_answer_lost_to_thinking_names_the_limit(
    on_text: Any, vendor_servers: dict[VendorName, Vendor]
) -> None:
    """The call is retried once with twice the limit.

    Tokens spent on thinking still count, because they have been paid for.
    """
    request = question(effort="high", max_tokens=100, on_text=on_text)
    with pytest.raises(LostToThinking, match=r"raise max_tokens \(200\), or lower effort") as caught:
        await ask(resolve_model("openai/gpt-5-mini"), request)
    assert (caught.value.room, caught.value.thought) == (200, 200)
    assert [request.body["max_completion_tokens"] for request in vendor_servers["openai"].asked] == [100, 200]
    assert request.attempts.usage.reasoning_tokens == 300


async def test_an_answer_lost_to_thinking_is_retried_with_a_higher_limit() -> None:
    """If no limit is configured, the retry may use twice as many tokens as before, but at least several thousand."""
    thought = {"completion_tokens_details": {"reasoning_tokens": 4_096}}
    body = completion("", finish="length")
    body["usage"] |= thought

    async def think(exchange: Any) -> None:
        await exchange.json(body)

    async with ChatServer({"m": think}) as server:
        with pytest.raises(LostToThinking, match=r"\(4,096 tokens\) and wrote no answer: raise max_tokens \(8,192\)"):
            await ask(OpenAIModel("m", base_url=server.base_url, retry=Retry(first_wait=0)), question())
    assert [body.get("max_tokens") for body in server.bodies] == [None, 8_192]


def test_reasoning_tokens_are_part_of_the_completion_or_unknown() -> None:
    """The total number of reasoning tokens is unknown if any part of it is unknown."""
    usage = Usage(calls=1, prompt_tokens=9, cached_tokens=0, completion_tokens=5, reasoning_tokens=3)
    assert (usage + usage).reasoning_tokens == 6
    assert (usage + Usage.unknown()).reasoning_tokens is None
    assert usage.total_tokens == 14
    assert "reasoning_tokens=3" in repr(usage)
    assert "reasoning" not in repr(Usage.unknown())
