"""How each front end shows debaters that stream their thinking before their answers, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from flowdebate import Debater, debate
from flowdebate.cli.app import app
from flowdebate.mcp import create_server
from flowdebate.service.service import Service
from tests.faults.members import THOUGHT, Endpoint, endpoint, model_word
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Iterator

QUESTION = "Should rents be capped?"
SIDES = ("--debater", "Ann=cap rents", "--debater", "Ben=free rents")


@pytest.fixture(params=["aloud", "unannounced"])
def thinker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Endpoint, str]]:
    """Provide an endpoint and the name of a model that thinks in one of two ways."""
    with endpoint() as served:
        for name, value in (("OPENAI_BASE_URL", served.url), ("OPENAI_API_KEY", "none")):
            monkeypatch.setenv(name, value)
        yield served, f"{request.param}-{os.urandom(4).hex()}"  # do not reuse what was learned about another model


def group_deltas(frames: list[Any]) -> list[tuple[str, str]]:
    """Return the deltas and withdrawals in order, joining consecutive deltas with the same path."""
    entries: list[tuple[str, str]] = []
    for frame in frames:
        if frame.event == "text_delta":
            if entries and entries[-1][0] == frame.data["path"]:
                entries[-1] = (frame.data["path"], entries[-1][1] + frame.data["text"])
            else:
                entries.append((frame.data["path"], frame.data["text"]))
        elif frame.event == "text_withdrawn":
            entries.append(("withdrawn", frame.data["path"]))
    return entries


def test_http_listeners_do_not_see_announced_thinking(thinker: tuple[Endpoint, str]) -> None:
    _, name = thinker
    model = {"debater": f"openai/{name}", "default": "openai/up-default"}
    pattern = debate(
        name="rent", debaters=[Debater("Ann", "cap rents"), Debater("Ben", "free rents")], max_rounds=1, model=model
    )
    with staged(lambda: Service({"rent": pattern}, store="memory:")) as stage:
        run_id = stage.post("/runs", {"pattern": "rent", "question": QUESTION}).json()["runId"]
        frames = stage.frames(f"/runs/{run_id}/events")
        details = stage.get(f"/runs/{run_id}?wait=30").json()
        page = stage.http.get(f"{stage.pages}/runs/{run_id}").text
    entries = group_deltas(frames)
    withdrawn = [text for path, text in entries if path == "withdrawn"]
    thoughts = [text for path, text in entries if path != "withdrawn" and THOUGHT[:20] in text]
    # listeners that join late see neither thoughts nor withdrawals
    assert len(thoughts) == len(withdrawn) <= (1 if name.startswith("unannounced") else 0)
    assert details["status"] == "complete"
    assert [entry["text"] for entry in details["document"]["raw"]["transcript"]] == [
        f"{model_word(name)} is what I say."
    ] * 2
    assert THOUGHT not in json.dumps(details)
    assert THOUGHT not in page


def test_the_terminal_shows_only_the_arguments(thinker: tuple[Endpoint, str]) -> None:
    _, name = thinker
    models = ("--model", f"debater=openai/{name}", "--model", "openai/up-default", "--max-rounds", "1", "--no-store")
    result = CliRunner().invoke(app, ["debate", QUESTION, *SIDES, *models], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    taken_back = result.stdout.count("(that does not count: the model was only thinking)")
    assert result.stdout.count(THOUGHT) == taken_back == (1 if name.startswith("unannounced") else 0)
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines.count(f"{model_word(name)} is what I say.") == 2


def test_mcp_hosts_see_only_the_arguments(thinker: tuple[Endpoint, str]) -> None:
    _, name = thinker

    async def report() -> Any:
        async with (
            Service(store="memory:", allow_models=["openai/*"]) as service,
            Client(create_server(service)) as client,
        ):
            sides = [{"name": "Ann", "stance": "cap rents"}, {"name": "Ben", "stance": "free rents"}]
            model = {"debater": f"openai/{name}", "default": "openai/up-default"}
            arguments = {"question": QUESTION, "sides": sides, "max_rounds": 1, "model": model, "wait": 30}
            return (await client.call_tool("start_debate", arguments)).structured_content

    answer = asyncio.run(report())
    assert answer["status"] == "complete"
    assert answer["said"].count(f"{model_word(name)} is what I say.") == 2
    assert THOUGHT not in json.dumps(answer)


def test_openai_clients_see_only_the_arguments(thinker: tuple[Endpoint, str]) -> None:
    _, name = thinker
    model = {"debater": f"openai/{name}", "default": "openai/up-default"}
    pattern = debate(
        name="rent", debaters=[Debater("Ann", "cap rents"), Debater("Ben", "free rents")], max_rounds=1, model=model
    )
    with staged(lambda: Service({"rent": pattern}, store="memory:"), openai=True) as stage:
        body: dict[str, Any] = {"model": "debate/rent", "messages": [{"role": "user", "content": QUESTION}]}
        with stage.http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response:
            lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: {")]
        message = stage.http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    deltas = [choice["delta"].get("content") or "" for line in lines for choice in json.loads(line)["choices"]]
    streamed = "".join(deltas)
    taken_back = streamed.count("that does not count: the model was only thinking")
    assert streamed.count(THOUGHT) == taken_back == (1 if name.startswith("unannounced") else 0)
    assert THOUGHT not in message
    for text in (streamed, message):
        assert text.count(f"{model_word(name)} is what I say.") == 2
