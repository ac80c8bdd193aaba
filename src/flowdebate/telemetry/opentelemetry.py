"""OpenTelemetry: spans and metrics that follow the GenAI conventions and need only the API package."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic_core import to_json

from flowdebate import __version__
from flowdebate.chassis.state import RoleFailed, RoundsEnded, TurnStarted
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import (
    Attempt,
    CallFellBack,
    CallRetried,
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    total_usage,
    without_images,
)
from flowdebate.patterns.debate.events import VerdictReached
from flowdebate.runs.events import CallStarted, ModelCalled, RunFinished
from flowdebate.runs.observer import Observer, is_new
from flowdebate.runs.result import RunView
from flowdebate.runs.suspend import Suspended
from flowdebate.telemetry import names

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.util.types import AttributeValue

    from flowdebate.runs.queue_state import DeliveredRun, QueueState


Content = Literal["none", "spans"]
"""Where to export content (prompts, answers, tool arguments and results, explanations of verdicts): nowhere, or in
spans.
"""

TRACEPARENT = "traceparent"  # label that stores the W3C context of a run's first trace

# Buckets recommended by the conventions.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**power for power in range(14))
_WORKFLOW_SECONDS = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)

Attributes = dict[str, "AttributeValue"]


class OpenTelemetry(Observer):
    """Observer that exports runs as spans and metrics: `run(…, observe=OpenTelemetry())`.

    One object serves any number of runs. A provider left as None defaults to the global one. With `content="spans"`,
    spans also contain the text of prompts, answers and tools; by default, no text written by a person or a model leaves
    the process.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: Content = "none",
    ) -> None:
        if content not in ("none", "spans"):
            raise ConfigurationError("OpenTelemetry", "content", content, choices=("none", "spans"))
        self.content = content
        self._tracer = trace.get_tracer(names.SCOPE, __version__, tracer_provider)
        self._meters = _Meters(metrics.get_meter(names.SCOPE, __version__, meter_provider))

    def run(self, run: RunView, labels: dict[str, str], /) -> AbstractContextManager[Observer]:
        return _RunTrace(self._tracer, self._meters, run, labels, with_content=self.content == "spans")

    def submit(self, block: str, run_id: str, labels: dict[str, str], /) -> AbstractContextManager[object]:
        attributes: Attributes = {names.WORKFLOW: block, names.CONVERSATION: run_id}
        span = self._tracer.start_span(f"{names.SUBMIT} {block}", kind=SpanKind.PRODUCER, attributes=attributes)
        _inject(span, labels)
        return _Current(span)

    def deliver(
        self, block: str, run_id: str, labels: dict[str, str], delivered: DeliveredRun, /
    ) -> AbstractContextManager[object]:
        attributes: Attributes = {
            names.WORKFLOW: block,
            names.CONVERSATION: run_id,
            names.QUEUE: delivered.queue,
            names.QUEUE_SECONDS: delivered.seconds,
            names.DELIVERY: delivered.delivery,
            names.WORKER: delivered.worker,
            names.VERSION: delivered.version,
        }
        links = _links(labels, names.SUBMITTED)
        span = self._tracer.start_span(
            f"{names.PROCESS} {block}", kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        return _Delivery(span, first=not delivered.resumed)

    def queue(self, state: QueueState, /) -> None:
        """Record a queue's state in the queue gauges."""
        for version in state.versions:
            attributes: Attributes = {names.QUEUE: state.queue, names.VERSION: version.version}
            self._meters.queued.set(version.waiting + version.put_off, attributes)
            self._meters.oldest.set(version.oldest or 0.0, attributes)
            self._meters.alive.set(version.workers, attributes)
        for status, number in (("rejected", state.rejected), ("dead_letter", state.dead_letters)):
            self._meters.given_up.set(number, {names.QUEUE: state.queue, names.STATUS: status})


class _Meters:
    def __init__(self, meter: metrics.Meter) -> None:
        self.operations = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="Duration of model calls, retries included.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            unit="{token}",
            description="Tokens of model calls, where the server reports them.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.workflows = meter.create_histogram(
            names.WORKFLOW_DURATION,
            unit="s",
            description="Duration of runs in one process.",
            explicit_bucket_boundaries_advisory=_WORKFLOW_SECONDS,
        )
        self.verdicts = meter.create_counter(names.VERDICTS, unit="{verdict}", description="Verdicts reached.")
        self.failures = meter.create_counter(
            names.FAILURES, unit="{failure}", description="Provider failures that runs went on without."
        )
        self.cost = meter.create_counter(
            names.COST,
            unit="{currency}",
            description="Cost of model calls, by known prices in US dollars.",
        )
        self.queued = meter.create_gauge(
            names.QUEUED, unit="{run}", description="Runs that wait in a queue, as each worker sees it."
        )
        self.oldest = meter.create_gauge(
            names.OLDEST, unit="s", description="For how long the oldest run waits for a worker."
        )
        self.alive = meter.create_gauge(names.WORKERS, unit="{worker}", description="Workers that are alive.")
        self.given_up = meter.create_gauge(
            names.GIVEN_UP, unit="{run}", description="Runs that workers have rejected or given up."
        )


