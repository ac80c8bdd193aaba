from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate, generator
from flowdebate.adapters.litellm import LiteLLM, wait_for_callbacks
from flowdebate.errors import ConfigurationError, RateLimited, RealModelForbidden, ToolLoopExceeded
from flowdebate.models import ModelSettings
from flowdebate.testing import AdapterConformance, forbid_real_models
from tests.adapters.needs import needs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flowdebate.models.base import ModelRequest
    from flowdebate.models.base import ModelResponse as Response
    from flowdebate.testing.adapter import FakeAnswer, MakeAdapter, Script

pytestmark = [
    needs("litellm", "LiteLLM"),
    # this warning is raised inside LiteLLM
    pytest.mark.filterwarnings("ignore:Items? '.+' on TypedDict class:UserWarning"),
]


@pytest.fixture(autouse=True)
def offline_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent LiteLLM from downloading prices on import."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def provider(script: Script) -> Any:
    """Return a custom provider that answers from the script, following LiteLLM's documentation."""
    from litellm import CustomLLM, ModelResponse
    from litellm.types.utils import Usage

    async def answered(messages: Any) -> FakeAnswer:
        return await script("\n".join(str(message["content"]) for message in messages))

    def counts(answer: FakeAnswer) -> dict[str, int] | None:
        if answer.usage is None:
            return None
        prompt, completion = answer.usage
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    class Provider(CustomLLM):
        async def acompletion(self, *, messages: Any, model_response: ModelResponse, **_: Any) -> ModelResponse:
            answer = await answered(messages)
            text = answer.text if answer.data is None else json.dumps(answer.data)
            model_response.choices[0].message.content = text
            used = counts(answer) or {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            model_response.usage = Usage(**used)
            return model_response

        async def astreaming(self, *, messages: Any, **_: Any) -> AsyncIterator[Any]:
            answer = await answered(messages)
            for piece in answer.pieces:
                yield {"text": piece, "is_finished": False, "finish_reason": "", "usage": None, "index": 0}
            yield {"text": "", "is_finished": True, "finish_reason": "stop", "usage": counts(answer), "index": 0}

    return Provider()


class CallbackModel(LiteLLM):
    """Model that waits for LiteLLM's callbacks after each request. A run waits for them only at its end."""

    async def request(self, request: ModelRequest, /) -> Response:
        """Answer, then wait for the callbacks."""
        try:
            return await super().request(request)
        finally:
            await wait_for_callbacks()


class TestLiteLLM(AdapterConformance):
    """Adapter promises for a custom provider."""

    takes_tools = True

    @pytest.fixture
    def make(self, monkeypatch: pytest.MonkeyPatch) -> MakeAdapter:
        """Return a model whose provider answers from the script."""
        import litellm

        models: list[Any] = []
        monkeypatch.setattr(litellm, "custom_provider_map", models)
        monkeypatch.setattr(litellm, "_custom_providers", [])

        def model(script: Script) -> LiteLLM:
            name = f"theirs{len(models)}"
            models.append({"provider": name, "custom_handler": provider(script)})
            return CallbackModel(f"{name}/mayor")

        return model


def test_debate_runs_on_litellm_mock_responses() -> None:
    """A model with `mock_response` needs no provider and does not count as a real model."""
    sides = [Debater("ann", "cars out"), Debater("bob", "cars in")]
    city = debate(name="city", debaters=sides, max_rounds=1, synthesizer=False)
    verdict = {"reasoning": "The air.", "winner": "cars out", "verdict": "Close the center."}
    with forbid_real_models():
        model = {
            "chat": LiteLLM("gpt-5-mini", mock_response="Clean air."),
            "synthesize": LiteLLM("gpt-5-mini", mock_response=json.dumps(verdict)),
        }
        result = city.run_sync("May cars go?", model=model)
    assert result.raw.transcript[0].text == "Clean air."
    assert result.raw.verdict is not None
    assert result.raw.verdict.winner == "cars out"
    assert result.usage.total_tokens


def test_callbacks_are_called_before_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM queues success callbacks, so they could be lost when `run_sync` closes its event loop."""
    import litellm
    from litellm.integrations.custom_logger import CustomLogger

    logged: list[str] = []

    class Log(CustomLogger):
        async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            await asyncio.sleep(0)
            logged.append(response_obj.choices[0].message.content)

    monkeypatch.setattr(litellm, "callbacks", [Log()])
    model = LiteLLM("gpt-5-mini", mock_response="Clean air.")
    for _ in range(5):
        generator(name="mayor").run_sync("May cars go?", model=model)
    assert logged == ["Clean air."] * 5


def test_model_reads_tool_results() -> None:
    called = [{"id": "1", "type": "function", "function": {"name": "air", "arguments": '{"city": "Ulm"}'}}]
    calls = []

    def air(city: str) -> str:
        """Report the air quality."""
        calls.append(city)
        return "bad"

    model = LiteLLM("gpt-5-mini", mock_tool_calls=called, mock_response="")
    mayor = generator(name="mayor", tools=[air], max_tool_rounds=1)
    with pytest.raises(ToolLoopExceeded):
        mayor.run_sync("May cars go?", model=model)
    assert calls == ["Ulm"]


def test_litellm_errors_become_library_errors() -> None:
    model = LiteLLM("gpt-5-mini", mock_response="litellm.RateLimitError", retry=None)
    with pytest.raises(RateLimited, match=r"429 \(RateLimitError"):
        generator(name="mayor").run_sync("May cars go?", model=model)


def test_real_models_can_be_forbidden() -> None:
    with forbid_real_models(), pytest.raises(RealModelForbidden):
        generator(name="mayor").run_sync("May cars go?", model=LiteLLM("gpt-5-mini"))


@pytest.mark.parametrize("option", ["messages", "stream", "tools"])
def test_request_settings_cannot_be_passed_as_options(option: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"`{option}` cannot be set because each request sets it")):
        LiteLLM("gpt-5-mini", retry=None, **{option: 1})


def test_request_settings_override_options() -> None:
    model = LiteLLM("gpt-5-mini", temperature=1, mock_response="Yes.")
    from flowdebate.models.base import ModelRequest

    request = ModelRequest(messages=[], block="mayor", settings=ModelSettings(temperature=0.5, max_tokens=9))
    parameters = model._parameters(request)
    assert (parameters["temperature"], parameters["max_tokens"], parameters["num_retries"]) == (0.5, 9, 0)
