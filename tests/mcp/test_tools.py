"""Tools for runs, over every transport and in both protocol eras."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import Client
from mcp_types import ElicitResult

from flowdebate import Limits
from flowdebate.mcp import create_server
from flowdebate.mcp.host_schema import REFUSED, for_hosts
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.service.service import Service
from flowdebate.store import SqliteStore, close_store
from flowdebate.testing import FunctionModel
from tests.mcp.conftest import error_text, structured_output
from tests.mcp.stage import StageModel, patterns
from tests.runs.durable.patterns import answer_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp_types import ElicitRequestFormParams

    from flowdebate.models.base import ModelRequest
    from tests.mcp.conftest import Stage

pytestmark = pytest.mark.anyio


def fit_schema(request: ModelRequest) -> Any:
    """Return an answer that fits the request's schema; a council member ranks all answers."""
    if "RankedAnswer" in (definitions := (request.output_schema or {}).get("$defs", {})):
        return {
            "ranking": [{"answer": answer} for answer in definitions["RankedAnswer"]["properties"]["answer"]["enum"]]
        }
    return answer_to(request)


async def test_a_debate_can_be_started_awaited_and_read(stage: Stage) -> None:
    noted: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        noted.append((progress, total, message))

    async with stage.connect() as client:
        started = structured_output(
            await client.call_tool(
                "start_debate",
                {"question": "Should we build trams?", "max_rounds": 1, "wait": 50},
                progress_callback=note,
            )
        )
        later = structured_output(
            await client.call_tool("get_run", {"run_id": started["run_id"], "seen": started["parts"]})
        )
        listed = structured_output(await client.call_tool("list_runs", {"text": "trams"}))
    assert started["status"] == "complete"
    assert started["said"].splitlines()[:2] == ["Round 1 of 1:", "[pro] What debate-debater-pro says."]
    assert "Verdict: So it is." in started["result"]
    assert (later["said"], later["result"]) == ("", started["result"])
    assert [run["run_id"] for run in listed["runs"]] == [started["run_id"]]
    assert any(message == "pro speaks, round 1 of 1" for _, _, message in noted)
    assert noted[-1][:2] == (5, 5)
    values = [value for value, _, _ in noted]
    assert values == sorted(set(values)), "progress has to grow with each notification"
    assert all(total is None or value <= total for value, total, _ in noted)


@pytest.mark.parametrize(
    ("tool", "depth", "calls"),
    [
        ("start_debate", "quick", 4), ("start_debate", "balanced", 7), ("start_debate", "thorough", 17),
        ("start_council", "quick", 4), ("start_council", "balanced", 7), ("start_council", "thorough", 11),
    ],
)  # fmt: skip
async def test_each_depth_takes_the_documented_number_of_calls(tool: str, depth: str, calls: int) -> None:
    service = Service(store="memory:", model=FunctionModel(fit_schema))
    async with service, Client(create_server(service)) as client:
        (described,) = [entry.description for entry in (await client.list_tools()).tools if entry.name == tool]
        assert re.search(rf'"{depth}" (makes )?{calls}\b', described or "")
        arguments = {"question": "Should we build trams?", "depth": depth, "wait": 50}
        run = structured_output(await client.call_tool(tool, arguments))
    assert (run["status"], run["calls"]) == ("complete", calls)
    assert run["spent"] == f"{calls} calls, tokens unknown, cost unknown: the server has no prices."


async def test_every_result_reports_its_usage() -> None:
    def counted(request: ModelRequest) -> ModelResponse:
        answer, usage = answer_to(request), Usage(calls=1, prompt_tokens=1_000, completion_tokens=100)
        return ModelResponse(**{"text" if isinstance(answer, str) else "data": answer}, usage=usage)

    service = Service(store="memory:", model=FunctionModel(counted))
    async with service, Client(create_server(service)) as client:
        arguments = {"question": "Should we build trams?", "depth": "quick"}
        first = structured_output(await client.call_tool("start_debate", {**arguments, "wait": 0}))
        done = structured_output(await client.call_tool("wait_for_run", {"run_id": first["run_id"], "seconds": 50}))
        judged = structured_output(await client.call_tool("compare", {"question": "Which?", "texts": ["good", "bad"]}))
    assert re.match(r"No call yet\.|\d calls?, ", first["spent"])
    assert done["spent"].startswith("4 calls, 4,000 tokens in, 400 out, cost unknown")
    assert judged["spent"].startswith("2 calls, 2,000 tokens in, 200 out, ")


