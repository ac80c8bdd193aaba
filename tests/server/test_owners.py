"""Several users, each of whom sees and changes only their own runs, whatever the request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, Stage, answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

PLACE = "debate/round[1]/debate-turn-pro/debate-debater-pro"
PEOPLE = {"key-of-ann": "ann", "key-of-ben": "ben"}


def find_user(request: Request) -> str | None:
    """Return the user for a key, as an application would look it up."""
    return PEOPLE.get(request.headers.get("x-key", ""))


async def find_user_later(request: Request) -> str | None:
    """Return the user for a key after a delay, as from a database."""
    return find_user(request)


@pytest.fixture(scope="module", params=[find_user, find_user_later], ids=["sync", "async"])
def two_user_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Serve two users."""
    with staged(
        lambda: Service(store="memory:", model=FunctionModel(answer_debate)), authenticate=request.param
    ) as stage:
        yield stage


@pytest.fixture
def ann(two_user_stage: Stage) -> Iterator[httpx2.Client]:
    """Return Ann's client."""
    with httpx2.Client(
        base_url=f"{two_user_stage.url}/api/v1", headers={"x-key": "key-of-ann"}, trust_env=False, verify=False
    ) as http:
        yield http


@pytest.fixture
def ben(two_user_stage: Stage) -> Iterator[httpx2.Client]:
    """Return Ben's client."""
    with httpx2.Client(
        base_url=f"{two_user_stage.url}/api/v1", headers={"x-key": "key-of-ben"}, trust_env=False, verify=False
    ) as http:
        yield http


def start_run(http: httpx2.Client, run_id: str, **changes: Any) -> str:
    """Start a run, wait until it is complete or needs a human, and return its id."""
    answer = http.post("/runs", json={**BRIEF, "runId": run_id, **changes})
    assert answer.status_code == 201, answer.text
    assert http.get(f"/runs/{run_id}?wait=30").json()["status"] in ("complete", "awaiting")
    return run_id


def new_id() -> str:
    """Return an unused run id."""
    return f"run-{time.time_ns()}"


def test_owned_service_lacks_only_a_few_methods_of_a_service() -> None:
    methods = {name for name in vars(Service) if not name.startswith("_")}
    method_names = {name for name in vars(OwnedService) if not name.startswith("_")}
    assert methods - method_names == {
        "close",
        "handle",
        "model_name",
        "patterns",
        "plans",
        "recover",
        "register",
        "restrict_models",
    }


def test_unknown_users_are_rejected(two_user_stage: Stage) -> None:
    assert two_user_stage.http.get("/api/v1/runs").status_code == 401
    assert two_user_stage.http.get("/api/v1/runs", headers={"x-key": "guess"}).status_code == 401


def test_runs_of_other_users_are_not_found(two_user_stage: Stage, ann: httpx2.Client, ben: httpx2.Client) -> None:
    """Every endpoint that takes a run id returns 404 for another user's run, just as for an unknown run."""
    run_id = start_run(ann, new_id())
    bodies = {
        "answers": {"answer": "x"},
        "votes": {"winner": None},
        "note": {"note": "x"},
        "fork": {},
        "links": {},
        "resume": {},
        "cancel": None,
    }
    tried = 0
    for path, operations in two_user_stage.spec["paths"].items():
        if "{run_id}" not in path:
            continue
        for method in operations:
            place = path.removeprefix("/api/v1").format(run_id=run_id, place=PLACE, link_id="x", name="x")
            body = bodies.get(path.rpartition("/")[2])
            answer = ben.request(method, place, json=body) if body is not None else ben.request(method, place)
            missing = (
                ben.request(method, place.replace(run_id, "nothing"), json=body)
                if body is not None
                else ben.request(method, place.replace(run_id, "nothing"))
            )
            assert (answer.status_code, missing.status_code) == (404, 404), (method, path, answer.text)
            assert answer.text == missing.text.replace("nothing", run_id)
            tried += 1
    assert tried >= 14
    assert ben.get("/events", params={"runs": run_id}).status_code == 404
    assert httpx2.get(f"{two_user_stage.url}/runs/{run_id}", headers=ben.headers, trust_env=False).status_code == 404
    assert ann.get(f"/runs/{run_id}").json()["status"] == "complete"


