"""AG-UI endpoint: a POST starts a run of a pattern, or answers a waiting run, and streams it as AG-UI 1.0 events."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import Any, Literal

from ag_ui import core as ag_ui
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import Response  # noqa: TC002 - FastAPI reads it

from flowdebate import _text, errors
from flowdebate._text import problems_of
from flowdebate.chassis.state import RoundsEnded, RoundStarted, TurnFinished
from flowdebate.errors import ConfigurationError, FlowDebateError, OutputError
from flowdebate.events import changes, wire_of
from flowdebate.models.base import Usage
from flowdebate.patterns import find_pattern
from flowdebate.resources.tasks import TaskChanged
from flowdebate.runs.events import (
    BlockAnswered,
    ModelCalled,
    RunFinished,
    RunStarted,
    TextDelta,
    TextWithdrawn,
    ToolCalled,
)
from flowdebate.server.front import FrontOf, ServiceOf
from flowdebate.server.guard import owner_of
from flowdebate.server.protocols.chat_request import read_chat
from flowdebate.server.protocols.streams import PING, Reader, data_frame
from flowdebate.server.requests import check_data
from flowdebate.server.sse import EventStream
from flowdebate.service.channel import Update
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.service.state import RunDetails, RunState
from flowdebate.ui.speech import Closed, Opened, Piece, Speech, Spoken

OWN = "flowdebate"
"""Prefix of this library's names. It is also the key for the library's data in metadata and state, alongside the
application's own keys.
"""
_TOLD = (RunStarted, RunFinished, TextDelta, TextWithdrawn, BlockAnswered, TurnFinished)
"""Events that need no translation of their own, because AG-UI messages or the run's first and last events
cover them.
"""
_LOOP = re.compile(r"/(?:round|turn)\[\d+\]$")


class AgUi:
    """Translator from a run's updates to the events of an AG-UI run.

    Call `start`, then `translate` for every update from the run's first one onward, and finally `finish`; the resulting
    events always form a valid sequence. `thread_id` and `run_id` identify the AG-UI run. `state` is the application's
    state, whose keys are left unchanged. `messages` are the messages that the client already has; they are not sent
    again.
    """

    def __init__(
        self, *, thread_id: str, run_id: str, state: object = None, messages: Sequence[ag_ui.Message] = ()
    ) -> None:
        self._ids = {"thread_id": thread_id, "run_id": run_id}
        self._state: dict[str, Any] = dict(state) if isinstance(state, dict) else {}
        self._text = list(messages)
        # After an interrupt, updates start over from the beginning, so skip the messages sent in the previous AG-UI
        # run.
        self._known = {message.id.rpartition("~")[0] for message in messages}
        self._known |= {message.tool_call_id for message in messages if isinstance(message, ag_ui.ToolMessage)}
        self.earlier_calls: int = 0
        """Number of model calls made before this AG-UI run, and not counted in its usage."""
        self.first: list[ag_ui.BaseEvent] = []
        """Events to send immediately after the initial ones."""
        self.problems: dict[str, str] = {}
        """Reasons why answers were rejected, keyed by the path of the request."""
        self._run = ""
        self._life = ""
        """Marker added to message ids after each reset, so that they differ from the ids of withdrawn messages."""
        self._forget()

    def _forget(self) -> None:
        self._speech = Speech()
        self._open: dict[str, str] = {}  # message ids, keyed by utterance
        self._last: dict[str, str] = {}  # id of each block's last message; the block's tool calls belong to it
        self._steps: dict[str, str] = {}  # names of open steps, keyed by the path of their pattern
        self._numbers: Counter[str] = Counter()
        self._collections: set[str] = set()
        self._calls = 0
        self._usage: defaultdict[str, Usage] = defaultdict(Usage.zero)

    def start(self, run: RunState) -> Iterator[ag_ui.BaseEvent]:
        """Emit the first events: the start of the run, and its state."""
        self._run, ids = run.run_id, {"runId": run.run_id}
        self._state |= {OWN: {**ids, "pattern": run.pattern, "question": run.question, "tasks": {}}}
        yield ag_ui.RunStartedEvent(**self._ids, protocol_version=ag_ui.PROTOCOL_VERSION, metadata={OWN: ids})
        yield ag_ui.StateSnapshotEvent(snapshot=self._state)
        yield from self.first

    def finish(self, details: RunDetails) -> Iterator[ag_ui.BaseEvent]:
        """Emit the last events of a finished or suspended run, closing open items and reporting the outcome.

        A run ended by cancellation or a limit has the outcome "cancelled"; a failed run ends with a RUN_ERROR event
        whose code is the error class.
        """
        yield from self._close_all()
        match details.status:
            case "complete" | "degraded" | "no_verdict":
                document = None if details.document is None else details.document.to_data()
                result = {"runId": details.run_id, "status": details.status, "document": document}
                yield self._finished(ag_ui.RunFinishedSuccessOutcome(), result=result)
            case "awaiting" if details.pending:
                interrupts = []
                for request in details.pending:
                    problem = self.problems.get(request.place) or request.problem
                    interrupt = ag_ui.Interrupt(
                        id=request.place,
                        reason="human_input",
                        message="\n\n".join(filter(None, [problem, request.to_read, request.expects])),
                        response_schema=request.answer_schema,
                        metadata={OWN: {"runId": details.run_id, "block": request.block, "expects": request.expects}},
                    )
                    interrupts.append(interrupt)
                yield self._finished(ag_ui.RunFinishedInterruptOutcome(interrupts=interrupts))
            case "interrupted" | "limit":
                yield custom_event("ended", {"status": details.status, "error": details.error})
                yield self._finished(ag_ui.RunFinishedCancelledOutcome())
            case "failed" | "rejected" | "dead_letter":
                yield self._failed(details.error or "the run failed")
            case _:
                yield self._failed("the stream has ended, but the run continues", code=details.status)

    def fail(self, error: Exception) -> Iterator[ag_ui.BaseEvent]:
        """Emit the closing events of a stream whose run can no longer be read."""
        yield from self._close_all()
        yield self._failed(_text.error_text(error))

    def _finished(self, outcome: ag_ui.RunFinishedOutcome, *, result: object = None) -> ag_ui.BaseEvent:
        return ag_ui.RunFinishedEvent(**self._ids, outcome=outcome, result=result, usage=self._used())

    def _failed(self, message: str, *, code: str | None = None) -> ag_ui.BaseEvent:
        # Error messages begin with the error class, which is not stored separately.
        name = message.partition(":")[0]
        code = code or (name if name in errors.__all__ else "failed")
        return ag_ui.RunErrorEvent(message=message, code=code, usage=self._used())

    def _used(self) -> list[ag_ui.TokenUsage] | None:
        """Return each model's token counts; a name of the form provider/model is split at the slash."""
        return [
            ag_ui.TokenUsage(
                provider=model.partition("/")[0] if "/" in model else None,
                model=model.partition("/")[2] or model,
                input_tokens=usage.prompt_tokens,
                cached_input_tokens=usage.cached_tokens,
                cache_write_input_tokens=usage.cache_written_tokens,
                output_tokens=usage.completion_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                total_tokens=usage.total_tokens,
            )
            for model, usage in self._usage.items()
            if usage.prompt_tokens is not None
        ] or None

    def _close_all(self) -> Iterator[ag_ui.BaseEvent]:
        for closed in self._speech.end():
            yield from self._convert_speech(closed)
        for name in self._steps.values():
            yield ag_ui.StepFinishedEvent(step_name=name)
        self._steps.clear()

    def translate(self, update: Update) -> Iterator[ag_ui.BaseEvent]:
        if update.kind == "reset":  # withdraw messages already sent; the client keeps its own messages
            yield from self._close_all()
            self._forget()
            self._life += "r"
            yield ag_ui.MessagesSnapshotEvent(messages=self._text)
            yield ag_ui.StateSnapshotEvent(snapshot=self._state)
        elif update.event is not None:
            for spoken in self._speech.of(update.event, update.start):
                yield from self._convert_speech(spoken)
            yield from self._convert_event(update.event)

    def _convert_event(self, event: object) -> Iterator[ag_ui.BaseEvent]:
        match event:
            case RoundStarted():
                # Nested patterns can have several open steps, but AG-UI identifies steps by name only.
                scope = _LOOP.sub("", event.path.rpartition("/")[0])
                yield from self._end_step(scope)
                name = f"round {event.round}"
                self._steps[scope] = f"{name} of {scope}" if name in self._steps.values() else name
                yield ag_ui.StepStartedEvent(step_name=self._steps[scope], timestamp=_milliseconds(event.at))
            case TaskChanged():
                names = (event.collection_id, event.task.id)
                collection, task = (
                    part.replace("~", "~0").replace("/", "~1") for part in names
                )  # escaped for JSON Pointer
                board = f"/{OWN}/tasks/{collection}"
                patch: list[Any] = [{"op": "add", "path": f"{board}/{task}", "value": wire_of(event)["task"]}]
                if collection not in self._collections:
                    self._collections.add(collection)
                    # A patch that adds something under a missing parent is rejected as a whole.
                    patch.insert(0, {"op": "add", "path": board, "value": {}})
                yield ag_ui.StateDeltaEvent(delta=patch, timestamp=_milliseconds(event.at))
            case ToolCalled():
                yield from self._tool(event)
            case ModelCalled():
                # Replayed calls come first, and the previous run has already reported them.
                if self._calls >= self.earlier_calls:
                    self._usage[event.model] += event.usage
                self._calls += event.usage.calls
            case _ if isinstance(event, _TOLD) or getattr(event, "repeats_speech", False):
                pass
            case _ if isinstance(event, changes()):
                if isinstance(event, RoundsEnded):
                    yield from self._end_step(event.path)
                content = wire_of(event)
                kind = content.pop("kind")
                yield ag_ui.ActivitySnapshotEvent(
                    message_id=self._numbered(f"{event.path}/{kind}"),
                    activity_type=f"{OWN}.{kind}",
                    content=content,
                    timestamp=_milliseconds(event.at),
                )
            case _:
                content = wire_of(event)
                yield custom_event(content.pop("kind"), content)

    def _end_step(self, path: str) -> Iterator[ag_ui.BaseEvent]:
        """End the innermost open step at, above or below `path`, if there is one."""
        around = [at for at in self._steps if f"{path}/".startswith(f"{at}/") or at.startswith(f"{path}/")]
        if around:
            yield ag_ui.StepFinishedEvent(step_name=self._steps.pop(max(around, key=len)))

    def _numbered(self, place: str) -> str:
        self._numbers[place] += 1
        return f"{self._run}/{place}~{self._numbers[place]}"

    def _convert_speech(self, spoken: Spoken) -> Iterator[ag_ui.BaseEvent]:
        match spoken:
            case Opened() if f"{self._run}/{spoken.path}" not in self._known:
                place, _, number = spoken.id.rpartition("~")
                message = self._open[spoken.id] = self._last[spoken.path] = f"{self._run}/{place}~{self._life}{number}"
                fields: dict[str, Any] = {"block": spoken.block, "path": spoken.path}
                if (turn := spoken.turn) is not None:
                    fields |= {"round": turn.round, "stance": turn.stance, "phase": turn.phase, "target": turn.target}
                yield ag_ui.TextMessageStartEvent(
                    message_id=message,
                    role="assistant",
                    name=spoken.block if turn is None else turn.agent_name,
                    timestamp=_milliseconds(spoken.at),
                    metadata={OWN: {key: value for key, value in fields.items() if value is not None}},
                )
            case Piece() if spoken.id in self._open:
                yield ag_ui.TextMessageContentEvent(message_id=self._open[spoken.id], delta=spoken.text)
            case Closed() if spoken.id in self._open:
                void = None if spoken.void is None else {OWN: {"void": spoken.void}}
                yield ag_ui.TextMessageEndEvent(message_id=self._open.pop(spoken.id), metadata=void)

    def _tool(self, event: ToolCalled) -> Iterator[ag_ui.BaseEvent]:
        call, text = self._numbered(f"{event.path}/{event.tool}"), self._last.get(event.path)
        if call not in self._known:
            yield ag_ui.ToolCallStartEvent(
                tool_call_id=call, tool_call_name=event.tool, parent_message_id=text, timestamp=_milliseconds(event.at)
            )
            yield ag_ui.ToolCallArgsEvent(tool_call_id=call, delta=event.arguments)
            yield ag_ui.ToolCallEndEvent(tool_call_id=call)
            yield ag_ui.ToolCallResultEvent(message_id=f"{call}/result", tool_call_id=call, content=event.result)


