"""A moderated debate over HTTP, whose moderator looks up facts with a tool before briefing the debaters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, OpenAIModel, create_debate_transcript, create_moderator, debate
from flowdebate.runs.events import ModelCalled, ToolCalled
from tests.models.server import ChatServer, Exchange, chunk, completion, tool_call, usage_chunk
from tests.patterns.debates import QUESTION, SIDES, VERDICT, events

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.anyio

FACT = "Rents rose by 9% in 2025."


def rents(city: str, year: int = 2025) -> dict[str, object]:
    """Look up how much rents rose.

    Args:
        city: The name of the city.
        year: The year.
    """
    LOOKED_UP.append((city, year))
    return {"fact": FACT, "year": year}


LOOKED_UP: list[tuple[str, int]] = []


def _results(body: Mapping[str, Any]) -> list[Any]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


async def answer(exchange: Exchange) -> None:
    """Answer like a model that calls its tool once and passes the result on."""
    body = exchange.body
    if body.get("stream"):
        await exchange.events([chunk("Homes "), chunk("first."), chunk(finish="stop"), usage_chunk()])
    elif body.get("tools") and not _results(body):
        call = tool_call("rents", json.dumps({"city": "Bern"}))
        await exchange.json(completion(None, finish="tool_calls", tool_calls=[call]))
    elif body.get("tools"):
        lookup = json.loads(_results(body)[-1])
        decision = {"nextSpeakers": ["anna", "ben"], "briefing": lookup["fact"], "newAngle": None, "done": True}
        await exchange.json(completion(json.dumps(decision)))
    elif "response_format" in body:
        await exchange.json(completion(json.dumps(VERDICT)))
    else:
        await exchange.json(completion("Homes first."))


async def test_tool_results_appear_in_the_briefing_for_debaters() -> None:
    LOOKED_UP.clear()
    transcript = create_debate_transcript()
    moderator = create_moderator(
        name="rent", roster_names=[side.name for side in SIDES], transcript=transcript, tools=[rents]
    )
    rent = debate(name="rent", debaters=SIDES, moderator=moderator, transcript=transcript, synthesizer=False)
    async with ChatServer({"served": answer}) as server:
        model = OpenAIModel("served", base_url=server.base_url, api_key="sk-none")
        result = await rent.run(QUESTION, model=model)
        bodies = list(server.bodies)
    assert LOOKED_UP == [("Bern", 2025)]
    (choice,) = result.output.moderator_decisions
    assert choice.briefing == FACT
    (call_event,) = events(result, ToolCalled)
    assert (call_event.block, call_event.tool, json.loads(call_event.result)) == (
        "rent-moderator",
        "rents",
        {"fact": FACT, "year": 2025},
    )
    asking, answering, anna, ben, judge = bodies
    assert asking["tools"][0]["function"]["parameters"]["properties"]["city"]["description"] == "The name of the city."
    assert json.loads(_results(answering)[0])["fact"] == FACT
    assert all(FACT in debater["messages"][-1]["content"] for debater in (anna, ben))
    assert "tools" not in judge
    assert [entry.text for entry in result.output.transcript] == ["Homes first."] * 2
    assert [event.block for event in events(result, ModelCalled)] == [
        "rent-moderator",
        "rent-moderator",
        "rent-debater-anna",
        "rent-debater-ben",
        "rent-judge",
    ]
    assert result.usage.prompt_tokens == 50


async def test_invalid_tool_arguments_are_returned_to_the_model() -> None:
    """The model is given a chance to correct arguments that violate the function's schema."""
    LOOKED_UP.clear()
    calls = iter([tool_call("rents", '{"town": 3}', "call_1"), tool_call("rents", '{"city": "Bern"}', "call_2")])

    async def mending(exchange: Exchange) -> None:
        call = next(calls, None) if exchange.body.get("tools") else None
        if call is None:
            await answer(exchange)
        else:
            await exchange.json(completion(None, finish="tool_calls", tool_calls=[call]))

    transcript = create_debate_transcript()
    moderator = create_moderator(name="rent", roster_names=["anna", "ben"], transcript=transcript, tools=[rents])
    sides = [Debater(side.name, side.stance) for side in SIDES]
    rent = debate(name="rent", debaters=sides, moderator=moderator, transcript=transcript, synthesizer=False)
    async with ChatServer({"served": mending}) as server:
        result = await rent.run(QUESTION, model=OpenAIModel("served", base_url=server.base_url, api_key="sk-none"))
    first, second = events(result, ToolCalled)
    assert first.result.startswith("Error: ")
    assert "city" in first.result
    assert json.loads(second.result)["fact"] == FACT
    assert LOOKED_UP == [("Bern", 2025)]
