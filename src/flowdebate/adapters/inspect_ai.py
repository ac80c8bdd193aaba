"""Adapter for Inspect: `InspectModel` for any role, plus `debate_solver`, `debate_scorer` and `debate_tool`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._text import join_choices
from flowdebate._util.validation import check_library
from flowdebate.adapters.tool import as_tool
from flowdebate.adapters.translation import (
    RETRY,
    AdaptedModel,
    framework_failures,
    sampling_of,
    schema_prompt,
    text_of,
    usage_of,
)
from flowdebate.blocks.base import Block
from flowdebate.blocks.functions import result_text
from flowdebate.chassis.output import PatternOutput
from flowdebate.chassis.state import TurnStarted
from flowdebate.errors import ConfigurationError, EmptyResponse, ModelError
from flowdebate.models.base import Message, ModelRequest, ModelResponse, ToolCall
from flowdebate.models.call import Retry, check_real_calls_allowed
from flowdebate.models.endings import read_finish
from flowdebate.models.output import inline_definitions
from flowdebate.patterns.debate.schemas import DebateRawOutput

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage, GenerateConfig, Model, ModelOutput
    from inspect_ai.scorer import Score, Scorer, Target
    from inspect_ai.solver import Solver, TaskState
    from inspect_ai.tool import Tool

    from flowdebate.runs.execute import RunOptions
    from flowdebate.runs.result import RunResult


# Used as the source of our events in Inspect's transcript, and as our metadata key.
_KEY = "flowdebate"


class InspectModel(AdaptedModel):
    """An Inspect model usable in any role; its calls are counted, limited, retried, recorded and streamed as usual.

    - `model`: the model's name, such as "anthropic/claude-sonnet-4-5", or a `Model`; None to use the evaluated model.
    - `role`: a role in the evaluation (`model_roles`); `model` is used if the role is not bound to a model.
    - `config`: a `GenerateConfig` for each call; a request's own settings take precedence.
    - `name`: the name shown in errors, events and usage; None to use the name of the role or model.
    - `retry`: the retry policy; None to disable retries. Inspect's retries are turned off, because flowdebate must
      count every request.

    Inside an evaluation, Inspect's log, cache and limits also cover the model's calls. If one of Inspect's limits is
    reached, the run ends with Inspect's own LimitExceededError. Tool calls are supported. A schema is both sent to the
    model and shown in the prompt.
    """

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        role: str | None = None,
        config: GenerateConfig | None = None,
        name: str | None = None,
        retry: Retry | None = RETRY,
    ) -> None:
        location = "InspectModel"
        check_library(location, "inspect_ai", library="Inspect", extra="inspect-ai")
        from inspect_ai.model import GenerateConfig, Model

        if model is not None and not isinstance(model, Model) and not (isinstance(model, str) and model.strip()):
            raise ConfigurationError(location, "model", model, "must be a model name or an Inspect Model")
        super().__init__(location, name or f"inspect-ai/{role or model or 'evaluated'}", retry)
        self._model = model
        self._role = role
        self._config = config or GenerateConfig()

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Send a single request."""
        from inspect_ai.model import get_model
        from inspect_ai.util import LimitExceededError
        from tenacity import RetryError

        model = get_model(role=self._role, default=self._model) if self._role else get_model(self._model)
        if not str(model).startswith("mockllm/"):
            check_real_calls_allowed(self.name, base_url=model.api.base_url)
        again = False  # treat an error as transient if Inspect would retry it under the rules for this provider
        try:
            with framework_failures(LimitExceededError):
                try:
                    output = await model.generate(**self._parameters(request))
                except RetryError as error:  # even with retries turned off, Inspect wraps the error in a RetryError
                    again = True
                    raise error.last_attempt.exception() or error from None
                return _response(output, request)
        except ModelError as failure:
            failure.transient = failure.transient or again
            raise

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        from inspect_ai.model import ChatMessageSystem, GenerateConfig, ResponseSchema
        from inspect_ai.tool import ToolInfo, ToolParams
        from inspect_ai.util import JSONSchema

        parameters: dict[str, Any] = {**sampling_of(request, effort="reasoning_effort"), "max_retries": 0}
        messages = [_message(message) for message in request.messages]
        if request.output is not None:
            schema = JSONSchema.model_validate(inline_definitions(request.output.json_schema))
            parameters["response_schema"] = ResponseSchema(name=request.output.name, json_schema=schema, strict=False)
            messages.insert(0, ChatMessageSystem(content=schema_prompt(request.output)))
        tools = [
            ToolInfo(
                name=tool.name,
                description=tool.description,
                parameters=ToolParams.model_validate(inline_definitions(dict(tool.parameters))),
            )
            for tool in request.tools
        ]
        config = self._config.merge(GenerateConfig(**parameters))
        return {"input": messages, "tools": tools, "config": config, "on_stream": _handler(request)}


def _handler(request: ModelRequest) -> Any:  # noqa: ANN401 - StreamHandler
    """Return a function that forwards streamed text, or None if nobody is listening."""
    on_text = request.on_text
    if on_text is None or request.output is not None:
        return None

    async def forward_text(event: Any) -> None:  # noqa: ANN401 - StreamEvent
        if event.type == "text":
            on_text(event.text)

    return forward_text


