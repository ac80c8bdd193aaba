"""Endpoints to start, list, inspect, answer, cancel, resume, fork and delete runs."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import Response

from flowdebate import __version__
from flowdebate.blocks.base import outline
from flowdebate.errors import ConfigurationError, RunNotFound
from flowdebate.evaluation.readers import Votes
from flowdebate.models.local.gguf import local_model_state
from flowdebate.models.providers import PROVIDERS
from flowdebate.models.resolve import environment_choice
from flowdebate.patterns import PATTERNS, PatternInfo, find_pattern
from flowdebate.runs.queue_state import QueueState
from flowdebate.server.front import API, Front, FrontOf, ServiceOf, check_writable, data, limits_of, stored_run
from flowdebate.server.guard import shared_root_of
from flowdebate.server.problems import JSONData, responses
from flowdebate.server.requests import (
    AnswerBody,
    BeginBody,
    CorrectionBody,
    FilterBody,
    ForkBody,
    NoteBody,
    ResumeAllBody,
    ResumeBody,
    RunsQuery,
    VoteBody,
)
from flowdebate.service.state import BudgetState, Changed, RunDetails, RunPage, RunState
from flowdebate.store.archive import ArchivedDebate
from flowdebate.ui.document import Side, Speaker, speakers_of
from flowdebate.ui.models import Models
from flowdebate.ui.options import option_of
from flowdebate.web.written import as_curl, as_python, as_toml

_READY_WITHIN = 1.0
_MAX_WAIT = 60
"""Maximum value of `?wait=` in seconds. It is below the time for which `serve` keeps idle connections open, so clients
can reuse the connection for the next wait.
"""

router: APIRouter = APIRouter(tags=["runs"])
changes: APIRouter = APIRouter(tags=["runs"], dependencies=[Depends(check_writable)])
"""Router for the endpoints that are not available on a read-only server."""


class _CamelCaseModel(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class ProposedSides(_CamelCaseModel):
    """Sides proposed for a debate on a question."""

    sides: list[Side] = Field(
        description="The sides, in the form of the `debaters` option of a request to start a run."
    )


@changes.post(
    "/runs",
    status_code=HTTPStatus.CREATED,
    response_model=RunState,
    responses={200: {"model": RunState, "description": "The same request was made before"}, **responses(409, 429)},
)
async def begin(body: BeginBody, front: FrontOf, service: ServiceOf, request: Request) -> Response:
    """Start a run. If you pass a `runId`, you can repeat the request without starting another run."""
    again = False
    async with front.beginning(body.run_id):
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
            priority=body.priority,
            check=front.check_options,
        )
    return _begun(state, request, HTTPStatus.OK if again else HTTPStatus.CREATED)


@changes.post("/sides", responses=responses(422, 429))
async def propose_sides(body: BeginBody, front: FrontOf, service: ServiceOf) -> ProposedSides:
    """Propose sides for a debate.

    The sides are taken from the debate's options or question if possible; otherwise, a model is called once.
    """
    sides = await service.propose_sides(
        body.pattern,
        body.question,
        options=body.options,
        labels=body.labels,
        limits=limits_of(body.limits),
        check=front.check_options,
    )
    return ProposedSides(sides=[side for side in speakers_of(sides) if isinstance(side, Side)])


@router.get("/runs", response_model=RunPage, responses=responses())
async def runs(query: Annotated[RunsQuery, Query()], service: ServiceOf) -> Response:
    """List runs, newest first."""
    return data(await service.runs(**query.filters, limit=query.limit, before=query.before))


@router.get("/runs/{run_id}", response_model=RunDetails, responses=responses(404))
async def run(
    run_id: str,
    service: ServiceOf,
    wait: Annotated[float, Query(ge=0, le=_MAX_WAIT, description="Number of seconds to wait for the run to end.")] = 0,
) -> Response:
    """Return a run with its state, its document so far, and its pending requests for human input."""
    return data(await service.wait(run_id, wait) if wait else await service.run(run_id))


@changes.post("/runs/{run_id}/answers", response_model=RunState, responses=responses(404, 409))
async def answer(run_id: str, body: AnswerBody, service: ServiceOf) -> Response:
    """Answer a run's request for human input."""
    return data(await service.answer(run_id, body.answer, place=body.place, resume=body.resume, by=body.by))


