"""Reviews in every front end: command, stored runs, people, batches, HTTP, pages and MCP."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from markupsafe import escape
from mcp import Client
from typer.testing import CliRunner

from flowdebate import Persona, human, open_requests, review, submit_answer_sync
from flowdebate.cli.app import build_app
from flowdebate.mcp import create_server
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.cli.stage import Stage
from tests.mcp.conftest import structured_output
from tests.server.stage import staged

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.testing import ModelRequest

QUESTION = "What is wrong?"
FOUND = {
    "title": "Nobody is <b>asked</b>",
    "claim": "It says *nothing* of people.",
    "severity": "major",
    "quote": "in one night",
}
PLAN = "We move all data\nin one night.\n"


def reply(request: ModelRequest) -> Any:
    """Answer as Ada, whose finding the others confirm, or as another reviewer, who has no findings."""
    fields = (request.output_schema or {})["properties"]
    if "findings" in fields:
        return {"findings": [FOUND] if request.block.endswith("-Ada") else []}
    ids = dict.fromkeys(re.findall(r"\[(F\d+)\] Severity", str(request.messages)))
    if "verdicts" in fields:
        return {
            "verdicts": [{"finding": finding_id, "verdict": "confirm", "reason": "So it is."} for finding_id in ids]
        }
    return {"pairs": []} if "pairs" in fields else {"answers": []}


def reply_refuting(request: ModelRequest) -> Any:
    """Answer like `reply`, but refute the findings of others."""
    response = reply(request)
    for verdict in response.get("verdicts", ()):
        verdict |= {"verdict": "refute", "reason": "Ada and Me know better."}
    return response


def run_command(*arguments: str, text: str | None = None) -> Any:
    """Run the command as a user would."""
    return CliRunner().invoke(build_app(), list(arguments), input=text, catch_exceptions=False)


def test_stored_review_can_be_shown_resumed_and_forked(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(PLAN)
    findings = iter([{"findings": [FOUND]}, {"findings": []}] * 6)
    answers: Any = {
        "findings": lambda _: next(findings),
        "verdicts": {"verdicts": [{"finding": "F1", "verdict": "confirm", "reason": "So it is."}]},
    }
    report, page = tmp_path / "report.md", tmp_path / "report.html"
    with Stage(answers=answers) as on:
        location = ("--model", "staged", "--base-url", on.base_url, "--seed", "3")
        seats = ("--reviewer", "Ada", "--reviewer", "Ben", "--source", str(tmp_path / "plan.md"))
        live = run_command("review", *location, *seats, "--markdown", str(report), "--focus", "Ada=people")
        saved = run_command("review", QUESTION, *location, *seats, "--json", "--gate", "no confirmed blocker")
        run_id, before = json.loads(saved.stdout)["runId"], len(on.bodies)
        resumed, page_text = run_command("resume", run_id), run_command("show", run_id, "--page")
        report_result = run_command("runs", "report", run_id, "--html", str(page))
        assert len(on.bodies) == before
        forked = run_command("runs", "fork", run_id, "--set", 'gate="no confirmed major"', "--json", *location[2:4])
        assert len(on.bodies) == before  # a gate only evaluates the findings, so no call is repeated
        batch = run_command("batch", "-", "--pattern", "review", *location, *seats[4:], text="What is missing?\n")
    assert [result.exit_code for result in (live, saved, resumed, page_text, report_result, batch)] == [0] * 6, (
        batch.output
    )
    assert "Focus on: people" in json.dumps(on.bodies[:2])
    for part in (FOUND["title"], "plan.md:2", "Raised by", "So it is.", "1 confirmed (1 major)"):
        assert part in live.stdout
        assert part in resumed.stdout
        assert part in page_text.stdout
        assert part in run_command("runs", "render", "-", text=saved.stdout).stdout
    assert "1 confirmed \\(1 major" not in report.read_text()
    assert "<b>asked</b>" not in page.read_text()
    assert "&lt;b&gt;asked" in page.read_text()
    document = json.loads(saved.stdout)
    assert document["raw"]["gate"]["holds"] is True
    assert forked.exit_code == 4
    assert json.loads(forked.stdout)["raw"]["gate"]["against"] == ["F1"]
    assert "Complete: 1\n" in batch.stdout


def test_person_can_review_and_defend_a_finding_later(tmp_path: Path) -> None:
    """The run is suspended at most three times: for the person's findings, verdicts and answers.

    When asked for verdicts and answers, the person does not see the names of other reviewers.
    """
    store = str(tmp_path / "runs.sqlite3")

    people = [Persona("Me", block=human(name="me")), Persona("Ada")]
    pattern = review(name="plan", reviewers=people, sources={"plan": PLAN}, model=FunctionModel(reply_refuting))
    run = pattern.run_sync(QUESTION, store=store, run_id="r")
    replies: list[Any] = [
        {"findings": [{"title": "Too fast", "claim": "One night.", "severity": "minor", "quote": "We move all"}]},
        {"verdicts": [{"finding": "F1", "verdict": "confirm", "reason": "True."}]},
        {"answers": [{"finding": "F2", "stands": False, "reason": "You are right."}]},
    ]
    for content in replies:
        assert run.status == "awaiting"
        [request] = asyncio.run(open_requests(store, "r"))
        if content is not replies[0]:
            assert "Ada" not in request.text
        submit_answer_sync(store, "r", content)
        run = pattern.resume_sync("r", store=store)
    assert run.status == "complete"
    states = {finding.title: finding.state for finding in run.output.findings}
    assert states == {FOUND["title"]: "confirmed", "Too fast": "refuted"}
    assert run.output.reviewers["Me"] == "Me"


def test_review_started_over_http_shows_its_findings_on_a_page() -> None:
    with staged(lambda: Service(store="memory:", model=FunctionModel(reply))) as stage:
        options = {"gate": "no confirmed blocker", "focus": "people", "sources": {"plan": PLAN},
                   "reviewers": [{"name": "Ada"}, {"name": "Ben"}]}  # fmt: skip
        run_id = stage.finished(pattern="review", question=QUESTION, options=options)
        page, form = stage.http.get(f"/runs/{run_id}").text, stage.http.get("/new?pattern=review").text
        events = [frame.data.get("kind") for frame in stage.frames(f"/runs/{run_id}/events")]
        response = stage.post("/runs", {"pattern": "review", "question": QUESTION, "options": {"gate": "be nice"}})
    for part in ("Confirmed: 1", "&lt;b&gt;asked&lt;/b&gt;", "plan:2", "confirms it", "no confirmed blocker"):
        assert part in page
    assert "<b>asked" not in page
    assert 'data-name="focus"' in form
    assert 'data-name="diff"' not in form
    assert {"findings_reported", "findings_examined", "findings_decided"} <= {*events}
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "gate"


CODE = {
    "title": "Guard\nPlace: nowhere",
    "claim": "One.\n\nTwo.",
    "severity": "major",
    "file": "pkg/__init__.py",
    "quote": "if __name__ == 'a*b*c':\n    run(r\"\\.py\")",
    "suggestion": "```\nif x:\n    run()\n```",
}


def test_code_in_a_finding_is_shown_unchanged(tmp_path: Path) -> None:
    """Underscores and spaces in names and quotes are kept.

    A title is limited to one line, so it cannot imitate another field.
    """
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text(f"{CODE['quote']}\n")
    answer, page = {"findings": [CODE]}, tmp_path / "page.html"
    with Stage(answers={"findings": answer}) as on:
        location = ("--model", "staged", "--base-url", on.base_url, "--reviewer", "Ada")
        arguments = ("review", QUESTION, *location, "--source", str(tmp_path / "pkg"))
        output, comment = run_command(*arguments), run_command(*arguments, "--format", "markdown").stdout
        run_command("runs", "report", "--last", "--html", str(page))
    assert "F1, major: Guard Place: nowhere\n  Place: pkg/__init__.py:1-2\n" in output.stdout
    assert "**Guard Place: nowhere**. One. Two.\n" in comment
    assert "  - Suggestion:\n\n    ````\n    ```\n    if x:\n        run()\n    ```\n    ````\n" in comment
    html = page.read_text()
    assert "<b>Place</b> <bdi>pkg/__init__.py:1-2</bdi></li>" in html
    assert f"<b>Quote</b> <code>{escape(CODE['quote'])}</code></li>" in html


def test_empty_sections_are_omitted() -> None:
    with Stage(answers={"findings": {"findings": []}}) as on:
        location = ("--model", "staged", "--base-url", on.base_url, "--no-store")
        assert run_command("review", QUESTION, *location, "--format", "json").stdout == ""
        failed = run_command("review", QUESTION, *location, "--format", "markdown", "--max-tokens", "1")
    assert (failed.exit_code, failed.stdout) == (3, "")


@pytest.mark.anyio
async def test_mcp_hosts_have_a_review_tool(tmp_path: Path) -> None:
    async with (
        Service(store="memory:", model=FunctionModel(reply)) as service,
        Client(create_server(service)) as client,
    ):
        tools = {tool.name: tool.description or "" for tool in (await client.list_tools()).tools}
        for level, calls in (("quick", 10), ("balanced", 14), ("thorough", 22)):
            assert re.search(rf'"{level}" (makes )?up to\s+{calls}', tools["review"])
        arguments = {"sources": {"plan": PLAN}, "gate": "no confirmed major", "wait": 50}
        run = structured_output(await client.call_tool("review", arguments))
        result = await client.call_tool("review", {"sources": [str(tmp_path)]})
    assert run["status"] == "complete"
    assert "1 confirmed (1 major)" in run["result"]
    assert "does not hold" in run["result"]
    assert "in an allowed folder" in str(result)
