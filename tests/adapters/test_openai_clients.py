"""Tests for debates on models from each framework, using the newest openai package that the frameworks allow."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from tests.models.server import ChatServer, Exchange, chunk, completion, tool_call, usage_chunk

from .needs import needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models import Model

pytestmark = pytest.mark.anyio

VERDICT = {"reasoning": "The air.", "winner": "cars out", "verdict": "Close the center."}
KEY = "sk-of-nobody"
KEPT: list[Model] = []
"""Models that have answered. They are kept alive because a garbage-collected openai client closes its connections in
whichever event loop is running.
"""


async def play_role(exchange: Exchange) -> None:
    """Answer as a debater, or as the judge in the requested output mode."""
    tools = [tool["function"] for tool in exchange.body.get("tools", ())]
    judges = next((tool["name"] for tool in tools if "winner" in json.dumps(tool["parameters"])), None)
    message: dict[str, Any] = {"content": "Clean air."}
    if judges is not None:
        message = {"content": None, "tool_calls": [tool_call(judges, json.dumps(VERDICT))]}
    elif "winner" in json.dumps(exchange.body.get("response_format", {})):
        message = {"content": json.dumps(VERDICT)}
    finish = "stop" if judges is None else "tool_calls"
    if not exchange.body.get("stream"):
        await exchange.json(completion(finish=finish, **message))
        return
    calls = [{**call, "index": index} for index, call in enumerate(message.pop("tool_calls", ()))]
    delta = {**message, "tool_calls": calls} if calls else message
    await exchange.events([chunk(**delta), chunk(finish=finish), usage_chunk()])


def pydantic_ai_model(base_url: str) -> Model:
    """Return an agent with pydantic-ai's own model."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from flowdebate.adapters.pydantic_ai import AgentModel

    return AgentModel(Agent(OpenAIChatModel("staged", provider=OpenAIProvider(base_url=base_url, api_key=KEY))))


def openai_agents_model(base_url: str) -> Model:
    """Return an agent with the SDK's own model."""
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig
    from openai import AsyncOpenAI

    from flowdebate.adapters.openai_agents import AgentModel

    chat_model = OpenAIChatCompletionsModel(model="staged", openai_client=AsyncOpenAI(base_url=base_url, api_key=KEY))
    return AgentModel(Agent(name="a", model=chat_model), run_config=RunConfig(tracing_disabled=True))


def langchain_model(base_url: str) -> Model:
    """Return LangChain's own chat model."""
    from langchain_openai import ChatOpenAI

    from flowdebate.adapters.langgraph import RunnableModel

    return RunnableModel(ChatOpenAI(model="staged", base_url=base_url, api_key=KEY))


def litellm_model(base_url: str) -> Model:
    """Return LiteLLM's provider for OpenAI."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # do not download prices on import
    from flowdebate.adapters.litellm import LiteLLM

    return LiteLLM("openai/staged", api_base=base_url, api_key=KEY)


def inspect_model(base_url: str) -> Model:
    """Return Inspect's own model."""
    from inspect_ai.model import get_model

    from flowdebate.adapters.inspect_ai import InspectModel

    return InspectModel(get_model("openai/staged", base_url=base_url, api_key=KEY, responses_api=False, memoize=False))


MODELS = [
    pytest.param(pydantic_ai_model, id="pydantic-ai", marks=needs("pydantic_ai", "pydantic-ai")),
    pytest.param(openai_agents_model, id="openai-agents", marks=needs("agents", "the OpenAI Agents SDK")),
    pytest.param(langchain_model, id="langchain", marks=needs("langchain_openai", "LangChain")),
    pytest.param(litellm_model, id="litellm", marks=needs("litellm", "LiteLLM")),
    pytest.param(inspect_model, id="inspect-ai", marks=needs("inspect_ai", "Inspect")),
]


@pytest.mark.filterwarnings("ignore")  # the frameworks leave connections to the garbage collector
@pytest.mark.parametrize("make", MODELS)
async def test_debate_runs_with_each_framework_and_the_newest_openai_client(make: Callable[[str], Model]) -> None:
    sides = [Debater("ann", "cars out"), Debater("bob", "cars in")]
    city = debate(name="city", debaters=sides, max_rounds=1, synthesizer=False)
    async with ChatServer({"staged": play_role}) as server:
        model = make(server.base_url)
        KEPT.append(model)
        result = await city.run("May cars go?", model=model)
    assert result.raw.verdict is not None
    assert result.raw.verdict.winner == "cars out"
    assert [entry.text for entry in result.raw.entries] == ["Clean air.", "Clean air."]
    assert server.posts == 3
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert result.usage.prompt_tokens == 30
