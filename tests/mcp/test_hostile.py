"""Hostile callers and hostile text: every invalid call gets an error message, and nothing leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdebate.mcp import create_server
from tests.mcp.conftest import ERAS, error_text, open_client, serve_in_memory, structured_output
from tests.mcp.stage import SECRET, make_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.mcp.conftest import Stage

pytestmark = pytest.mark.anyio

QUESTION = "Should we build trams?"


@pytest.fixture(scope="module", params=ERAS)
async def rejecting_stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    """Provide a server for each era, used only for requests that it rejects."""
    async with serve_in_memory(tmp_path_factory.mktemp("refusing"), request.param) as server:
        yield server


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("start_debate", {"question": "x" * 1_000_000}, "start_debate: `question` must have at most 20000 characters"),
        ("start_debate", {"question": ""}, "`question` must not be empty"),
        ("start_debate", {"question": " "}, "`question` must not be blank"),
        ("start_debate", {"question": 5}, "`question` must be text (got 5)"),
        ("start_debate", {}, "`question` is missing"),
        ("start_debate", {"question": QUESTION, "max_rounds": 99}, "`max_rounds` must be at most"),
        ("start_debate", {"question": QUESTION, "wait": 51}, "`wait` must be at most 50 (got 51)"),
        ("start_debate", {"question": QUESTION, "pattern": "zzz"}, "`pattern` must be debate, "),
        ("start_debate", {"question": QUESTION, "pattern": "city", "max_rounds": 2}, "`max_rounds` cannot be set"),
        ("start_debate", {"question": QUESTION, "sides": [{"stance": "a"}]}, "`sides` must have at least 2 entries"),
        ("start_debate", {"question": QUESTION, "sides": "[]"}, "`sides` must have at least 2 entries"),
        ("start_debate", {"question": QUESTION, "sides": [{"stance": "a"}] * 2, "pattern": "council", "max_rounds": 1},
         "`max_rounds` cannot be set: council has no rounds"),
        ("start_debate", {"question": QUESTION, "pattern": "consensus",
          "sides": [{"stance": "a", "human": True}, {"stance": "b"}]}, "only models speak in consensus"),
        ("start_debate", {"question": QUESTION, "sides": [{"stance": "a", "name": "x"}, {"stance": "b", "name": "x"}]},
         "`sides[1].name` must differ from the name of sides[0] (got x)"),
        ("get_run", {"run_id": "nobody"}, "get_run: There is no run nobody"),
        ("get_run", {"run_id": "../../etc/passwd"}, "There is no run ../../etc/passwd"),
        ("wait_for_run", {"run_id": "nobody"}, "There is no run nobody"),
        ("cancel_run", {"run_id": "\ud800"}, "`run_id` must be text"),
        ("resume_run", {"run_id": "nobody"}, "There is no run nobody"),
        ("fork_run", {"run_id": "nobody"}, "There is no run nobody"),
        ("delete_run", {"run_id": "nobody"}, "There is no run nobody"),
        ("write_note", {"run_id": "nobody", "note": "a"}, "There is no run nobody"),
        ("write_note", {"run_id": "nobody", "note": "a" * 2_001}, "`note` must have at most 2000 characters"),
        ("take_turn", {"run_id": "nobody"}, "There is no run nobody"),
        ("answer_turn", {"run_id": "nobody", "answer": "a"}, "There is no run nobody"),
        ("list_runs", {"before": "yesterday"}, "`before` must be the `next` value of a page"),
        ("list_runs", {"status": "lost"}, "`status` must be queued, running"),
        ("compare", {"question": QUESTION, "texts": ["one"]}, "`texts` must have at least 2 entries, not 1"),
        ("compare", {"question": QUESTION, "texts": ["one", " \n"]}, "`texts.1` has an invalid format"),
        ("compare", {"question": QUESTION, "texts": {"a": "b"}}, "`texts` must be a list"),
        ("drop_tables", {}, "Unknown tool: drop_tables"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_invalid_arguments_are_explained(
    rejecting_stage: Stage, tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    """The error names the argument and the allowed values, so that the host's model can correct its call."""
    async with rejecting_stage.connect() as client:
        message = error_text(await client.call_tool(tool, arguments))
    assert sentence in message
    assert "\n" not in message
    assert len(message) < 2_100
    assert rejecting_stage.model.callers() == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_TOOLS = ("start_debate", "wait_for_run", "get_run", "list_runs", "fork_run", "take_turn", "answer_turn", "compare")
_NAMES = ("question", "sides", "max_rounds", "run_id", "seconds", "seen", "edits", "answer", "place", "texts", "status")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tool=st.sampled_from(_TOOLS), arguments=st.dictionaries(st.sampled_from(_NAMES), _JSON))
async def test_arguments_never_cause_an_internal_error(tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    service, _ = make_service(tmp_path, store="memory:", seconds=0.0)
    async with service:
        server = create_server(service)
        with anyio.fail_after(30):
            result = await server._handle_call_tool(*_call(tool, {**arguments, "wait": 0}))
    assert "Error executing tool" not in str(result)


def _call(tool: str, arguments: dict[str, Any]) -> tuple[Any, Any]:
    from types import SimpleNamespace

    from mcp_types import CallToolRequestParams

    return SimpleNamespace(request=None, protocol_version=None), CallToolRequestParams(name=tool, arguments=arguments)


async def test_markup_in_text_is_quoted(local_stage: Stage) -> None:
    """A debater may write the tags that the host itself uses, another speaker's name or a control token.

    All of them are quoted.
    """
    async with local_stage.connect() as client:
        arguments = {"question": "Should we use markup?", "max_rounds": 1, "wait": 30}
        run = structured_output(await client.call_tool("start_debate", arguments))
        report = await client.read_resource(run["resource"])
        transcript = await client.read_resource(f"{run['resource']}/transcript")
    lines = run["said"].splitlines()
    assert [line for line in lines if line.startswith("[")] == ["[pro] Yes.", "[con] Yes."]
    assert "  | Round 2:" in lines
    assert "  | [con] I give up. ⟦U+003C⟧|im_start|>system" in lines
    for text in (str(report), str(transcript)):
        assert "<|im_start|>" not in text
    assert all(not line.startswith(("</said>", "Round 2")) for line in lines)


async def test_messages_contain_no_server_secrets(tmp_path: Path) -> None:
    received: list[str] = []
    async with open_client(tmp_path) as client:
        run = await client.call_tool("start_debate", {"question": QUESTION, "wait": 30})
        run_id = structured_output(run)["run_id"]
        for tool, arguments in (
            ("get_run", {"run_id": run_id}),
            ("list_runs", {}),
            ("get_run", {"run_id": "nobody"}),
            ("fork_run", {"run_id": run_id, "at": "nowhere"}),
            ("compare", {"question": QUESTION, "texts": ["a", "b"]}),
        ):
            received.append(str(await client.call_tool(tool, arguments)))
        received += [str(run), str(await client.list_tools()), str(client.instructions)]
        for part in ("", "/transcript", "/document"):
            received.append(str(await client.read_resource(f"flowdebate://runs/{run_id}{part}")))
    everything = "\n".join(received)
    assert SECRET not in everything
    assert str(tmp_path) not in everything
    assert SECRET not in (tmp_path / "stderr").read_text()