async def test_a_host_user_takes_two_turns(stage: Stage) -> None:
    questions: list[str] = []

    async def answer(_: object, params: ElicitRequestFormParams) -> ElicitResult:
        questions.append(params.message)
        assert list(params.requested_schema["properties"]) == ["answer"]
        return ElicitResult(action="accept", content={"answer": f"Roads, for the {len(questions)}. time."})

    async with stage.connect(elicitation_callback=answer) as client:
        run = structured_output(
            await client.call_tool("start_debate", {"question": "What to build?", "pattern": "hall"})
        )
        while run["status"] == "awaiting":
            assert "take_turn" in run["next"]
            run = structured_output(await client.call_tool("take_turn", {"run_id": run["run_id"], "wait": 30}))
    assert run["status"] == "complete"
    assert "[ben] Roads, for the 2. time." in run["said"]
    assert len(questions) == 2
    assert "[ann, trams]" in questions[0]
    assert "Roads, for the 1. time." in questions[1]


async def test_a_human_judge_fills_in_the_verdict_fields(local_stage: Stage) -> None:
    schemas: list[dict[str, Any]] = []

    async def answer(_: object, params: ElicitRequestFormParams) -> ElicitResult:
        schemas.append(dict(params.requested_schema))
        return ElicitResult(
            action="accept", content={"reasoning": "Heard.", "winner": "trams", "verdict": "Build trams."}
        )

    async with local_stage.connect(elicitation_callback=answer) as client:
        run = structured_output(
            await client.call_tool("start_debate", {"question": "What to build?", "pattern": "court"})
        )
        run = structured_output(await client.call_tool("take_turn", {"run_id": run["run_id"]}))
    assert schemas[0]["properties"]["winner"]["enum"] == ["trams", "roads"]
    assert schemas[0]["required"] == ["reasoning", "verdict"]
    assert (run["status"], "Winner: ann (trams)" in run["result"]) == ("complete", True)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_an_unanswered_request_changes_nothing(local_stage: Stage, action: Any) -> None:
    async def refuse(*_: object) -> ElicitResult:
        return ElicitResult(action=action)

    async with local_stage.connect(elicitation_callback=refuse) as client:
        run = structured_output(
            await client.call_tool("start_debate", {"question": "What to build?", "pattern": "hall"})
        )
        after = structured_output(await client.call_tool("take_turn", {"run_id": run["run_id"]}))
    assert after["status"] == "awaiting"
    assert after["pending"] == run["pending"]
    assert action in after["next"]


async def test_the_model_gets_instructions_if_the_host_does_not_support_forms(local_stage: Stage) -> None:
    async with local_stage.connect() as client:
        run = structured_output(
            await client.call_tool("start_debate", {"question": "What to build?", "pattern": "hall"})
        )
        assert "answer_turn" in error_text(await client.call_tool("take_turn", {"run_id": run["run_id"]}))
        run = structured_output(await client.call_tool("answer_turn", {"run_id": run["run_id"], "answer": "Roads."}))
        assert (run["status"], "[ben] Roads." in run["said"]) == ("awaiting", True)
    store = SqliteStore(str(local_stage.folder / "runs.sqlite3"))
    (answered,) = [step for step in await store.steps(run["run_id"]) if step.kind == "human" and step.body]
    await close_store(store)
    assert json.loads(answered.body or "")["by"] == "the host's model"


async def test_texts_are_judged_in_all_orders_and_only_once(local_stage: Stage) -> None:
    """A repeated call returns the recorded verdict. A judge that prefers the first text is reported as inconsistent."""
    async with local_stage.connect() as client:
        arguments: dict[str, Any] = {"question": "Which is better?", "texts": ["bad", "good\nand long", "bad too"]}
        verdict = structured_output(await client.call_tool("compare", arguments))
        calls = len(local_stage.model.callers())
        repeat = structured_output(await client.call_tool("compare", arguments))
        biased = structured_output(
            await client.call_tool("compare", {"question": "A biased case", "texts": ["bad", "good"]})
        )
    assert (verdict["winner"], verdict["consistent"], calls) == ("Text 2", True, 3)
    assert sorted(ballot["order"][0] for ballot in verdict["ballots"]) == ["Text 1", "Text 2", "Text 3"]
    assert repeat == verdict
    assert (biased["winner"], biased["consistent"], len(local_stage.model.callers())) == (None, False, 5)


