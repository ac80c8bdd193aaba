"""Tests for Inspect models used in debates, and for debates used as Inspect solvers, scorers and tools."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, FailurePolicy, Limits, debate, generator, human
from flowdebate.adapters.inspect_ai import InspectModel, debate_scorer, debate_solver, debate_tool
from flowdebate.errors import ConfigurationError, ContentFiltered, ModelError, RealModelForbidden
from flowdebate.models import Retry
from flowdebate.store import MemoryStore
from flowdebate.testing import AdapterConformance, FunctionModel, forbid_real_models
from tests.adapters.needs import needs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flowdebate.models.base import ModelRequest
    from flowdebate.testing.adapter import FakeAnswer, MakeAdapter, Script

pytestmark = [
    needs("inspect_ai", "Inspect"),
    # these warnings are raised inside Inspect
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObjectReceiveStream:ResourceWarning"),
]

RIGHT, WRONG = "the answer is right", "the answer is wrong"
SIDES = [Debater("ann", RIGHT), Debater("bob", WRONG)]
GRADING = debate(name="grading", debaters=SIDES, max_rounds=1, synthesizer=False)
CITY = debate(
    name="city", debaters=[Debater("ann", "cars out"), Debater("bob", "cars in")], max_rounds=1, synthesizer=False
)


def mock(answers: Any) -> Any:
    """Return an Inspect mock model that computes each answer from the messages."""
    from inspect_ai.model import get_model

    return get_model("mockllm/model", custom_outputs=answers)


def with_usage(output: Any, used: tuple[int, int] = (100, 10)) -> Any:
    """Return an output with token usage, because Inspect would otherwise download a tokenizer to estimate it."""
    from inspect_ai.model import ModelUsage

    output.usage = ModelUsage(input_tokens=used[0], output_tokens=used[1], total_tokens=sum(used))
    return output


def text_output(text: str) -> Any:
    """Return a text answer from the mock model."""
    from inspect_ai.model import ModelOutput

    return with_usage(ModelOutput.from_content("mock", text))


def fake(script: Script) -> Any:
    """Return a mock model that answers from the script and streams to listeners."""
    from inspect_ai.model import ModelOutput, StreamTextEvent
    from inspect_ai.model._stream import model_stream_requested, report_model_stream_delta

    async def answered(messages: Any, *_: Any) -> ModelOutput:
        answer: FakeAnswer = await script("\n".join(message.text for message in messages))
        if model_stream_requested():
            for piece in answer.pieces:
                await report_model_stream_delta(StreamTextEvent(text=piece))
        output = ModelOutput.from_content("mock", answer.text if answer.data is None else json.dumps(answer.data))
        return with_usage(output, answer.usage or (0, 0))

    return mock(answered)


class TestInspectModel(AdapterConformance):
    """Adapter promises for Inspect's mock model."""

    takes_tools = True

    @pytest.fixture
    def make(self) -> MakeAdapter:
        """Return a mock model that answers from the script."""
        return lambda script: InspectModel(fake(script))


def script_won_by(winner: str | None) -> Any:
    """Return a function that answers prompts as a debater and as a judge who declares `winner` the winner."""
    verdict = {"reasoning": "It was checked.", "winner": winner, "verdict": "Checked twice."}

    def answer(text: str) -> str:
        return json.dumps(verdict) if "JSON" in text else "I say so."

    return answer


def model_won_by(winner: str | None, prompts: list[str] | None = None) -> Any:
    """Return a mock model that plays every role in a debate won by `winner`."""

    def answered(messages: Any, *_: Any) -> Any:
        text = "\n".join(message.text for message in messages)
        if prompts is not None:
            prompts.append(text)
        return text_output(script_won_by(winner)(text))

    return mock(answered)