class _Current(AbstractContextManager["Any"]):
    """Context manager that makes a span current and ends it.

    If an exception ends the span, `error.type` is set, but the message is not exported. A generator would not work
    here: `contextlib` sets tracebacks, and an application's exception may be frozen.
    """

    def __init__(self, span: Span) -> None:
        self.span = span
        self.error: str | None = None
        self._token: Token[context.Context] | None = None

    def __enter__(self) -> Any:  # noqa: ANN401 - what each kind of span gives
        self._token = context.attach(trace.set_span_in_context(self.span))
        return self.bound_value()

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._token is not None:
            context.detach(self._token)
        self.error = _kind_of(error)
        self.finish()
        _end(self.span, self.error)

    def bound_value(self) -> object:
        """Return the value that `with … as` binds."""
        return None

    def finish(self) -> None:
        """Set the span's final attributes before it ends."""


_FIRST: ContextVar[bool] = ContextVar("flowdebate_first_delivery", default=False)
"""True if a worker is executing the run for the first time rather than resuming it."""


class _Delivery(_Current):
    """Span for the delivery of a run from a worker's queue to the worker."""

    def __init__(self, span: Span, *, first: bool) -> None:
        super().__init__(span)
        self._first = first

    def bound_value(self) -> None:
        # never reset, because it is set in the worker's task for this run, which ends with the run
        _FIRST.set(self._first)


class _Agent(AbstractContextManager[None]):
    """A generator's answer; the span is created at the first model or tool call, so a replayed answer has none."""

    def __init__(self, tracer: trace.Tracer, agent: str, attributes: Attributes) -> None:
        self._tracer = tracer
        self._name = agent
        self._attributes = attributes
        self._began = time.time_ns()
        self._span: Span | None = None
        self._token: Token[_Agent | None] | None = None

    def __enter__(self) -> None:
        self._token = _AGENT.set(self)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._token is not None:
            _AGENT.reset(self._token)
        if self._span is not None:
            _end(self._span, _kind_of(error))

    @property
    def span(self) -> Span:
        """Span of the agent, created on first use, but with the agent's own start time."""
        if self._span is None:
            attributes = {names.OPERATION: names.INVOKE_AGENT, names.AGENT: self._name, **self._attributes}
            self._span = self._tracer.start_span(
                f"{names.INVOKE_AGENT} {self._name}", attributes=attributes, start_time=self._began
            )
        return self._span


# The acting agent, whose span is the parent of its calls and tools.
_AGENT: ContextVar[_Agent | None] = ContextVar("flowdebate_agent", default=None)