@changes.post("/runs/cancel", response_model=Changed, responses=responses())
async def cancel_all(body: FilterBody, service: ServiceOf) -> Response:
    """Cancel all runs that match the filters."""
    return data(await service.cancel_all(**body.model_dump()))


@changes.post("/runs/resume", response_model=Changed, responses=responses())
async def resume_all(body: ResumeAllBody, service: ServiceOf) -> Response:
    """Resume all runs that match the filters, for example after a provider outage."""
    return data(await service.resume_all(**body.model_dump()))


@changes.post(
    "/runs/{run_id}/cancel", status_code=HTTPStatus.ACCEPTED, response_model=RunState, responses=responses(404, 409)
)
async def cancel(run_id: str, service: ServiceOf) -> Response:
    """Cancel a run. Existing contributions are kept, and the run can be resumed."""
    return data(await service.cancel(run_id), HTTPStatus.ACCEPTED)


@changes.post(
    "/runs/{run_id}/resume",
    status_code=HTTPStatus.ACCEPTED,
    response_model=RunState,
    responses=responses(404, 409, 429),
)
async def resume(run_id: str, service: ServiceOf, body: Annotated[ResumeBody | None, Body()] = None) -> Response:
    """Resume a run that was interrupted, failed or reached a limit."""
    body = body or ResumeBody()
    state = await service.resume(
        run_id,
        on_uncertain=body.on_uncertain,
        allow_changes=body.allow_changes,
        retry_dead_letter=body.retry_dead_letter,
        limits=limits_of(body.limits),
    )
    return data(state, HTTPStatus.ACCEPTED)


@changes.post(
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
    """Start a new run from another run's journal. Models are called only for steps that differ."""
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
        fork_id=body.fork_id,
        check=front.check_options,
    )
    return _begun(state, request, HTTPStatus.CREATED)


@changes.post(
    "/runs/{run_id}/votes", status_code=HTTPStatus.CREATED, response_model=Votes, responses=responses(404, 409)
)
async def vote(run_id: str, body: VoteBody, service: ServiceOf) -> Response:
    """Vote on a finished debate. Only a reader's first vote counts."""
    # A reader without an id gets a new, unique one, which can be used for one vote.
    reader = body.reader or secrets.token_urlsafe(16)
    return data(await service.vote(run_id, reader, body.winner, why=body.why, order=body.order), HTTPStatus.CREATED)


@router.get("/runs/{run_id}/votes", response_model=Votes, responses=responses(404))
async def votes(run_id: str, service: ServiceOf) -> Response:
    """Count the votes cast by the readers of a debate."""
    return data(await service.votes(run_id))


