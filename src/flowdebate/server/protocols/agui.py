"""AG-UI endpoint: a POST begins a run of a pattern, or answers the one that waits, and streams its events."""

from __future__ import annotations

import json
from contextlib import aclosing
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from ag_ui import core as ag_ui
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import Response  # noqa: TC002 - FastAPI reads it

from flowdebate.errors import ConfigurationError, FlowDebateError, OutputError, problems_of
from flowdebate.patterns import find_pattern
from flowdebate.server.front import FrontOf, ServiceOf  # noqa: TC001 - FastAPI reads them
from flowdebate.server.guard import owner_of
from flowdebate.server.protocols.agui_events import AgUi, custom_event
from flowdebate.server.protocols.chat_request import chat_context, with_context
from flowdebate.server.protocols.streams import PING, data_frame
from flowdebate.server.requests import check_data
from flowdebate.server.sse import EventStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from flowdebate.server.front import Front
    from flowdebate.server.protocols.streams import Reader
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails


_WHERE = "AG-UI run"
_THREAD = "ag_ui_thread"
"""Label with the thread of a run."""
_LONGEST_ID = 200


router: APIRouter = APIRouter(prefix="/ag-ui", include_in_schema=False)


@router.post("/{pattern}")
async def ag_ui_run(
    pattern: str, body: ag_ui.RunAgentInput, request: Request, front: FrontOf, service: ServiceOf
) -> Response:
    """Begin a run on the last message of a thread, or answer the one of this thread that waits for humans."""
    front.check_writable()
    _check(pattern, body, front)
    stream = _Stream(body, service)
    waiting = await _waiting(service, pattern, body.thread_id)
    if waiting is not None:
        await stream.answer(waiting)
    elif body.resume:
        raise HTTPException(409, "No run of this thread waits for an answer.")
    else:
        await stream.begin(pattern, front, owner_of(request.scope))
    reader = front.audience.join(service, stream.run_id, cancel=stream.props.onDisconnect == "cancel")
    return EventStream(stream.frames(reader), ended=reader.leave)


def _check(pattern: str, body: ag_ui.RunAgentInput, front: Front) -> None:
    """404 for an unknown pattern; ConfigurationError for ids that no run can have."""
    if pattern not in front.service.patterns and not (front.service.plans and find_pattern(pattern)):
        raise HTTPException(404, "There is no pattern of this name.")
    try:
        check_data(body.model_dump(mode="json", by_alias=True))
    except ValueError as error:
        raise ConfigurationError(_WHERE, "body", None, str(error).removeprefix("must be ")) from None
    for field, value in (("threadId", body.thread_id), ("runId", body.run_id)):
        if not 0 < len(value) <= _LONGEST_ID or not value.isprintable():
            raise ConfigurationError(_WHERE, field, value, f"text of at most {_LONGEST_ID} printable characters")