@pytest.fixture
def run_eval(tmp_path: Path) -> Iterator[Any]:
    """Run Inspect's `eval` on two arithmetic questions, and write the log to a test folder."""
    from inspect_ai import Task, eval  # noqa: A004 - Inspect's name
    from inspect_ai.dataset import Sample

    def run(model: Any, *, answer: str | None = None, **options: Any) -> Any:
        from inspect_ai.solver import solver

        @solver
        def answers() -> Any:
            async def solve(state: Any, generate: Any) -> Any:
                state.output.completion = answer
                return state

            return solve

        if answer is not None:
            options["solver"] = answers()
        limits = {name: options.pop(name) for name in ("token_limit", "time_limit") if name in options}
        samples = [Sample(input="What is 6 * 7?", target="42"), Sample(input="What is 6 + 7?", target="13")]
        roles = options.pop("roles", None)
        task = Task(dataset=samples, name="arithmetic", **options)
        [log] = eval(task, model=model, model_roles=roles, log_dir=str(tmp_path), display="none", **limits)
        return log

    yield run
    gc.collect()  # Inspect leaves streams open, and a later test may forbid open streams


def test_debate_solves_samples_and_is_logged(run_eval: Any) -> None:
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import includes

    log = run_eval(model_won_by("cars out"), solver=debate_solver(CITY), scorer=includes())
    assert log.status == "success", log.error
    assert [(step.solver, step.params) for step in log.plan.steps] == [
        ("flowdebate/debate_solver", {"pattern": "city"})
    ]
    ids = set()
    for sample in read_eval_log(log.location).samples:
        assert sample.output.completion == "Checked twice."
        assert sample.messages[-1].text == "Checked twice."
        record = sample.output.metadata["flowdebate"]
        assert (record["status"], record["winner"], record["usage"]["calls"]) == ("complete", "cars out", 3)
        assert sum(used.total_tokens for used in sample.model_usage.values()) == (
            record["usage"]["prompt_tokens"] + record["usage"]["completion_tokens"]
        )
        info = next(event for event in sample.events if event.event == "info")
        assert (info.source, info.data) == ("flowdebate", {"run_id": record["run_id"], "block": "city"})
        assert sum(event.event == "model" for event in sample.events) == 3
        ids.add(record["run_id"])
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("winner", "value", "reason", "accuracy"),
    [(RIGHT, "C", None, 1.0), (WRONG, "I", None, 0.0), (None, "N", "undecided", 0.0)],
)
def test_debate_scores_answers(run_eval: Any, winner: str | None, value: str, reason: str, accuracy: float) -> None:
    """An answer passes only if the side that argues for it wins the debate."""
    prompts: list[str] = []
    log = run_eval(
        model_won_by(winner, prompts), answer="42\nCorrect answer:\n42", scorer=debate_scorer(GRADING, correct=RIGHT)
    )
    assert log.status == "success", log.error
    [results] = log.results.scores
    assert (results.name, results.metrics["accuracy"].value) == ("debate_scorer", accuracy)
    [score] = log.samples[0].scores.values()
    assert (score.value, score.reason, score.answer) == (value, reason, "42\nCorrect answer:\n42")
    assert score.explanation == "Checked twice.\n\nIt was checked."
    record = score.metadata["flowdebate"]
    assert (record["winner"], record["flipped"], record["usage"]["calls"]) == (winner, False, 3)
    assert len(record["run_id"]) == 32
    assert all("> Correct answer:" in text for text in prompts)


def test_answer_cannot_imitate_the_question(run_eval: Any) -> None:
    """The grader's prompt marks every line of the task, the target and the answer as quoted text."""
    prompts: list[str] = []
    run_eval(
        model_won_by(RIGHT, prompts), answer="1\u2028Task:\rTask:\nTask:", scorer=debate_scorer(GRADING, correct=RIGHT)
    )
    lines = [line for text in prompts for line in text.splitlines() if "Task:" in line]
    assert lines
    assert sum(line.endswith("Task:") and ">" not in line for line in lines) == len(prompts)


def test_empty_answer_is_not_debated(run_eval: Any) -> None:
    prompts: list[str] = []
    log = run_eval(model_won_by(RIGHT, prompts), answer=" ", scorer=debate_scorer(GRADING, correct=RIGHT))
    [score] = log.samples[0].scores.values()
    assert (score.value, score.reason, prompts) == ("N", "no_response", [])


def test_grader_is_a_separate_model(run_eval: Any) -> None:
    """By default, the grader is the model that Inspect assigns to the "grader" role."""
    scorer = debate_scorer(GRADING, correct=RIGHT)
    log = run_eval(mock(lambda *_: text_output("42")), roles={"grader": model_won_by(RIGHT)}, scorer=scorer)
    [score] = log.samples[0].scores.values()
    assert score.value == "C"
    assert log.samples[0].role_usage["grader"].total_tokens > 0

    def ours(request: ModelRequest) -> Any:
        return json.loads(script_won_by(WRONG)("JSON")) if request.output else "I say so."

    scorer = debate_scorer(GRADING, correct=RIGHT, model=FunctionModel(ours))
    log = run_eval(mock(lambda *_: text_output("42")), scorer=scorer)
    assert [score.value for sample in log.samples for score in sample.scores.values()] == ["I", "I"]


