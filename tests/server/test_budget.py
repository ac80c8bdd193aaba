"""A budget for all runs over HTTP: rejections, their messages, and two servers that share the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from flowdebate import Limits
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, TOKEN, Stage, answer_debate, staged
from tests.server.test_serve import make_client, start_server

if TYPE_CHECKING:
    from pathlib import Path

REACHED = {
    "type": "urn:flowdebate:error:BudgetReached",
    "title": "Budget reached",
    "status": 429,
    "detail": "the budget for all runs is exhausted: 6 of 6 calls used",
}
PEOPLE = {"debaters": [{"name": "Ann", "stance": "yes"}, {"name": "Ben", "stance": "no"}], "humans": ["Ben"]}
APPLICATION = """
from flowdebate import Limits
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import answer_debate

def service():
    return Service(store="runs.sqlite3", model=FunctionModel(answer_debate), budget=Limits(calls=6), recover=True)
"""


def read_budget(stage: Stage) -> list[dict[str, Any]]:
    """Return the budget that the server reports."""
    budgets: list[dict[str, Any]] = stage.get("/budgets").json()
    return budgets


def test_exhausted_budget_rejects_new_work() -> None:
    """Runs, forks, resumed runs and chats are rejected.

    Repeated requests for runs that have started still work, and so do human answers.
    """
    with staged(
        lambda: Service(store="memory:", model=FunctionModel(answer_debate), budget=Limits(calls=6)), openai=True
    ) as stage:
        assert read_budget(stage) == [{"budget": "all runs", "kind": "calls", "used": 0, "limit": 6, "until": None}]
        waits = stage.begin(runId="waits", options={"max_rounds": 1, **PEOPLE})
        assert stage.get(f"/runs/{waits}?wait=30").json()["status"] == "awaiting"
        stage.finished(runId="one")
        assert stage.begin(runId="two") == "two"
        assert stage.get("/runs/two?wait=30").json()["error"].endswith(REACHED["detail"])
        assert read_budget(stage)[0]["used"] == 6
        for path, body in (("/runs", BRIEF), ("/runs/two/resume", {}), ("/runs/one/fork", {"seed": 5})):
            response = stage.post(path, body)
            assert response.json() == REACHED
            assert "retry-after" not in response.headers
        assert stage.post("/runs", {**BRIEF, "runId": "one"}).status_code == 200
        answer = stage.post(f"/runs/{waits}/answers", {"answer": "No."})
        assert (answer.status_code, answer.json()["status"]) == (200, "interrupted")
        assert stage.post(f"/runs/{waits}/resume", {}).json() == REACHED
        chat = openai.OpenAI(base_url=f"{stage.url}/v1", api_key=TOKEN)
        messages: Any = [{"role": "user", "content": BRIEF["question"]}]
        with pytest.raises(openai.RateLimitError, match="6 of 6 calls used") as error:
            chat.chat.completions.create(model=chat.models.list().data[0].id, messages=messages)
        assert error.value.response.headers["x-should-retry"] == "false"


def test_budget_is_shared_between_servers_and_survives_a_restart(tmp_path: Path) -> None:
    """In this test, two servers share one store, and one of them is killed and restarted."""
    (tmp_path / "application.py").write_text(APPLICATION)
    (tmp_path / "token").write_text(TOKEN)
    options = ("--app", "application:service", "--token-file", "token")
    with (
        start_server(tmp_path, *options) as (first, one, _),
        start_server(tmp_path, *options) as (_, two, _),
        make_client(one, TOKEN) as a,
        make_client(two, TOKEN) as b,
    ):
        assert a.post("/api/v1/runs", json={**BRIEF, "runId": "one"}).status_code == 201
        assert a.get("/api/v1/runs/one?wait=30").json()["status"] == "complete"
        assert b.post("/api/v1/runs", json={**BRIEF, "runId": "two"}).status_code == 201
        assert b.get("/api/v1/runs/two?wait=30").json()["status"] == "limit"
        assert a.post("/api/v1/runs", json=BRIEF).json() == REACHED
        first.kill()
    with start_server(tmp_path, *options) as (_, url, _), make_client(url, TOKEN) as http:
        assert http.get("/api/v1/budgets").json()[0]["used"] == 6
        assert http.post("/api/v1/runs/two/resume").json() == REACHED


def test_server_without_a_budget_reports_none(stage: Stage) -> None:
    stage.finished()
    assert read_budget(stage) == []
