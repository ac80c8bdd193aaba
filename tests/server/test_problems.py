"""Problem responses: each library error has a status and becomes a problem with an explanation."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from flowdebate import errors
from flowdebate.errors import (
    CircuitOpen,
    ConfigurationError,
    FlowDebateError,
    NotAwaited,
    OutputError,
    RateLimited,
    RunNotFound,
    StoreError,
    TooManyRuns,
)
from flowdebate.server.problems import STATUSES, problem_response, status_of
from tests.server.stage import BRIEF, Stage

CLASSES = [
    kind
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type) and issubclass(kind, FlowDebateError)
]
NOT_CAUSED_BY_REQUESTS = {
    errors.ResourceConflict,
    errors.ReadOnly,
    errors.QuorumLost,
    errors.NoProposals,
    errors.LoopLimitExceeded,
    errors.PromiseBroken,
    errors.ViewError,
    FlowDebateError,
}
"""Errors that no request can cause: application defects, and endings of runs that no endpoint awaits."""


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_a_status(kind: type[FlowDebateError]) -> None:
    """Each error class, or one of its base classes, is in the table of statuses.

    Status 500 is reserved for errors that no request can cause.
    """
    error = kind.__new__(kind)
    assert (status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR) == (kind in NOT_CAUSED_BY_REQUESTS)


def test_status_table_contains_only_library_errors() -> None:
    assert set(STATUSES) <= set(CLASSES)


def make_problem(error: Exception) -> dict[str, Any]:
    """Return the problem for an error."""
    import json

    body: dict[str, Any] = json.loads(bytes(problem_response(error).body))
    return body


def test_problem_names_the_invalid_field() -> None:
    problem = make_problem(ConfigurationError("options", "max_rounds", 0, "must be at least 1", hint="Two are usual"))
    assert problem["errors"] == [{"field": "max_rounds", "problem": "must be at least 1. Two are usual", "given": "0"}]
    assert problem["type"] == "urn:flowdebate:error:ConfigurationError"
    assert problem["title"] == "Configuration error"
    problem = make_problem(OutputError("ann", "text", [("a.b", "is missing"), ("", "is empty")]))
    assert problem["errors"] == [{"field": "a.b", "problem": "is missing"}, {"field": "", "problem": "is empty"}]


def test_problem_hides_the_location_of_the_store() -> None:
    """Paths and addresses are private, so they are logged instead of being returned."""
    assert make_problem(RunNotFound("/home/ann/runs.sqlite3", "x"))["detail"] == "there is no run x"
    assert "/home/ann" not in str(
        make_problem(StoreError("/home/ann/runs.sqlite3", "/home/ann/runs.sqlite3 is not a database"))
    )
    assert make_problem(NotAwaited("s", "x", "waits elsewhere", ["a", "b"]))["open"] == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (TooManyRuns(8, retry_after=2.4), "3"),
        (CircuitOpen(7.0), "7"),
        (RateLimited("no", retry_after=30), "30"),
        (RateLimited("no"), None),
    ],
)
def test_problem_includes_retry_after(error: FlowDebateError, seconds: str | None) -> None:
    """If the error states how long to wait, the header gives that time in whole seconds."""
    assert problem_response(error).headers.get("retry-after") == seconds


def test_internal_errors_are_not_described() -> None:
    """Unexpected exceptions may contain anything, so the response does not show them."""
    assert "secret" not in str(make_problem(ValueError("secret")))
    assert make_problem(ValueError("secret"))["status"] == 500


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1", 404),
        ("GET", "/api/v1/runs/nothing", 404),
        ("GET", "/api/v1/runs/a%2Fb", 404),
        ("GET", "/api/v1/runs/nothing/report.html", 404),
        ("PUT", "/api/v1/runs", 405),
        ("PATCH", "/api/v1/runs/x", 405),
        ("OPTIONS", "/api/v1/runs", 405),
        ("TRACE", "/api/v1/runs", 405),
        ("POST", "/", 405),
        ("GET", "/docs", 404),
        ("GET", "/redoc", 404),
    ],
)
def test_unknown_paths_and_methods_return_problems(shared: Stage, method: str, path: str, status: int) -> None:
    answer = shared.http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"pattern"}),
        ({**BRIEF, "seed": "7"}, {"seed"}),
        ({**BRIEF, "seed": 2**63}, {"seed"}),
        ({**BRIEF, "run_id": "x"}, {"run_id"}),
        ({**BRIEF, "runId": "a/b"}, {"runId"}),
        ({**BRIEF, "runId": ".."}, {"runId"}),
        ({**BRIEF, "limits": {"calls": 0, "cost": 3}}, {"limits.calls", "limits.cost"}),
        ({**BRIEF, "labels": {"team": 7}}, {"labels.team"}),
        ({**BRIEF, "question": "half a pair: \ud83d"}, {"question"}),
        ({**BRIEF, "pattern": "quarrel"}, {"pattern"}),
        ({**BRIEF, "options": {"max_rounds": 0}}, {"max_rounds"}),
        ({**BRIEF, "options": {"round": 1}}, {"round"}),
        ({**BRIEF, "options": {"debaters": [{"name": "Ann"}]}}, {"debaters[0].stance"}),
        ({"pattern": "debate"}, {"question"}),
        ({**BRIEF, "question": {"text": "?"}}, {"question"}),
    ],
)
def test_invalid_fields_are_listed(shared: Stage, body: dict[str, Any], fields: set[str]) -> None:
    import json

    answer = shared.http.post("/api/v1/runs", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert {error["field"] for error in answer.json()["errors"]} == fields


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not valid JSON"),
        (b"", "the body is missing"),
        (b"\xfe{}", "body"),
        (b'{"pattern": "debate", "seed": NaN}', "seed"),
        (b"[" * 100_000, "body"),
        (b'{"pattern": "debate", "question": ' + b"[" * 70 + b"]" * 70 + b"}", "50 levels"),
        (b'{"pattern": "debate", "question": ' + b"9" * 5_000 + b"}", "body"),
        (b'{"pattern": "debate", "options": {"price": NaN}}', "NaN"),
    ],
)
def test_invalid_json_bodies_are_rejected(shared: Stage, content: bytes, message: str) -> None:
    answer = shared.http.post("/api/v1/runs", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert message in answer.text


def test_unknown_query_parameters_are_rejected(shared: Stage) -> None:
    """If a mistyped filter were ignored, the response would list every run."""
    answer = shared.get("/runs", params={"statsu": "failed"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "statsu"
    assert shared.get("/runs", params={"status": "well"}).status_code == 422
    assert shared.get("/runs", params={"before": "yesterday"}).status_code == 422