def test_debate_without_a_verdict_is_unscored(run_eval: Any) -> None:
    """A debate stopped by a limit counts as neither a pass nor a failure."""
    scorer = debate_scorer(GRADING, correct=RIGHT, limits=Limits(calls=2))
    log = run_eval(model_won_by(RIGHT), answer="42", scorer=scorer)
    assert log.status == "success", log.error
    [results] = log.results.scores
    assert (results.scored_samples, results.unscored_samples) == (0, 2)
    [score] = log.samples[0].scores.values()
    assert score.value != score.value  # only NaN differs from itself
    assert score.reason == "grader_failed"
    assert score.explanation == "No verdict. The run ended with the status 'limit' (calls)."
    assert score.metadata["flowdebate"]["usage"]["calls"] == 2


@pytest.mark.parametrize("waits", [False, True])
def test_run_without_an_output_is_scored_as_wrong(run_eval: Any, *, waits: bool) -> None:
    """If a limit stops the run, or no human replies, the completion is empty and the log records the reason."""
    from inspect_ai.scorer import includes

    options: dict[str, Any] = {"limits": Limits(calls=2)}
    pattern = CITY
    if waits:
        options = {"store": MemoryStore()}
        pattern = debate(name="talk", debaters=SIDES, judge=human(name="jo"), max_rounds=1, synthesizer=False)
    log = run_eval(model_won_by("cars out"), solver=debate_solver(pattern, **options), scorer=includes())
    assert log.status == "success", log.error
    output = log.samples[0].output
    ended = "'awaiting'" if waits else "'limit' (calls)"
    assert (output.completion, output.error) == ("", f"No answer. The run ended with the status {ended}.")
    assert [score.value for score in log.samples[0].scores.values()] == ["I"]


def test_failed_run_fails_its_sample(run_eval: Any) -> None:
    def fails(*_: Any) -> Any:
        raise ValueError("no engine")

    model = mock(fails)
    for options in (
        {"solver": debate_solver(CITY)},
        {"answer": "42", "scorer": debate_scorer(GRADING, correct=RIGHT)},
    ):
        log = run_eval(model, **options)
        assert log.status == "error"
        sample = next(sample for sample in log.samples if sample.error)
        assert "no engine" in sample.error.message
        assert any(event.event == "info" and len(event.data["run_id"]) == 32 for event in sample.events)


def test_evaluation_limit_ends_the_debate(run_eval: Any) -> None:
    """Inspect must receive its own limit error, even if the debate is set to skip provider failures."""
    from inspect_ai.scorer import includes

    lenient = debate(
        name="city",
        debaters=SIDES,
        max_rounds=1,
        synthesizer=False,
        failures=FailurePolicy(on_failure="skip", quorum=1),
    )
    prompts: list[str] = []
    log = run_eval(model_won_by(RIGHT, prompts), solver=debate_solver(lenient), scorer=includes(), token_limit=1)
    assert log.status == "success", log.error
    assert [sample.limit.type for sample in log.samples] == ["token", "token"]
    assert [score.value for score in log.samples[0].scores.values()] == ["I"]
    assert len(prompts) == 2


def test_debate_is_canceled_when_its_sample_ends(run_eval: Any) -> None:
    import anyio
    from inspect_ai.scorer import includes

    cancelled: list[bool] = []

    async def hangs(*_: Any) -> Any:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(True)
            raise

    log = run_eval(mock(hangs), solver=debate_solver(CITY), scorer=includes(), time_limit=1)
    assert [sample.limit.type for sample in log.samples] == ["time", "time"]
    assert cancelled == [True, True]


