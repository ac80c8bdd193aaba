"""Tests for agents from the OpenAI Agents SDK used as models, and for patterns used as their tools."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate, generator
from flowdebate.adapters.openai_agents import AgentModel, debate_tool
from flowdebate.errors import ConfigurationError
from flowdebate.models import ModelSettings
from flowdebate.testing import AdapterConformance, ScriptedModel
from tests.adapters.needs import needs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flowdebate.testing.adapter import MakeAdapter, Script

pytestmark = needs("agents", "the OpenAI Agents SDK")


def no_tracing() -> Any:
    """Configure the SDK not to send traces."""
    from agents import RunConfig

    return RunConfig(tracing_disabled=True)


def fake(script: Script) -> Any:
    """Return a ScriptedModel from the SDK that answers from the script and streams word by word."""
    from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message
    from agents.usage import Usage

    async def respond(call: ModelCall) -> ModelStep:
        texts = [call.system_instructions or "", *(str(item.get("content")) for item in call.input)]
        answer = await script("\n".join(texts))
        text = answer.text if answer.data is None else json.dumps(answer.data)
        tokens = answer.usage or (0, 0)
        usage = Usage(requests=1, input_tokens=tokens[0], output_tokens=tokens[1], total_tokens=sum(tokens))
        return ModelStep(output=[assistant_message(text)], usage=usage)

    class Fake(ScriptedModel):
        async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            async for event in super().stream_response(*args, **options):
                if event.type == "response.output_text.delta":
                    for word in re.findall(r"\S+\s*", event.delta):
                        yield event.model_copy(update={"delta": word})
                else:
                    yield event

    return Fake([ModelStep.respond(respond)] * 20)


class TestAgentModel(AdapterConformance):
    """Adapter promises for the SDK's ScriptedModel."""

    @pytest.fixture
    def make(self) -> MakeAdapter:
        """Return an agent whose model answers from the script."""
        from agents import Agent

        return lambda script: AgentModel(Agent(name="mayor", model=fake(script)), run_config=no_tracing())


def test_agent_uses_its_own_instructions_tools_and_context() -> None:
    from agents import Agent, FunctionTool
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
    from agents.usage import Usage

    async def air(context: Any, arguments: str) -> str:
        return f"bad in {context.context}"

    tool = FunctionTool(
        name="air",
        description="How good the air is.",
        params_json_schema={"type": "object", "properties": {}, "additionalProperties": False, "required": []},
        on_invoke_tool=air,
    )
    used = Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12)
    steps = [
        ModelStep(output=[function_call("air", {}, call_id="1")], usage=used),
        ModelStep(output=[assistant_message("The air is bad.")], usage=used),
    ]
    agent_model = ScriptedModel(steps)
    agent = Agent(name="mayor", instructions="You know the city.", tools=[tool], model=agent_model)
    model = AgentModel(agent, context="Ulm", run_config=no_tracing())
    mayor = generator(name="mayor", prompt="Argue for the city.", settings=ModelSettings(temperature=0.5))
    result = mayor.run_sync("May cars go?", model=model)
    assert result.output == "The air is bad."
    first, last = agent_model.calls
    assert first.system_instructions == "You know the city."
    assert first.model_settings.temperature == 0.5
    assert [item["content"] for item in first.input] == ["Argue for the city.", "May cars go?"]
    assert "bad in Ulm" in str(last.input)
    assert (result.usage.calls, result.usage.prompt_tokens, result.usage.completion_tokens) == (1, 20, 4)


def test_agent_uses_a_pattern_as_a_tool() -> None:
    from agents import Agent, Runner
    from agents.testing import ModelStep, assistant_message, function_call
    from agents.testing import ScriptedModel as TheirModel

    sides = [Debater("ann", "cars out"), Debater("bob", "cars in")]
    city = debate(name="city-debate", debaters=sides, max_rounds=1, synthesizer=False)
    verdict = {"reasoning": "The air.", "winner": "cars out", "verdict": "Close the center."}
    debate_model = ScriptedModel("Clean air.", "Shops die.", verdict)
    offered = debate_tool(city, description="Debate a question of the city.", model=debate_model)
    assert (offered.name, offered.description) == ("city_debate", "Debate a question of the city.")
    called = ModelStep(output=[function_call("city_debate", {"question": "May cars go?"}, call_id="1")])
    agent_model = TheirModel([called, ModelStep(output=[assistant_message("Cars out.")])])
    asking = Runner.run(
        Agent(name="clerk", tools=[offered], model=agent_model), "May cars go?", run_config=no_tracing()
    )
    assert asyncio.run(asking).final_output == "Cars out."
    assert "Close the center." in str(agent_model.calls[1].input)
    debate_model.assert_complete()


def test_only_agents_are_accepted() -> None:
    with pytest.raises(ConfigurationError, match=r"`agent` must be an Agent from the OpenAI Agents SDK \(got gpt\)"):
        AgentModel("gpt")
