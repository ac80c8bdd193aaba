"""Pages for runs, public links, blind votes, and the audit of judges, rendered by `flowdebate.web`."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse, RedirectResponse

from flowdebate.chassis.state import missing_line
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.readers import Share, sides_of
from flowdebate.evaluation.stored_audit import audit_of, has_intervals, rows_of
from flowdebate.patterns import PATTERNS
from flowdebate.patterns.debate.judging.views import BlindReading, blind_views
from flowdebate.server.front import API, Front, FrontOf, ServiceOf, root_of
from flowdebate.server.guard import shared_root_of
from flowdebate.server.links import created_link, share_of
from flowdebate.server.requests import (
    AuditQuery,
    RunsQuery,
)
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.service.state import RunDetails, RunRecord, RunState
from flowdebate.ui.document import Document
from flowdebate.ui.sections import Entry, Section
from flowdebate.ui.statuses import OVER, State
from flowdebate.ui.steps import StepState
from flowdebate.web.plots import plot_of
from flowdebate.web.run.record import Call
from flowdebate.web.run.sheet import Sheet, public_sections
from flowdebate.web.run.travel import Course, ForkLine, fork_line, moment_at
from flowdebate.web.run.travel import compare as compare_steps
from flowdebate.web.templates import assets, render

_MAX_RUNS = 10_000
"""Maximum number of runs audited on the page; audits on the command line have no such limit."""
_PLACES = ("slot", "label", "speaker", "last word")
"""Name prefixes of the audit figures that concern positions."""

LIVE = ("queued", "running")
"""Statuses of runs whose pages are updated live."""
router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/runs/{run_id}/blind")
async def blind(
    run_id: str,
    request: Request,
    front: FrontOf,
    service: ServiceOf,
    view: Annotated[int | None, Query(ge=0)] = None,
    reader: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show a debate without names, for a reader to vote on before seeing the verdict."""
    return await blind_page(run_id, request, front, service, view=view, reader=reader)


async def blind_page(
    run_id: str,
    request: Request,
    front: Front,
    service: Service | OwnedService,
    *,
    view: int | None,
    reader: str,
    share: Share | None = None,
    code: str = "",
) -> Response:
    """Build a run's blind page for a `reader`; for a public link (`share`), omit links to the run's other pages."""
    record = await service.record(run_id)
    details = record.details
    address = quote(run_id, safe="")
    values: dict[str, Any] = {
        "run": details,
        "share": share,
        "address": f"runs/{address}",
        "to": f"/links/{code}/votes" if share else f"/runs/{address}/votes",
    }
    if not sides_of(record.stored) or details.document is None:
        return await page("blind", request, front, menu=share is None, **values, reading=None)
    sheet = await sheet_of(record)
    assert sheet is not None  # noqa: S101 - it has a document
    raw = sheet.document.raw
    if view is None:  # chosen at random and then kept in the URL, so that a reload preserves the order of the sides
        query = urlencode({"view": secrets.randbelow(len(blind_views(raw))), **({"reader": reader} if reader else {})})
        return RedirectResponse(f"?{query}", HTTPStatus.SEE_OTHER)
    models = {call.model for call in sheet.trace.calls if call.model is not None}
    return await page(
        "blind",
        request,
        front,
        menu=share is None,
        **values,
        reading=BlindReading.of(raw, view=view, names=[party.name for party in sheet.parties], models=sorted(models)),
        sheet=sheet,
        vote=await service.vote_of(run_id, f"{share.id}-{reader}" if share else reader),
        votes=sheet.votes,
        parties={getattr(speaker, "stance", ""): sheet.names[speaker.name] for speaker in sheet.document.speakers},
    )


@router.get("/audit")
async def audit(
    query: Annotated[AuditQuery, Query()], request: Request, front: FrontOf, service: ServiceOf
) -> Response:
    """Show an audit of the judges in the runs that match the filters."""
    items = await service.audited(**query.filters, limit=_MAX_RUNS)
    # Use a thread: resampling keeps a core busy, and event streams must not stall.
    audited = await asyncio.to_thread(audit_of, items)
    rows = rows_of(audited, items.readers)
    every = [row for row in rows if row.judge == "all"]
    return await page(
        "audit",
        request,
        front,
        here="/audit",
        query=query,
        items=items,
        audited=audited,
        rows=rows,
        places=plot_of([row for row in every if row.name.startswith(_PLACES)]),
        holding=plot_of([row for row in every if not row.name.startswith((*_PLACES, "preference", "first"))]),
        most=_MAX_RUNS,
        intervals=has_intervals(),
    )


