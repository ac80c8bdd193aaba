"""AG-UI: a POST begins a run of a pattern, or answers the one that waits, and streams it as events of AG-UI 1.0."""

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

from flowdebate._messages import problems_of
from flowdebate.errors import ConfigurationError, FlowDebateError, OutputError
from flowdebate.patterns import find_pattern
from flowdebate.server.front import FrontOf, ServiceOf  # noqa: TC001 - FastAPI reads them
from flowdebate.server.guard import owner_of
from flowdebate.server.protocols.agui_events import OWN, AgUi, custom_event
from flowdebate.server.protocols.chat_request import read_chat
from flowdebate.server.protocols.streams import PING, data_frame
from flowdebate.server.requests import check_data
from flowdebate.server.sse import EventStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from flowdebate.server.protocols.streams import Reader
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails


_WHERE = "AG-UI run"
_THREAD = "ag_ui_thread"
"""Label with the thread of a run."""
_LONGEST_ID = 200

router: APIRouter = APIRouter(prefix="/ag-ui", include_in_schema=False)


class _Props(BaseModel):
    """What `forwardedProps.flowdebate` may say: options as in a plan file, and what happens if the client leaves."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    options: dict[str, Any] = {}
    seed: int | None = None
    onDisconnect: Literal["cancel", "continue"] = "cancel"  # noqa: N815 - as on the wire


@router.post("/{pattern}")
async def ag_ui_run(
    pattern: str, body: ag_ui.RunAgentInput, request: Request, front: FrontOf, service: ServiceOf
) -> Response:
    """Begin a run on the last message of a thread, or answer the one of this thread that waits for humans."""
    front.check_writable()
    own = pattern in front.service.patterns
    info = None if own or not front.service.plans else find_pattern(pattern)
    if not own and info is None:
        raise HTTPException(404, "There is no pattern of this name.")
    props = _read_props(body)
    ui = AgUi(thread_id=body.thread_id, run_id=body.run_id, state=body.state, messages=body.messages)
    latest = (await service.runs(pattern=pattern, labels={_THREAD: body.thread_id}, limit=1)).runs
    if latest and latest[0].status == "awaiting":
        # an AG-UI client answers interrupts in a new run of the same thread; here that is the same run, which goes on
        run = latest[0]
        await _answer(await service.run(run.run_id), body, service, ui)
    elif body.resume:
        raise HTTPException(409, "No run of this thread waits for an answer.")
    else:
        chat = [(f"{each.description}:", each.value) for each in body.context or ()]
        chat += [(getattr(each, "name", None) or each.role, _text_of(each)) for each in body.messages]
        role = body.messages[-1].role if body.messages else None
        given, question = read_chat(chat, role, info, where=_WHERE, options=props.options)
        key = json.dumps([owner_of(request.scope), body.thread_id, body.run_id])
        run = await service.begin(
            pattern,
            question,
            options={**given, **props.options} or None,
            run_id=f"agui-{sha256(key.encode()).hexdigest()[:32]}",  # the same input again follows its run
            seed=props.seed,
            labels={_THREAD: body.thread_id},
            check=front.check_options,
        )
        if run.status == "interrupted":
            await service.resume(run.run_id)
    reader = front.audience.join(service, run.run_id, cancel=props.onDisconnect == "cancel")
    return EventStream(_frames(ui, run.run_id, service, reader), ended=reader.leave)


def _read_props(body: ag_ui.RunAgentInput) -> _Props:
    """Our part of the input; ConfigurationError for what it cannot say, and for ids that no run can have."""
    try:
        check_data(body.model_dump(mode="json", by_alias=True))
    except ValueError as error:
        raise ConfigurationError(_WHERE, "body", None, str(error).removeprefix("must be ")) from None
    for field, value in (("threadId", body.thread_id), ("runId", body.run_id)):
        if not 0 < len(value) <= _LONGEST_ID or not value.isprintable():
            raise ConfigurationError(_WHERE, field, value, f"text of at most {_LONGEST_ID} printable characters")
    given = body.forwarded_props
    try:
        return _Props.model_validate(given.get(OWN, {}) if isinstance(given, dict) else {})
    except ValidationError as error:
        field, problem = problems_of(error)[0]
        raise ConfigurationError(_WHERE, f"forwardedProps.{OWN}.{field}", None, problem) from None


def _text_of(message: ag_ui.Message) -> str:
    """What was said in words: images, and messages of tools, reasoning and activities, are not for debaters."""
    if isinstance(message, (ag_ui.ToolMessage, ag_ui.ActivityMessage, ag_ui.ReasoningMessage)):
        return ""
    if isinstance(message.content, list):
        return "\n".join(part.text for part in message.content if isinstance(part, ag_ui.TextPart))
    return message.content or ""


async def _answer(waiting: RunDetails, body: ag_ui.RunAgentInput, service: Service | OwnedService, ui: AgUi) -> None:
    """Pass the answers on, and resume the run; it is asked again what is not answered, or not well."""
    ui.earlier_calls = 0 if waiting.usage is None else waiting.usage.calls
    open_places, answered = {each.place for each in waiting.pending}, False
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
    """The stream, from RUN_STARTED to the last event."""

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