@changes.delete("/runs/{run_id}", status_code=HTTPStatus.NO_CONTENT, responses=responses(404, 409))
async def delete(run_id: str, service: ServiceOf) -> Response:
    """Delete a run."""
    await service.delete(run_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get("/runs/{run_id}/note", response_model=NoteBody, responses=responses(404))
async def note(run_id: str, service: ServiceOf) -> Response:
    """Return the note on a run."""
    await stored_run(service, run_id)
    return JSONData({"note": await service.note(run_id)})


@changes.put("/runs/{run_id}/note", status_code=HTTPStatus.NO_CONTENT, responses=responses(404))
async def write_note(run_id: str, body: NoteBody, service: ServiceOf) -> Response:
    """Replace the note on a run; an empty note deletes it."""
    await service.write_note(run_id, body.note)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get("/budgets", response_model=list[BudgetState], responses=responses())
async def budgets(service: ServiceOf) -> Response:
    """Return how much of the server's budget, and of your own daily budget, has been used."""
    return data(await service.budgets())


@router.get("/archive", response_model=list[ArchivedDebate], responses=responses())
async def archive(service: ServiceOf, limit: Annotated[int, Query(ge=1, le=1_000)] = 200) -> Response:
    """List the archived debates, newest first; later debates can draw on them."""
    return data((await service.archive().debates())[:limit])


@changes.patch("/archive/{debate:path}", status_code=HTTPStatus.NO_CONTENT, responses=responses())
async def correct(debate: str, body: CorrectionBody, service: ServiceOf) -> Response:
    """Record the actual outcome of a debate, or correct the recorded outcome or answer."""
    await service.archive().correct(debate, **body.model_dump())
    return Response(status_code=HTTPStatus.NO_CONTENT)


@changes.delete("/archive/{debate:path}", status_code=HTTPStatus.NO_CONTENT, responses=responses())
async def forget(debate: str, service: ServiceOf) -> Response:
    """Remove a debate from the archive. The debate's run is kept."""
    await service.archive().forget(debate)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _begun(state: RunState, request: Request, status: HTTPStatus) -> Response:
    root = request.scope.get("root_path", "")
    return data(state, status, location=f"{root}{API}/runs/{quote(state.run_id, safe='')}")


# Endpoints that describe the server: patterns, models, and health

catalog: APIRouter = APIRouter(tags=["server"])


class PatternDescription(_CamelCaseModel):
    """Description of an available pattern."""

    name: str
    registered: bool = Field(description="Whether the application registered the pattern; if so, it has no options.")
    subject: str = Field(
        description="What its input is called: a question, a topic, a proposition, a task, or an input."
    )
    help: str | None = None
    outline: str | None = Field(None, description="The steps of a registered pattern.")
    roster: str | None = Field(None, description="The option that lists the speakers.")
    options: dict[str, Any] | None = Field(None, description="The JSON Schema of its options.")


class ProviderState(_CamelCaseModel):
    """A model provider and its state."""

    name: str
    key_variable: str | None = Field(description="The environment variable for its API key; null if none is needed.")
    ready: bool = Field(description="Whether its API key is set or not needed.")


class ModelsState(_CamelCaseModel):
    """Models available for runs."""

    default: str | None = Field(description="The model used by runs that specify none; null if none is set up.")
    allowed: list[str] = Field(description="Model names that options may contain, or patterns such as `openai/*`.")
    providers: list[ProviderState] = Field(description="The providers; specify a model as `provider/model`.")
    local: bool = Field(description="Whether the model `local` is installed.")


class WrittenRequest(_CamelCaseModel):
    """A request to start a run, written as a plan file, a Python program and a shell command."""

    toml: str | None = Field(
        description="The request as a plan file; null for a pattern registered by the application."
    )
    python: str = Field(description="The request as a Python program.")
    curl: str = Field(description="The request as a shell command.")
    speakers: list[Side | Speaker] = Field(
        description="The speakers if the request lists none: from its question or format, or the default ones. "
        "Empty if a model proposes the sides."
    )


class Health(BaseModel):
    """State of a running server."""

    status: Literal["ok"] = "ok"
    version: str = __version__


@catalog.get("/health", responses=responses())
async def health() -> Health:
    """Report that the server is running. Needs no token."""
    return Health()


@catalog.get("/ready", responses=responses(503))
async def ready(front: FrontOf) -> Health:
    """Report whether the server is ready, which means that its store responds within a second. Needs no token."""
    try:
        await asyncio.wait_for(front.service.store.documents("ready"), _READY_WITHIN)
    except TimeoutError:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "The store did not respond within a second.") from None
    return Health()


@catalog.get("/queue", response_model=list[QueueState], responses=responses())
async def queue(front: FrontOf) -> Response:
    """Return the state of this server's work queue and its live workers, or [] if the server has no workers."""
    workers = front.service.workers
    return data([] if workers is None else [await workers.overview()])