def test_run_list_has_only_the_runs_of_its_user(two_user_stage: Stage, ann: httpx2.Client, ben: httpx2.Client) -> None:
    run_of_ann, other = start_run(ann, new_id()), start_run(ben, new_id())
    for query in ("", "?limit=200", "?label=owner=ann", "?text=ship", "?status=complete"):
        listed = [run["runId"] for run in ben.get(f"/runs{query}").json()["runs"]]
        assert run_of_ann not in listed
        assert other in listed
    page = httpx2.get(f"{two_user_stage.url}/", headers=ben.headers, trust_env=False).text
    assert run_of_ann not in page
    assert other in page


def test_owner_label_cannot_be_chosen(ann: httpx2.Client, ben: httpx2.Client) -> None:
    """The `owner` label is always the name of the user. Any other value is rejected, even for a fork."""
    response = ann.post("/runs", json={**BRIEF, "labels": {"owner": "ben"}})
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "labels.owner")
    run_id = start_run(ann, new_id(), labels={"owner": "ann", "team": "x"})
    assert ann.get(f"/runs/{run_id}").json()["labels"] == {"owner": "ann", "team": "x"}
    assert ann.post(f"/runs/{run_id}/fork", json={"labels": {"owner": "ben"}}).status_code == 422
    forked = ann.post(f"/runs/{run_id}/fork").json()["runId"]
    assert ann.get(f"/runs/{forked}?wait=30").json()["labels"] == {"owner": "ann"}
    assert ben.get(f"/runs/{forked}").status_code == 404


@pytest.mark.parametrize("question", [BRIEF["question"], "Something else?"])
def test_run_ids_of_other_users_are_unavailable(ann: httpx2.Client, ben: httpx2.Client, question: str) -> None:
    """Starting or forking a run with an id that another user already uses returns 409.

    The response does not describe that user's run.
    """
    run_id = start_run(ann, new_id())
    response = ben.post("/runs", json={**BRIEF, "question": question, "runId": run_id})
    assert (response.status_code, response.json()["type"]) == (409, "urn:flowdebate:error:RunExists")
    assert "ship" not in response.text
    run_of_ben = start_run(ben, new_id())
    forked = ben.post(f"/runs/{run_of_ben}/fork", json={"forkId": run_id})
    assert (forked.status_code, forked.json()["type"]) == (409, "urn:flowdebate:error:RunExists")
    assert ann.get(f"/runs/{run_id}").json()["labels"] == {"owner": "ann"}


# every route, requested without a key and by another user

CANARY = "Marigold-7f3a"
"""Word that Ann includes in each of her texts. Nobody else may see it."""
PUBLIC = ("/api/v1/health", "/api/v1/ready", "/static/", "/api/v1/links/", "/answer/", "/shared/")


def list_routes(app: Any) -> list[tuple[str, str]]:
    """Return the method and the path of each route, including undocumented ones."""
    from flowdebate.server import links, routes, views
    from flowdebate.server.pages import forms, runs
    from flowdebate.server.protocols import agui, openai

    described = [(m.upper(), path) for path, methods in app.openapi()["paths"].items() for m in methods]
    hidden = [route for module in (forms, runs, agui, openai) for route in module.router.routes]
    all_routes = [route for module in (links, routes, views) for route in module.router.routes]
    assert len(described) >= len(all_routes)
    return [*described, *((min(hidden_route.methods), hidden_route.path) for hidden_route in hidden)]


