"""Several users: each sees and changes the runs of their own, whatever is asked for and however."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, Stage, debater, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

PLACE = "debate/round[1]/debate-turn-pro/debate-debater-pro"
PEOPLE = {"key-of-ann": "ann", "key-of-ben": "ben"}


def by_key(request: Request) -> str | None:
    """The user of a key, as an application would look it up."""
    return PEOPLE.get(request.headers.get("x-key", ""))


async def by_key_later(request: Request) -> str | None:
    """The same, from a database."""
    return by_key(request)


@pytest.fixture(scope="module", params=[by_key, by_key_later], ids=["sync", "async"])
def server(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A server for two people."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(debater)), authenticate=request.param) as stage:
        yield stage


@pytest.fixture
def ann(server: Stage) -> Iterator[httpx2.Client]:
    """What Ann uses."""
    with httpx2.Client(base_url=f"{server.url}/api/v1", headers={"x-key": "key-of-ann"}, trust_env=False) as http:
        yield http


@pytest.fixture
def ben(server: Stage) -> Iterator[httpx2.Client]:
    """What Ben uses."""
    with httpx2.Client(base_url=f"{server.url}/api/v1", headers={"x-key": "key-of-ben"}, trust_env=False) as http:
        yield http


def start_run(http: httpx2.Client, run_id: str, **changes: Any) -> str:
    """A run that is over."""
    answer = http.post("/runs", json={**BRIEF, "runId": run_id, **changes})
    assert answer.status_code == 201, answer.text
    assert http.get(f"/runs/{run_id}?wait=30").json()["status"] in ("complete", "awaiting")
    return run_id


def new_id() -> str:
    """An id that no run has."""
    return f"run-{time.time_ns()}"


def test_a_users_service_has_the_methods_of_the_service() -> None:
    """All that concern runs; those of the process stay with the application."""
    methods = {name for name in vars(Service) if not name.startswith("_")}
    own = {name for name in vars(OwnedService) if not name.startswith("_")}
    assert methods - own == {"close", "handle", "model_name", "patterns", "plans", "recover", "register"}


def test_nobody_else_comes_in(server: Stage) -> None:
    """A request of nobody known is 401."""
    assert server.http.get("/api/v1/runs").status_code == 401
    assert server.http.get("/api/v1/runs", headers={"x-key": "guess"}).status_code == 401


def test_runs_of_others_are_not_there(server: Stage, ann: httpx2.Client, ben: httpx2.Client) -> None:
    """Every endpoint with a run in its path answers 404 to somebody else, as for a run that there never was."""
    run_id = start_run(ann, new_id())
    bodies = {
        "answers": {"answer": "x"},
        "votes": {"winner": None},
        "fork": {},
        "links": {},
        "resume": {},
        "cancel": None,
    }
    tried = 0
    for path, operations in server.spec["paths"].items():
        if "{run_id}" not in path:
            continue
        for method in operations:
            place = path.removeprefix("/api/v1").format(run_id=run_id, place=PLACE)
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
    assert httpx2.get(f"{server.url}/runs/{run_id}", headers=ben.headers, trust_env=False).status_code == 404
    assert ann.get(f"/runs/{run_id}").json()["status"] == "complete"


def test_lists_have_ones_own_runs(server: Stage, ann: httpx2.Client, ben: httpx2.Client) -> None:
    """In each list and page; no filter leads around that."""
    mine, other = start_run(ann, new_id()), start_run(ben, new_id())
    for query in ("", "?limit=200", "?label=owner=ann", "?text=ship", "?status=complete"):
        listed = [run["runId"] for run in ben.get(f"/runs{query}").json()["runs"]]
        assert mine not in listed
        assert other in listed
    page = httpx2.get(f"{server.url}/", headers=ben.headers, trust_env=False).text
    assert mine not in page
    assert other in page


def test_the_owner_is_not_chosen(ann: httpx2.Client, ben: httpx2.Client) -> None:
    """The label `owner` is the user's name; another one is refused, also for a fork."""
    refused = ann.post("/runs", json={**BRIEF, "labels": {"owner": "ben"}})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "labels.owner")
    run_id = start_run(ann, new_id(), labels={"owner": "ann", "team": "x"})
    assert ann.get(f"/runs/{run_id}").json()["labels"] == {"owner": "ann", "team": "x"}
    assert ann.post(f"/runs/{run_id}/fork", json={"labels": {"owner": "ben"}}).status_code == 422
    forked = ann.post(f"/runs/{run_id}/fork").json()["runId"]
    assert ann.get(f"/runs/{forked}?wait=30").json()["labels"] == {"owner": "ann"}
    assert ben.get(f"/runs/{forked}").status_code == 404


@pytest.mark.parametrize("question", [BRIEF["question"], "Something else?"])
def test_an_id_of_somebody_else_is_taken(ann: httpx2.Client, ben: httpx2.Client, question: str) -> None:
    """Beginning or forking with it is 409, which says nothing of the run that has it."""
    run_id = start_run(ann, new_id())
    refused = ben.post("/runs", json={**BRIEF, "question": question, "runId": run_id})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:flowdebate:error:RunExists")
    assert "ship" not in refused.text
    own = start_run(ben, new_id())
    forked = ben.post(f"/runs/{own}/fork", json={"forkId": run_id})
    assert (forked.status_code, forked.json()["type"]) == (409, "urn:flowdebate:error:RunExists")
    assert ann.get(f"/runs/{run_id}").json()["labels"] == {"owner": "ann"}
