"""Result text for every pattern, and forms for every schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.elicitation import render_elicitation_schema

from flowdebate.mcp import create_server
from flowdebate.mcp.reports import render_contributions, render_result, split_contributions
from flowdebate.mcp.tools import make_form
from flowdebate.patterns import PATTERNS
from flowdebate.service.service import Service
from flowdebate.service.state import PendingInput
from flowdebate.testing import ATTACKS
from flowdebate.testing.examples import Example, ExampleModel
from flowdebate.ui.document import document_of
from tests.cli.siblings import build_document
from tests.mcp.conftest import ERAS, open_client, poll_report, structured_output
from tests.mcp.stage import make_service

if TYPE_CHECKING:
    from pathlib import Path

BREAKS = "\n\r\x0b\x0c\x1c\x85\u2028\u2029"


def result_lines(text: str, pattern: str) -> list[str]:
    """Return the lines that a tool returns for a run in which every piece of text is `text`."""
    document = document_of(build_document(text)[pattern], location="test")
    return "\n".join([render_contributions(split_contributions(document)), render_result(document) or ""]).splitlines()


@pytest.mark.parametrize("pattern", build_document("x"))
@given(
    text=st.text() | st.sampled_from([attack.written(own="a", other="b") for attack in ATTACKS]), more=st.text(BREAKS)
)
def test_text_cannot_imitate_a_result_line(pattern: str, text: str, more: str) -> None:
    """Line breaks in text do not change the number of lines in the tool's own output."""
    unframed = [line for line in result_lines(f"x{more}{text}", pattern) if not line.startswith("  | ")]
    assert len(unframed) == len(result_lines("x", pattern))
    assert all(line.startswith(("[", "- ", "(")) or line.partition(":")[0].isprintable() for line in unframed)
    assert not any("<|" in line for line in unframed)


@pytest.mark.anyio
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_every_built_in_pattern_can_be_started_and_read(pattern: str) -> None:
    from mcp import Client

    async with (
        Service(store="memory:", model=ExampleModel(Example(texts=["First.", "Second."]))) as service,
        Client(create_server(service)) as client,
    ):
        sides = [{"name": name, "stance": f"{name} is right"} for name in ("Ada", "Ben", "Cleo")]
        rounds = {} if pattern in ("council", "critique", "review") else {"max_rounds": 2}
        arguments = {"question": "Who is right?", "pattern": pattern, "sides": sides, "wait": 0, **rounds}
        run = await poll_report(client, structured_output(await client.call_tool("start_debate", arguments))["run_id"])
    assert run["status"] in ("complete", "degraded"), run["error"]
    assert {speaker["name"] for speaker in run["speakers"]} == {"Ada", "Ben", "Cleo"}
    assert ("[Ada" in run["said"]) or ("[Ben" in run["said"])
    assert run["parts"] > 1
    assert (run["result"] is None) == (pattern == "handoff")


@pytest.mark.anyio
async def test_a_host_user_can_argue_a_side(tmp_path: Path) -> None:
    """Setting `human` for a side is enough to let the host's user argue it."""
    async with open_client(tmp_path) as client:
        sides = [{"name": "Ada", "stance": "Trams"}, {"name": "me", "stance": "Roads", "human": True}]
        run = structured_output(
            await client.call_tool("start_debate", {"question": "What to build?", "sides": sides, "max_rounds": 1})
        )
        assert (run["status"], run["pending"][0]["expects"]) == ("awaiting", "Answer in text.")
        assert "You argue for this position: Roads" in run["pending"][0]["shown"]


@pytest.mark.anyio
async def test_a_run_in_another_process_can_be_awaited(tmp_path: Path) -> None:
    """A second server on the same store reports the run's progress, but it cannot cancel the run."""
    from mcp import Client

    (tmp_path / "hold").touch()
    second, model = make_service(tmp_path)
    async with open_client(tmp_path) as client, second, Client(create_server(second), mode=ERAS[1]) as observer:
        arguments = {"question": "What to build?", "pattern": "city", "wait": 0}
        run_arguments = {"run_id": structured_output(await client.call_tool("start_debate", arguments))["run_id"]}
        while (
            structured_output(await observer.call_tool("wait_for_run", {**run_arguments, "seconds": 0.1}))["parts"] < 4
        ):
            pass
        cancelled = await observer.call_tool("cancel_run", run_arguments)
        assert "is being run by another process" in str(cancelled.content)
        (tmp_path / "hold").unlink()
        assert (await poll_report(observer, run_arguments["run_id"]))["status"] == "complete"
    assert len(model.callers()) == 5


_LEAF: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "string", "maxLength": 500},
        {"type": "integer", "minimum": 0, "maximum": 100},
        {"type": "number", "description": "How much"},
        {"type": "boolean"},
        {"enum": ["for", "against"]},
        {"enum": ["for", None]},
        {"enum": [1, 2]},
        {"const": "yes"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/Choice"},
        {},
    ]
)


@given(properties=st.dictionaries(st.text(min_size=1, max_size=8), _LEAF, min_size=1, max_size=5), needed=st.data())
def test_every_schema_can_be_turned_into_a_form(properties: dict[str, Any], needed: st.DataObject) -> None:
    """A form contains only the few field types that the protocol supports, under the names used in the schema."""
    required = needed.draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    schema = {"properties": properties, "required": required, "$defs": {"Choice": {"enum": ["a", "b"]}}}
    rendered = render_elicitation_schema(make_form(make_request(schema)))
    assert list(rendered["properties"]) == list(properties)
    assert set(rendered.get("required", ())) <= set(required)


def test_form_answers_are_converted_to_the_schema() -> None:
    """In a form, users separate list items with commas and write objects as JSON. Fields left empty are omitted."""
    schema = {
        "properties": {
            "nextSpeakers": {"type": "array", "items": {"type": "string"}},
            "done": {"type": "boolean"},
            "winner": {"anyOf": [{"enum": ["for", "against"]}, {"type": "null"}]},
            "notes": {"type": "object", "properties": {}},
            "reason": {"type": "string"},
        },
        "required": ["nextSpeakers", "done"],
    }
    form = make_form(make_request(schema))
    filled = form.model_validate({"nextSpeakers": "ann, bob", "done": True, "notes": '{"a": 1}'})
    assert filled.answer() == {"nextSpeakers": ["ann", "bob"], "done": True, "notes": {"a": 1}}
    assert make_form(make_request(None)).model_validate({"answer": "Yes."}).answer() == "Yes."


def make_request(schema: dict[str, Any] | None) -> PendingInput:
    """Return a request for an answer that fits `schema`."""
    return PendingInput(block="ann", place="p", shown="Who?", expects="An answer.", answer_schema=schema)