def _message(message: Message) -> ChatMessage:
    from inspect_ai import model, tool

    text = text_of(message)
    match message.get("role"):
        case "system":
            return model.ChatMessageSystem(content=text)
        case "assistant":
            calls = [
                tool.ToolCall(call["id"], call["function"]["name"], _arguments(call["function"]["arguments"]))
                for call in message.get("tool_calls") or ()
            ]
            return model.ChatMessageAssistant(content=text, tool_calls=calls or None)
        case "tool":
            return model.ChatMessageTool(content=text, tool_call_id=message.get("tool_call_id"))
        case _:
            return model.ChatMessageUser(content=text)


def _arguments(text: str) -> dict[str, Any]:
    """Parse the arguments of an earlier tool call; return an empty dict if the model did not write a JSON object."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _response(output: ModelOutput, request: ModelRequest) -> ModelResponse:
    if output.empty:
        raise EmptyResponse(output.error or "the response has no choices")
    # unparsable arguments are passed on as invalid JSON, to let the model know about the problem
    calls = tuple(
        ToolCall(id=call.id, name=call.function, arguments=call.parse_error or json.dumps(call.arguments))
        for call in (output.message.tool_calls or () if request.tools else ())
    )
    finish = read_finish(output.stop_reason, calls=bool(calls))
    # Inspect counts cached tokens separately, but flowdebate includes them in the prompt tokens, as OpenAI does
    used = output.usage
    cached = None if used is None else used.input_tokens_cache_read
    prompt = None if used is None else used.input_tokens + (cached or 0) + (used.input_tokens_cache_write or 0)
    return ModelResponse(
        text=output.completion,
        tool_calls=calls,
        finish=finish.reason,
        usage=usage_of(prompt, None if used is None else used.output_tokens, cached),
        model=output.model or None,
        flags=finish.flags,
    )


def debate_tool(
    pattern: Block[Any, Any], *, name: str | None = None, description: str | None = None, **options: Unpack[RunOptions]
) -> Tool:
    """Convert a pattern to a tool for `use_tools(…)` and for agents; `options` are passed to `Block.run()`."""
    check_library("inspect_ai.debate_tool", "inspect_ai", library="Inspect", extra="inspect-ai")
    from inspect_ai.tool import ToolDef

    tool_ = as_tool(pattern, name=name, description=description, **options)
    return ToolDef(tool_, name=tool_.__name__).as_tool()


def debate_solver(
    pattern: Block[Any, Any],
    *,
    question: Callable[[TaskState], str] | None = None,
    answer: Callable[[RunResult[Any]], str] | None = None,
    **options: Unpack[RunOptions],
) -> Solver:
    """Create a solver that runs `pattern` on each sample and sets the answer as the sample's completion.

    - `question`: function that returns the question for a state; None to use the text of the last user message.
    - `answer`: function that returns the completion for a result; None to use the pattern's output as text, or a raw
      output's `answer`.
    - `options`: options for `Block.run()`, the same for each sample. The default model is the evaluated model.

    `output.metadata["flowdebate"]` contains the run's id, status, usage and winner. If a run has no output because it
    reached a limit or is waiting for a human, the completion is empty and `output.error` states the reason. Errors in
    the run are raised, so that Inspect counts the sample as failed.
    """
    location = "debate_solver()"
    _check(location, pattern, options)
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    async def solve(state: TaskState, _: object) -> TaskState:
        question_text = state.user_prompt.text if question is None else question(state)
        result = await _run_debate(pattern, question_text, options, InspectModel())
        output = result.output
        if output is None:
            text = None
        elif answer is not None:
            text = answer(result)
        else:
            text = output.answer if isinstance(output, PatternOutput) else result_text(output)
        error = None if text is not None else f"No answer. {_describe_end(result)}"
        state.output = ModelOutput.from_content(str(state.model), text or "", error=error)
        state.output.metadata = {_KEY: _record(result)}
        state.messages.append(state.output.message)
        return state

    def debate_solver(pattern: str) -> Any:  # noqa: ANN401, ARG001 - a Solver; its arguments are in the log
        return solve

    created: Solver = solver(debate_solver)(pattern.name)
    return created


def debate_scorer(
    pattern: Block[Any, Any],
    *,
    correct: str,
    question: Callable[[TaskState, Target], str] | None = None,
    **options: Unpack[RunOptions],
) -> Scorer:
    """Create a scorer that has the debate `pattern` judge each answer.

    - `pattern`: a debate in which one side argues that the answer is correct.
    - `correct`: that side's stance. The score is CORRECT if this stance wins, and INCORRECT if another stance wins.
    - `question`: function that returns the question for a state and a target; None to use a question containing the
      task, the target and the answer.
    - `options`: options for `Block.run()`, the same for each sample. The default model is the one bound to Inspect's
      role "grader" or, if there is none, the evaluated model.

    A verdict without a winner is scored NOANSWER (reason "undecided"). An empty answer is not debated and is also
    scored NOANSWER ("no_response"). Both count as 0. A debate without a verdict is unscored ("grader_failed"). The
    explanation is the verdict; `metadata["flowdebate"]` contains the run's id, status and usage, and the judge's
    scores. Errors in the run are raised, so that Inspect counts the sample as failed.
    """
    location = "debate_scorer()"
    _check(location, pattern, options)
    if not isinstance(correct, str) or not correct.strip():
        raise ConfigurationError(
            location, "correct", correct, "must be the stance of the side that argues for the answer"
        )
    from inspect_ai.scorer import NOANSWER, Score, accuracy, scorer, stderr

    async def score(state: TaskState, target: Target) -> Score:
        answer = state.output.completion
        if not answer.strip():
            nothing = "There is no answer to debate."
            return Score(value=NOANSWER, answer=answer, explanation=nothing, reason="no_response")
        question_text = _ask_whether_correct(state, target) if question is None else question(state, target)
        result = await _run_debate(pattern, question_text, options, InspectModel(role="grader"))
        return _score_debate(location, result, correct, answer)

    def debate_scorer(pattern: str, correct: str) -> Any:  # noqa: ANN401, ARG001 - a Scorer; its arguments are in the log
        return score

    created: Scorer = scorer(metrics=[accuracy(), stderr()])(debate_scorer)(pattern.name, correct)
    return created


def _check(location: str, pattern: object, options: Mapping[str, Any]) -> None:
    check_library(location, "inspect_ai", library="Inspect", extra="inspect-ai")
    if not isinstance(pattern, Block):
        raise ConfigurationError(location, "pattern", pattern, "must be a pattern or another block")
    if options.get("run_id") is not None:
        raise ConfigurationError(location, "run_id", None, "cannot be set: each sample is a separate run")


async def _run_debate(
    pattern: Block[Any, Any], question: str, options: RunOptions, model: InspectModel
) -> RunResult[Any]:
    """Run `pattern` inside a span of Inspect's transcript, and record the run's id in the span."""
    from inspect_ai.log import transcript
    from inspect_ai.util import span

    # choose the id here, so that the sample's transcript names the run even if it fails before returning a result
    run_options: RunOptions = {**options, "run_id": os.urandom(16).hex()}
    if options.get("model") is None:
        run_options["model"] = model
    async with span(pattern.name, type="debate"):
        transcript().info({"run_id": run_options["run_id"], "block": pattern.name}, source=_KEY)
        return await pattern.run(question, **run_options)


def _describe_end(result: RunResult[Any]) -> str:
    limit = "" if result.limit is None else f" ({result.limit})"
    return f"The run ended with the status {result.status!r}{limit}."


def _record(result: RunResult[Any]) -> dict[str, Any]:
    """Convert a run to JSON data for Inspect's log."""
    used, verdict = result.usage, getattr(result.raw, "verdict", None)
    record: dict[str, Any] = {
        "run_id": result.run_id,
        "status": result.status,
        "seed": result.seed,
        "usage": {
            "calls": used.calls,
            "prompt_tokens": used.prompt_tokens,
            "cached_tokens": used.cached_tokens,
            "completion_tokens": used.completion_tokens,
        },
    }
    if result.cost is not None:
        record |= {"cost": result.cost, "prices": result.prices}
    if verdict is not None:
        record["winner"] = verdict.winner
        if verdict.judging is not None:
            record |= {"scores": dict(verdict.judging.scores), "flipped": verdict.judging.flipped}
    return record


