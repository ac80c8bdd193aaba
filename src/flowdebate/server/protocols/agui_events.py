"""AG-UI events of a run: a pure translation of its updates to version 1.0 of the protocol."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ag_ui import core as ag_ui

from flowdebate import errors
from flowdebate.events import changes, wire_of
from flowdebate.models.usage import Usage
from flowdebate.patterns.consensus.events import AgentMessage
from flowdebate.patterns.events import RoundsEnded, RoundStarted, TurnFinished
from flowdebate.resources.tasks import TaskChanged
from flowdebate.runs.events import BlockAnswered, ModelCalled, RunFinished, RunStarted, TextDelta, ToolCalled
from flowdebate.service.documents.speech import Closed, Opened, Piece, Speech

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate._util.wire import BaseEvent
    from flowdebate.service.channel import Update
    from flowdebate.service.documents.speech import Spoken
    from flowdebate.service.state import PendingInput, RunDetails, RunState


_OWN = "flowdebate"
"""Prefix of names; key in metadata and in the state."""
_TOLD = (RunStarted, RunFinished, TextDelta, BlockAnswered, TurnFinished, AgentMessage)
"""Events without an event of their own: messages, and the first and the last event, say the same."""
_LOOP = re.compile(r"(.+)/(?:round|turn)\[\d+\]")


class AgUi:
    """Translates the updates of one run to the events of one AG-UI run.

    `start`, then `translate` for each update from the first one on, then `finish`: the events together are a valid
    sequence, whatever the updates are. `thread_id` and `run_id` are the AG-UI run's own. `state` is that of the
    application, which keeps its keys. `messages` are those that the client has; what is said there is not sent again.
    `earlier_calls` is the number of model calls before the AG-UI run, which its usage leaves out.
    """

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        state: object = None,
        messages: Sequence[ag_ui.Message] = (),
        earlier_calls: int = 0,
    ) -> None:
        self._ids = {"thread_id": thread_id, "run_id": run_id}
        self._state: dict[str, Any] = dict(state) if isinstance(state, dict) else {}
        self._messages = list(messages)
        self._known = {each.id.rpartition("~")[0] for each in messages}
        self._known |= {each.tool_call_id for each in messages if isinstance(each, ag_ui.ToolMessage)}
        self._earlier_calls = earlier_calls
        self._run = ""
        self._resets = 0
        self._forget()

    def _forget(self) -> None:
        self._speech = Speech()
        self._open: dict[str, str] = {}
        """The ids of the open messages, by utterance."""
        self._last: dict[str, str] = {}
        """The id of the last message of each block, by its place."""
        self._steps: dict[str, str] = {}
        """The names of the open steps, by the place of their pattern."""
        self._numbers: Counter[str] = Counter()
        self._collections: set[str] = set()
        self._calls = 0
        self._usage: dict[str, Usage] = {}
        """By model."""

    # The run

    def start(self, run: RunState) -> Iterator[ag_ui.BaseEvent]:
        """The first events: the run has started, and its state."""
        self._run = run.run_id
        self._state = {**self._state, _OWN: {"runId": run.run_id, "pattern": run.pattern, "question": run.question}}
        yield ag_ui.RunStartedEvent(
            **self._ids, protocol_version=ag_ui.PROTOCOL_VERSION, metadata={_OWN: {"runId": run.run_id}}
        )
        yield self._state_snapshot()

    def finish(self, details: RunDetails, *, problems: Mapping[str, str] | None = None) -> Iterator[ag_ui.BaseEvent]:
        """The last events, for a run that has ended or is suspended: everything open is closed, and it has an outcome.

        Limits and cancellation are the outcome "cancelled"; a failure is RUN_ERROR, with the class as its code.
        `problems` are those of answers that were not accepted, by their places.
        """
        yield from self._close_all()
        match details.status:
            case "complete" | "degraded" | "no_verdict":
                yield self._finished(ag_ui.RunFinishedSuccessOutcome(), result=_result(details))
            case "awaiting" if details.pending:
                refused = problems or {}
                asked = [_interrupt(details.run_id, each, refused.get(each.place)) for each in details.pending]
                yield self._finished(ag_ui.RunFinishedInterruptOutcome(interrupts=asked))
            case "interrupted" | "limit":
                yield custom_event("ended", {"status": details.status, "error": details.error})
                yield self._finished(ag_ui.RunFinishedCancelledOutcome())
            case "failed" | "dead_letter":
                yield self._failed(details.error or "the run failed")
            case _:
                yield self._failed("the run goes on without this stream", code=details.status)

    def fail(self, error: Exception) -> Iterator[ag_ui.BaseEvent]:
        """The last events where the run cannot be followed any further."""
        yield from self._close_all()
        yield self._failed(errors.error_text(error))

    def _finished(self, outcome: ag_ui.RunFinishedOutcome, *, result: object = None) -> ag_ui.BaseEvent:
        return ag_ui.RunFinishedEvent(**self._ids, outcome=outcome, result=result, usage=self._usage_entries())

    def _failed(self, message: str, *, code: str | None = None) -> ag_ui.BaseEvent:
        name = message.partition(":")[0]
        code = code or (name if name in errors.__all__ else "failed")
        return ag_ui.RunErrorEvent(message=message, code=code, usage=self._usage_entries())

    def _usage_entries(self) -> list[ag_ui.TokenUsage] | None:
        counted = {model: usage for model, usage in self._usage.items() if usage.prompt_tokens is not None}
        return [_token_usage(model, usage) for model, usage in counted.items()] or None

    def _close_all(self) -> Iterator[ag_ui.BaseEvent]:
        for closed in self._speech.end():
            yield from self._say(closed)
        for name in self._steps.values():
            yield ag_ui.StepFinishedEvent(step_name=name)
        self._steps.clear()

    # Updates

    def translate(self, update: Update) -> Iterator[ag_ui.BaseEvent]:
        """The events of one update."""
        if update.kind == "reset":
            yield from self._reset()
        elif update.event is not None:
            for spoken in self._speech.of(update.event, update.start):
                yield from self._say(spoken)
            yield from self._tell(update.event)

    def _reset(self) -> Iterator[ag_ui.BaseEvent]:
        """Take back what was sent: the client keeps the messages that it came with."""
        yield from self._close_all()
        self._forget()
        self._resets += 1
        yield ag_ui.MessagesSnapshotEvent(messages=self._messages)
        yield self._state_snapshot()

    def _tell(self, event: Any) -> Iterator[ag_ui.BaseEvent]:  # noqa: ANN401 - any event
        match event:
            case RoundStarted():
                yield from self._step(event)
            case TaskChanged():
                yield self._task(event)
            case ToolCalled():
                yield from self._tool(event)
            case ModelCalled():
                self._count(event)
            case _ if isinstance(event, _TOLD):
                pass
            case _ if isinstance(event, changes()):
                if isinstance(event, RoundsEnded):
                    yield from self._end_step(event.path)
                yield self._activity(event)
            case _:
                content = wire_of(event)
                yield custom_event(content.pop("kind"), content)

    def _activity(self, event: BaseEvent) -> ag_ui.BaseEvent:
        content = wire_of(event)
        return ag_ui.ActivitySnapshotEvent(
            message_id=self._numbered(f"{event.path}/{content['kind']}"),
            activity_type=f"{_OWN}.{content.pop('kind')}",
            content=content,
            timestamp=_milliseconds(event.at),
        )

    def _numbered(self, place: str) -> str:
        self._numbers[place] += 1
        return f"{self._run}/{place}~{self._numbers[place]}"

    # What is said

    def _say(self, spoken: Spoken) -> Iterator[ag_ui.BaseEvent]:
        match spoken:
            case Opened():
                place = f"{self._run}/{spoken.path}"
                if place not in self._known:
                    number = spoken.id.rpartition("~")[2]
                    life = f"{self._resets}." if self._resets else ""
                    self._open[spoken.id] = self._last[spoken.path] = f"{place}~{life}{number}"
                    yield _message_start(self._open[spoken.id], spoken)
            case Piece():
                if spoken.id in self._open:
                    yield ag_ui.TextMessageContentEvent(message_id=self._open[spoken.id], delta=spoken.text)
            case Closed():
                if spoken.id in self._open:
                    void = None if spoken.void is None else {_OWN: {"void": spoken.void}}
                    yield ag_ui.TextMessageEndEvent(message_id=self._open.pop(spoken.id), metadata=void)

    def _tool(self, event: ToolCalled) -> Iterator[ag_ui.BaseEvent]:
        call = self._numbered(f"{event.path}/{event.tool}")
        if call in self._known:
            return
        yield ag_ui.ToolCallStartEvent(
            tool_call_id=call,
            tool_call_name=event.tool,
            parent_message_id=self._last.get(event.path),
            timestamp=_milliseconds(event.at),
        )
        yield ag_ui.ToolCallArgsEvent(tool_call_id=call, delta=event.arguments)
        yield ag_ui.ToolCallEndEvent(tool_call_id=call)
        yield ag_ui.ToolCallResultEvent(message_id=f"{call}/result", tool_call_id=call, content=event.result)

    # Steps and state

    def _step(self, event: RoundStarted) -> Iterator[ag_ui.BaseEvent]:
        scope = event.path.rpartition("/")[0]
        if (loop := _LOOP.fullmatch(scope)) is not None:
            scope = loop[1]
        yield from self._end_step(scope)
        name = f"round {event.round}"
        if name in self._steps.values():
            name = f"{name} of {scope}"
        self._steps[scope] = name
        yield ag_ui.StepStartedEvent(step_name=name, timestamp=_milliseconds(event.at))

    def _end_step(self, path: str) -> Iterator[ag_ui.BaseEvent]:
        """End the step of the innermost pattern around `path`, or else of that below it."""
        around = [at for at in self._steps if f"{path}/".startswith(f"{at}/") or at.startswith(f"{path}/")]
        if around:
            yield ag_ui.StepFinishedEvent(step_name=self._steps.pop(max(around, key=len)))

    def _state_snapshot(self) -> ag_ui.BaseEvent:
        return ag_ui.StateSnapshotEvent(snapshot={**self._state, _OWN: {**self._state[_OWN], "tasks": {}}})

    def _task(self, event: TaskChanged) -> ag_ui.BaseEvent:
        board = f"/{_OWN}/tasks/{_pointer(event.collection_id)}"
        place = f"{board}/{_pointer(event.task.id)}"
        patch: list[Any] = [{"op": "add", "path": place, "value": wire_of(event)["task"]}]
        if event.collection_id not in self._collections:
            self._collections.add(event.collection_id)
            patch.insert(0, {"op": "add", "path": board, "value": {}})
        return ag_ui.StateDeltaEvent(delta=patch, timestamp=_milliseconds(event.at))

    def _count(self, event: ModelCalled) -> None:
        before, self._calls = self._calls, self._calls + event.usage.calls
        if before >= self._earlier_calls:
            self._usage[event.model] = self._usage.get(event.model, Usage.none()) + event.usage


def _message_start(message_id: str, opened: Opened) -> ag_ui.BaseEvent:
    turn = opened.turn
    about: dict[str, Any] = {"block": opened.block, "path": opened.path}
    if turn is not None:
        about |= {"round": turn.round, "stance": turn.stance, "phase": turn.phase, "target": turn.target}
    return ag_ui.TextMessageStartEvent(
        message_id=message_id,
        role="assistant",
        name=opened.block if turn is None else turn.agent_name,
        timestamp=_milliseconds(opened.at),
        metadata={_OWN: {key: value for key, value in about.items() if value is not None}},
    )


def custom_event(kind: str, value: dict[str, Any]) -> ag_ui.BaseEvent:
    """An event of ours that AG-UI has no name for."""
    return ag_ui.CustomEvent(name=f"{_OWN}.{kind}", value=value)


def _result(details: RunDetails) -> dict[str, Any]:
    document = None if details.document is None else details.document.to_data()
    return {"runId": details.run_id, "status": details.status, "document": document}


def _interrupt(run_id: str, pending: PendingInput, problem: str | None) -> ag_ui.Interrupt:
    problem = problem or pending.problem
    before = "" if problem is None else f"{problem}\n\n"
    return ag_ui.Interrupt(
        id=pending.place,
        reason="human_input",
        message=f"{before}{pending.shown}\n\n{pending.expects}",
        response_schema=pending.answer_schema,
        metadata={_OWN: {"runId": run_id, "block": pending.block, "expects": pending.expects}},
    )


def _token_usage(model: str, usage: Usage) -> ag_ui.TokenUsage:
    provider, _, name = model.partition("/")
    return ag_ui.TokenUsage(
        provider=provider if name else None,
        model=name or provider,
        input_tokens=usage.prompt_tokens,
        cached_input_tokens=usage.cached_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
    )


def _pointer(key: str) -> str:
    """`key` as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _milliseconds(at: float) -> int:
    return round(at * 1000)