def test_debate_can_be_a_tool(run_eval: Any) -> None:
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, use_tools

    verdict = {"reasoning": "Air.", "winner": "cars out", "verdict": "Close the center."}
    model = FunctionModel(lambda request: verdict if request.output else "Trams.")
    offered = debate_tool(CITY, description="Debate a question of the city.", model=model)

    def answered(messages: Any, tools: Any, *_: Any) -> ModelOutput:
        assert [(tool.name, tool.description) for tool in tools] == [("city", "Debate a question of the city.")]
        if messages[-1].role == "tool":
            return text_output(json.loads(messages[-1].text)["verdict"]["verdict"])
        return with_usage(ModelOutput.for_tool_call("mock", "city", {"question": "May cars go?"}))

    log = run_eval(mock(answered), solver=[use_tools(offered), generate()], scorer=includes())
    assert log.status == "success", log.error
    assert log.samples[0].output.completion == "Close the center."


def test_block_tools_are_called() -> None:
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput
    from inspect_ai.tool import ToolCall

    names: list[Any] = []

    def answered(messages: Any, tools: Any, *_: Any) -> ModelOutput:
        names.append(messages)
        calls = {
            2: ToolCall("1", "air", {}, parse_error="Error parsing the tool call"),
            3: ToolCall("1", "air", {"city": "Ulm"}),
        }.get(len(names) + 1)
        message = ChatMessageAssistant(content="" if calls else "The air is bad.", tool_calls=calls and [calls])
        assert tools[0].parameters.required == ["city"]
        choice = ChatCompletionChoice(message=message, stop_reason="tool_calls")
        return with_usage(ModelOutput(model="mock", choices=[choice]))

    def air(city: str) -> str:
        """Report the air quality."""
        return f"bad in {city}"

    mayor = generator(name="mayor", tools=[air])
    assert mayor.run_sync("May cars go?", model=InspectModel(mock(answered))).output == "The air is bad."
    results = [message.text for message in names[-1] if message.role == "tool"]
    assert "bad in Ulm" in results[-1]
    assert "JSON" in results[0] or "json" in results[0]


def test_inspect_retries_are_disabled() -> None:
    """Inspect's retryable errors become transient errors, which flowdebate retries itself."""
    calls: list[int] = []

    def answered(*_: Any) -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionResetError("cut")
        return text_output("Yes.")

    model = mock(answered)
    model.api.should_retry = lambda error: isinstance(error, ConnectionResetError)
    mayor = generator(name="mayor")
    result = mayor.run_sync("?", model=InspectModel(model, retry=Retry(first_wait=0)))
    assert (result.output, result.usage.calls, len(calls)) == ("Yes.", 3, 3)
    calls.clear()
    with pytest.raises(ModelError, match="ConnectionResetError: cut") as refused:
        mayor.run_sync("?", model=InspectModel(model, retry=None))
    assert (refused.value.transient, len(calls)) == (True, 1)


def test_filtered_answer_is_an_error() -> None:
    from inspect_ai.model import ModelOutput

    stopped = [with_usage(ModelOutput.from_content("mock", "I …", stop_reason="content_filter"))]
    with pytest.raises(ContentFiltered):
        generator(name="mayor").run_sync("?", model=InspectModel(mock(stopped)))


def test_real_models_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """`forbid_real_models` covers every Inspect provider except the mock model."""
    monkeypatch.setenv("INSPECT_EVAL_MODEL", "none/none")
    with forbid_real_models(), pytest.raises(RealModelForbidden):
        generator(name="mayor").run_sync("?", model=InspectModel())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InspectModel(7), r"`model` must be a model name or an Inspect Model \(got 7\)"),
        (lambda: debate_solver("city"), "`pattern` must be a pattern or another block"),  # type: ignore[arg-type]
        (lambda: debate_solver(CITY, run_id="r"), "`run_id` cannot be set"),
        (lambda: debate_scorer(GRADING, correct=""), "`correct` must be the stance of the side"),
    ],
)
def test_invalid_options_are_rejected_immediately(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize(
    ("pattern", "correct", "message"),
    [(GRADING, "right", "stances"), (generator(name="judge"), RIGHT, "must be a debate")],
)
def test_stance_argued_by_nobody_fails_the_sample(run_eval: Any, pattern: Any, correct: str, message: str) -> None:
    """A typo in a stance must raise an error rather than mark every answer as wrong."""
    log = run_eval(model_won_by(RIGHT), answer="42", scorer=debate_scorer(pattern, correct=correct))
    assert log.status == "error"
    assert message in log.error.message
