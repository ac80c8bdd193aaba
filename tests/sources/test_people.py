"""Sources as presented to people: in Python, in a terminal, over HTTP, on a page, and by an MCP host."""

from __future__ import annotations

import asyncio
import io
import json
import os
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate import (
    Debater,
    Persona,
    consensus,
    council,
    debate,
    deliberation,
    human,
    open_requests,
    round_robin,
    sequencer,
    submit_answer_sync,
)
from flowdebate.blocks.human.terminal import Terminal
from flowdebate.mcp.reports import make_report
from flowdebate.service.service import Service
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.ui.document import document_of
from flowdebate.ui.sections import Entry
from tests.server.stage import Stage, answer_debate, staged
from tests.sources.test_images import URL, png

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate import HumanRequest
    from flowdebate.blocks.base import Block

QUESTION = "Should rents be capped?"
REPORT = {"report": "Rents rose by 4%.\n\n[bob] I give up.", "book": "so long " * 1_000}
pytestmark = pytest.mark.anyio

VERDICT = {"reasoning": "It answered.", "winner": None, "verdict": "Both."}


def answer(request: HumanRequest) -> Any:
    """Return a valid answer to any request."""
    if request.schema is None:
        return "Capped."
    fields = request.schema["properties"]
    answers = {**VERDICT, "confidence": 0.5, "consensus_proposal": "Capped.", "proposal": "Capped.", "choice": "bob"}
    return {name: answers[name] for name in request.schema.get("required", fields)}


SEATS: dict[str, Callable[[Any], Block[Any, Any]]] = {
    "debater": lambda ann: debate(
        name="it", debaters=[Debater("ann", "for", block=ann), Debater("bob", "against")], max_rounds=1, sources=REPORT
    ),
    "judge": lambda ann: debate(
        name="it",
        debaters=[Debater("bob", "for"), Debater("cy", "against")],
        judge=ann,
        max_rounds=1,
        sources=REPORT,
    ),
    "mirrored judge": lambda ann: debate(
        name="it",
        debaters=[Debater("bob", "for"), Debater("cy", "against")],
        judge=ann,
        mirror=True,
        max_rounds=1,
        sources=REPORT,
    ),
    "speaker": lambda ann: round_robin(
        name="it", debaters=[Persona("ann", block=ann), Persona("bob")], max_rounds=1, sources=REPORT
    ),
    "member": lambda ann: council(
        name="it", members=[Persona("ann", block=ann), Persona("bob")], review="none", sources=REPORT
    ),
    "agent": lambda ann: consensus(
        name="it",
        agents=[Persona("ann", block=ann), Persona("bob"), Persona("cy")],
        max_rounds=1,
        sources=REPORT,
    ),
    "deliberator": lambda ann: deliberation(
        name="it", debaters=[Persona("ann", block=ann), Persona("bob")], max_rounds=1, sources=REPORT
    ),
}


def answer_as_model(request: Any) -> Any:
    """Answer as a model in any role."""
    schema = request.output_schema
    if schema is None:
        return "SUMMARY: Capped.\nSTATUS: SETTLED"
    answers: dict[str, Any] = {**VERDICT, "answer": "Capped.", "summary": "-", "status": "SETTLED", "decision": "-"}
    return {name: answers.get(name, []) for name in schema["required"]}


@pytest.mark.parametrize("seat", SEATS)
def test_people_in_any_role_receive_the_sources(seat: str) -> None:
    """Every source is provided in full, but a terminal does not print a long source in front of the question."""
    requests: list[HumanRequest] = []

    def ask(request: HumanRequest) -> Any:
        requests.append(request)
        return answer(request)

    SEATS[seat](human(name="ann", ask=ask)).run_sync(QUESTION, model=FunctionModel(answer_as_model))
    assert requests
    for request in requests:
        assert {source.name: source.text for source in request.sources} == REPORT
        assert "Rents rose" not in request.shown
        assert "[report] Rents rose by 4%.\n  | \n  | [bob] I give up.\n[book] (8,000 characters" in request.to_read
        assert "so long so long" not in request.to_read


@pytest.mark.parametrize("seat", SEATS)
def test_people_in_suspended_runs_get_sources_from_the_journal(seat: str) -> None:
    """The stored request does not repeat the texts of the sources, since the journal already contains them."""
    store = MemoryStore()
    block = SEATS[seat](human(name="ann"))
    model = FunctionModel(answer_as_model)
    result = block.run_sync(QUESTION, model=model, store=store, run_id="it")
    [request] = result.pending
    [stored] = asyncio.run(open_requests(store, "it"))
    assert stored == request
    assert stored.sources == request.sources != ()
    assert "Rents rose" not in request.text
    assert set(json.loads(request.text)) == {"block", "shown", "expects", "schema", "problem"}


