"""Pages that go back in a run, and set two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse

from flowdebate.errors import ConfigurationError
from flowdebate.server.front import FrontOf, ServiceOf  # noqa: TC001 - FastAPI reads them
from flowdebate.server.pages.runs import page, sheet_of
from flowdebate.web.run.compare import compared
from flowdebate.web.run.sheet import Sheet
from flowdebate.web.run.travel import fork_line, moment_at

if TYPE_CHECKING:
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails, RunState
    from flowdebate.web.run.record import Call
    from flowdebate.web.run.travel import ForkLine


_MOST_FORKS = 20
"""Forks that a page lists, each with its own sheet."""
_PAGE, _MOST_PAGES = 200, 10
"""Runs that are read at once while forks are looked for, and how often at most: the store has no index of parents."""

_RunId = Annotated[str, Query(max_length=200)]

router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/runs/{run_id}/travel")
async def travel(
    run_id: str, request: Request, front: FrontOf, service: ServiceOf, step: Annotated[int, Query(ge=1)] = 1
) -> Response:
    """A run at one of its steps, from where it can be forked."""
    details = await service.run(run_id)
    sheet = await sheet_of(details, front, service)
    moment = None if sheet is None else moment_at(sheet, step)
    sent = None
    if moment is not None:
        try:
            sent = await service.call(run_id, moment.call.place)
        except ConfigurationError:  # its pattern is not known here
            sent = None
    steps = {} if sheet is None else {call.place: call for call in sheet.trace.calls}
    forks, more = await _forks_of(details, steps, service)
    return page(
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
async def compare(a: _RunId, b: _RunId, request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """Two runs side by side."""
    runs = [await service.run(run_id) for run_id in (a, b)]
    sheets = [await sheet_of(run, front, service) for run in runs]
    one, other = (() if sheet is None else sheet.trace.calls for sheet in sheets)
    fork: Literal["one", "other"] | None = "other" if runs[1].parent == a else "one" if runs[0].parent == b else None
    return page(
        "compare",
        request,
        front,
        runs=runs,
        sheets=sheets,
        fork=fork,
        steps=compared(one, other, fork=fork),
        addresses=[f"runs/{quote(run.run_id, safe='')}" for run in runs],
    )


async def _forks_of(
    run: RunDetails, steps: dict[str, Call], service: Service | OwnedService
) -> tuple[list[ForkLine], bool]:
    """The newest forks of a run, and whether there may be more. They are younger than it, and have its question."""
    found: list[RunState] = []
    before: str | None = None
    for _ in range(_MOST_PAGES):
        listed = await service.runs(text=run.question or None, limit=_PAGE, before=before)
        found += [each for each in listed.runs if each.parent == run.run_id]
        before = listed.next
        if before is None or len(found) > _MOST_FORKS or listed.runs[-1].created_at < run.created_at:
            break
    is_older = before is None or listed.runs[-1].created_at < run.created_at
    lines = [await _line(each, steps, service) for each in found[:_MOST_FORKS]]
    return lines, len(found) > _MOST_FORKS or not is_older


async def _line(state: RunState, steps: dict[str, Call], service: Service | OwnedService) -> ForkLine:
    details = await service.run(state.run_id)
    at, edited = (None, ()) if details.fork is None else (details.fork.at, details.fork.edited)
    sheet = None if details.document is None else Sheet.of(details.document, details=details)
    return fork_line(details, at=at, edited=edited, steps=steps, sheet=sheet)