def custom_event(kind: str, value: Mapping[str, Any]) -> ag_ui.BaseEvent:
    """Build a custom event for something not covered by AG-UI."""
    return ag_ui.CustomEvent(name=f"{OWN}.{kind}", value=value)


def _milliseconds(at: float) -> int:
    return round(at * 1000)


_WHERE = "AG-UI run"
_THREAD = "ag_ui_thread"
"""Label for storing a run's AG-UI thread id."""
_MAX_ID_LENGTH = 200

router: APIRouter = APIRouter(prefix="/ag-ui", include_in_schema=False)


class _Props(BaseModel):
    """Contents of `forwardedProps.flowdebate`: plan file options, and whether to continue after a disconnect."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    options: dict[str, Any] = {}
    seed: int | None = None
    onDisconnect: Literal["cancel", "continue"] = "cancel"  # noqa: N815 - as on the wire


@router.post("/{pattern}")
async def ag_ui_run(
    pattern: str, body: ag_ui.RunAgentInput, request: Request, front: FrontOf, service: ServiceOf
) -> Response:
    """Start a run from the last message in a thread, or answer the thread's run if it is waiting for humans."""
    front.check_writable()
    is_registered = pattern in front.service.patterns
    info = None if is_registered or not front.service.plans else find_pattern(pattern)
    if not is_registered and info is None:
        raise HTTPException(404, "There is no pattern with this name.")
    props = _read_props(body)
    ui = AgUi(thread_id=body.thread_id, run_id=body.run_id, state=body.state, messages=body.messages)
    latest = (await service.runs(pattern=pattern, labels={_THREAD: body.thread_id}, limit=1)).runs
    if latest and latest[0].status == "awaiting":
        # AG-UI clients answer an interrupt by starting a new run in the thread; here, the same run is continued
        run = latest[0]
        await _answer(await service.run(run.run_id), body, service, ui)
    elif body.resume:
        raise HTTPException(409, "None of this thread's runs is waiting for an answer.")
    else:
        chat = [(f"{context_item.description}:", context_item.value) for context_item in body.context or ()]
        chat += [(getattr(message, "name", None) or message.role, _text_of(message)) for message in body.messages]
        role = body.messages[-1].role if body.messages else None
        values, question = read_chat(chat, role, info, location=_WHERE, options=props.options)
        key = json.dumps([owner_of(request.scope), body.thread_id, body.run_id])
        run = await service.begin(
            pattern,
            question,
            options={**values, **props.options} or None,
            # Derived from the input, so a repeated request attaches to the same run.
            run_id=f"agui-{sha256(key.encode()).hexdigest()[:32]}",
            seed=props.seed,
            labels={_THREAD: body.thread_id},
            check=front.check_options,
        )
        if run.status == "interrupted":
            await service.resume(run.run_id)
    reader = front.audience.join(service, run.run_id, cancel=props.onDisconnect == "cancel")
    return EventStream(_frames(ui, run.run_id, service, reader), ended=reader.leave)