class _Chat(_Current):
    """Span for a model call."""

    def __init__(
        self, span: Span, run: _RunTrace, started: CallStarted, request: ModelRequest, attributes: Attributes
    ) -> None:
        super().__init__(span)
        self._run = run
        self._path = started.path
        self._request = request
        self._about = attributes
        """Attributes recorded with the call's metrics."""
        self._began = time.perf_counter()

    def bound_value(self) -> Callable[[ModelResponse], object]:
        self._run.chats[self._path] = self.span
        return self._answered

    def _answered(self, response: ModelResponse) -> None:
        self.span.set_attribute(names.FINISH_REASONS, (response.finish,))
        if response.model:
            self.span.set_attribute(names.RESPONSE_MODEL, response.model)
            self._about[names.RESPONSE_MODEL] = response.model
        if response.id:
            self.span.set_attribute(names.RESPONSE_ID, response.id)
        if response.asked_as:
            self.span.set_attribute(names.ASKED_AS, response.asked_as)
        if response.repaired:
            self.span.set_attribute(names.REPAIRED, response.repaired)
        if self._run.with_content:
            text = response.text
            if response.data is not None and not text:
                text = to_json(response.data, fallback=str, inf_nan_mode="strings").decode()
            calls = [_call(call.id, call.name, call.arguments) for call in response.tool_calls]
            response_attributes = {
                "role": "assistant",
                "parts": [*([_text(text)] if text else []), *calls],
                "finish_reason": response.finish,
            }
            self.span.set_attribute(names.OUTPUT_MESSAGES, _json([response_attributes]))

    def finish(self) -> None:
        self._run.chats.pop(self._path, None)
        # A model name does not identify the provider if the server's address is custom.
        provider, host, port = names.server_names(self._request.attempts.server or "")
        if provider is not None:
            self._about[names.PROVIDER] = provider
        attributes = {names.PROVIDER: provider, names.SERVER_ADDRESS: host, names.SERVER_PORT: port}
        self.span.set_attributes({name: value for name, value in attributes.items() if value is not None})
        attempts = self._request.attempts.made
        usage = total_usage(attempts)
        self.span.set_attribute(names.ATTEMPTS, len(attempts))
        tokens = {
            names.INPUT_TOKENS: usage.prompt_tokens,
            names.CACHED_TOKENS: usage.cached_tokens,
            names.CACHE_WRITTEN_TOKENS: usage.cache_written_tokens,
            names.OUTPUT_TOKENS: usage.completion_tokens,
            names.REASONING_TOKENS: usage.reasoning_tokens,
        }
        self.span.set_attributes({name: count for name, count in tokens.items() if count is not None and attempts})
        for kind, count in (("input", usage.prompt_tokens), ("output", usage.completion_tokens)):
            if count and attempts:
                self._run.meters.tokens.record(count, {**self._about, names.TOKEN_TYPE: kind})
        self._run.count_cost(attempts, self._about)
        failed: Attributes = {} if self.error is None else {names.ERROR: self.error}
        self._run.meters.operations.record(time.perf_counter() - self._began, {**self._about, **failed})


class _ToolSpan(_Current):
    """Span for the execution of a tool."""

    def __init__(self, span: Span, *, with_content: bool) -> None:
        super().__init__(span)
        self._with_content = with_content

    def bound_value(self) -> Callable[[str], object] | None:
        return (lambda result: self.span.set_attribute(names.TOOL_RESULT, result)) if self._with_content else None