class _Props(BaseModel):
    """What `forwardedProps.flowdebate` may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    options: dict[str, Any] | None = None
    """Options of a built-in pattern, as in a plan file."""
    seed: int | None = None
    onDisconnect: Literal["cancel", "continue"] = "cancel"  # noqa: N815 - as on the wire


def _props_of(body: ag_ui.RunAgentInput) -> _Props:
    given = body.forwarded_props
    try:
        return _Props.model_validate(given.get("flowdebate", {}) if isinstance(given, dict) else {})
    except ValidationError as error:
        field, problem = problems_of(error)[0]
        raise ConfigurationError(_WHERE, f"forwardedProps.flowdebate.{field}", None, problem) from None


class _Stream:
    """The events of one AG-UI run."""

    def __init__(self, body: ag_ui.RunAgentInput, service: Service | OwnedService) -> None:
        self._body = body
        self.props = _props_of(body)
        self._service = service
        self.run_id = ""
        self._first: list[ag_ui.BaseEvent] = []
        """Events to begin with."""
        self._problems: dict[str, str] = {}
        self._earlier_calls = 0

    async def begin(self, pattern: str, front: Front, owner: str | None) -> None:
        """Begin a run; the same input again follows the run that it began."""
        body, props = self._body, self.props
        named = "debaters" in (props.options or {})
        info = None if pattern in front.service.patterns else find_pattern(pattern)
        options, question = with_context(*_asked(body), info, where=_WHERE, sides=named)
        run = await self._service.begin(
            pattern,
            question,
            options={**options, **(props.options or {})} or None,
            run_id=f"agui-{sha256(json.dumps([owner, body.thread_id, body.run_id]).encode()).hexdigest()[:32]}",
            seed=props.seed,
            labels={_THREAD: body.thread_id},
            check=front.check_options,
        )
        if run.status == "interrupted":
            await self._service.resume(run.run_id)
        self.run_id = run.run_id

    async def answer(self, waiting: RunDetails) -> None:
        """Pass the answers on, and resume the run; it is asked again what is not answered, or not well."""
        run_id = self.run_id = waiting.run_id
        self._earlier_calls = 0 if waiting.usage is None else waiting.usage.calls
        open_places, answered = {each.place for each in waiting.pending}, False
        for entry in self._body.resume or ():
            if entry.interrupt_id not in open_places:
                self._first.append(custom_event("ignored", {"interruptId": entry.interrupt_id}))
            elif entry.status == "cancelled":
                await self._service.cancel(run_id)
                return
            else:
                try:
                    await self._service.answer(run_id, entry.payload, place=entry.interrupt_id, resume=False)
                    answered = True
                except OutputError as error:
                    self._problems[entry.interrupt_id] = str(error)
        if answered and not self._problems:
            await self._service.resume(run_id)

    async def frames(self, reader: Reader) -> AsyncGenerator[bytes]:
        """The stream, from RUN_STARTED to the last event."""
        async with aclosing(self._events(reader)) as events:
            async for event in events:
                yield PING if event is None else data_frame(event.model_dump(mode="json", by_alias=True))

    async def _events(self, reader: Reader) -> AsyncGenerator[ag_ui.BaseEvent | None]:
        body, service, run_id = self._body, self._service, self.run_id
        ui = AgUi(
            thread_id=body.thread_id,
            run_id=body.run_id,
            state=body.state,
            messages=body.messages,
            earlier_calls=self._earlier_calls,
        )
        try:
            for event in (*ui.start(await service.run(run_id)), *self._first):
                yield event
            async with aclosing(reader.updates()) as updates:
                async for update in updates:
                    if update is None:
                        yield None
                        continue
                    for event in ui.translate(update):
                        yield event
            for event in ui.finish(await service.run(run_id), problems=self._problems):
                yield event
        except FlowDebateError as error:
            for event in ui.fail(error):
                yield event


async def _waiting(service: Service | OwnedService, pattern: str, thread_id: str) -> RunDetails | None:
    """The last run of a thread, if it waits for humans."""
    page = await service.runs(pattern=pattern, labels={_THREAD: thread_id}, limit=1)
    if page.runs and page.runs[0].status == "awaiting":
        return await service.run(page.runs[0].run_id)
    return None


def _asked(body: ag_ui.RunAgentInput) -> tuple[str, str]:
    """The text of the last message, and what was said before it."""
    last = body.messages[-1] if body.messages else None
    question = _text(last)
    if not isinstance(last, ag_ui.UserMessage) or not question.strip():
        allowed = "a conversation whose last message is the user's question, in text"
        raise ConfigurationError(_WHERE, "messages", None if last is None else last.role, allowed)
    before = [(f"{each.description}:", each.value) for each in body.context or ()]
    before += [(getattr(each, "name", None) or each.role, _text(each)) for each in body.messages[:-1]]
    return question, chat_context(before)


def _text(message: object) -> str:
    """The text of a message; images and other parts are left out, and so is what no model is to read."""
    if not isinstance(
        message, (ag_ui.UserMessage, ag_ui.AssistantMessage, ag_ui.SystemMessage, ag_ui.DeveloperMessage)
    ):
        return ""
    content = message.content
    if isinstance(content, list):
        return "\n".join(part.text for part in content if isinstance(part, ag_ui.TextPart))
    return content or ""