def run_requests(run_id: str, debate: str, place: str) -> dict[str, list[tuple[str, Any]]]:
    """Return queries and bodies about another user's run, keyed by route."""
    begin = {**BRIEF, "runId": run_id}
    chat = [{"role": "user", "content": "Go on."}]
    body = {"threadId": run_id, "runId": run_id, "state": {}, "messages": [], "tools": [], "context": []}
    return {
        "POST /api/v1/runs": [("", begin), ("", {**begin, "seed": 1}), ("", {**BRIEF, "labels": {"owner": "ann"}})],
        "GET /api/v1/runs": [
            ("", None),
            ("?label=owner=ann", None),
            (f"?text={CANARY}", None),
            (f"?before=9999999999.0:{run_id}", None),
            ("?pattern=debate&status=complete&limit=200", None),
        ],
        "GET /": [("", None), ("?label=owner=ann", None), (f"?text={CANARY}", None), ("?limit=200", None)],
        "GET /audit": [("", None), ("?label=owner=ann", None), (f"?text={CANARY}", None)],
        "GET /api/v1/events": [(f"?runs={run_id}", None), (f"?runs=nothing,{run_id}", None)],
        "GET /api/v1/runs/{run_id}": [("", None), ("?wait=1", None)],
        "GET /api/v1/runs/{run_id}/events": [("", None), ("?after=1-0", None), ("?text=0", None)],
        "GET /runs/{run_id}/travel": [("", None), ("?step=2", None)],
        "GET /runs/{run_id}/blind": [("", None), ("?view=1", None)],
        "GET /runs/{run_id}/answer": [("", None), (f"?place={place}", None)],
        "GET /compare": [(f"?a={run_id}&b={run_id}", None), (f"?a=nothing&b={run_id}", None)],
        "GET /new": [("", None), ("?pattern=debate", None)],
        "POST /api/v1/runs/{run_id}/answers": [
            ("", {"answer": "I give up."}),
            ("", {"answer": "I give up.", "place": place}),
            ("", {"answer": {"winner": None}, "by": "ann"}),
        ],
        "PUT /api/v1/runs/{run_id}/note": [("", {"note": "x"})],
        "POST /api/v1/runs/{run_id}/votes": [("", {"winner": None}), ("", {"winner": None, "reader": "a" * 16})],
        "POST /api/v1/runs/{run_id}/links": [
            ("", None),
            ("", {"place": place}),
            ("", {"role": "debate-judge"}),
            ("", {"shows": "run"}),
        ],
        "POST /api/v1/runs/{run_id}/fork": [
            ("", None),
            ("", {"forkId": "mine"}),
            ("", {"at": place}),
            ("", {"labels": {"owner": "ann"}}),
            ("", {"edits": {place: "I give up."}}),
        ],
        "POST /api/v1/runs/{run_id}/resume": [("", None), ("", {"allowChanges": True})],
        "POST /api/v1/runs/resume": [("", {}), ("", {"labels": {"owner": "ann"}})],
        "POST /api/v1/runs/cancel": [("", {}), ("", {"labels": {"owner": "ann"}})],
        "PATCH /api/v1/archive/{debate}": [("", {"right": "Ann"}), ("", {"answer": "Mine."})],
        "POST /api/v1/links/{code}": [("", {"answer": "I give up."})],
        "POST /api/v1/links/{code}/votes": [("", {"winner": None, "reader": "a" * 16})],
        "POST /api/v1/plans": [("", begin)],
        "POST /v1/chat/completions": [("", {"model": "nothing", "messages": chat, "metadata": {"owner": "ann"}})],
        "POST /v1/responses": [("", {"model": "nothing", "input": "Go on."})],
        "POST /ag-ui/{pattern}": [("", {**body, "forwardedProps": {}}), ("", {**body, "resume": []})],
    }


