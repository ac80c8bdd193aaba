"""Runs managed over HTTP: starting, listing, reading, answering, cancelling, resuming, forking and deleting them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flowdebate.models.base import ModelRequest
from flowdebate.runs.limits import Limits
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, QUESTION, Gate, Stage, answer_debate, propose_sides, staged


def test_run_can_be_started_and_read(stage: Stage) -> None:
    begun = stage.post("/runs", BRIEF)
    assert begun.status_code == 201
    assert begun.headers["location"] == f"/api/v1/runs/{begun.json()['runId']}"
    run = stage.http.get(begun.headers["location"], params={"wait": 30}).json()
    assert (run["status"], run["question"], run["pattern"]) == ("complete", QUESTION, "debate")
    assert run["document"]["raw"]["verdict"]["verdict"] == "Wait a week."


def test_simultaneous_identical_requests_start_one_run(stage: Stage) -> None:
    """One of the requests returns 201, and the others return 200 with the same run."""
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: stage.post("/runs", {**BRIEF, "runId": "ship"}), range(40)))
    assert sorted(answer.status_code for answer in answers) == [200] * 39 + [201]
    assert {answer.json()["createdAt"] for answer in answers} == {answers[0].json()["createdAt"]}


WHICH = {"pattern": "debate", "question": "Which database?", "options": {"max_rounds": 1}}


def test_missing_sides_are_proposed_by_a_model() -> None:
    """A model proposes the sides before the run starts. Repeating the request finds the run and costs nothing."""
    blocks: list[str] = []

    def answer(request: ModelRequest) -> Any:
        blocks.append(request.block)
        return propose_sides(request)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = stage.finished(**WHICH, runId="which")
        sides = [speaker["stance"] for speaker in stage.get(f"/runs/{run_id}").json()["document"]["debaters"]]
        assert sides == ["Postgres is enough", "MySQL is simpler", "SQLite will do"]
        assert stage.post("/runs", {**WHICH, "runId": "which"}).status_code == 200
        assert blocks.count("sides") == 1
        proposals = stage.post("/sides", WHICH).json()["sides"]
        assert [side["stance"] for side in proposals] == sides
        assert [side["stance"] for side in stage.post("/sides", BRIEF).json()["sides"]] == [
            "We should ship",
            "We should not ship",
        ]
        assert blocks.count("sides") == 2


def test_proposing_sides_counts_toward_the_budget() -> None:
    make = lambda: Service(store="memory:", model=FunctionModel(propose_sides), budget=Limits(calls=1))  # noqa: E731 - as `staged` takes it
    with staged(make) as stage:
        assert stage.post("/sides", WHICH).status_code == 200
        assert stage.post("/sides", WHICH).status_code == 429
        assert stage.post("/runs", WHICH).status_code == 429


def test_repeated_request_with_the_same_id_starts_one_run(stage: Stage) -> None:
    """Repeating the request returns 200 with the existing run. A different request with the same id is rejected."""
    first = stage.post("/runs", {**BRIEF, "runId": "ship"})
    second = stage.post("/runs", {**BRIEF, "runId": "ship"})
    other = stage.post("/runs", {**BRIEF, "runId": "ship", "question": "Should we wait?"})
    assert (first.status_code, second.status_code, other.status_code) == (201, 200, 409)
    assert second.json()["createdAt"] == first.json()["createdAt"]
    assert other.json()["type"] == "urn:flowdebate:error:RunChanged"
    assert [run["runId"] for run in stage.get("/runs").json()["runs"]] == ["ship"]


def test_simultaneous_requests_with_the_same_id_start_one_run(gated: Stage, gate: Gate) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: gated.post("/runs", {**BRIEF, "runId": "ship"}), range(10)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len({answer.json()["createdAt"] for answer in answers}) == 1
    gate.wait_for_call()
    assert gate.calls == 1


def test_runs_are_listed_in_pages(stage: Stage) -> None:
    """The newest runs come first, and only runs that match every filter are listed.

    The value of `next` is passed as `before` to get the following page.
    """
    for number in range(5):
        stage.finished(runId=f"run-{number}", labels={"team": "blue" if number % 2 else "red"})
    first = stage.get("/runs", params={"limit": 3}).json()
    second = stage.get("/runs", params={"limit": 3, "before": first["next"]}).json()
    ids = [run["runId"] for page in (first, second) for run in page["runs"]]
    assert (ids, second["next"]) == ([f"run-{number}" for number in reversed(range(5))], None)
    blue = stage.get("/runs", params={"label": "team=blue"}).json()["runs"]
    assert [run["runId"] for run in blue] == ["run-3", "run-1"]
    assert stage.get("/runs", params={"status": "failed"}).json()["runs"] == []
    assert len(stage.get("/runs", params={"text": "SHIP", "pattern": "debate"}).json()["runs"]) == 5


def test_run_is_cancelled_and_resumed(gated: Stage, gate: Gate) -> None:
    run_id = gated.begin()
    gate.wait_for_call()
    gate.let()
    gate.wait_for_call()
    cancelled = gated.post(f"/runs/{run_id}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (202, "interrupted")
    assert gated.post(f"/runs/{run_id}/resume").status_code == 202
    gate.let(3)
    assert gated.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
    assert gate.calls == 5  # four calls plus the cancelled one


def test_matching_runs_are_cancelled_and_resumed(gated: Stage, gate: Gate) -> None:
    """The response to a single request lists the runs that changed and explains why others did not."""
    ids = [gated.begin(runId=f"{team}-run", labels={"team": team}) for team in ("red", "blue")]
    gate.wait_for_call()
    cancelled = gated.post("/runs/cancel", {"labels": {"team": "red"}}).json()
    assert [run["runId"] for run in cancelled["runs"]] == ["red-run"]
    assert gated.get("/runs/blue-run").json()["status"] == "running"
    assert [run["runId"] for run in gated.post("/runs/cancel", {}).json()["runs"]] == ["blue-run"]
    resumed = gated.post("/runs/resume", {"status": "interrupted"}).json()
    assert ({run["runId"] for run in resumed["runs"]}, resumed["refused"], resumed["more"]) == (set(ids), {}, False)
    assert gated.post("/runs/resume", {"team": "red"}).status_code == 422
    gate.let(10)
    for run_id in ids:
        assert gated.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
    assert gated.post("/runs/resume", {}).json() == {"runs": [], "refused": {}, "more": False}


def test_fork_repeats_only_changed_calls(gated: Stage, gate: Gate) -> None:
    """POST …/fork starts a run from another run's journal and reuses the calls that have not changed."""
    run_id = gated.begin(runId="parent")
    gate.wait_for_call()
    gate.let(4)
    assert gated.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
    calls = gate.calls
    forked = gated.post(f"/runs/{run_id}/fork", {"forkId": "child", "labels": {"try": "2"}})
    assert (forked.status_code, forked.json()["parent"]) == (201, "parent")
    assert forked.headers["location"] == "/api/v1/runs/child"
    assert gated.get("/runs/child?wait=30").json()["status"] == "complete"
    assert gate.calls == calls


