"""The documented pattern in every front end, added with no more than a folder, a page and a registry entry."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import openai
import pytest
from mcp import Client
from typer.testing import CliRunner

from flowdebate.cli.app import build_app
from flowdebate.events import event_schema
from flowdebate.mcp import create_server
from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import FunctionModel, check_pattern
from flowdebate.ui.live import Live
from flowdebate.web.notebook import live_html, markdown_of
from tests.cli.stage import Stage as ModelServer
from tests.mcp.conftest import structured_output
from tests.server.agui_client import AgUiClient
from tests.server.stage import HTTP_TIMEOUT, TOKEN, Gate, staged
from tests.server.test_agui import continue_thread, run_outcome

from .riddles import EXAMPLE, PAGE, load_riddles, read_riddles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from typer.testing import Result

    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

RIDDLE = "What has keys and opens no lock?"
GUESSES = {"Ada": "A map of islands.", "Ben": "A piano."}
RULING = {"solution": "a piano", "remark": "Ben has it."}
BRIEF = {"pattern": "riddle", "question": RIDDLE}


@pytest.fixture(autouse=True)
def register_riddles(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Register the pattern, since no other module of flowdebate knows it."""
    module = load_riddles()
    monkeypatch.setitem(sys.modules, "riddles", module)
    monkeypatch.setitem(PATTERNS, "riddle", module.INFO)
    return module


def answer(request: ModelRequest) -> Any:
    """Return a guess from each solver, and the sphinx's ruling."""
    return RULING if request.output_schema else GUESSES[str(request.block).rpartition("-")[2]]


def make_service(model: Any = None) -> Service:
    """Create a service with a scripted model."""
    return Service(store="memory:", model=model or FunctionModel(answer))


def model_server() -> ModelServer:
    """Serve the same model to commands."""
    return ModelServer(turns=[[guess] for guess in GUESSES.values()], answers={"remark": RULING})


