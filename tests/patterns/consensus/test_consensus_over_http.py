"""Consensus debates over HTTP: the actual requests, and the effects of a failing endpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import OpenAIModel
from flowdebate.runs.events import ModelCalled
from tests.models.server import ChatServer, Exchange, chunk, completion, usage_chunk
from tests.patterns.debates import events

from .debates import TASK, THREE, check_emitted, plan

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.anyio


def _fields(body: Mapping[str, Any]) -> list[str]:
    response_format = body.get("response_format") or {}
    return list(response_format.get("json_schema", {}).get("schema", {}).get("properties", ()))


async def answer(exchange: Exchange) -> None:
    """Answer like a model that streams proposals when asked to and returns structured answers otherwise."""
    replies = {
        "reasoning,issues,suggestions,severity": {
            "reasoning": "Sound.",
            "issues": ["It is dear."],
            "suggestions": [],
            "severity": 0.25,
        },
        "proposal,position,enough": {"proposal": "Build homes now.", "position": "build", "enough": False},
        "reasoning,choice,confidence": {"reasoning": "Clear.", "choice": "bob", "confidence": 0.5},
    }
    fields = ",".join(_fields(exchange.body))
    if fields:
        await exchange.json(completion(json.dumps(replies[fields])))
    elif exchange.body.get("stream"):
        await exchange.events([chunk("Build "), chunk("homes."), chunk(finish="stop"), usage_chunk()])
    else:
        await exchange.json(completion("Build homes."))


async def test_debate_runs_over_http() -> None:
    async with ChatServer({"served": answer}) as server:
        model = OpenAIModel("served", base_url=server.base_url, api_key="sk-none")
        result = await plan(max_rounds=1).run(TASK, model=model)
        bodies = list(server.bodies)
    check_emitted(result)
    output = result.output
    assert (result.status, output.outcome, output.winner, output.answer) == (
        "complete",
        "consensus",
        "bob",
        "Build homes now.",
    )
    assert output.confidence == 0.5
    assert [critique.severity for critique in output.rounds[0].critiques] == [0.25] * 6
    assert output.rounds[0].convergence is not None
    assert output.rounds[0].convergence.status == "converged"
    assert len(bodies) == len(events(result, ModelCalled)) == result.usage.calls == 15
    assert result.usage.prompt_tokens == 150
    systems = {body["messages"][0]["content"] for body in bodies}
    assert {system.split("You are the agent ")[1] for system in systems} == {f"{name}." for name in THREE}
    assert [len(_fields(body)) for body in bodies] == [0] * 3 + [4] * 6 + [3] * 3 + [3] * 3


async def test_endpoint_refusing_one_agent_affects_only_that_agent() -> None:
    async def refusing(exchange: Exchange) -> None:
        if "You are the agent cy." in exchange.body["messages"][0]["content"]:
            await exchange.json({"error": {"message": "too long"}}, status=400)
        else:
            await answer(exchange)

    async with ChatServer({"served": refusing}) as server:
        model = OpenAIModel("served", base_url=server.base_url, api_key="sk-none")
        result = await plan(max_rounds=1).run(TASK, model=model)
    check_emitted(result)
    assert result.status == "degraded"
    assert {failure.name for failure in result.output.losses} == {"cy"}
    assert [failure.phase for failure in result.output.losses] == ["proposal", "critique", "critique", "vote"]
    assert result.output.winner == "bob"
    assert result.output.tally is not None
    assert (result.output.tally.valid, result.output.tally.failed) == (2, 1)
