"""Privacy of telemetry: no content without opt-in, and no dependency unless it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, FailurePolicy, debate, generator
from flowdebate.errors import ProviderFailed
from flowdebate.runs.observer import observer_of
from flowdebate.telemetry import FlowDebateInstrumentor, names
from flowdebate.testing import FunctionModel, ScriptedModel, ToolCall
from tests.telemetry.watched import PATTERNS_OF_ALL_KINDS, Watched, answer, start_python

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.telemetry.opentelemetry import Content

pytestmark = pytest.mark.anyio

CANARY = "canary-7f3a"
QUESTION = f"Should we {CANARY}-question?"


def answer_with_canary(request: ModelRequest) -> Any:
    """Return the usual answer, with a canary in each text that is not a choice."""
    return _sing(answer(request))


def _sing(reply: Any) -> Any:
    if isinstance(reply, str):
        return f"{reply} {CANARY}-answer" if " " in reply else reply
    if isinstance(reply, dict):
        return {key: _sing(value) for key, value in reply.items()}
    return [_sing(value) for value in reply] if isinstance(reply, list) else reply


@pytest.mark.parametrize("name", PATTERNS_OF_ALL_KINDS)
async def test_content_is_exported_only_on_request(name: str) -> None:
    texts = {}
    contents: list[Content] = ["none", "spans"]
    for content in contents:
        watched = Watched(content)
        pattern = PATTERNS_OF_ALL_KINDS[name]()
        await pattern.run(QUESTION, model=FunctionModel(answer_with_canary), seed=1, observe=watched.observe)
        texts[content] = watched.text()
        assert CANARY not in str(watched.totals())
    assert CANARY not in texts["none"]
    assert f"{CANARY}-question" in texts["spans"]
    assert f"{CANARY}-answer" in texts["spans"]


async def test_tool_arguments_and_results_are_content() -> None:
    def look_up(word: str) -> str:
        """Look up a fact."""
        return f"{word} {CANARY}-result"

    call = ToolCall(id="a", name="look_up", arguments=f'{{"word": "{CANARY}-argument"}}')
    texts = {}
    contents: list[Content] = ["none", "spans"]
    for content in contents:
        watched = Watched(content)
        model = ScriptedModel(call, "Done.")
        await generator(name="ask", prompt="Help.", tools=[look_up]).run("?", model=model, observe=watched.observe)
        texts[content] = watched
    assert CANARY not in texts["none"].text()
    (tool,) = texts["spans"].named("execute_tool")
    attributes = tool.attributes or {}
    assert attributes[names.TOOL_ARGUMENTS] == call.arguments
    assert attributes[names.TOOL_RESULT] == f"{CANARY}-argument {CANARY}-result"
    _, second = texts["spans"].named("chat")
    assert f"{CANARY}-result" in str((second.attributes or {})[names.INPUT_MESSAGES])
    assert (second.attributes or {})[names.SYSTEM_INSTRUCTIONS] == '[{"type": "text", "content": "Help."}]'


async def test_error_messages_are_not_exported() -> None:
    """For skipped failures and application errors, only the class is exported."""

    class Own(Exception):
        pass

    def failing(request: ModelRequest) -> Any:
        if request.block.endswith("bob"):
            raise ProviderFailed(CANARY, status=503)
        if "judge" in request.block:
            raise Own(CANARY)
        return answer(request)

    watched = Watched("spans")
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, failures=FailurePolicy(on_failure="skip", quorum=1))
    with pytest.raises(Own):
        await pattern.run("Should we?", model=FunctionModel(failing), observe=watched.observe)
    assert (watched.spans[0].attributes or {})[names.ERROR] == "Own"
    assert CANARY not in watched.text()


async def test_instrumentation_observes_runs_that_have_no_observer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Observation ends when the instrumentation is removed.

    OpenTelemetry's environment variable for capturing content is respected.
    """
    watched, own_observer, verbose = Watched(), Watched(), Watched()
    instrumentor, poet = FlowDebateInstrumentor(), generator(name="poet")
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    instrumentor.instrument(tracer_provider=watched.tracers)
    try:
        await poet.run(QUESTION, model=ScriptedModel("A."))
        await poet.run(QUESTION, model=ScriptedModel("A."), observe=own_observer.observe)
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_AND_EVENT")
        instrumentor.instrument(tracer_provider=verbose.tracers)
        await poet.run(QUESTION, model=ScriptedModel("A."))
    finally:
        instrumentor.uninstrument()
    await poet.run(QUESTION, model=ScriptedModel("A."))
    assert [len(observer.spans) for observer in (watched, own_observer, verbose)] == [3, 3, 3]
    assert [CANARY in observer.text() for observer in (watched, own_observer, verbose)] == [False, False, True]
    assert observer_of(None) is observer_of(None)


@pytest.mark.parametrize(
    "used",
    [
        "import flowdebate",
        "import flowdebate.cli.app, flowdebate.service.service, flowdebate.telemetry",
        """from flowdebate import generator
from flowdebate.testing import ScriptedModel
generator(name="poet").run_sync("?", model=ScriptedModel("A."))""",
    ],
    ids=["import", "front ends", "run"],
)
def test_opentelemetry_is_imported_only_when_used(used: str) -> None:
    """Without `observe`, the package need not be installed."""
    program = f"{used}\nimport sys\nprint([name for name in sys.modules if name.startswith('opentelemetry')])"
    assert start_python("-c", program).stdout.strip() == "[]"