class _RunTrace(_Current, Observer):
    """Trace of a run."""

    def __init__(
        self,
        tracer: trace.Tracer,
        meters: _Meters,
        run: RunView,
        labels: dict[str, str],
        *,
        with_content: bool,
    ) -> None:
        self.meters = meters
        self.with_content = with_content
        self.chats: dict[str, Span] = {}
        """Spans of calls in progress, keyed by path."""
        self._tracer = tracer
        self._workflow = str(getattr(run.events[0], "block", "")) if run.events else ""
        self._turns: dict[str, TurnStarted] = {}
        self._sides: dict[str, int] = {}
        self._run = run
        self._ended: RunFinished | None = None
        self._began = time.perf_counter()
        span = tracer.start_span(
            f"{names.INVOKE_WORKFLOW} {self._workflow}",
            links=[*([] if _FIRST.get() else _links(labels, names.RESUMED)), *_links(run.parent_labels, names.FORKED)],
            attributes={
                names.OPERATION: names.INVOKE_WORKFLOW,
                names.WORKFLOW: self._workflow,
                names.CONVERSATION: run.run_id,
                names.SEED: run.seed,
            },
        )
        if TRACEPARENT not in labels:
            _inject(span, labels)
        super().__init__(span)

    def bound_value(self) -> _RunTrace:
        return self

    def count_cost(self, attempts: Sequence[Attempt], attributes: Attributes) -> None:
        """Add the cost of `attempts`, where known, to the cost metric."""
        for attempt in attempts:
            # the application's price function may fail; the run itself raises the error
            with suppress(Exception):
                cost = self._run.cost_of(attempt.model, attempt.usage)
                if cost is not None and cost > 0:
                    self.meters.cost.add(cost, attributes)

    def finish(self) -> None:
        if self._ended is not None:
            self.span.set_attribute(names.STATUS, self._ended.status)
            if self.error is None and self._ended.error is not None:
                self.error = self._ended.error.partition(":")[0]
        replayed = sum(isinstance(event, ModelCalled) and event.replayed for event in self._run.events)
        if replayed:
            self.span.set_attribute(names.REPLAYED_CALLS, replayed)
        attributes: Attributes = {names.WORKFLOW: self._workflow}
        failed: Attributes = {} if self.error is None else {names.ERROR: self.error}
        self.meters.workflows.record(time.perf_counter() - self._began, {**attributes, **failed})

    # The parts of the run

    def agent(self, block: str, path: str, /) -> AbstractContextManager[object]:
        attributes: Attributes = {names.CONVERSATION: self._run.run_id, names.BLOCK: block, names.PATH: path}
        place = path
        while place and place not in self._turns:
            place = place.rpartition("/")[0]
        turn = self._turns.get(place)
        if turn is None:
            return _Agent(self._tracer, block, attributes)
        attributes[names.ROUND] = turn.round
        if turn.phase is not None:
            attributes[names.PHASE] = turn.phase
        return _Agent(self._tracer, turn.agent_name if turn.block == block else block, attributes)

    def call(self, started: CallStarted, request: ModelRequest, /) -> AbstractContextManager[Any]:
        provider, model = names.model_names(started.model)
        request_attributes: Attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: provider,
            names.REQUEST_MODEL: model,
        }
        attributes: Attributes = {
            **request_attributes,
            names.CONVERSATION: self._run.run_id,
            names.OUTPUT_TYPE: "text" if request.output is None else "json",
            names.REQUEST_STREAM: request.on_text is not None,
            names.BLOCK: started.block,
            names.PATH: started.path,
        }
        if (agent := _AGENT.get()) is not None:
            agent.span.set_attribute(names.REQUEST_MODEL, model)
        if request.settings.temperature is not None:
            attributes[names.REQUEST_TEMPERATURE] = request.settings.temperature
        if request.settings.max_tokens is not None:
            attributes[names.REQUEST_MAX_TOKENS] = request.settings.max_tokens
        if self.with_content:
            system = [_text(message.get("content")) for message in request.messages if message.get("role") == "system"]
            chat_messages = [_message(message) for message in request.messages if message.get("role") != "system"]
            attributes[names.INPUT_MESSAGES] = _json(chat_messages)
            if system:
                attributes[names.SYSTEM_INSTRUCTIONS] = _json(system)
        span = self._tracer.start_span(
            f"{names.CHAT} {model}", _within_agent(), kind=SpanKind.CLIENT, attributes=attributes
        )
        return _Chat(span, self, started, request, request_attributes)

    def tool(self, call: ToolCall, path: str, /) -> AbstractContextManager[Any]:
        attributes: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.CONVERSATION: self._run.run_id,
            names.TOOL: call.name,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL: call.id,
            names.PATH: path,
        }
        if self.with_content:
            attributes[names.TOOL_ARGUMENTS] = call.arguments
        span = self._tracer.start_span(f"{names.EXECUTE_TOOL} {call.name}", _within_agent(), attributes=attributes)
        return _ToolSpan(span, with_content=self.with_content)

    # Events

    def event(self, event: object, /) -> None:
        attributes: Attributes
        match event:
            case TurnStarted():
                self._turns[event.path] = event
                if event.stance is not None:
                    self._sides.setdefault(event.stance, len(self._sides) + 1)
            case CallRetried() if event.path in self.chats:
                attributes = {names.ATTEMPT: event.attempt, names.ERROR: event.error, names.WAIT: event.wait}
                self.chats[event.path].add_event(names.RETRIED, attributes)
            case CallFellBack() if event.path in self.chats:
                attributes = {names.FALLBACK: event.to, names.ERROR: event.error}
                self.chats[event.path].add_event(names.FELL_BACK, attributes)
            case RoundsEnded():
                self.span.set_attributes({names.ROUNDS: event.rounds, names.STOP_REASON: event.reason})
            case VerdictReached() if is_new(self._run.events):
                self._verdict(event)
            case RoleFailed() if is_new(self._run.events, event.path):
                attributes = {names.ROLE: event.role, names.RECOVERY: event.instead, names.ERROR: event.error}
                self.span.add_event(names.ROLE_FAILED, {**attributes, names.BLOCK: event.block, names.PATH: event.path})
                self.meters.failures.add(1, {names.WORKFLOW: self._workflow, **attributes})
            case RunFinished():
                self._ended = event

    def _verdict(self, reached: VerdictReached) -> None:
        verdict = reached.verdict
        judging, winner = verdict.judging, verdict.winner
        sides = dict(self._sides)
        if judging is not None and winner in judging.scores:  # in the order in which the sides were declared
            sides = {side: number for number, side in enumerate(judging.scores, start=1)}
        label = "none" if winner is None else f"side {sides[winner]}" if winner in sides else "other"
        flipped = judging is not None and judging.flipped
        attributes: Attributes = {
            names.EVALUATION: names.VERDICT,
            names.EVALUATION_LABEL: label,
            names.FLIPPED: flipped,
            names.BLOCK: reached.block,
        }
        if judging is not None and winner in judging.scores:
            attributes[names.EVALUATION_VALUE] = float(judging.scores[winner])
        if self.with_content:
            attributes[names.EVALUATION_EXPLANATION] = verdict.reasoning
        self.span.add_event(names.EVALUATION_RESULT, attributes)
        self.meters.verdicts.add(1, {names.WORKFLOW: self._workflow, names.WINNER: label, names.FLIPPED: flipped})