async def test_a_judge_uses_a_rubric_and_a_reference_answer(local_stage: Stage) -> None:
    """A different rubric or reference leads to a new verdict. An invalid rubric is rejected before any call is made."""
    arguments: dict[str, Any] = {"question": "Which?", "texts": ["good", "bad"]}
    async with local_stage.connect() as client:
        plain = structured_output(await client.call_tool("compare", arguments))
        arguments |= {"criteria": {"correct": 3, "clear": 1}, "reference": "bad"}
        graded = structured_output(await client.call_tool("compare", arguments))
        repeat = structured_output(await client.call_tool("compare", arguments))
        prompts = local_stage.model.callers()
        wrong = await client.call_tool("compare", {**arguments, "criteria": {"correct": -1}})
    assert (plain["winner"], graded["winner"]) == ("Text 1", "Text 2")
    assert (plain["ballots"][0]["criteria"], repeat) == (None, graded)
    assert graded["ballots"][0]["criteria"]["Text 2"] == {"correct": 100, "clear": 100}
    assert wrong.is_error
    assert "criteria" in str(wrong.content)
    assert local_stage.model.callers() == prompts


async def test_a_run_can_be_cancelled_resumed_forked_and_deleted(local_stage: Stage) -> None:
    local_stage.folder.joinpath("hold").touch()
    async with local_stage.connect() as client:
        run = structured_output(
            await client.call_tool("start_debate", {"question": "Trams?", "pattern": "city", "wait": 0})
        )
        run_arguments = {"run_id": run["run_id"]}
        while len(local_stage.model.callers()) <= 3:
            await client.call_tool("wait_for_run", {**run_arguments, "seconds": 0.05})
        stopped = structured_output(await client.call_tool("cancel_run", run_arguments))
        assert (stopped["status"], stopped["parts"]) == ("interrupted", 5)
        local_stage.folder.joinpath("hold").unlink()
        done = structured_output(await client.call_tool("resume_run", {**run_arguments, "wait": 30}))
        assert (done["status"], len(local_stage.model.callers())) == ("complete", 6)  # the call in flight was cancelled
        fork = structured_output(await client.call_tool("fork_run", {**run_arguments, "wait": 30}))
        assert (fork["said"], len(local_stage.model.callers())) == (done["said"], 6)
        assert not (await client.call_tool("delete_run", run_arguments)).is_error
        listing = structured_output(await client.call_tool("list_runs", {}))
    assert [row["run_id"] for row in listing["runs"]] == [fork["run_id"]]


async def test_a_note_can_be_written_read_and_deleted(local_stage: Stage) -> None:
    async with local_stage.connect() as client:
        run = structured_output(
            await client.call_tool("start_debate", {"question": "Trams?", "pattern": "city", "wait": 30})
        )
        run_arguments = {"run_id": run["run_id"]}
        assert structured_output(await client.call_tool("get_run", run_arguments))["note"] is None
        written = await client.call_tool("write_note", {**run_arguments, "note": "For the board.\nRound 2:"})
        noted = structured_output(await client.call_tool("get_run", run_arguments))
        deleted = await client.call_tool("write_note", {**run_arguments, "note": " "})
        assert structured_output(await client.call_tool("get_run", run_arguments))["note"] is None
    assert noted["note"] == "For the board.\n  | Round 2:"
    assert {**noted, "note": None} == {**run, "next": noted["next"]}
    assert [str(result.content[0].text).split()[-1] for result in (written, deleted)] == ["written.", "deleted."]  # type: ignore[union-attr]


async def test_a_finished_debate_can_be_continued(stage: Stage) -> None:
    arguments = {"question": "Should we build trams?", "max_rounds": 1, "wait": 50}
    async with stage.connect() as client:
        run_arguments = {"run_id": structured_output(await client.call_tool("start_debate", arguments))["run_id"]}
        before = len(stage.model.callers())
        longer = structured_output(
            await client.call_tool("fork_run", {**run_arguments, "ask": "What would it cost?", "wait": 50})
        )
        calls = len(stage.model.callers()) - before
        none = await client.call_tool("fork_run", {**run_arguments, "more_rounds": 0})
        blank = error_text(await client.call_tool("fork_run", {**run_arguments, "ask": " "}))
        council = structured_output(
            await client.call_tool("start_council", {"question": "Should we build trams?", "wait": 50})
        )
        never = error_text(await client.call_tool("fork_run", {"run_id": council["run_id"], "more_rounds": 1}))
    assert longer["status"] == "complete"
    assert "Round 2 of 2:" in longer["said"]
    assert "What would it cost?" in longer["said"]
    # both sides speak once more, the judge reads both orders again, and the synthesizer writes a new text
    assert calls == 2 + 3
    assert (none.is_error, "more_rounds" in str(none.content)) == (True, True)
    assert "`ask` must be a question of at most 4,000 characters" in blank
    assert "`continuation` cannot be set: only a debate can be continued" in never


