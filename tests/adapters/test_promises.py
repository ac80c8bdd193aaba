"""Tests for the documented table of promises, and for patterns used as tools in any framework."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

from flowdebate import Debater, Limits, debate, function_schema, generator, human
from flowdebate.adapters import as_tool
from flowdebate.errors import ConfigurationError
from flowdebate.models import ModelRequest, ModelResponse, Retry, Usage
from flowdebate.store import MemoryStore
from flowdebate.testing import AdapterConformance, FunctionModel, ScriptedModel
from flowdebate.testing.adapter import FakeAnswer, MakeAdapter, Script, _FrameworkFailure
from tests.adapters.table import BEGIN, END, PAGE, table, untested_promises


def test_page_lists_every_promise_in_the_suite() -> None:
    """Run `make adapter-table` to regenerate the table on the page."""
    assert f"{BEGIN}\n{table()}\n{END}" in PAGE.read_text("utf-8"), table()


def test_untested_promises_are_omitted_from_the_table() -> None:
    """A promise counts as untested if its test failed, did not run, or was skipped because a framework is missing."""
    passed = dict.fromkeys(untested_promises({}), "passed")
    assert len(passed) > 80
    assert untested_promises(passed) == []
    one, second, *_ = passed
    assert untested_promises({**passed, one: "failed", second: "skipped"}) == [one, second]


class OtherModel:
    """Custom model that stands in for a framework's model."""

    name = "other"
    retry = Retry(first_wait=0)

    def __init__(self, script: Script) -> None:
        self._script = script

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer from the script."""
        if request.tools:
            raise ConfigurationError("model 'other'", "tools", [tool.name for tool in request.tools], "left out")
        answer: FakeAnswer = await self._answered(request)
        for piece in answer.pieces if request.on_text is not None else ():
            request.on_text and request.on_text(piece)
        usage = Usage.unknown()
        if answer.usage is not None:
            usage = Usage(calls=1, prompt_tokens=answer.usage[0], completion_tokens=answer.usage[1])
        return ModelResponse(text=answer.text, data=answer.data, usage=usage)

    async def _answered(self, request: ModelRequest) -> FakeAnswer:
        from flowdebate.adapters.translation import framework_failures

        with framework_failures():
            return await self._script("\n".join(str(message["content"]) for message in request.messages))


class TestOtherModel(AdapterConformance):
    """Adapter promises for a custom model; the suite needs no framework."""

    @pytest.fixture
    def make(self) -> MakeAdapter:
        """Return a model that answers from the script."""
        return OtherModel


class Forgetful(OtherModel):
    """Model that drops the conversation, hides failures and makes up its usage."""

    async def _answered(self, request: ModelRequest) -> FakeAnswer:
        answer = await self._script(str(request.messages[0]["content"]))
        return FakeAnswer(pieces=(answer.text,), data=answer.data, usage=(0, 0))


@pytest.mark.parametrize(
    "broken", ["test_text", "test_conversation", "test_stream", "test_usage", "test_unknown_usage", "test_exception"]
)
def test_suite_finds_a_broken_promise(broken: str) -> None:
    with pytest.raises((AssertionError, ValueError, _FrameworkFailure)):
        getattr(AdapterConformance(), broken)(Forgetful)


SIDES = [Debater("ann", "cars out"), Debater("bob", "cars in")]
VERDICT = {"reasoning": "The air.", "winner": "cars out", "verdict": "Close the center."}


def test_tool_metadata_is_readable_by_frameworks() -> None:
    """Frameworks derive the tool's schema from its name, docstring and annotations."""
    city = debate(name="city debate!", debaters=SIDES, max_rounds=1, synthesizer=False)
    tool = as_tool(city, description="Debate a question of the city.")
    assert tool.__name__ == "city_debate"
    assert get_type_hints(tool) == {"question": str, "return": str}
    assert inspect.iscoroutinefunction(tool)
    spec = function_schema(tool)
    assert spec.description == "Debate a question of the city."
    assert spec.parameters["required"] == ["question"]
    assert "everything that is needed" in spec.parameters["properties"]["question"]["description"]


def test_model_inside_a_run_can_start_another_run() -> None:
    """An agent that uses a debate as a tool can itself serve as a model; the inner debate is a separate run."""
    city = debate(name="city", debaters=SIDES, max_rounds=1, synthesizer=False)
    tool = as_tool(city, model=ScriptedModel("Clean air.", "Shops die.", VERDICT))

    async def agent(request: ModelRequest) -> str:
        return await tool(request.messages[-1]["content"])

    result = generator(name="clerk").run_sync("May cars go?", model=FunctionModel(agent))
    assert '"winner":"cars out"' in result.output
    assert result.usage.calls == 1


@pytest.mark.anyio
async def test_run_without_an_output_is_reported() -> None:
    """A run that has reached a limit or is waiting for a human has no output to return."""
    talk = debate(name="talk", debaters=SIDES, judge=human(name="jo"), max_rounds=1, synthesizer=False)
    always = FunctionModel(lambda _: "Yes.")
    assert await as_tool(talk, model=always, store=MemoryStore())("May cars go?") == (
        "No result: the run ended with the status 'awaiting'."
    )
    city = debate(name="city", debaters=SIDES, max_rounds=1, synthesizer=False)
    assert "'limit'" in await as_tool(city, model=always, limits=Limits(calls=1))("May cars go?")


@pytest.mark.parametrize(
    ("options", "field"),
    [({"name": "2nd"}, "name"), ({"name": ""}, "name"), ({"name": "x" * 65}, "name"), ({"run_id": "r"}, "run_id")],
)
def test_invalid_tool_options_are_rejected(options: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        as_tool(generator(name="talk"), **options)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_only_blocks_are_accepted_as_tools() -> None:
    with pytest.raises(ConfigurationError, match="`pattern` must be a pattern or another block"):
        as_tool("debate")  # type: ignore[arg-type]