def every_request(stage: Stage, run_id: str, debate: str) -> list[tuple[str, str, Any]]:
    """Return the method, path and body of at least one request about the run for each route."""
    bodies_by_route = run_requests(run_id, debate, PLACE)
    names = {
        "run_id": run_id,
        "place": PLACE,
        "code": "made.up",
        "name": "style.css",
        "pattern": "debate",
        "link_id": "x",
        "number": "1",
    }
    requests = []
    for method, path in list_routes(stage.app):
        at = path.replace("{debate:path}", "{debate}").replace("{place:path}", "{place}").replace("{model:path}", "x")
        at = at.replace("{path:path}", "x")
        for query, body in bodies_by_route.pop(f"{method} {at}", [("", None)]):
            requests.append((method, at.format(**names, debate=debate) + query, body))
    assert not bodies_by_route, bodies_by_route
    return requests


@pytest.fixture
def all_protocols() -> Iterator[Stage]:
    """Serve two users with every protocol."""
    service = Service(store="memory:", model=FunctionModel(answer_debate))
    with staged(lambda: service, authenticate=find_user, openai=True, ag_ui=True) as stage:
        yield stage


def send_request(http: httpx2.Client, method: str, path: str, body: Any) -> tuple[int, str]:
    """Return the status and the text of the response."""
    answer = http.request(method, path, **({} if body is None else {"json": body}))
    return answer.status_code, answer.text


def test_every_route_requires_a_key(all_protocols: Stage) -> None:
    """Without a key, every route returns 401 unless it reveals nothing or requires a signature instead."""
    with httpx2.Client(base_url=all_protocols.url, trust_env=False, verify=False) as stranger:
        requests = every_request(all_protocols, "any", "any")
        assert len(requests) >= 80
        for method, path, body in requests:
            status, text = send_request(stranger, method, path, body)
            assert status == (404 if path.startswith(PUBLIC[3:]) else 401) or path.startswith(PUBLIC[:3]), (path, text)
            assert send_request(stranger, "HEAD", path, None)[0] in (
                401,
                404,
                405,
                200 if path.startswith(PUBLIC[:3]) else 401,
            )


def test_no_route_exposes_data_of_another_user(all_protocols: Stage) -> None:
    """No response to Ben contains text that Ann wrote or received, and his requests change nothing."""
    url, keys = all_protocols.url, {name: {"x-key": f"key-of-{name}"} for name in ("ann", "ben")}
    with (
        httpx2.Client(base_url=url, headers=keys["ann"], trust_env=False, verify=False) as ann,
        httpx2.Client(base_url=url, headers=keys["ben"], trust_env=False, verify=False) as ben,
    ):
        sides = [{"name": f"{CANARY}-{side}", "stance": f"{CANARY} is {side}"} for side in ("good", "bad")]
        body = {"pattern": "debate", "question": f"{CANARY}?", "runId": "hers", "labels": {"team": CANARY}}
        assert ann.post("/api/v1/runs", json={**body, "options": {"debaters": sides, "max_rounds": 1}}).is_success
        assert ann.get("/api/v1/runs/hers?wait=30").json()["status"] == "complete"
        consensus_request = {"pattern": "consensus", "question": f"{CANARY}: what next?", "runId": "agreed"}
        assert ann.post("/api/v1/runs", json=consensus_request).is_success
        ann.get("/api/v1/runs/agreed?wait=30")
        paths = ("/api/v1/runs/hers", "/api/v1/runs/hers/export.jsonl", "/api/v1/archive", "/api/v1/runs?limit=200")
        before = [ann.get(path).text for path in paths]
        assert all(CANARY in text for text in before)
        requests = every_request(all_protocols, "hers", "agreed:consensus")
        for method, path, content in requests:
            status, text = send_request(ben, method, path, content)
            assert status < 500, (method, path, text)
            assert CANARY not in text.replace(path, "").replace(f'value="{CANARY}"', ""), (method, path)
            if "/runs/hers" in path or path.startswith("/compare"):
                assert status in (404, 409, 422), (method, path, text)
        assert [ann.get(path).text for path in paths] == before