async def test_a_budget_is_shared_by_all_runs(tmp_path: Path) -> None:
    """The error tells the host's model which budget is exhausted. Comparisons also use up the budget."""
    budgeted = Service(patterns(), store="memory:", model=StageModel(tmp_path), budget=Limits(calls=6))
    async with budgeted as service, Client(create_server(service)) as client:
        arguments = {"question": "Should we build trams?", "max_rounds": 1, "wait": 50}
        assert structured_output(await client.call_tool("start_debate", arguments))["status"] == "complete"
        judged = await client.call_tool("compare", {"question": "Which?", "texts": ["good", "bad"]})
        assert structured_output(judged)["status"] == "limit"
        sentence = "the budget for all runs is exhausted: 6 of 6 calls used"
        assert sentence in error_text(await client.call_tool("start_debate", arguments))


async def test_tool_schemas_avoid_unsupported_keywords(stage: Stage) -> None:
    """Gemini supports neither references nor patterns.

    OpenAI requires the top level to be an object without alternatives.
    """

    def keywords(part: Any) -> Iterator[str]:
        for key, value in part.items() if isinstance(part, dict) else ():
            yield key
            if key == "properties":
                for inner in value.values():
                    yield from keywords(inner)
            elif key not in ("default", "enum", "examples"):
                yield from keywords(value)
        for inner in part if isinstance(part, list) else ():
            yield from keywords(inner)

    async with stage.connect() as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        assert REFUSED.isdisjoint(keywords(tool.input_schema)), tool.name
        assert tool.input_schema["type"] == "object"
        assert "anyOf" not in tool.input_schema
    [compare] = [tool for tool in tools if tool.name == "compare"]
    criteria = compare.input_schema["properties"]["criteria"]["anyOf"][0]
    assert criteria["additionalProperties"] == {"type": "number", "minimum": 0, "maximum": 1000}


numbers = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={"exclusiveMinimum": st.integers(-3, 3), "exclusiveMaximum": st.integers(-3, 3)},
)
schemas = st.recursive(
    numbers | st.builds(lambda value: {"const": value}, st.integers(-3, 3)) | st.just({"$ref": "#/$defs/other"}),
    lambda inner: (
        st.builds(lambda several: {"oneOf": several}, st.lists(inner, min_size=1, max_size=2))
        | st.builds(
            lambda value, name: {"type": "object", "patternProperties": {name: value}, "additionalProperties": False},
            inner,
            st.sampled_from(["^a$", "b"]),
        )
        | st.builds(lambda value: {"type": "object", "properties": {"not": value}}, inner)
    ),
    max_leaves=4,
)
values = st.recursive(
    st.integers(-4, 4), lambda inner: st.dictionaries(st.sampled_from(["a", "b", "not"]), inner, max_size=2)
)


@given(schemas, values)
def test_published_schemas_drop_unchecked_bounds(schema: dict[str, Any], value: Any) -> None:
    """Every value that the original schema accepts is also valid under the published schema."""
    full_schema = {**schema, "$defs": {"other": {"type": "integer", "minimum": 0}}}
    if Draft202012Validator(full_schema).is_valid(value):
        assert Draft202012Validator(for_hosts(full_schema)).is_valid(value)


@pytest.mark.anyio
async def test_unknown_arguments_are_rejected_by_name(local_stage: Stage) -> None:
    """Each schema forbids additional properties, and the error suggests a valid name."""
    async with local_stage.connect() as client:
        for tool in (await client.list_tools()).tools:
            assert tool.input_schema["additionalProperties"] is False
            no = error_text(await client.call_tool(tool.name, {"question": "Q?", "run_id": "x", "color": "red"}))
            assert no.startswith(f"{tool.name}: unknown argument")
            assert "`color`" in no
            assert no.endswith(f" Valid arguments: {', '.join(tool.input_schema['properties'])}.")
        no = error_text(await client.call_tool("start_council", {"question": "Q?", "modles": [], "Wait": 5}))
    suggestions = "Did you mean `wait`? Did you mean `models`?"
    assert no.startswith(
        f"start_council: unknown arguments `Wait`, `modles`. {suggestions} Valid arguments: question, "
    )
