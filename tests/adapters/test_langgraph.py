"""Tests for LangChain chat models and graphs used as models, and for patterns used as graph nodes and tools."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from flowdebate import Debater, debate, generator, human
from flowdebate.adapters.langgraph import RunnableModel, debate_node, debate_tool
from flowdebate.errors import ConfigurationError, ContentFiltered
from flowdebate.models import ModelRequest, ModelSettings
from flowdebate.models.call import ask
from flowdebate.store import MemoryStore
from flowdebate.testing import AdapterConformance, FakeAnswer, ScriptedModel
from tests.adapters.needs import needs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flowdebate.testing.adapter import MakeAdapter, Script

pytestmark = needs("langgraph", "LangGraph")

SIDES = [Debater("ann", "cars out"), Debater("bob", "cars in")]
VERDICT = {"reasoning": "The air.", "winner": "cars out", "verdict": "Close the center."}


def fake(script: Script) -> Any:
    """Return a GenericFakeChatModel that answers from the script and uses tool calls for structured output."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

    def about(reply: FakeAnswer) -> dict[str, Any]:
        if reply.usage is None:
            return {}
        prompt, answer = reply.usage
        return {"usage_metadata": {"input_tokens": prompt, "output_tokens": answer, "total_tokens": prompt + answer}}

    class Fake(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self.bind(tools=tools, **options)

        async def _agenerate(self, messages: Any, *_: Any, tools: Any = (), **__: Any) -> ChatResult:
            answer = await script("\n".join(message.text for message in messages))
            calls = []
            text = answer.text if answer.data is None else json.dumps(answer.data)
            if answer.data is not None and tools:
                name = tools[0].get("title") or tools[0]["function"]["name"]
                calls, text = [{"name": name, "args": dict(answer.data), "id": "1"}], ""
            message = AIMessage(content=text, tool_calls=calls, **about(answer))
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _astream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
            answer = await script("\n".join(message.text for message in messages))
            text = answer.pieces if answer.data is None else (json.dumps(answer.data),)
            for index, piece in enumerate(text):
                last = about(answer) if index == len(text) - 1 else {}
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece, **last))

    return Fake(messages=iter(()))


def graph(script: Script) -> Any:
    """Return a graph with one node that calls the fake chat model."""
    from langgraph.graph import END, START, MessagesState, StateGraph

    model = fake(script)

    async def answer(state: Any) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("answer", answer)
    built.add_edge(START, "answer")
    built.add_edge("answer", END)
    return built.compile()


class TestChatModel(AdapterConformance):
    """Adapter promises for a fake chat model."""

    @pytest.fixture
    def make(self) -> MakeAdapter:
        """Return a chat model that answers from the script."""
        return lambda script: RunnableModel(fake(script))


class TestGraph(AdapterConformance):
    """Adapter promises for a graph."""

    @pytest.fixture
    def make(self) -> MakeAdapter:
        """Return a graph whose model answers from the script."""
        return lambda script: RunnableModel(graph(script), name="mayor")


def test_chain_can_serve_as_a_model() -> None:
    """Any runnable that maps messages to text is accepted."""
    from langchain_core.output_parsers import StrOutputParser

    async def script(prompt: str) -> FakeAnswer:
        return FakeAnswer(pieces=("Out.",), usage=(5, 1))

    chain = fake(script) | StrOutputParser()
    result = generator(name="mayor").run_sync("May cars go?", model=RunnableModel(chain))
    assert (result.output, result.usage.total_tokens) == ("Out.", 6)