def test_finished_debate_can_be_continued(gated: Stage, gate: Gate) -> None:
    """A fork adds rounds in which the debaters answer a question. Only these rounds and the verdict require calls."""
    run_id = gated.begin(runId="parent")
    gate.let(20)
    assert gated.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
    calls = gate.calls
    wrong = gated.post(f"/runs/{run_id}/fork", {"options": {"continuation": {"rounds": 0}}})
    assert (wrong.status_code, "rounds" in wrong.json()["detail"]) == (422, True)
    more = {"rounds": 2, "ask": "What would it cost?"}
    longer = gated.post(f"/runs/{run_id}/fork", {"forkId": "longer", "options": {"continuation": more}})
    assert (longer.status_code, longer.json()["parent"]) == (201, "parent")
    run = gated.get("/runs/longer?wait=30").json()
    raw = run["document"]["raw"]
    assert (run["status"], raw["rounds"], raw["readerQuestions"][0]["text"]) == ("complete", 3, "What would it cost?")
    # both debaters speak twice more, and the judge and the synthesizer are called again
    assert gate.calls == calls + 2 * 2 + 2


def test_run_in_progress_cannot_be_deleted(gated: Stage, gate: Gate) -> None:
    run_id = gated.begin()
    gate.wait_for_call()
    assert gated.http.delete(f"/api/v1/runs/{run_id}").status_code == 409
    gated.post(f"/runs/{run_id}/cancel")
    assert gated.http.delete(f"/api/v1/runs/{run_id}").status_code == 204
    assert gated.http.delete(f"/api/v1/runs/{run_id}").status_code == 404


def test_runs_are_started_by_priority(gate: Gate) -> None:
    """Runs with lower values of `priority` in the request body start first. Values above 100 return 422."""
    with staged(lambda: Service(store="memory:", model=gate, max_concurrency=1)) as stage:
        stage.begin()
        gate.wait_for_call()
        ids = [stage.post("/runs", BRIEF | {"priority": priority}).json()["runId"] for priority in (9, 0)]
        gate.let(100)
        late, soon = (stage.get(f"/runs/{run_id}?wait=30").json() for run_id in ids)
        assert (late["status"], soon["status"]) == ("complete", "complete")
        assert soon["updatedAt"] < late["updatedAt"]
        assert stage.post("/runs", BRIEF | {"priority": 101}).status_code == 422


def test_too_many_runs_are_rejected_with_retry_after(gate: Gate) -> None:
    """One run above the limit is queued. Once the queue is full, the response is 429 with a Retry-After header."""
    with staged(lambda: Service(store="memory:", model=gate, max_concurrency=1, max_queued=1)) as stage:
        stage.begin()
        queued = stage.post("/runs", BRIEF)
        assert (queued.status_code, queued.json()["status"]) == (201, "queued")
        response = stage.post("/runs", BRIEF)
        assert (response.status_code, response.json()["type"]) == (429, "urn:flowdebate:error:TooManyRuns")
        assert int(response.headers["retry-after"]) >= 1


def test_slow_schema_regex_does_not_block_the_server() -> None:
    """If the regex would backtrack forever on an answer, the answer is rejected quickly.

    Other requests are served in the meantime.
    """
    word = {"type": "string", "pattern": "^(a+)+$"}
    schema = {"type": "object", "properties": {"word": word}, "required": ["word"]}

    def answer(request: ModelRequest) -> str | dict[str, Any]:
        is_form = "word" in (request.output_schema or {}).get("properties", {})
        return {"word": "a" * 40 + "!"} if is_form else answer_debate(request)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = stage.begin(options={"max_rounds": 1, "output_schema": schema})
        assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "failed"
        word["pattern"] = "(?=b)a"
        response = stage.post("/runs", {**BRIEF, "options": {"output_schema": schema}})
        assert (response.status_code, "linear time" in response.text) == (422, True)