def _read_props(body: ag_ui.RunAgentInput) -> _Props:
    """Read the part of the input meant for this library; raise ConfigurationError for invalid values and ids."""
    try:
        check_data(body.model_dump(mode="json", by_alias=True))
    except ValueError as error:
        raise ConfigurationError(_WHERE, "body", None, str(error)) from None
    for field, value in (("threadId", body.thread_id), ("runId", body.run_id)):
        if not 0 < len(value) <= _MAX_ID_LENGTH or not value.isprintable():
            raise ConfigurationError(
                _WHERE, field, value, f"must be text of at most {_MAX_ID_LENGTH} printable characters"
            )
    properties = body.forwarded_props
    try:
        return _Props.model_validate(properties.get(OWN, {}) if isinstance(properties, dict) else {})
    except ValidationError as error:
        field, problem = problems_of(error)[0]
        name = f"forwardedProps.{OWN}.{field}"
        raise ConfigurationError(_WHERE, name, None, problem) from None


def _text_of(message: ag_ui.Message) -> str:
    """Return a message's text without its images; return "" for tool, reasoning and activity messages."""
    if isinstance(message, (ag_ui.ToolMessage, ag_ui.ActivityMessage, ag_ui.ReasoningMessage)):
        return ""
    if isinstance(message.content, list):
        return "\n".join(part.text for part in message.content if isinstance(part, ag_ui.TextPart))
    return message.content or ""


