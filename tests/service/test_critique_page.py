"""Critiques in every front end: command, stored runs, people, batches, HTTP, pages, endpoints and MCP."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from flowdebate import Persona, critique, human, open_requests, submit_answer_sync
from flowdebate.cli.app import build_app
from flowdebate.mcp import create_server
from flowdebate.patterns.critique.page import CritiqueDocument
from flowdebate.service import Service
from tests.cli.stage import Stage
from tests.mcp.conftest import structured_output
from tests.patterns.critique.critiques import ANSWER, APART, CLAIM, LEASE, QUESTION, QUOTE, REVISED, model_of
from tests.server.stage import staged

if TYPE_CHECKING:
    from pathlib import Path

MARKED = {**CLAIM, "claim": "It is <b>30</b> days."}
RULED = {"rulings": [{"claim": "C1", "reason": "§ 7 says so.", "quotes": [QUOTE], "ruling": "holds"}]}


def run_command(*arguments: str, text: str | None = None) -> Any:
    """Run the command as a user would."""
    return CliRunner().invoke(build_app(), list(arguments), input=text, catch_exceptions=False)


def test_stored_critique_can_be_shown_resumed_and_forked(tmp_path: Path) -> None:
    (tmp_path / "lease.md").write_text(LEASE)
    (tmp_path / "draft.txt").write_text(f"{ANSWER}\n")
    answers: Any = {"rulings": RULED, "settledBy": {"claims": [MARKED]}}
    report, page = tmp_path / "report.md", tmp_path / "report.html"
    with Stage(turns=((REVISED,),), answers=answers) as on:
        location = ("--model", "staged", "--base-url", on.base_url, "--seed", "3")
        options = ("--source", str(tmp_path / "lease.md"), "--answer", str(tmp_path / "draft.txt"))
        live = run_command(
            "critique", QUESTION, *location, *options, "--markdown", str(report), "--model", "critic=ann-model"
        )
        models = [body["model"] for body in on.bodies]
        saved = run_command("critique", QUESTION, *location, *options, "--json")
        run_id, before = json.loads(saved.stdout)["runId"], len(on.bodies)
        resumed, page_text = run_command("resume", run_id), run_command("show", run_id, "--page")
        report_result = run_command("runs", "report", run_id, "--html", str(page))
        assert len(on.bodies) == before
        forked = run_command("runs", "fork", run_id, "--set", "revise=false", "--json", *location[2:4])
        assert len(on.bodies) == before  # the rulings are reused, and no revision is requested
        batch = run_command("batch", "-", "--pattern", "critique", *location, *options[:2], text="When?\n")
    assert [result.exit_code for result in (live, saved, resumed, page_text, report_result, batch)] == [0] * 6, (
        batch.output
    )
    assert models == ["ann-model", "staged", "staged"]
    for part in (MARKED["claim"], ANSWER, REVISED, "Ruling: holds", "Quote from lease.md", "The answer was revised"):
        assert part in live.stdout, part
        assert part in resumed.stdout
        assert part in page_text.stdout
        assert part in run_command("runs", "render", "-", text=saved.stdout).stdout
    assert "<b>30" not in page.read_text()
    assert "&lt;b&gt;30" in page.read_text()
    assert "§ 7 says so." in report.read_text()
    assert forked.exit_code == 4
    assert json.loads(forked.stdout)["raw"]["outcome"] == "rejected"
    assert "Complete: 1\n" in batch.stdout


def test_answer_is_read_from_a_file_or_stdin_but_not_from_a_plan(tmp_path: Path) -> None:
    """In a plan file, over HTTP and over MCP, `answer` is always the text itself, never a file name."""
    with Stage(answers={"settledBy": {"claims": []}}) as on:
        location = ("--model", "staged", "--base-url", on.base_url, "--no-store", "--json")
        piped = run_command("critique", QUESTION, *location, "--answer", "-", text=ANSWER)
        plan = tmp_path / "plan.toml"
        plan.write_text(f'pattern = "critique"\nquestion = "{QUESTION}"\nanswer = "plan.toml"\n')
        planned = run_command("run", str(plan), *location)
        missing = run_command("critique", QUESTION, *location, "--answer", str(tmp_path / "none.txt"))
    assert json.loads(piped.stdout)["raw"]["original"] == ANSWER
    assert json.loads(planned.stdout)["raw"]["original"] == "plan.toml"
    assert missing.exit_code == 2
    assert "none.txt" in missing.stderr


def test_people_can_answer_later_in_every_role(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.sqlite3")
    pattern = critique(
        name="lease",
        author=human(name="bob"),
        critics=[Persona("Mia", block=human(name="mia"))],
        judge=human(name="eve"),
        sources={"lease.md": LEASE},
    )
    run = pattern.run_sync(QUESTION, store=store, run_id="r")
    for reply in (ANSWER, {"claims": [CLAIM]}, RULED, REVISED):
        assert run.status == "awaiting"
        [request] = asyncio.run(open_requests(store, "r"))
        assert "Mia" not in request.text or request.block == "mia"
        submit_answer_sync(store, "r", reply)
        run = pattern.resume_sync("r", store=store)
    assert (run.status, run.output.outcome, run.output.answer) == ("complete", "revised", REVISED)


def test_critique_started_over_http_shows_its_claims_on_a_page() -> None:
    with staged(lambda: Service(store="memory:", model=model_of(claims=[MARKED]))) as stage:
        options = {"sources": {"lease.md": LEASE}, "answer": ANSWER}
        run_id = stage.finished(pattern="critique", question=QUESTION, options=options)
        page, form = stage.http.get(f"/runs/{run_id}").text, stage.http.get("/new?pattern=critique").text
        events = [frame.data.get("kind") for frame in stage.frames(f"/runs/{run_id}/events")]
        response = stage.post("/runs", {"pattern": "critique", "question": QUESTION, "options": {"answer": " "}})
    for part in ("&lt;b&gt;30&lt;/b&gt;", "lease.md", "The answer was revised", REVISED, "In the answer"):
        assert part in page
    assert "<b>30" not in page
    assert re.search(r"<textarea[^>]*name=\"answer\"|data-name=\"answer\"[^§]*?<textarea", form)
    assert {"answer_given", "claims_made", "claims_ruled", "answer_decided"} <= {*events}
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "answer"


def test_document_uses_the_same_layout_as_the_live_run() -> None:
    pattern = critique(name="x", answer=ANSWER, critics=[Persona("Ada")], sources={"lease.md": LEASE})
    raw = pattern.run_sync(QUESTION, model=model_of()).output
    document = CritiqueDocument.of_raw(raw.to_wire())
    kinds = [type(section).__name__ for section in document.sections()]
    assert kinds == ["Heading", "Entry", "Heading", "Entry", "Group", "Heading", "Entry", "Card"]
    assert [speaker.name for speaker in document.speakers] == ["Ada"]
    assert (document.has_result, document.holds_gate) == (True, True)


@pytest.mark.anyio
async def test_mcp_hosts_have_a_critique_tool() -> None:
    async with (
        Service(store="memory:", model=model_of()) as service,
        Client(create_server(service)) as client,
    ):
        tools = {tool.name: tool.description or "" for tool in (await client.list_tools()).tools}
        for level, calls in (("quick", 2), ("balanced", 3), ("thorough", 5)):
            assert re.search(rf'"{level}"\s+(makes\s+)?up\s+to\s+{calls}', tools["check_answer"])
        arguments = {"question": QUESTION, "answer": ANSWER, "sources": {"lease.md": LEASE}, "wait": 50}
        run = structured_output(await client.call_tool("check_answer", arguments))
        quick = structured_output(await client.call_tool("check_answer", {**arguments, "depth": "quick"}))
    assert run["status"] == quick["status"] == "complete"
    assert REVISED in run["result"]
    assert "The answer was rejected: 1 of 1 claim held up" in quick["result"]


def test_chat_and_ag_ui_clients_can_run_a_critique() -> None:
    """A chat client gets the transcript, or only the answer if the model name ends in `:answer`."""
    message = {"role": "user", "content": QUESTION}
    with staged(lambda: Service(store="memory:", model=model_of(quotes=APART)), openai=True, ag_ui=True) as stage:
        names = ("flowdebate/critique", "flowdebate/critique:answer")
        full, answer = (
            stage.http.post("/v1/chat/completions", json={"model": name, "messages": [message]}).json()
            for name in names
        )
        body = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}}
        agent = stage.http.post("/ag-ui/critique", json={**body, "messages": [{"id": "1", **message}]})
    text, short = (completion["choices"][0]["message"]["content"] for completion in (full, answer))
    for part in (ANSWER, CLAIM["claim"], "The answer was revised: 1 of 1 claim held up", REVISED):
        assert part in text
    assert short == REVISED
    assert agent.status_code == 200
    assert REVISED in agent.text
