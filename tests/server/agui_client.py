"""Client for AG-UI 1.0 that stores messages and checks every rule of the protocol."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ag_ui import core as ag_ui
from pydantic import BaseModel, TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Iterable

_EVENTS: TypeAdapter[Any] = TypeAdapter(ag_ui.Event)


class AgUiClient:
    """Client that reads the events of a run and raises AssertionError at the first violation."""

    def __init__(self, thread_id: str = "thread", run_id: str = "run", *, before: AgUiClient | None = None) -> None:
        self.ids = thread_id, run_id
        self.messages: dict[str, dict[str, Any]] = {} if before is None else before.messages
        """Messages by id, in order, including those of the previous run."""
        self.activities: dict[str, dict[str, Any]] = {} if before is None else before.activities
        self.state: Any = {} if before is None else before.state
        self.custom: list[tuple[str, Any]] = []
        self.steps: list[str] = []
        self.calls: dict[str, dict[str, Any]] = {}
        self.finished: dict[str, Any] | None = None
        """The last event."""
        self._started = False
        self._open: dict[str, str] = {}
        """Kinds of open items by id."""

    def read(self, events: Iterable[BaseModel | dict[str, Any]]) -> AgUiClient:
        """Read all events of a run."""
        for event in events:
            self.take(event if isinstance(event, dict) else event.model_dump(by_alias=True, mode="json"))
        assert self.finished is not None, "the stream ends without a last event"
        return self

    def take(self, wire: dict[str, Any]) -> None:
        """Read an event in its wire format."""
        json.dumps(wire, allow_nan=False)
        event = _EVENTS.validate_python(wire)
        _has_only_known_fields(event)
        assert self.finished is None, f"{event.type} after the end of the run"
        assert self._started or event.type in ("RUN_STARTED", "RUN_ERROR"), f"{event.type} comes first"
        getattr(self, f"_{event.type.value.lower()}")(event)

    def history(self) -> list[Any]:
        """Return the conversation as input for the next run."""
        return [
            ag_ui.AssistantMessage(id=message["id"], role="assistant", content=message["content"], name=message["name"])
            for message in self.messages.values()
        ]

    def said(self) -> list[tuple[str, str]]:
        """Return the speakers and text of all messages that are not void."""
        return [
            (message["name"], message["content"])
            for message in self.messages.values()
            if "void" not in message["about"]
        ]

    # one method per event

    def _run_started(self, event: Any) -> None:
        assert not self._started, "the run starts twice"
        assert (event.thread_id, event.run_id) == self.ids
        assert event.protocol_version == "1.0"
        self._started = True

    def _run_finished(self, event: Any) -> None:
        assert (event.thread_id, event.run_id) == self.ids
        assert not self._open, f"still open: {self._open}"
        if event.outcome.type == "interrupt":
            ids = [interrupt.id for interrupt in event.outcome.interrupts]
            assert len(set(ids)) == len(ids)
        if event.outcome.type == "cancelled":
            assert event.result is None
        self.finished = event.model_dump(by_alias=True, mode="json")

    def _run_error(self, event: Any) -> None:
        self.finished = event.model_dump(by_alias=True, mode="json")

    def _step_started(self, event: Any) -> None:
        self._opened(f"step {event.step_name}", "step")
        self.steps.append(event.step_name)

    def _step_finished(self, event: Any) -> None:
        self._closed(f"step {event.step_name}", "step")

    def _text_message_start(self, event: Any) -> None:
        self._opened(event.message_id, "message")
        assert event.message_id not in self.messages, "a message that was told before would be told twice"
        fields = (event.metadata or {}).get("flowdebate", {})
        self.messages[event.message_id] = {"id": event.message_id, "name": event.name, "content": "", "about": fields}

    def _text_message_content(self, event: Any) -> None:
        assert self._open.get(event.message_id) == "message"
        assert event.delta
        self.messages[event.message_id]["content"] += event.delta

    def _text_message_end(self, event: Any) -> None:
        self._closed(event.message_id, "message")
        self.messages[event.message_id]["about"] |= (event.metadata or {}).get("flowdebate", {})

    def _tool_call_start(self, event: Any) -> None:
        self._opened(event.tool_call_id, "call")
        assert event.tool_call_id not in self.calls
        assert event.parent_message_id is None or event.parent_message_id in self.messages
        self.calls[event.tool_call_id] = {"name": event.tool_call_name, "arguments": "", "result": None}

    def _tool_call_args(self, event: Any) -> None:
        assert self._open.get(event.tool_call_id) == "call"
        self.calls[event.tool_call_id]["arguments"] += event.delta

    def _tool_call_end(self, event: Any) -> None:
        self._closed(event.tool_call_id, "call")

    def _tool_call_result(self, event: Any) -> None:
        assert event.message_id not in self.messages
        self.calls[event.tool_call_id]["result"] = event.content

    def _state_snapshot(self, event: Any) -> None:
        self.state = json.loads(json.dumps(event.snapshot))

    def _state_delta(self, event: Any) -> None:
        for operation in event.delta:
            assert operation.op == "add"
            *path, last = [_unescaped(part) for part in operation.path.split("/")[1:]]
            at = self.state
            for part in path:
                at = at[part]
            at[last] = operation.value

    def _messages_snapshot(self, event: Any) -> None:
        assert not self._open, "what is open would be lost"
        ids = {message.id for message in event.messages}
        self.messages = {key: message for key, message in self.messages.items() if key in ids}

    def _activity_snapshot(self, event: Any) -> None:
        assert event.activity_type.startswith("flowdebate.")
        self.activities[event.message_id] = event.model_dump(by_alias=True)

    def _custom(self, event: Any) -> None:
        assert event.name.startswith("flowdebate.")
        self.custom.append((event.name, event.value))

    def _opened(self, key: str, kind: str) -> None:
        assert key not in self._open, f"{key} is open already"
        self._open[key] = kind

    def _closed(self, key: str, kind: str) -> None:
        assert self._open.pop(key, None) == kind, f"{key} is not open"


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _has_only_known_fields(value: object) -> None:
    """Check that no field is unknown. The Python types accept extra fields, but the protocol's schema forbids them."""
    if isinstance(value, BaseModel):
        assert not value.model_extra, f"{type(value).__name__} has unknown fields: {value.model_extra}"
        for name in type(value).model_fields:
            _has_only_known_fields(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            _has_only_known_fields(item)
