"""Tests for pydantic-ai agents used as models, and for patterns used as their tools."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate, generator
from flowdebate.adapters.pydantic_ai import AgentModel, debate_tool
from flowdebate.errors import ConfigurationError, RateLimited
from flowdebate.models import ModelRequest
from flowdebate.models.call import ask
from flowdebate.testing import AdapterConformance, FakeAnswer, ScriptedModel
from tests.adapters.needs import needs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flowdebate.testing.adapter import MakeAdapter, Script

pytestmark = needs("pydantic_ai", "pydantic-ai")


def fake(script: Script) -> Any:
    """Return a FunctionModel that reports the script's usage instead of an estimate."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    def usage(answer: FakeAnswer) -> RequestUsage:
        if answer.usage is None:
            return RequestUsage(unmeasured_requests=1)
        return RequestUsage(input_tokens=answer.usage[0], output_tokens=answer.usage[1])

    def prompt(messages: Any) -> str:
        parts = [part for message in messages for part in message.parts]
        instructions = [message.instructions for message in messages if getattr(message, "instructions", None)]
        return "\n".join([*instructions[-1:], *(str(part.content) for part in parts if hasattr(part, "content"))])

    async def answer(messages: Any, info: Any) -> ModelResponse:
        reply = await script(prompt(messages))
        if reply.data is None:
            return ModelResponse(parts=[TextPart(reply.text)], usage=usage(reply))
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, dict(reply.data))], usage=usage(reply))

    class Fake(FunctionModel):
        @asynccontextmanager
        async def request_stream(self, messages: Any, *rest: Any) -> AsyncIterator[Any]:
            replies: list[FakeAnswer] = []

            async def stream(messages: Any, info: Any) -> AsyncIterator[str]:
                replies.append(await script(prompt(messages)))
                for piece in replies[0].pieces:
                    yield piece

            streaming = FunctionModel(stream_function=stream)
            async with streaming.request_stream(messages, *rest) as response:
                kind = type(response)
                reported = property(lambda _: usage(replies[0]) if replies else RequestUsage(), lambda *_: None)
                response.__class__ = type(kind.__name__, (kind,), {"usage": reported, "_usage": reported})
                yield response

    return Fake(answer)


class TestAgentModel(AdapterConformance):
    """Adapter promises for a FunctionModel."""

    @pytest.fixture
    def make(self) -> MakeAdapter:
        """Return an agent whose model answers from the script."""
        from pydantic_ai import Agent

        return lambda script: AgentModel(Agent(fake(script), name="mayor"))


def test_agent_uses_its_own_instructions_tools_and_dependencies() -> None:
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    prompts: list[str] = []

    def answer(messages: Any, info: Any) -> ModelResponse:
        prompts.append(info.instructions)
        results = [part.content for part in messages[-1].parts if part.part_kind == "tool-return"]
        part = TextPart(f"The air: {results[0]}.") if results else ToolCallPart("air", {})
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=10, output_tokens=2))

    agent = Agent(FunctionModel(answer), instructions="You know the city.", deps_type=str)

    def air(ctx: Any) -> str:
        """Report the air quality."""
        return f"bad in {ctx.deps}"

    air.__annotations__["ctx"] = RunContext[str]
    agent.tool(air)

    model = AgentModel(agent, deps="Ulm")
    result = generator(name="mayor", prompt="Argue for the city.").run_sync("May cars go?", model=model)
    assert result.output == "The air: bad in Ulm."
    assert prompts[0].index("You know the city.") < prompts[0].index("Argue for the city.")
    assert (result.usage.calls, result.usage.prompt_tokens, result.usage.completion_tokens) == (1, 20, 4)


def test_provider_status_codes_raise_matching_errors() -> None:
    """Status codes become flowdebate's errors, so retries, fallbacks and failure policies work as usual."""
    from pydantic_ai import Agent
    from pydantic_ai.exceptions import ModelHTTPError

    def refuse(messages: Any, info: Any) -> Any:
        raise ModelHTTPError(429, "gpt", {"error": "slow down"})

    from pydantic_ai.models.function import FunctionModel

    model = AgentModel(Agent(FunctionModel(refuse)), retry=None)
    with pytest.raises(RateLimited, match=r"429 \(ModelHTTPError\).*slow down") as refused:
        generator(name="mayor").run_sync("May cars go?", model=model)
    assert refused.value.transient


def test_agent_uses_a_pattern_as_a_tool() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    sides = [Debater("ann", "cars out"), Debater("bob", "cars in")]
    city = debate(name="city-debate", debaters=sides, max_rounds=1, synthesizer=False)
    verdict = {"reasoning": "The air.", "winner": "cars out", "verdict": "Close the center."}
    model = ScriptedModel("Clean air.", "Shops die.", verdict)
    offered = debate_tool(city, description="Debate a question of the city.", model=model)
    test_model = TestModel()
    result = asyncio.run(Agent(test_model, tools=[offered]).run("May cars go?"))
    assert "cars out" in result.output
    assert test_model.last_model_request_parameters is not None
    [tool] = test_model.last_model_request_parameters.function_tools
    assert (tool.name, tool.description) == ("city_debate", "Debate a question of the city.")
    assert list(tool.parameters_json_schema["properties"]) == ["question"]
    model.assert_complete()


def test_only_agents_are_accepted() -> None:
    with pytest.raises(ConfigurationError, match=r"`agent` must be a pydantic-ai Agent \(got gpt\)"):
        AgentModel("gpt")


@pytest.mark.anyio
async def test_truncated_answer_is_flagged() -> None:
    """The agent returns truncated text as if it were complete, so the adapter must flag it."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    def answer(*_: object) -> ModelResponse:
        return ModelResponse(parts=[TextPart("Half a")], finish_reason="length")

    request = ModelRequest(messages=[{"role": "user", "content": "Why?"}], block="b")
    assert (await ask(AgentModel(Agent(FunctionModel(answer)), retry=None), request)).finish == "length"
