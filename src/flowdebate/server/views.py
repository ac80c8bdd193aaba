"""Endpoints that show a run's events, steps, tasks, requests for human input, and documents."""

from __future__ import annotations

import re
from base64 import b64decode
from http import HTTPStatus
from typing import Annotated, Any, ClassVar
from unicodedata import category
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import StreamingResponse

from flowdebate.errors import BadFile
from flowdebate.events import TaskChanged, event_schema
from flowdebate.server.front import FrontOf, ServiceOf, data, root_of, stored_run
from flowdebate.server.problems import JSONData, responses
from flowdebate.server.sse import split_marks
from flowdebate.service.state import PendingInput, RunDetails
from flowdebate.sources.source import IMAGES
from flowdebate.store.export import export_run
from flowdebate.ui.document import Document
from flowdebate.ui.markdown import report
from flowdebate.ui.steps import CallDetails, StepState
from flowdebate.web.report import report_html, report_policy

_MAX_RUNS = 20
"""Maximum number of runs on one connection."""
_MAX_NAME_LENGTH = 60
"""Maximum length of a file name, in characters."""
_MAX_MARKS_LENGTH = 4_000
"""Maximum length, in characters, of a query's list of run ids, and of the frame id after which to continue."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._~-]")
_TEXT = {"schema": {"type": "string"}}
_FRAMES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: recorded events with an ID, text without one, `reset`, and finally `end`. "
        "Their data is described by `GET /events.schema.json`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    **responses(404, 429),
}

router: APIRouter = APIRouter(tags=["runs"])

_After = Annotated[
    str | None, Query(max_length=_MAX_MARKS_LENGTH, description="Continue after the frame with this ID.")
]
_LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=_MAX_MARKS_LENGTH)]
_Page = Annotated[
    bool, Query(description="1 sends `page` events with the new pieces of the page instead of recorded events.")
]
_Texts = Annotated[bool, Query(alias="text", description="0 omits the text that models are writing.")]


@router.get("/runs/{run_id}/events", response_class=Response, responses=_FRAMES)
async def events(
    run_id: str,
    request: Request,
    front: FrontOf,
    service: ServiceOf,
    after: _After = None,
    last_event_id: _LastEventId = None,
    texts: _Texts = True,  # noqa: FBT002 - a parameter of a query
    page: _Page = False,  # noqa: FBT002 - a parameter of a query
) -> Response:
    """Follow a run live, or replay it from the beginning if it is over."""
    await stored_run(service, run_id)
    # readers of the page share one follower, so access to the run is checked above rather than by the follower
    if page:
        return front.readers.page(front.service, run_id, root=root_of(request))
    return front.readers.stream(service, {run_id: last_event_id or after}, texts=texts)


@router.get("/events", response_class=Response, responses=_FRAMES)
async def events_of_several(
    runs: Annotated[str, Query(max_length=_MAX_MARKS_LENGTH, description="Comma-separated run IDs.")],
    front: FrontOf,
    service: ServiceOf,
    after: _After = None,
    last_event_id: _LastEventId = None,
    texts: _Texts = True,  # noqa: FBT002 - a parameter of a query
) -> Response:
    """Follow several runs on one connection; the data of each event includes the `runId`."""
    run_ids = list(dict.fromkeys(filter(None, runs.split(","))))
    if not 1 <= len(run_ids) <= _MAX_RUNS:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"`runs` must contain 1 to {_MAX_RUNS} run IDs.")
    for run_id in run_ids:
        await stored_run(service, run_id)
    marks = split_marks(last_event_id or after, len(run_ids))
    return front.readers.stream(service, dict(zip(run_ids, marks, strict=True)), texts=texts, several=True)


@router.get("/events.schema.json", responses=responses())
async def schema_of_events() -> dict[str, Any]:
    """Return the JSON Schema for the data of a run's events."""
    return event_schema()


@router.get("/runs/{run_id}/steps", response_model=list[StepState], responses=responses(404))
async def steps(run_id: str, front: FrontOf, service: ServiceOf) -> Response:
    """List a run's steps: model calls, side effects, failures, and human answers."""
    await stored_run(service, run_id)
    return data([StepState.of(step) for step in await front.service.store.steps(run_id)])


@router.get("/runs/{run_id}/calls/{place:path}", response_model=CallDetails, responses=responses(404))
async def call(run_id: str, place: str, service: ServiceOf) -> Response:
    """Return a model call exactly as it was sent; `place` is the path of the call's step."""
    call_found = await service.call(run_id, place)
    if call_found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "The run has no model call at this path.")
    return data(call_found)