def _score_debate(location: str, result: RunResult[Any], correct: str, answer: str) -> Score:
    from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, Score

    fields: dict[str, Any] = {"answer": answer, "metadata": {_KEY: _record(result)}}
    raw = result.raw
    if not isinstance(raw, DebateRawOutput):
        raise ConfigurationError(location, "pattern", raw, "must be a debate: no other pattern picks a winner")
    sides = dict.fromkeys(event.stance for event in result.events if isinstance(event, TurnStarted))
    if sides and correct not in sides:
        raise ConfigurationError(
            location, "correct", correct, f"must be one of the debate's stances: {join_choices(sides)}"
        )
    if raw.verdict is None:
        return Score.unscored(reason="grader_failed", explanation=f"No verdict. {_describe_end(result)}", **fields)
    explanation = f"{raw.verdict.verdict}\n\n{raw.verdict.reasoning}"
    if raw.verdict.winner is None:
        return Score(value=NOANSWER, reason="undecided", explanation=explanation, **fields)
    value = CORRECT if raw.verdict.winner == correct else INCORRECT
    return Score(value=value, explanation=explanation, **fields)


def _ask_whether_correct(state: TaskState, target: Target) -> str:
    """Write a question asking whether the answer is correct, quoting untrusted text line by line with "> "."""
    parts = {"Task": state.input_text, "Correct answer, or criterion": target.text, "Submitted answer": ""}
    parts["Submitted answer"] = state.output.completion
    sections = [f"{name}:\n{indent(text, '> ', lambda _: True)}" for name, text in parts.items() if text.strip()]
    return "\n\n".join(["Is the submitted answer to this task correct?", *sections])
