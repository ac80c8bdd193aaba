"""JSON responses and problem documents (RFC 9457), and the HTTP statuses of the library's errors."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from flowdebate import _text, errors
from flowdebate._text import short_repr
from flowdebate._util.json_data import json_text
from flowdebate.errors import (
    ConfigurationError,
    ConflictingOptions,
    FlowDebateError,
    NotAwaited,
    OutputError,
    SchemaViolation,
)
from flowdebate.web.templates import render

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request


_LOG = logging.getLogger("flowdebate.server")
_ERROR = "urn:flowdebate:error:"
_MAX_LENGTH, _MAX_LISTED = 50, 3
"""Maximum number of invalid fields listed in a response's details, and in its message. A 1 MB body can contain a
million invalid fields.
"""
_FORWARDED_HEADERS = ("connection", "retry-after", "www-authenticate")
"""Headers of a problem response to preserve when the problem is shown as a page."""
_OUR_FAULT = "The server failed; its log contains the reason."

STATUSES: Mapping[type[FlowDebateError], HTTPStatus] = {
    FlowDebateError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.ConfigurationError: HTTPStatus.UNPROCESSABLE_ENTITY,
    # This is caused by the way the application built its pattern, so no request can fix it.
    errors.ResourceConflict: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.ModelError: HTTPStatus.BAD_GATEWAY,
    errors.ModelUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.AuthenticationFailed: HTTPStatus.SERVICE_UNAVAILABLE,  # the server's key is missing or wrong
    errors.ModelTimeout: HTTPStatus.GATEWAY_TIMEOUT,
    # Not 429, which would mean that this client sent too many requests; here, it is the provider that received too
    # many.
    errors.RateLimited: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.CircuitOpen: HTTPStatus.SERVICE_UNAVAILABLE,
    # Clients see this error only when submitting a human's answer.
    errors.OutputError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.BadFile: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.LimitReached: HTTPStatus.CONFLICT,
    errors.BudgetReached: HTTPStatus.TOO_MANY_REQUESTS,
    errors.StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.RunNotFound: HTTPStatus.NOT_FOUND,
    errors.RunExists: HTTPStatus.CONFLICT,
    errors.RunConflict: HTTPStatus.CONFLICT,
    errors.RunChanged: HTTPStatus.CONFLICT,
    errors.RunUncertain: HTTPStatus.CONFLICT,
    errors.JournalMismatch: HTTPStatus.CONFLICT,
    errors.NotRecordable: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotAwaited: HTTPStatus.CONFLICT,
    errors.DeadLetter: HTTPStatus.CONFLICT,
    errors.TooManyRuns: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TaskError: HTTPStatus.CONFLICT,
    errors.TaskNotFound: HTTPStatus.NOT_FOUND,
}
"""HTTP status for each error class; subclasses that are not listed use the status of their base class."""


class JSONData(JSONResponse):
    """JSON response."""

    def render(self, content: object) -> bytes:
        return json_text(content).encode("ascii")


class FieldProblem(BaseModel):
    """An invalid field."""

    field: str = Field(description="Path of the field; empty if the problem concerns the whole value.")
    problem: str = Field(description="What is wrong with it, in words.")
    given: str | None = Field(None, description="The value given, shortened for readability; null if there was none.")


class Problem(BaseModel):
    """Description of why a request was rejected or failed, as defined by RFC 9457."""

    type: str = Field(
        description="`urn:flowdebate:error:` followed by the class name in `flowdebate.errors`, or `about:blank`."
    )
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | None = Field(None, description="The invalid fields, if any.")
    open: list[str] | None = Field(
        None, description="For an answer that is not awaited: the places where the run is waiting."
    )


class ProblemResponse(JSONData):
    """Response with a problem as its body."""

    media_type = "application/problem+json"


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return an endpoint's possible problem responses, for the OpenAPI document."""
    content = {ProblemResponse.media_type: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    fallback = {"description": "Any other refused request", "content": content}
    return {
        **{status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses},
        "default": fallback,
    }


def status_of(error: FlowDebateError) -> HTTPStatus:
    """Return the HTTP status for an error's class or, if the class is not listed, for its nearest listed base class."""
    # A new error class gets the status of its base class by default.
    return next(STATUSES[error_type] for error_type in type(error).__mro__ if error_type in STATUSES)


def handle_problems(app: FastAPI) -> None:
    """Make the application respond to errors, unknown paths and unsupported methods with a problem document."""

    async def handle(request: Request, error: Exception) -> Response:
        return refusal(request, error)

    for kind in (FlowDebateError, HTTPException, RequestValidationError, RecursionError, Exception):
        app.add_exception_handler(kind, handle)


def refusal(request: Request, error: Exception) -> Response:
    """Build the response to an error: a page if a browser opened the URL, otherwise a JSON problem."""
    response = problem_response(error)
    if request.method not in ("GET", "HEAD") or "text/html" not in request.headers.get("accept", ""):
        return response
    problem, root = problem_of(error), request.scope.get("root_path", "").rstrip("/")
    menu = [] if problem.status == HTTPStatus.UNAUTHORIZED else [("Runs", "/"), ("New", "/new")]
    html = render("problem", root=root, menu=menu, here="", signed_in=False, problem=problem)
    headers = {name: value for name, value in response.headers.items() if name in _FORWARDED_HEADERS}
    return HTMLResponse(html.encode(errors="replace"), problem.status, headers)


def problem_response(error: Exception) -> ProblemResponse:
    """Build the problem response to an error."""
    problem, headers = problem_of(error), dict[str, str]()
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
    elif problem.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        open_for = error.seconds if isinstance(error, errors.CircuitOpen) else None
        # The waiting time requested by the provider or set by the circuit breaker; retrying earlier would fail.
        seconds = getattr(error, "retry_after", None) or open_for
        headers = {} if seconds is None else {"retry-after": str(max(1, math.ceil(seconds)))}
        # without this header, OpenAI clients retry after every 429 response
        if isinstance(error, errors.BudgetReached):
            headers["x-should-retry"] = "false"
    return ProblemResponse(problem.model_dump(exclude_none=True), status_code=problem.status, headers=headers)


def problem_of(error: Exception) -> Problem:
    """Convert an error to a problem."""
    match error:
        case FlowDebateError():
            return _of_library(error)
        case RequestValidationError():
            field_problems = [_of_pydantic(problem) for problem in error.errors()[:_MAX_LENGTH]]
            listed = "; ".join(
                f"{f'`{field_problem.field}`' if field_problem.field else 'the body'} {field_problem.problem}"
                for field_problem in field_problems[:_MAX_LISTED]
            )
            return _blank(HTTPStatus.UNPROCESSABLE_ENTITY, f"The request is invalid: {listed}", field_problems)
        case HTTPException():
            return _blank(HTTPStatus(error.status_code), str(error.detail))
        case RecursionError():
            # The JSON parser raises this before `check_data` can count the levels.
            return _blank(HTTPStatus.UNPROCESSABLE_ENTITY, "The request is nested too deeply.")
        case _:
            return _blank(HTTPStatus.INTERNAL_SERVER_ERROR, _OUR_FAULT)


def _of_library(error: FlowDebateError) -> Problem:
    status, kind = status_of(error), type(error).__name__
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _LOG.error("%s", _text.error_text(error))
    detail, field_problems = str(error), list[FieldProblem]()
    match error:
        case errors.StoreError():  # the message contains the store's location, which clients must not see
            detail = error.problem if status < HTTPStatus.INTERNAL_SERVER_ERROR else _OUR_FAULT
        case ConflictingOptions():
            field_problems = [FieldProblem(field=error.field, problem=detail.removeprefix(f"{error.location}: "))]
        case ConfigurationError():
            problem = (error.whole_message or error.problem).removeprefix(f"{error.location}: ")
            problem = f"{problem}. {error.hint}" if error.hint else problem
            field_problems = [FieldProblem(field=error.field, problem=problem, given=error.given)]
        case OutputError() | SchemaViolation():
            field_problems = [FieldProblem(field=field, problem=problem) for field, problem in error.problems]
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        detail = _OUR_FAULT
    return Problem(
        type=f"{_ERROR}{kind}",
        title=re.sub(r"(?<=[a-z])([A-Z])", lambda match: f" {match[1].lower()}", kind),
        status=status,
        detail=detail,
        errors=field_problems[:_MAX_LENGTH] or None,
        open=list(error.open) if isinstance(error, NotAwaited) else None,
    )


def _of_pydantic(error: Mapping[str, Any]) -> FieldProblem:
    place, *path = error["loc"]
    path = path or [place] * (place not in ("body", "query", "path", "header", "cookie"))
    field = ".".join(short_repr(part)[1:-1] if isinstance(part, str) else str(part) for part in path)
    if error["type"] == "json_invalid":
        return FieldProblem(
            field="", problem=f"is not valid JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
        )
    problem = _text.describe_problem(error, got=False)
    given = None if error["type"] in ("missing", "unknown_field") else _text.typed(error.get("input"))
    return FieldProblem(field=field, problem=problem, given=given)


def _blank(status: HTTPStatus, detail: str, fields: list[FieldProblem] | None = None) -> Problem:
    return Problem(type="about:blank", title=status.phrase, status=status, detail=detail, errors=fields)