class TaskBoard(BaseModel):
    """Tasks in a collection, in the order they were added."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    collection_id: str
    tasks: list[dict[str, Any]]


@router.get("/runs/{run_id}/tasks", response_model=list[TaskBoard], responses=responses(404))
async def tasks(run_id: str, service: ServiceOf) -> Response:
    """List a run's current tasks, grouped by collection."""
    boards: dict[str, dict[str, Any]] = {}
    for event in await service.events(run_id):
        if isinstance(event, TaskChanged):
            boards.setdefault(event.collection_id, {})[event.task.id] = event.task.to_wire()
    task_boards = [TaskBoard(collection_id=name, tasks=list(board.values())) for name, board in boards.items()]
    return JSONData([task_board.model_dump(by_alias=True) for task_board in task_boards])


@router.get("/runs/{run_id}/requests", response_model=list[PendingInput], responses=responses(404))
async def requests(run_id: str, service: ServiceOf) -> Response:
    """List a suspended run's pending requests for human input."""
    return data((await service.run(run_id)).pending)


@router.get(
    "/runs/{run_id}/sources/{name:path}",
    response_class=Response,
    responses={
        200: {"content": dict.fromkeys(("text/plain", *IMAGES), _TEXT)},
        **responses(404),
    },
)
async def source(run_id: str, name: str, service: ServiceOf) -> Response:
    """Return the text or image of a source listed in a pending request."""
    listed = (candidate for request in (await service.run(run_id)).pending for candidate in request.sources)
    source_found = next((item for item in listed if item.name == name), None)
    if source_found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "None of the run's open requests lists this source.")
    if source_found.image is None:
        return Response(source_found.text.encode(errors="replace"), media_type="text/plain")
    header, _, encoded = source_found.image.partition(",")
    return Response(b64decode(encoded), media_type=header.removeprefix("data:").removesuffix(";base64"))


@router.get("/runs/{run_id}/document.json", response_model=dict[str, Any], responses=responses(404))
async def document_json(run_id: str, service: ServiceOf) -> Response:
    """Return a run's document: the contributions and, if available, the result."""
    details = await service.run(run_id)
    return JSONData(document_in(details).to_data(), headers=_saved_as(details, "json"))


@router.get(
    "/runs/{run_id}/report.md",
    response_class=Response,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}, **responses(404)},
)
async def report_md(run_id: str, service: ServiceOf) -> Response:
    """Return a run's report as Markdown."""
    details = await service.run(run_id)
    text = report(document_in(details))
    return Response(text.encode(errors="replace"), media_type="text/markdown", headers=_saved_as(details, "md"))


@router.get(
    "/runs/{run_id}/report.html",
    response_class=Response,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **responses(404)},
)
async def report_page(run_id: str, service: ServiceOf) -> Response:
    """Return a run's report as a single HTML file, including the journal but no scripts."""
    try:
        html = await report_html(*await service.evidence(run_id))
    except BadFile as error:
        raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from None
    file_headers = _saved_as(await service.run(run_id), "html")
    # Stricter than the policy for pages, which may load scripts: a report may contain arbitrary content.
    headers = {"content-security-policy": f"{report_policy()}; frame-ancestors 'none'", **file_headers}
    return Response(html.encode(errors="replace"), media_type="text/html", headers=headers)


@router.get(
    "/runs/{run_id}/export.jsonl",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **responses(404)},
)
async def export_jsonl(run_id: str, front: FrontOf, service: ServiceOf) -> Response:
    """Export a run in the format read by `flowdebate import`."""
    details = await service.run(run_id)
    lines = (f"{line}\n".encode() async for line in export_run(front.service.store, run_id))
    return StreamingResponse(lines, media_type="text/plain", headers=_saved_as(details, "jsonl"))


def document_in(details: RunDetails) -> Document:
    """Return a run's document; respond with 404 if it has none."""
    if details.document is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, details.problem or "The run has no document.")
    return details.document


def _saved_as(details: RunDetails, suffix: str) -> dict[str, str]:
    """Return a Content-Disposition header that names the download after the run's question (RFC 6266)."""
    name = _file_name(details.question) or _UNSAFE.sub("_", details.run_id)
    plain = name if name.isascii() else _UNSAFE.sub("_", details.run_id)
    encoded = f"; filename*=UTF-8''{quote(name, safe='')}.{suffix}" if plain != name else ""
    return {"content-disposition": f'inline; filename="{plain}.{suffix}"{encoded}'}


def _file_name(question: str) -> str:
    """Build a file name from the first words of a question.

    >>> _file_name("Should rents be capped? Or: build!")
    'should-rents-be-capped-or-build'
    """
    words = "".join(letter if category(letter)[0] in "LMN" or letter in "\u200c\u200d" else " " for letter in question)
    name = "-".join(words.lower().split())
    return (
        name if len(name) <= _MAX_NAME_LENGTH else name[:_MAX_NAME_LENGTH].rpartition("-")[0] or name[:_MAX_NAME_LENGTH]
    )
