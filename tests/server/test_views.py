"""Views of a run other than its events: steps, tasks, documents, and pages."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from flowdebate import handler
from flowdebate.service.service import Service
from flowdebate.store.export import import_runs
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from flowdebate.web.report import report_policy, verify_report
from tests.server.stage import BRIEF, Gate, Stage, answer_debate, staged

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.context import Context


def test_steps_and_tasks_can_be_listed(stage: Stage) -> None:
    run_id = stage.finished()
    steps = stage.get(f"/runs/{run_id}/steps").json()
    assert [step["kind"] for step in steps] == ["call"] * 4
    assert steps[0]["text"] == "debate-debater-pro is sure.\nSo it is."
    (board,) = stage.get(f"/runs/{run_id}/tasks").json()
    assert {task["status"] for task in board["tasks"]} == {"completed"}


def test_steps_and_page_show_repairs() -> None:
    def answer(request: ModelRequest) -> Any:
        turn = answer_debate(request)
        return turn if isinstance(turn, str) else f"```json\n{json.dumps(turn)}\n```"

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = stage.finished()
        repaired = [step["repaired"] for step in stage.get(f"/runs/{run_id}/steps").json()]
        assert [repairs for repairs in repaired if repairs] == [["code fence"]]
        assert "repaired: code fence" in stage.http.get(f"{stage.pages}/runs/{run_id}").text


def test_call_is_shown_as_sent() -> None:
    """The response includes everything that the model received, even during the call and after a restart."""
    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        requests.append(request)
        return answer_debate(request)

    script = Gate(answer)
    with staged(lambda: Service(store="memory:", model=script)) as stage:
        run_id = stage.begin()
        script.wait_for_call()
        (started,) = [step for step in stage.get(f"/runs/{run_id}/steps").json() if not step["finished"]]
        running = stage.get(f"/runs/{run_id}/calls/{started['place']}").json()
        assert (running["recorded"], running["block"]) == (True, "debate-debater-pro")
        script.let(4)
        assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
        for step, request in zip(stage.get(f"/runs/{run_id}/steps").json(), requests, strict=True):
            call = stage.get(f"/runs/{run_id}/calls/{step['place']}").json()
            assert call["messages"] == list(request.messages)
            assert call["answerSchema"] == request.output_schema
            assert call["recorded"]
        assert call != running
        assert stage.get(f"/runs/{run_id}/calls/debate/nowhere").status_code == 404
        assert stage.get(f"/runs/nothing/calls/{started['place']}").status_code == 404


def test_run_can_be_downloaded_in_three_formats(stage: Stage) -> None:
    run_id = stage.finished()
    report = stage.get(f"/runs/{run_id}/report.md")
    assert report.headers["content-type"] == "text/markdown; charset=utf-8"
    assert report.headers["content-disposition"] == 'inline; filename="should-we-ship.md"'
    assert report.text.startswith("# Debate\n")
    assert stage.get(f"/runs/{run_id}/document.json").json()["runId"] == run_id
    export = stage.get(f"/runs/{run_id}/export.jsonl").text
    lines = [json.loads(line) for line in export.splitlines()]
    assert len(lines) == 5

    async def imported() -> tuple[str, ...]:
        return (await import_runs(MemoryStore(), export.encode().splitlines(), source="test")).added

    assert asyncio.run(imported()) == (run_id,)


def test_report_is_self_contained_and_verifiable(stage: Stage) -> None:
    run_id = stage.finished()
    report = stage.get(f"/runs/{run_id}/report.html")
    assert report.headers["content-type"] == "text/html; charset=utf-8"
    assert report.headers["content-security-policy"] == f"{report_policy()}; frame-ancestors 'none'"
    assert asyncio.run(verify_report(report.text)).outcome == "verified"
    assert f'href="/api/v1/runs/{run_id}/report.html"' in stage.http.get(f"/runs/{run_id}").text


def test_run_in_progress_has_a_partial_document(gated: Stage, gate: Any) -> None:
    run_id = gated.begin()
    gate.wait_for_call()
    gate.let()
    gate.wait_for_call()
    raw = gated.get(f"/runs/{run_id}/document.json").json()["raw"]
    assert [entry["text"] for entry in raw["transcript"]] == ["debate-debater-pro is sure.\nSo it is."]
    assert re.search(rf'<article id="run" data-run="{run_id}" .* data-live[ >]', gated.http.get(f"/runs/{run_id}").text)


async def shout(value: Any, ctx: Context) -> str:
    """Return the value with an exclamation mark."""
    return f"{value}!"


def test_registered_pattern_can_be_started_by_name() -> None:
    """The registered pattern is a plain block, which takes no options and accepts any JSON value as its input."""
    with staged(lambda: Service({"shout": handler(shout, name="shout")}, store="memory:", plans=False)) as stage:
        (pattern,) = stage.get("/patterns").json()
        assert (pattern["name"], pattern["registered"], pattern.get("options")) == ("shout", True, None)
        begun = stage.post("/runs", {"pattern": "shout", "question": {"a": [1, None]}})
        run_id = begun.json()["runId"]
        details = stage.get(f"/runs/{run_id}?wait=30").json()
        assert (details["status"], details["document"]) == ("complete", None)
        assert stage.get(f"/runs/{run_id}/report.md").status_code == 404
        assert stage.get(f"/runs/{run_id}/report.html").status_code == 404
        assert stage.http.get(f"/runs/{run_id}").status_code == 200
        assert stage.post("/runs", BRIEF).status_code == 422
        assert (
            stage.post("/runs", {"pattern": "shout", "question": "x", "options": {"max_rounds": 1}}).status_code == 422
        )