def _within_agent() -> context.Context | None:
    """Return a context in which new spans have the acting agent's span as their parent; None if no agent is acting."""
    agent = _AGENT.get()
    return None if agent is None else trace.set_span_in_context(agent.span)


def _kind_of(error: BaseException | None) -> str | None:
    """Return the `error.type` of an activity that ended with `error`, or None if it did not fail."""
    if error is None or isinstance(error, Suspended):
        return None
    return names.CANCELLED if isinstance(error, asyncio.CancelledError) else type(error).__name__


def _end(span: Span, error: str | None) -> None:
    if error is not None:
        span.set_attribute(names.ERROR, error)
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _inject(span: Span, labels: dict[str, str]) -> None:
    """Add the trace context of `span` to `labels`, if the span has one."""
    if span.get_span_context().is_valid:
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(span))
        labels[TRACEPARENT] = carrier[TRACEPARENT]


def _links(labels: Mapping[str, str], kind: str) -> list[Link]:
    """Return a link to the trace in `labels`, if any."""
    carrier = {TRACEPARENT: str(labels.get(TRACEPARENT, ""))}
    parent = TraceContextTextMapPropagator().extract(carrier, context.Context())
    first = trace.get_current_span(parent).get_span_context()
    return [Link(first, {names.LINK: kind})] if first.is_valid else []


# Content of calls: messages in the conventions' JSON form


def _message(message: Message) -> dict[str, Any]:
    if message.get("role") == "tool":
        answered = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}
        return {"role": "tool", "parts": [answered]}
    parts = [_text(message["content"])] if message.get("content") else []
    functions = [(call.get("id"), call.get("function") or {}) for call in message.get("tool_calls") or ()]
    calls = [_call(key, function.get("name"), function.get("arguments")) for key, function in functions]
    return {"role": message.get("role"), "parts": [*parts, *calls]}


def _call(key: object, name: object, arguments: object) -> dict[str, Any]:
    return {"type": "tool_call", "id": key, "name": name, "arguments": arguments}


def _text(content: object) -> dict[str, Any]:
    return {"type": "text", "content": without_images(content)}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