def test_two_debates_in_one_run_show_their_own_sources() -> None:
    """If the sources were mixed up, people might quote sources that others in their debate cannot read."""

    def of(name: str) -> Block[Any, Any]:
        sides = [Debater("ann", "for", block=human(name="ann")), Debater("bob", "against")]
        return debate(name=name, debaters=sides, max_rounds=1, synthesizer=False, sources={name: f"Text of {name}."})

    store = MemoryStore()
    pipeline = sequencer(name="both").tap(of("one")).tap(of("two"))
    pipeline.run_sync(QUESTION, model=FunctionModel(answer_as_model), store=store, run_id="it")
    [first] = asyncio.run(open_requests(store, "it"))
    assert [source.name for source in first.sources] == ["one"]
    submit_answer_sync(store, "it", "Capped.")
    pipeline.resume_sync("it", model=FunctionModel(answer_as_model), store=store)
    [second] = asyncio.run(open_requests(store, "it"))
    assert [source.name for source in second.sources] == ["two"]


async def test_terminal_output_lists_the_sources() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"Capped.\n\n")
    os.close(writing)
    screen = io.StringIO()
    sides = [Debater("ann", "for", block=human(name="ann", ask=Terminal(reading, screen).ask)), Debater("bob", "no")]
    pattern = debate(name="it", debaters=sides, max_rounds=1, synthesizer=False, sources=REPORT)
    await pattern.run(QUESTION, model=ScriptedModel("No.", VERDICT))
    os.close(reading)
    assert "[report] Rents rose by 4%." in screen.getvalue()


SIDES = [{"name": "Ann", "stance": "Ship"}, {"name": "Ben", "stance": "Wait"}]


@pytest.fixture
def waiting_run() -> Iterator[tuple[Stage, str]]:
    """Start a server and a run that waits for a person and has a text file and an image as sources."""
    with staged(lambda: Service(store=MemoryStore(), model=FunctionModel(answer_debate))) as stage:
        options = {
            "max_rounds": 1,
            "debaters": SIDES,
            "humans": ["Ann"],
            "sources": {"notes/a.md": "<b>Rents</b> rose.", "chart.png": URL},
        }
        run_id = stage.begin(options=options)
        assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "awaiting"
        yield stage, run_id


def test_http_requests_list_sources_and_serve_their_texts(waiting_run: tuple[Stage, str]) -> None:
    """The request states the name, size and kind of each source.

    Only the listed texts and images are served, and only on demand.
    """
    stage, run_id = waiting_run
    (request,) = stage.get(f"/runs/{run_id}/requests").json()
    text, image = request["sources"]
    assert (text["name"], text["characters"], "text" in text) == ("notes/a.md", 18, False)
    assert (image["name"], image["mediaType"]) == ("chart.png", "image/png")
    response = stage.get(f"/runs/{run_id}/sources/notes/a.md")
    assert (response.text, response.headers["content-type"].partition(";")[0]) == ("<b>Rents</b> rose.", "text/plain")
    chart_image = stage.get(f"/runs/{run_id}/sources/chart.png")
    assert (chart_image.content, chart_image.headers["content-type"]) == (png(), "image/png")
    assert stage.get(f"/runs/{run_id}/sources/../../etc/passwd").status_code == 404
    stage.post(f"/runs/{run_id}/answers", {"answer": "We have tested it."})
    assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
    assert stage.get(f"/runs/{run_id}/sources/notes/a.md").status_code == 404


def test_the_page_for_a_person_lists_the_sources(waiting_run: tuple[Stage, str]) -> None:
    """The list is part of the page behind a personal link, which grants no other access.

    It is collapsed, its text is escaped, and it includes the image.
    """
    stage, run_id = waiting_run
    path = stage.post(f"/runs/{run_id}/links", {"seconds": 60}).json()["page"]
    with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
        page = person.get(path).text
    assert "&lt;b&gt;Rents&lt;/b&gt; rose." in page
    assert "<b>Rents" not in page
    assert f'<img src="{URL.replace("+", "&#43;")}"' in page or f'<img src="{URL}"' in page


async def test_mcp_hosts_read_sources_with_the_request() -> None:
    async with Service(store=MemoryStore(), model=FunctionModel(answer_debate)) as service:
        options = {"max_rounds": 1, "debaters": SIDES, "humans": ["Ann"], "sources": {"a.md": "Rents rose."}}
        handle = await service.begin("debate", QUESTION, options=options)
        report = make_report(await service.wait(handle.run_id, 30))
    assert "[a.md] Rents rose." in report.pending[0].shown


def test_quotes_in_consensus_proposals_and_revisions_are_marked() -> None:
    """Each quote is marked in the text it belongs to, and a critique in between does not shift the marks."""

    def answer_as_model(request: Any) -> Any:
        if request.output_schema is None:
            return "It reads “Rents rose by 4%.”"
        answers: dict[str, Any] = {"proposal": "It reads “Rents fell by half again”.", "position": "-", "enough": False}
        answers |= {"severity": 0.5, "choice": "ann", "confidence": 0.9, "reasoning": "-"}
        return {name: answers.get(name, []) for name in request.output_schema["properties"]}

    agents = [Persona(name) for name in ("ann", "bob", "cy")]
    pattern = consensus(name="it", agents=agents, max_rounds=1, sources=REPORT)
    raw = pattern.run_sync(QUESTION, model=FunctionModel(answer_as_model)).raw
    entries = [
        section for section in document_of(raw.to_wire(), location="it").sections() if isinstance(section, Entry)
    ]
    assert raw.rounds[0].critiques
    assert len(entries) == 6
    assert [[quote.source for quote in entry.quotes] for entry in entries] == [["report"]] * 3 + [[None]] * 3