async def _answer(waiting: RunDetails, body: ag_ui.RunAgentInput, service: Service | OwnedService, ui: AgUi) -> None:
    """Submit the answers and resume the run, which requests missing or invalid answers again."""
    ui.earlier_calls = 0 if waiting.usage is None else waiting.usage.calls
    open_places, answered = {request.place for request in waiting.pending}, False
    for entry in body.resume or ():
        if entry.interrupt_id not in open_places:
            ui.first.append(custom_event("ignored", {"interruptId": entry.interrupt_id}))
        elif entry.status == "cancelled":
            await service.cancel(waiting.run_id)
            return
        else:
            try:
                await service.answer(waiting.run_id, entry.payload, place=entry.interrupt_id, resume=False)
                answered = True
            except OutputError as error:
                ui.problems[entry.interrupt_id] = str(error)
    if answered and not ui.problems:
        await service.resume(waiting.run_id)


async def _frames(ui: AgUi, run_id: str, service: Service | OwnedService, reader: Reader) -> AsyncGenerator[bytes]:
    """Yield the frames of the stream, from RUN_STARTED to the last event."""

    def frames(events: Iterator[ag_ui.BaseEvent]) -> bytes:
        return b"".join(data_frame(event.model_dump(mode="json", by_alias=True)) for event in events)

    try:
        yield frames(ui.start(await service.run(run_id)))
        async with aclosing(reader.updates()) as updates:
            async for update in updates:
                if chunk := PING if update is None else frames(ui.translate(update)):
                    yield chunk
        yield frames(ui.finish(await service.run(run_id)))
    except FlowDebateError as error:
        yield frames(ui.fail(error))
