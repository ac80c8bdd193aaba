"""Pages with forms for starting a run and for submitting a person's answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse, RedirectResponse

from flowdebate.blocks.base import outline
from flowdebate.blocks.human.answers import list_requests
from flowdebate.errors import ConfigurationError
from flowdebate.models.programs import limits_of
from flowdebate.patterns import PATTERNS, PatternInfo
from flowdebate.server import routes
from flowdebate.server.front import Front, FrontOf, ServiceOf, root_of
from flowdebate.server.links import link_of, request_for
from flowdebate.server.pages.runs import page
from flowdebate.service.state import PendingInput, RunDetails
from flowdebate.ui.models import models_line
from flowdebate.ui.page import PatternPage
from flowdebate.ui.plan import make_plan
from flowdebate.ui.statuses import OVER
from flowdebate.web.forms import Form, OpenRequest, answer_fields, contributions_since, form_of, role_title
from flowdebate.web.manual import INDEX, manual_page

_Question = Annotated[str, Query(max_length=20_000)]
_NONE = "There is no such pattern."

router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/new")
async def new(
    request: Request, front: FrontOf, pattern: str | None = None, question: _Question = "", *, example: bool = False
) -> Response:
    """Show the form for a new run of `pattern` (by default, the first one), filled in with `question` or an example."""
    front.check_writable()
    own_patterns = front.service.patterns
    built_in = [info for info in PATTERNS.values() if info.name not in own_patterns] if front.service.plans else []
    choices = {
        **{info.name: (info.help, info.load_page().diagram) for info in built_in},
        **dict.fromkeys(own_patterns, ("", PatternPage.diagram)),
    }
    pattern_chosen = next(iter(choices), None) if pattern is None else pattern
    if pattern_chosen not in choices:
        raise HTTPException(404, _NONE)
    if pattern_chosen in own_patterns:
        form = Form(pattern=pattern_chosen, subject="question", question=question)
    else:
        form = form_of(
            PATTERNS[pattern_chosen], question=question, example=example, is_option_allowed=front.is_option_allowed
        )
    models = await routes.models(front)
    names = [*models.allowed, *filter(None, [models.default])]
    return await page(
        "new",
        request,
        front,
        here="/new",
        choices=choices,
        steps=str(outline(own_patterns[pattern_chosen])) if pattern_chosen in own_patterns else "",
        form=form,
        models=models,
        limits=await asyncio.to_thread(limits_of, names),
        asked=None
        if pattern_chosen in own_patterns
        else await asyncio.to_thread(_models_of_run, PATTERNS[pattern_chosen], front),
        written=routes.written(form.body, request),
    )


@router.get("/help")
async def help_index(request: Request) -> Response:
    """Redirect to the first page of the documentation."""
    return RedirectResponse(f"{root_of(request)}/help/{INDEX}")


@router.get("/help/{name}")
async def help_page(name: str, request: Request, front: FrontOf) -> Response:
    """Show a page of the documentation."""
    manual = await asyncio.to_thread(manual_page, name)
    if manual is None:
        raise HTTPException(404, "The documentation has no such page.")
    return await page("help", request, front, here="/help", manual=manual, is_index=name == INDEX)


def _models_of_run(info: PatternInfo, front: Front) -> str | None:
    """Describe the default models of a run; return None unless there are several."""
    page = info.load_page()
    if front.service.model_name is not None or not page.each_by_default:
        return None
    with suppress(ConfigurationError):  # no allowed model is configured; this is reported when the run is started
        plan = make_plan(info, {info.subject: page.example}, begins=True, allow=front.service.restrict_models())
        return None if plan.dealt is None else models_line(plan)
    return None


@router.get("/runs/{run_id}/answer")
async def answer(
    run_id: str, request: Request, front: FrontOf, service: ServiceOf, place: str | None = None
) -> Response:
    """Show a person the pending request at path `place` in a run, or the run's only request."""
    details = await service.run(run_id)
    requests = [request_pending for request_pending in details.pending if place in (None, request_pending.place)]
    if not requests:
        raise HTTPException(404, "The run is not, or is no longer, waiting for this answer.")
    address = quote(run_id, safe="")
    view = _page_values(details, requests[0].block, requests[0])
    run_address = f"{root_of(request)}/runs/{address}"
    return await page(
        "answer", request, front, **view, to=f"/runs/{address}/answers", then=run_address, seen="", code=""
    )


@router.get("/answer/{code}")
async def answer_by_link(code: str, request: Request, front: FrontOf, seen: str = "") -> Response:
    """Show the page behind a link.

    The page shows a person's question, or a notice that there is no question yet or that the run is over. Responds with
    204 if the page has not changed since `seen`.
    """
    service = front.service
    try:
        link, stored = await link_of(front, code)
    except HTTPException:
        return await page("no-link", request, front, status=404, menu=False)
    mark = f"{stored.steps}-{stored.status}-{stored.owned:d}"
    if seen == mark:
        return Response(status_code=204)
    details = await service.run(link.run_id)
    pending = request_for(details.pending, link)
    requests = list_requests(await service.store.steps(link.run_id), link.run_id, store=service.store.name)
    block = link.role or next(
        (request_asked.block for request_asked, _ in requests if request_asked.place == link.place), ""
    )
    view = _page_values(details, block, pending)
    if link.role is None and pending is None:
        view["waits"] = False
    elif pending is None and details.document is not None:
        answers = [reply for request_asked, reply in requests if request_asked.block == block]
        view["since"] = contributions_since(details.document, answers[-1] if answers else None)
    return await page("answer", request, front, menu=False, **view, to=f"/links/{code}", then="", seen=mark, code=code)


def _page_values(details: RunDetails, block: str, pending: PendingInput | None) -> dict[str, Any]:
    """Collect the template values for the page on which a person answers a request."""
    question = None if pending is None else OpenRequest.of(pending)
    return {
        "question": details.question,
        "you": role_title(block, details.block),
        "waits": details.status not in OVER,
        "over": details.status in OVER,
        "pending": pending,
        "asked": question,
        "form": () if pending is None else answer_fields(pending.answer_schema),
        "since": (),
    }
