"""Endpoints of runs: begin, list, look at, answer, cancel, resume, fork and delete."""

from __future__ import annotations

import secrets
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Query
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import Response

from flowdebate.errors import RunNotFound
from flowdebate.server.front import API, FrontOf, ServiceOf, data, limits_of, stored_run
from flowdebate.server.problems import responses
from flowdebate.server.requests import AnswerBody, BeginBody, ForkBody, ResumeBody, RunsQuery, VoteBody
from flowdebate.service.state import RunDetails, RunPage, RunState
from flowdebate.service.votes import Votes

_LONGEST_WAIT = 60
"""Seconds of `?wait=`: less than an idle connection is kept open (`serve`), so that clients can wait again on it."""

router: APIRouter = APIRouter(tags=["runs"])


@router.post(
    "/runs",
    status_code=HTTPStatus.CREATED,
    response_model=RunState,
    responses={200: {"model": RunState, "description": "The same request was made before"}, **responses(409, 429)},
)
async def begin(body: BeginBody, front: FrontOf, service: ServiceOf, request: Request) -> Response:
    """Begin a run. With a `runId`, the request can be repeated: it begins one run."""
    front.check_writable()
    again = False
    if body.run_id is not None:
        with suppress(RunNotFound):
            again = bool(await stored_run(service, body.run_id))
    state = await service.begin(
        body.pattern,
        body.question,
        options=body.options,
        run_id=body.run_id,
        seed=body.seed,
        labels=body.labels,
        limits=limits_of(body.limits),
        check=front.check_options,
    )
    return _begun(state, request, HTTPStatus.OK if again else HTTPStatus.CREATED)


@router.get("/runs", response_model=RunPage, responses=responses())
async def runs(query: Annotated[RunsQuery, Query()], service: ServiceOf) -> Response:
    """List runs, the newest first."""
    return data(await service.runs(**query.filters, limit=query.limit, before=query.before))


@router.get("/runs/{run_id}", response_model=RunDetails, responses=responses(404))
async def run(
    run_id: str,
    service: ServiceOf,
    wait: Annotated[float, Query(ge=0, le=_LONGEST_WAIT, description="Seconds to wait for the run's end.")] = 0,
) -> Response:
    """Look at a run: its state, its document so far, and what it asks humans."""
    return data(await service.wait(run_id, wait) if wait else await service.run(run_id))


@router.post("/runs/{run_id}/answers", response_model=RunState, responses=responses(404, 409))
async def answer(run_id: str, body: AnswerBody, front: FrontOf, service: ServiceOf) -> Response:
    """Answer what a run asks a human."""
    front.check_writable()
    return data(await service.answer(run_id, body.answer, place=body.place, resume=body.resume, by=body.by))


@router.post(
    "/runs/{run_id}/cancel", status_code=HTTPStatus.ACCEPTED, response_model=RunState, responses=responses(404, 409)
)
async def cancel(run_id: str, front: FrontOf, service: ServiceOf) -> Response:
    """Cancel a run. What it has said so far stays, and it can be resumed."""
    front.check_writable()
    return data(await service.cancel(run_id), HTTPStatus.ACCEPTED)


@router.post(
    "/runs/{run_id}/resume",
    status_code=HTTPStatus.ACCEPTED,
    response_model=RunState,
    responses=responses(404, 409, 429),
)
async def resume(
    run_id: str, front: FrontOf, service: ServiceOf, body: Annotated[ResumeBody | None, Body()] = None
) -> Response:
    """Resume a run that was interrupted, has failed or has reached a limit."""
    front.check_writable()
    body = body or ResumeBody()
    state = await service.resume(
        run_id,
        on_uncertain=body.on_uncertain,
        allow_changes=body.allow_changes,
        retry_dead_letter=body.retry_dead_letter,
        limits=limits_of(body.limits),
    )
    return data(state, HTTPStatus.ACCEPTED)


@router.post(
    "/runs/{run_id}/fork",
    status_code=HTTPStatus.CREATED,
    response_model=RunState,
    responses=responses(404, 409, 429),
)
async def fork(
    run_id: str,
    front: FrontOf,
    service: ServiceOf,
    request: Request,
    body: Annotated[ForkBody | None, Body()] = None,
) -> Response:
    """Begin a run from another one's journal. Only what changes is asked again."""
    front.check_writable()
    body = body or ForkBody()
    state = await service.fork(
        run_id,
        at=body.at,
        edits=body.edits,
        seed=body.seed,
        labels=body.labels,
        pattern=body.pattern,
        options=body.options,
        limits=limits_of(body.limits),
        new_id=body.run_id,
        check=front.check_options,
    )
    return _begun(state, request, HTTPStatus.CREATED)


@router.post(
    "/runs/{run_id}/votes", status_code=HTTPStatus.CREATED, response_model=Votes, responses=responses(404, 409)
)
async def vote(run_id: str, body: VoteBody, front: FrontOf, service: ServiceOf) -> Response:
    """Vote on a debate that is over. The first vote of a reader stands."""
    front.check_writable()
    reader = body.reader or secrets.token_urlsafe(16)
    return data(await service.vote(run_id, reader, body.winner, why=body.why, order=body.order), HTTPStatus.CREATED)


@router.get("/runs/{run_id}/votes", response_model=Votes, responses=responses(404))
async def votes(run_id: str, service: ServiceOf) -> Response:
    """Count the votes of a debate's readers."""
    return data(await service.votes(run_id))


@router.delete("/runs/{run_id}", status_code=HTTPStatus.NO_CONTENT, responses=responses(404, 409))
async def delete(run_id: str, front: FrontOf, service: ServiceOf) -> Response:
    """Delete a run."""
    front.check_writable()
    await service.delete(run_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _begun(state: RunState, request: Request, status: HTTPStatus) -> Response:
    root = request.scope.get("root_path", "")
    return data(state, status, location=f"{root}{API}/runs/{quote(state.run_id, safe='')}")