@catalog.post("/logout", status_code=HTTPStatus.NO_CONTENT, responses=responses())
async def logout(front: FrontOf) -> Response:
    """Sign out all browsers, which then need the token again; programs that send the token are not affected."""
    await front.sign_out()
    return Response(status_code=HTTPStatus.NO_CONTENT)


@catalog.get("/patterns", responses=responses())
async def patterns(front: FrontOf) -> list[PatternDescription]:
    """List the patterns that runs can use, and their options."""
    # A registered block replaces the built-in pattern with the same name.
    own_patterns = front.service.patterns
    registered = [
        PatternDescription(name=name, registered=True, subject="input", outline=str(outline(block)))
        for name, block in own_patterns.items()
    ]
    built_in = PATTERNS.values() if front.service.plans else ()
    return [*registered, *(_built_in(info, front) for info in built_in if info.name not in own_patterns)]


@catalog.post("/plans", responses=responses())
async def write_plan(body: BeginBody, request: Request) -> WrittenRequest:
    """Format a request to start a run as a plan file, as Python code and as a curl command.

    Nothing is started or checked.
    """
    return written(body.model_dump(by_alias=True, exclude_unset=True), request)


def written(body: Mapping[str, Any], request: Request) -> WrittenRequest:
    """Format a request to start a run as a plan file, as Python code and as a curl command."""
    # Omit this browser's secret path, because shell commands show up in process lists.
    body = _completed(body)
    url = str(request.url.replace(path=f"{shared_root_of(request)}{API}/runs", query=""))
    return WrittenRequest(
        toml=as_toml(body), python=as_python(body), curl=as_curl(body, url), speakers=_unnamed_speakers(body)
    )


def _completed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the run's default options to a request if the request can be parsed."""
    info, options = find_pattern(body["pattern"]), body.get("options") or {}
    if info is None or not isinstance(body.get("question"), str):
        return body
    page = info.load_page()
    with suppress(ConfigurationError):  # the input may still be incomplete while the user is typing
        read = page.options.read({}, file={**options, info.subject: body["question"]})
        if defaults := page.defaults(read, page.speakers(read, Models(None))):
            return {**body, "options": {**options, **defaults}}
    return body


def _unnamed_speakers(body: Mapping[str, Any]) -> list[Any]:
    """Return the default speakers of a run; return an empty list if a model has to propose them."""
    info = find_pattern(body["pattern"])
    if info is None or not isinstance(body.get("question"), str):
        return []
    page = info.load_page()
    options = {key: value for key, value in (body.get("options") or {}).items() if key == "format"}
    with suppress(ConfigurationError):  # the format may still be incomplete while the user is typing
        read = page.options.read({}, file={**options, info.subject: body["question"]})
        return speakers_of(page.speakers(read, Models(None)))
    return []


@catalog.get("/models", responses=responses())
async def models(front: FrontOf) -> ModelsState:
    """List the available models and whether each one's API key is set. The keys themselves are never shown."""
    state, choice = local_model_state(), await asyncio.to_thread(environment_choice)
    providers = [
        ProviderState(
            name=name,
            key_variable=provider.key_env,
            ready=provider.key_env is None or bool(os.environ.get(provider.key_env)),
        )
        for name, provider in PROVIDERS.items()
    ]
    default = front.service.model_name or (None if choice is None else choice[0])
    allowed = await asyncio.to_thread(lambda: front.service.restrict_models().names)
    return ModelsState(
        default=default,
        allowed=allowed,
        providers=providers,
        local=state["engine"] and (state["packages"] or state["path"] is not None),
    )


def _built_in(info: PatternInfo, front: Front) -> PatternDescription:
    options = info.load_page().options
    schema = options.model_json_schema(by_alias=True)
    for name in options.model_fields:
        if name in options.WITHOUT or name == info.subject or not front.is_option_allowed(options, name):
            del schema["properties"][name]
        else:
            schema["properties"][name]["description"] = option_of(options, name).help
    return PatternDescription(
        name=info.name,
        registered=False,
        subject=info.subject,
        help=info.help,
        roster=options.ROSTER,
        options=schema,
    )
