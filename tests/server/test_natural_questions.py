"""Questions without sides, in any language and in each front end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
from mcp import Client

from flowdebate.mcp import create_server
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.cases import slow_but_first
from tests.mcp.conftest import structured_output
from tests.server.agui_client import AgUiClient
from tests.server.stage import HTTP_TIMEOUT, TOKEN, Stage, answer_debate, staged
from tests.server.test_agui import continue_thread, run_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.models.base import ModelRequest

PLAIN = [
    "Should we build trams?",
    "Is Rust better than Go?",
    "Will AI replace programmers?",
    "Do cats make better pets than dogs?",
]
"""Questions that name their sides."""
NATURAL = [
    "Tabs versus spaces",
    "Which database should we use: Postgres or MongoDB?",
    "What is the best database for a startup?",
    "Pros and cons of remote work",
    "Remote work is good for companies.",
    "Debate whether cities should ban cars",
    "should i learn rust or go",
    "How should we limit rate of requests?",
    "Sollten wir Straßenbahnen bauen?",
    "hi",
    "Ist Homeoffice besser als Büro?",
    "Welche Datenbank sollen wir nehmen, Postgres oder MongoDB?",
    "Vor- und Nachteile der Vier-Tage-Woche",
    "Homeoffice ist gut für Unternehmen.",
    "Tempolimit ja oder nein",
    "Should we build trams?\n\n# Rules for files\n\nAnswer with the whole file, and never with a part of it.\n" * 20,
]
"""Questions for which a model proposes sides. The last one is followed by rules, as in a coding agent's prompt."""
PROPOSED = "The second position is right"


def answer(request: ModelRequest) -> Any:
    """Propose two positions, or answer in a short debate."""
    if request.block == "sides":
        positions = ("The first position is right", PROPOSED)
        return {"sides": [{"name": position.split()[1], "position": position} for position in positions]}
    return answer_debate(request)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve the built-in patterns."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer)), openai=True, ag_ui=True) as stage:
        yield stage


@pytest.mark.parametrize("question", slow_but_first(PLAIN + NATURAL, NATURAL.count))
def test_chat_client_can_ask_a_natural_question(stage: Stage, question: str) -> None:
    with openai.OpenAI(base_url=f"{stage.url}/v1", api_key=TOKEN, max_retries=0, timeout=HTTP_TIMEOUT) as client:
        completion = client.chat.completions.create(
            model="flowdebate/debate", messages=[{"role": "user", "content": question}]
        )
    content = completion.choices[0].message.content or ""
    assert completion.choices[0].finish_reason == "stop"
    assert (PROPOSED in content) == (question in NATURAL)


@pytest.mark.parametrize("question", slow_but_first(PLAIN + NATURAL, NATURAL.count))
def test_agui_client_can_ask_a_natural_question(stage: Stage, question: str) -> None:
    client = continue_thread(stage, "debate", AgUiClient(f"thread {question[:50]!r}"), question=question)
    assert run_outcome(client)["type"] == "success"
    stances = {message["about"].get("stance") for message in client.messages.values()}
    assert (PROPOSED in stances) == (question in NATURAL)


@pytest.mark.anyio
@pytest.mark.parametrize("question", slow_but_first(PLAIN + NATURAL, NATURAL.count))
async def test_mcp_host_can_ask_a_natural_question(question: str) -> None:
    service = Service(store="memory:", model=FunctionModel(answer))
    async with service, Client(create_server(service)) as client:
        arguments = {"question": question, "max_rounds": 1, "wait": 50}
        report = structured_output(await client.call_tool("start_debate", arguments))
    assert report["status"] == "complete"
    assert (PROPOSED in [speaker["about"] for speaker in report["speakers"]]) == (question in NATURAL)


@pytest.mark.parametrize("question", slow_but_first(PLAIN + NATURAL, NATURAL.count))
def test_program_can_ask_a_natural_question_over_http(stage: Stage, question: str) -> None:
    run_id = stage.finished(question=question)
    debaters = stage.get(f"/runs/{run_id}").json()["document"]["debaters"]
    assert (PROPOSED in [debater["stance"] for debater in debaters]) == (question in NATURAL)