def test_request_settings_reach_the_chat_model() -> None:
    """A request's settings are passed to LangChain as `temperature` and `max_tokens`."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

    settings: dict[str, Any] = {}

    class Fake(GenericFakeChatModel):
        def _generate(self, *args: Any, **options: Any) -> Any:
            settings.update(options)
            return super()._generate(*args, **options)

    mayor = generator(name="mayor", settings=ModelSettings(temperature=0.5, max_tokens=9))
    assert mayor.run_sync("May cars go?", model=RunnableModel(Fake(messages=iter(["Out."])))).output == "Out."
    assert (settings["temperature"], settings["max_tokens"]) == (0.5, 9)


class City(TypedDict, total=False):
    """State of a graph."""

    question: str
    result: Any


def single_node_graph(node: Any, **options: Any) -> Any:
    """Return a graph with one node."""
    from langgraph.graph import END, START, StateGraph

    built = StateGraph(City)
    built.add_node("debate", node)
    built.add_edge(START, "debate")
    built.add_edge("debate", END)
    return built.compile(**options)


def test_debate_node_streams_its_events() -> None:
    """The verdict is written to the graph's state, and the events are sent to LangGraph's custom stream."""
    city = debate(name="city", debaters=SIDES, max_rounds=1, synthesizer=False)
    model = ScriptedModel("Clean air.", "Shops die.", VERDICT)
    app = single_node_graph(debate_node(city, model=model))

    async def streamed() -> list[Any]:
        modes = ["custom", "values"]
        return [part async for part in app.astream({"question": "May cars go?"}, stream_mode=modes)]

    parts = asyncio.run(streamed())
    kinds = [part["kind"] for mode, part in parts if mode == "custom"]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert "text_delta" in kinds
    assert parts[-1][1]["result"]["verdict"]["winner"] == "cars out"
    model.assert_complete()


def test_human_answers_through_the_graph() -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    sides = [Debater("ann", "cars out", block=human(name="olga")), Debater("bob", "cars in")]
    city = debate(name="city", debaters=sides, judge=human(name="jo"), max_rounds=1, synthesizer=False)
    model = ScriptedModel("Shops die.")
    app = single_node_graph(debate_node(city, model=model, store=MemoryStore()), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "city-1"}}

    async def held() -> list[Any]:
        return [
            await app.ainvoke(value, config)
            for value in ({"question": "May cars go?"}, Command(resume="Clean air."), Command(resume=VERDICT))
        ]

    first, second, last = asyncio.run(held())
    assert first["__interrupt__"][0].value["block"] == "olga"
    assert "May cars go?" in first["__interrupt__"][0].value["shown"]
    assert second["__interrupt__"][0].value["block"] == "jo"
    assert last["result"]["verdict"]["verdict"] == "Close the center."
    model.assert_complete()


def test_rerunning_a_failed_graph_resumes_the_debate() -> None:
    """Invoking the graph again on the same thread does not resend requests that have already been answered."""
    from langgraph.checkpoint.memory import InMemorySaver

    city = debate(name="city", debaters=SIDES, max_rounds=1, synthesizer=False)
    model = ScriptedModel("Clean air.", "Shops die.", OSError("cut"), VERDICT)
    app = single_node_graph(debate_node(city, model=model, store=MemoryStore()), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "city-1"}}

    async def held() -> Any:
        with pytest.raises(OSError, match="cut"):
            await app.ainvoke({"question": "May cars go?"}, config)
        return await app.ainvoke(None, config)

    assert asyncio.run(held())["result"]["verdict"]["winner"] == "cars out"
    model.assert_complete()


def test_debate_can_be_a_tool() -> None:
    city = debate(name="city-debate", debaters=SIDES, max_rounds=1, synthesizer=False)
    model = ScriptedModel("Clean air.", "Shops die.", VERDICT)
    tool = debate_tool(city, description="Debate a question of the city.", model=model)
    assert (tool.name, tool.description) == ("city_debate", "Debate a question of the city.")
    assert tool.args["question"]["type"] == "string"
    answer = json.loads(asyncio.run(tool.ainvoke({"question": "May cars go?"})))
    assert answer["verdict"]["winner"] == "cars out"


def test_only_runnables_are_accepted() -> None:
    with pytest.raises(ConfigurationError, match="`runnable` must be a chat model"):
        RunnableModel("gpt")


@pytest.mark.anyio
async def test_finish_reason_comes_from_the_integration() -> None:
    """Integrations use different names for their finish reasons.

    A truncated answer is flagged; a filtered one raises an error.
    """
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    answers = [
        AIMessage(content="Half a", response_metadata={"stop_reason": "max_tokens"}),
        AIMessage(content="Half a", response_metadata={"finish_reason": "SAFETY"}),
        AIMessage(content="Whole.", response_metadata={"done_reason": "stop"}),
    ]
    model = RunnableModel(GenericFakeChatModel(messages=iter(answers)))

    def question() -> ModelRequest:
        return ModelRequest(messages=[{"role": "user", "content": "Why?"}], block="b")

    assert (await ask(model, question())).finish == "length"
    with pytest.raises(ContentFiltered, match="SAFETY"):
        await ask(model, question())
    assert (await ask(model, question())).finish == "stop"