@router.get("/runs/{run_id}/present")
async def present(run_id: str, request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """Show a run turn by turn, in large type, for presentations."""
    details = await service.run(run_id)
    back = f"{root_of(request)}/runs/{quote(run_id, safe='')}"
    sheet = await asyncio.to_thread(_sheet, details)
    return await page("present", request, front, menu=False, run=details, sheet=sheet, back=back, public=False)


@router.get("/shared/{code}")
async def shared(
    code: str,
    request: Request,
    front: FrontOf,
    view: Annotated[int | None, Query(ge=0)] = None,
    reader: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show a publicly shared run, or the run's blind page."""
    return await _public(code, request, front, view=view, reader=reader)


@router.get("/shared/{code}/present")
async def present_shared(code: str, request: Request, front: FrontOf) -> Response:
    """Show a publicly shared run turn by turn, in large type, for presentations."""
    return await _public(code, request, front, presented=True)


async def _public(
    code: str,
    request: Request,
    front: Front,
    *,
    presented: bool = False,
    view: int | None = None,
    reader: str = "",
) -> Response:
    """Build a public link's page, and tell search engines not to index it."""
    back = f"{root_of(request)}/shared/{code}"
    try:
        share, stored = await share_of(front, code)
    except HTTPException as error:
        revoked = error.status_code == HTTPStatus.GONE
        response = await page("no-link", request, front, status=error.status_code, menu=False, revoked=revoked)
    else:
        run_id, service = stored.header.run_id, front.service
        if share.shows == "vote" and presented:  # the presentation would reveal the speakers and the winner
            response = await page("no-link", request, front, status=404, menu=False)
        elif share.shows == "vote":
            response = await blind_page(
                run_id, request, front, service, view=view, reader=reader, share=share, code=code
            )
        else:
            details = await service.run(run_id)
            name, sheet = "present" if presented else "shared", await asyncio.to_thread(_sheet, details, public=True)
            live = details.status in LIVE
            response = await page(
                name, request, front, menu=False, run=details, sheet=sheet, back=back, public=True, live=live
            )
    response.headers["x-robots-tag"] = "noindex, nofollow"
    return response


def _sheet(details: RunDetails, *, public: bool = False) -> Sheet | None:
    """Build a run's sheet, with its contributions and result, but without the record of its calls.

    Public pages also omit the error messages of failures, which may contain server addresses.
    """
    document = details.document
    if document is None:
        return None
    if public:
        document = _without_reasons(document)
    sections: Iterable[Section] = document.sections()
    if public:
        sections = public_sections(sections)
    return Sheet.of(document, details=details, sections=sections)


def _without_reasons(document: Document) -> Document:
    """Reduce each failure's error to its class name, both in `losses` and in the line about missing participants."""
    line = document.raw.incomplete
    if line is None:
        return document
    losses = [
        loss.model_copy(update={"error": match[0] if (match := _KIND.match(loss.error)) else "an error"})
        for loss in document.raw.losses
    ]
    short = missing_line(losses) or ""
    redacted = document.model_copy(update={"raw": document.raw.model_copy(update={"losses": losses})})
    return type(document).model_validate(_with_text(redacted.model_dump(mode="json", by_alias=True), line, short))


def _with_text(value: Any, before: str, after: str) -> Any:  # noqa: ANN401 - JSON data
    """Replace a string wherever it occurs in JSON data."""
    match value:
        case str():
            return value.replace(before, after)
        case list():
            return [_with_text(entry, before, after) for entry in value]
        case dict():
            return {key: _with_text(entry, before, after) for key, entry in value.items()}
        case _:
            return value


_KIND = re.compile(r"[A-Z][A-Za-z]+(?=: )")


_MAX_WAITING = 20
"""Maximum number of waiting runs shown above the list of runs; the list itself contains all of them."""
_MAX_DEBATES = 100
"""Maximum number of archived debates shown on the page; the command line lists all of them."""
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png"}


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Serve a style sheet, a script or a picture for the pages."""
    contents = assets().get(name)
    if contents is None:
        raise HTTPException(404, "The file does not exist.")
    # File names have no version, so a changed file may take up to ten minutes to take effect.
    headers = {"cache-control": "max-age=600"}
    return Response(contents, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)


@router.get("/")
async def runs(query: Annotated[RunsQuery, Query()], request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """Show the list of all runs, starting with those waiting for a person."""
    page_of_runs = await service.runs(**query.filters, limit=query.limit, before=query.before)
    filtered = any(query.filters.values())
    waiting = () if filtered or query.before else (await service.runs(status="awaiting", limit=_MAX_WAITING)).runs
    filters = query.model_dump(exclude_defaults=True, exclude={"before"}, by_alias=True)
    samples = [(info.name, info.load_page().sample.get(info.subject)) for info in PATTERNS.values()]
    return await page(
        "runs",
        request,
        front,
        here="/",
        samples=[(name, question) for name, question in samples if question][:3] if front.service.plans else [],
        notes=await service.notes(page_of_runs),
        runs=page_of_runs.runs,
        waiting=waiting,
        filtered=filtered,
        query=query,
        older=urlencode({**filters, "before": page_of_runs.next}, doseq=True) if page_of_runs.next else "",
        statuses=get_args(State),
        patterns=sorted({*PATTERNS, *service.patterns}) if front.service.plans else sorted(service.patterns),
    )


@router.get("/archive")
async def archive(request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """Show the archive used by later debates, including outcomes recorded after a debate ended."""
    debates = (await service.archive().debates())[:_MAX_DEBATES]
    return await page("archive", request, front, here="/archive", debates=debates, most=_MAX_DEBATES)


@router.get("/runs/{run_id}")
async def run(run_id: str, request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """Show a run with its contributions, result and record."""
    record = await service.record(run_id)
    details, sheet = record.details, await sheet_of(record)
    waiting_blocks = {pending.block for pending in details.pending}
    people = [] if front.read_only or details.status in OVER else record.people
    address = quote(run_id, safe="")
    return await page(
        "run",
        request,
        front,
        run=details,
        sheet=sheet,
        kicker=() if sheet is None else sheet.kicker,
        note=record.readers.note,
        people=[person for person in people if person not in waiting_blocks],
        shares=[created_link(share, run_id, front, request) for share in record.readers.shares],
        live=details.status in LIVE,
        api=f"{root_of(request)}{API}/runs/{address}",
        step_link=f"{root_of(request)}/runs/{address}/travel",
    )


@router.get("/runs/{run_id}/turns/{number}")
async def turn(run_id: str, number: int, service: ServiceOf) -> Response:
    """Return a turn's text for copying, exactly as its model wrote it."""
    document = (await service.run(run_id)).document
    entries = () if document is None else (part for part in document.sections() if isinstance(part, Entry))
    entry = next(islice(entries, number - 1, None), None) if number > 0 else None
    if entry is None:
        raise HTTPException(404, "The run has no such turn.")
    return Response(entry.text.encode(errors="replace"), media_type="text/plain")


async def sheet_of(record: RunRecord) -> Sheet | None:
    """Build a run's sheet; return None if the run has no document."""
    document = record.details.document
    if document is None:
        return None
    events = [*record.events]  # copied, because a run in progress keeps adding events

    def lay_out() -> Sheet:
        steps = [StepState.of(step) for step in record.steps]
        votes = record.readers.counted
        return Sheet.of(document, details=record.details, steps=steps, events=events, votes=votes)

    # Use a thread: hundreds of turns keep a core busy, and event streams must not stall.
    return await asyncio.to_thread(lay_out)


async def page(
    name: str,
    request: Request,
    front: Front,
    *,
    status: int = 200,
    here: str = "",
    menu: bool = True,
    **data: object,
) -> Response:
    """Build the response for the page `name`; `here` is the path of its menu entry.

    A page opened through a public link has no menu.
    """
    writable = not front.read_only
    new = [("New", "/new")] if writable else []
    entries = [("Runs", "/"), *new, ("Archive", "/archive"), ("Audit", "/audit"), ("Help", "/help")] if menu else []
    root, signed_in = root_of(request), menu and root_of(request) != shared_root_of(request)
    card = request.url.replace(path=f"{root}/static/card.png", query="")
    shared: dict[str, object] = {"root": root, "menu": entries, "here": here, "writable": writable, "card": card}

    def write() -> bytes:
        html = render(name, signed_in=signed_in, **shared, **data)
        # A model may send half a surrogate pair, which must not break the page.
        return html.encode(errors="replace")

    return HTMLResponse(await asyncio.to_thread(write), status)


_MAX_FORKS = 20
"""Maximum number of forks listed on a page; a sheet is built for each of them."""
_PAGE, _MAX_PAGES = 200, 10
"""Page size and maximum number of pages when searching for forks; the store has no index of parents."""

_RunId = Annotated[str, Query(max_length=200)]


@router.get("/runs/{run_id}/travel")
async def travel(
    run_id: str, request: Request, front: FrontOf, service: ServiceOf, step: Annotated[int, Query(ge=1)] = 1
) -> Response:
    """Show a run as it was at one of its steps, with the option to fork it there."""
    record = await service.record(run_id)
    details, sheet = record.details, await sheet_of(record)
    moment = None if sheet is None else moment_at(sheet, step)
    sent = None
    if moment is not None:
        try:
            sent = await service.call(run_id, moment.call.place, record=record)
        except ConfigurationError:  # this server does not know the run's pattern
            sent = None
    steps = {} if sheet is None else {call.place: call for call in sheet.trace.calls}
    forks, more = await _forks_of(details, steps, service)
    return await page(
        "travel",
        request,
        front,
        run=details,
        sheet=sheet,
        moment=moment,
        sent=sent,
        forks=forks,
        more=more,
        address=f"runs/{quote(run_id, safe='')}",
    )


@router.get("/compare")
async def compare(
    request: Request,
    front: FrontOf,
    service: ServiceOf,
    run: Annotated[list[str] | None, Query(max_length=10)] = None,
    a: _RunId = "",
    b: _RunId = "",
) -> Response:
    """Show two runs side by side: `a` and `b`, or the two selected in the list of runs."""
    run_ids = list(filter(None, (a, b))) or run or []
    if len(run_ids) != 2:  # noqa: PLR2004 - side by side
        raise HTTPException(422, f"Choose exactly two runs to compare (got {len(run_ids)}).")
    # the list shows the newer run first, but the comparison begins with the older one
    a, b = reversed(run_ids) if run else run_ids
    records = [await service.record(run_id) for run_id in (a, b)]
    runs, sheets = [record.details for record in records], [await sheet_of(record) for record in records]
    fork: Literal["one", "other"] | None = "other" if runs[1].parent == a else "one" if runs[0].parent == b else None
    return await page(
        "compare",
        request,
        front,
        runs=runs,
        sheets=sheets,
        fork=fork,
        steps=compare_steps(*map(Course.of, sheets), fork=fork),
        addresses=[f"runs/{quote(run.run_id, safe='')}" for run in runs],
    )


async def _forks_of(
    run: RunDetails, steps: dict[str, Call], service: Service | OwnedService
) -> tuple[list[ForkLine], bool]:
    """Return a run's newest forks, and whether the run may have more.

    The search relies on forks being newer than the run and having the same question.
    """
    forks: list[RunState] = []
    before: str | None = None
    for _ in range(_MAX_PAGES):
        listed = await service.runs(text=run.question or None, limit=_PAGE, before=before)
        forks += [fork for fork in listed.runs if fork.parent == run.run_id]
        before = listed.next
        if before is None or len(forks) > _MAX_FORKS or listed.runs[-1].created_at < run.created_at:
            break
    is_older = before is None or listed.runs[-1].created_at < run.created_at
    lines: list[ForkLine] = []
    for fork in forks[:_MAX_FORKS]:
        details = await service.run(fork.run_id)
        at, edited = (None, ()) if details.fork is None else (details.fork.at, details.fork.edited)
        sheet = None if details.document is None else Sheet.of(details.document, details=details)
        lines.append(fork_line(details, at=at, edited=edited, steps=steps, sheet=sheet))
    return lines, len(forks) > _MAX_FORKS or not is_older
