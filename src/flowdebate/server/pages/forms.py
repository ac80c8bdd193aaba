"""Pages with a form: a new run, and a person's answer."""

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
from flowdebate.blocks.human.answers import asked_in
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
from flowdebate.web.forms import Asked, Form, answer_fields, form_of, role_in_words, said_since
from flowdebate.web.manual import INDEX, manual_page

_Question = Annotated[str, Query(max_length=20_000)]
_NONE = "There is no such pattern."

router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/new")
async def new(
    request: Request, front: FrontOf, pattern: str | None = None, question: _Question = "", *, example: bool = False
) -> Response:
    """Show the form of a new run of `pattern` or the first pattern, with `question` or the pattern's example."""
    front.check_writable()
    own = front.service.patterns
    built_in = [info for info in PATTERNS.values() if info.name not in own] if front.service.plans else []
    choices = {
        **{info.name: (info.help, info.load_page().diagram) for info in built_in},
        **dict.fromkeys(own, ("", PatternPage.diagram)),
    }
    chosen = next(iter(choices), None) if pattern is None else pattern
    if chosen not in choices:
        raise HTTPException(404, _NONE)
    if chosen in own:
        form = Form(pattern=chosen, subject="question", question=question)
    else:
        form = form_of(PATTERNS[chosen], question=question, example=example, may_be_given=front.may_be_given)
    models = await routes.models(front)
    names = [*models.allowed, *filter(None, [models.default])]
    return await page(
        "new",
        request,
        front,
        here="/new",
        choices=choices,
        steps=str(outline(own[chosen])) if chosen in own else "",
        form=form,
        models=models,
        limits=await asyncio.to_thread(limits_of, names),
        asked=None if chosen in own else await asyncio.to_thread(_asked, PATTERNS[chosen], front),
        written=routes.written(form.body, request),
    )


@router.get("/help")
async def help_index(request: Request) -> Response:
    """Lead to the first page of the documentation."""
    return RedirectResponse(f"{root_of(request)}/help/{INDEX}")


@router.get("/help/{name}")
async def help_page(name: str, request: Request, front: FrontOf) -> Response:
    """Show a page of the documentation."""
    manual = await asyncio.to_thread(manual_page, name)
    if manual is None:
        raise HTTPException(404, "The documentation has no such page.")
    return await page("help", request, front, here="/help", manual=manual, is_index=name == INDEX)


def _asked(info: PatternInfo, front: Front) -> str | None:
    """The models that a run is asked where nobody names one, if those are several."""
    page = info.load_page()
    if front.service.model_name is not None or not page.each_by_default:
        return None
    with suppress(ConfigurationError):  # of what the server allows nothing is set up, as a run that begins is told
        plan = make_plan(info, {info.subject: page.example}, begins=True, allow=front.service.restrict_models())
        return None if plan.dealt is None else models_line(plan)
    return None


@router.get("/runs/{run_id}/answer")
async def answer(
    run_id: str, request: Request, front: FrontOf, service: ServiceOf, place: str | None = None
) -> Response:
    """The page of what a run asks a person: of the request at `place`, or of the only one."""
    details = await service.run(run_id)
    asked = [each for each in details.pending if place in (None, each.place)]
    if not asked:
        raise HTTPException(404, "The run does not wait for this answer, or not any more.")
    address = quote(run_id, safe="")
    shown = _shown(details, asked[0].block, asked[0])
    there = f"{root_of(request)}/runs/{address}"
    return await page("answer", request, front, **shown, to=f"/runs/{address}/answers", then=there, seen="", code="")


@router.get("/answer/{code}")
async def answer_by_link(code: str, request: Request, front: FrontOf, seen: str = "") -> Response:
    """The page of a link: what the person is asked, or that it is not their turn, or that the run is over.

    204 where that is still as in `seen`.
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
    asked = asked_in(await service.store.steps(link.run_id), link.run_id, store=service.store.name)
    block = link.role or next((each.block for each, _ in asked if each.place == link.place), "")
    shown = _shown(details, block, pending)
    if link.role is None and pending is None:
        shown["waits"] = False
    elif pending is None and details.document is not None:
        answers = [said for each, said in asked if each.block == block]
        shown["since"] = said_since(details.document, answers[-1] if answers else None)
    return await page("answer", request, front, menu=False, **shown, to=f"/links/{code}", then="", seen=mark, code=code)


def _shown(details: RunDetails, block: str, pending: PendingInput | None) -> dict[str, Any]:
    """What the page of a person shows."""
    asked = None if pending is None else Asked.of(pending)
    return {
        "question": details.question,
        "you": role_in_words(block, details.block),
        "waits": details.status not in OVER,
        "over": details.status in OVER,
        "pending": pending,
        "asked": asked,
        "form": () if pending is None else answer_fields(pending.answer_schema),
        "since": (),
    }