def build_command(*arguments: str, text: str | None = None) -> Result:
    """Build the command with the registered patterns."""
    return CliRunner().invoke(build_app(), list(arguments), input=text, catch_exceptions=False)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Start a server that supports every protocol."""
    with staged(make_service, openai=True, ag_ui=True) as stage:
        yield stage


# Command line


def test_help_lists_the_pattern_with_options_and_examples() -> None:
    listed = build_command("--help").stdout
    assert "riddle" in listed[listed.index("Other patterns:") :].partition("\n\n")[0]
    help_text = build_command("riddle", "--help").stdout
    assert "--solver NAME[=ROLE]  Who guesses; repeat for each." in help_text
    assert 'flowdebate riddle "What has keys and opens no lock?" --max-rounds 2' in help_text
    assert "See the page “Adding a pattern” of the documentation" in help_text
    assert build_command("riddle", RIDDLE, "--solver", "=nobody").exit_code == 2


def test_pattern_keeps_the_promises_made_for_all_patterns(register_riddles: ModuleType) -> None:
    check_pattern(register_riddles.riddle(name="keys", debaters=[{"name": "Ada"}, {"name": "Ben"}]), max_examples=5)


def test_page_shows_parts_of_the_example() -> None:
    """The Python code on the page consists of verbatim parts of the example."""
    parts = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(parts) >= 4
    for part in parts:
        for piece in part.split("...\n"):
            assert piece.strip() in read_riddles()


def test_two_line_program_adds_the_pattern_to_the_command(tmp_path: Path) -> None:
    (tmp_path / "riddles.py").write_text(read_riddles())
    (tmp_path / "solve.py").write_text(EXAMPLE.with_name("solve.py").read_text("utf-8"))
    helped = subprocess.run(
        [sys.executable, "solve.py", "batch", "--help"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        text=True,
        check=True,
    )
    assert "critique, review, riddle." in " ".join(helped.stdout.split())


def test_plan_can_be_run_shown_resumed_forked_and_reported(tmp_path: Path) -> None:
    plan, report, page = tmp_path / "plan.toml", tmp_path / "report.md", tmp_path / "report.html"
    plan.write_text(f'pattern = "riddle"\nriddle = "{RIDDLE}"\nmax_rounds = 2\n\n[[debaters]]\nname = "Ada"\n\n'
                    '[[debaters]]\nname = "Ben"\nrole = "pianist"\n')  # fmt: skip
    with model_server() as on:
        location = ("--model", "staged", "--base-url", on.base_url)
        live = build_command("riddle", RIDDLE, *location, "--markdown", str(report))
        saved = build_command("run", str(plan), *location, "--json")
        run_id, calls = json.loads(saved.stdout)["runId"], len(on.bodies)
        resumed, page_text = build_command("resume", run_id), build_command("show", run_id, "--page")
        report_result = build_command("runs", "report", run_id, "--html", str(page))
        verified = build_command("runs", "verify", str(page))
        assert len(on.bodies) == calls
        forked = build_command("runs", "fork", run_id, "--set", "max_rounds=1", "--json", *location[2:])
    results = (live, saved, resumed, page_text, report_result, verified, forked)
    assert [result.exit_code for result in results] == [0] * 7, [result.output for result in results]
    for text in (live.stdout, resumed.stdout, page_text.stdout):
        assert f"Riddle: {RIDDLE}\n" in text
        assert "  A piano.\n" in text
        assert "Ben has it." in text
        assert "Solution" in text
    document = json.loads(saved.stdout)
    assert (document["pattern"], document["maxRounds"]) == ("riddle", 2)
    assert document["debaters"][1] == {"name": "Ben", "role": "pianist"}
    assert json.loads(forked.stdout)["maxRounds"] == 1
    assert "A piano." in build_command("runs", "render", "-", text=saved.stdout).stdout
    assert "A piano." in build_command("runs", "render", "-", text=json.dumps(document["raw"])).stdout
    assert re.findall("^#+ .*$", report.read_text(), re.MULTILINE)[0] == "# Riddle"
    for part in ("> A piano.", "Ben has it.", "> a piano", "Rounds: 1, it is solved"):
        assert part in report.read_text()
    for part in ("<title>", "A piano.", "Ben has it.", "a piano", "it is solved"):
        assert part in page.read_text()
    assert "riddle" in build_command("runs").stdout


def test_batch_reads_files_and_writes_results(tmp_path: Path) -> None:
    questions, lines, table = tmp_path / "q.csv", tmp_path / "r.jsonl", tmp_path / "r.csv"
    questions.write_text(f"id,question\n1,{RIDDLE}\n2,What flies?\n")
    with model_server() as on:
        arguments = ("batch", str(questions), "--pattern", "riddle", "--model", "staged", "--base-url", on.base_url)
        first = build_command(*arguments, "--out", str(lines))
        calls = len(on.bodies)
        second = build_command(*arguments, "--out", str(table))
    assert [first.exit_code, second.exit_code, len(on.bodies)] == [0, 0, calls], first.output
    assert "Complete: 2\n" in first.stdout
    assert "solved 2" in first.stdout
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert {record["question"] for record in records} == {RIDDLE, "What flies?"}
    assert [(record["decision"], record["answer"]) for record in records] == [("solved", "a piano")] * 2
    assert "a piano" in table.read_text()
    misspelt = build_command("batch", str(questions), "--pattern", "ridle")
    assert "Did you mean riddle?" in misspelt.stderr


# In the browser


def test_riddle_started_from_the_form_is_shown_on_its_page(stage: Stage) -> None:
    form = stage.http.get("/new?pattern=riddle").text
    assert "Solve a riddle" in form
    assert {"riddle", "debaters", "max_rounds", "name", "role", "model"} <= set(
        re.findall(r'data-name="([^"]*)"', form)
    )
    assert "riddle" in [info["name"] for info in stage.get("/patterns").json()]
    texts = stage.post("/plans", BRIEF).json()
    assert 'pattern = "riddle"' in texts["toml"]
    assert json.loads(shlex.split(texts["curl"])[-1]) == BRIEF
    assert '"riddle"' in texts["python"]
    run_id = stage.finished(pattern="riddle", question=RIDDLE, options={})
    page = stage.http.get(f"/runs/{run_id}").text
    for part in ("Round 1 of 3", "A map of islands.", "A piano.", "Sphinx", "Ben has it.", "Solution", "it is solved"):
        assert part in page
    assert "A piano." in stage.http.get(f"/runs/{run_id}/travel?step=3").text
    compared = stage.http.get(f"/compare?a={run_id}&b={run_id}").text
    assert "Steps 1 to 3 are the same: Ada, Ben, Sphinx" in re.sub("<[^>]+>", "", compared)
    assert "cannot be read blind" in stage.http.get(f"/runs/{run_id}/blind").text
    assert 'value="riddle"' in stage.http.get("/").text


def test_live_page_shows_speakers_and_workers() -> None:
    gate = Gate(answer)
    with staged(lambda: make_service(gate)) as stage:
        run_id = stage.begin(pattern="riddle", question=RIDDLE, options={"max_rounds": 1})
        for _ in GUESSES:
            gate.wait_for_call()
            gate.let()
        gate.wait_for_call()
        page = stage.http.get(f"/runs/{run_id}").text
        assert "A piano." in page
        frames = (frame for frame in stage.follow(f"/runs/{run_id}/events?page=1") if frame.event != "ping")
        pieces = json.dumps(next(frames).data)
        assert "The sphinx is weighing the guesses" in pieces
        gate.let()
        text = pieces + "".join(json.dumps(frame.data) for frame in frames)
    assert "Ben has it." in text
    assert "A map of islands." in text


def test_events_of_the_pattern_are_streamed_unchanged(stage: Stage) -> None:
    """The types and fields of the events follow the published schema, which includes this pattern."""
    run_id = stage.finished(pattern="riddle", question=RIDDLE, options={})
    (ruled,) = [frame.data for frame in stage.frames(f"/runs/{run_id}/events") if frame.data.get("kind") == "ruled"]
    assert ruled["ruling"] == RULING
    assert '"ruled"' in json.dumps(event_schema())


# Other protocols


def test_openai_clients_see_the_pattern_as_a_model(stage: Stage) -> None:
    with openai.OpenAI(base_url=f"{stage.url}/v1", api_key=TOKEN, max_retries=0, timeout=HTTP_TIMEOUT) as client:
        assert {"flowdebate/riddle", "flowdebate/riddle:answer"} <= {model.id for model in client.models.list()}
        messages: Any = [{"role": "user", "content": RIDDLE}]
        full, alone = (
            client.chat.completions.create(model=f"flowdebate/{name}", messages=messages).choices[0].message.content
            for name in ("riddle", "riddle:answer")
        )
    assert alone == "a piano"
    for part in ("## Round 1 of 3", "**Ben**", "> A piano.", "Ben has it.", "Solution"):
        assert part in (full or "")


def test_ag_ui_clients_can_run_the_pattern(stage: Stage) -> None:
    client = continue_thread(stage, "riddle", AgUiClient("thread", "1"), question=RIDDLE)
    assert run_outcome(client) == {"type": "success"}
    assert client.said() == list(GUESSES.items())
    (ruled,) = [activity for activity in client.activities.values() if activity["activityType"] == "flowdebate.ruled"]
    assert ruled["content"]["ruling"] == RULING
    assert "flowdebate.ruled" not in [name for name, _ in client.custom]


@pytest.mark.anyio
async def test_mcp_hosts_find_and_start_the_pattern() -> None:
    async with make_service() as served, Client(create_server(served)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "riddle" in (tools["start_debate"].description or "")
        assert {prompt.name for prompt in (await client.list_prompts()).prompts} == {"debate_this", "steelman"}
        sides = [{"name": "Ada", "stance": "pilot"}, {"name": "Ben", "stance": "pianist"}]
        arguments = {"question": RIDDLE, "pattern": "riddle", "sides": sides, "max_rounds": 1, "wait": 50}
        report = structured_output(await client.call_tool("start_debate", arguments))
        run_id = report["run_id"]
        resource = await client.read_resource(f"flowdebate://runs/{run_id}")
    assert report["status"] == "complete"
    assert "[Ben] A piano." in report["said"]
    assert "Ben has it." in report["said"]
    assert "a piano" in report["result"]
    assert [speaker["about"] for speaker in report["speakers"]] == ["pilot", "pianist"]
    assert "# Riddle" in str(resource)


# Notebooks and documentation


@pytest.mark.anyio
async def test_notebook_shows_the_pattern_live_and_finished(register_riddles: ModuleType) -> None:
    """The live page uses the pattern's own wording.

    Once the run has finished, the report replaces the live page, as HTML and as Markdown.
    """
    called, go = asyncio.Event(), asyncio.Event()

    async def slow(request: ModelRequest) -> Any:
        if request.output_schema:
            called.set()
            await go.wait()
        return answer(request)

    handle = register_riddles.riddle(name="riddle", debaters=[{"name": name} for name in GUESSES]).start(
        RIDDLE, model=FunctionModel(slow)
    )
    live = Live()
    handle.listen(live.take)
    await called.wait()
    assert "weighing the guesses" in str(live_html(handle, live))
    go.set()
    result = await handle
    for page in (str(result._repr_html_()), str(markdown_of(result))):
        for part in ("A piano.", "Ben has it.", "Solution", "it is solved"):
            assert part in page


def test_documentation_index_lists_the_pattern_page(register_riddles: ModuleType) -> None:
    root = PAGE.parents[1]
    index = (root / "docs" / "index.md").read_text("utf-8")
    for info in PATTERNS.values():
        page = root / "docs" / f"{info.load_page().docs}.md"
        assert page.exists(), info.name
        assert f"({page.name})" in index, info.name
        assert info.name in page.read_text("utf-8"), info.name
    assert register_riddles.PAGE.docs == PAGE.stem
