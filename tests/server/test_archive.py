"""The archive over HTTP and on its page, where owners view, correct and delete their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate.service.service import Service
from tests.patterns.consensus.debates import Call, model
from tests.server.stage import staged
from tests.server.test_owners import find_user
from tests.server.test_pages import HOSTILE, Parts
from tests.server.test_travel_pages import get_page
from tests.web.test_prose import SUBSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.stage import Stage

TASK = "How can rents be affordable?"
AGENTS = [{"name": name} for name in ("ann", "bob", "cy")]
VOTES = {"ann": "ann", "bob": "ann", "cy": "cy"}
SEEN: list[Call] = []


def answer_vote(call: Call) -> Any:
    """Answer a request for a vote: ann and bob vote for ann, while cy votes for itself and gives a reason."""
    if call.phase != "vote":
        return None
    return {"reasoning": f"{call.agent} says so.", "choice": VOTES[call.agent], "confidence": 0.9}


@pytest.fixture
def archive_stage() -> Iterator[Stage]:
    """Serve a debate with an archive."""
    SEEN.clear()
    with staged(lambda: Service(store="memory:", model=model(answer_vote, calls=SEEN))) as stage:
        finish_run(stage.http, "first")
        yield stage


def finish_run(http: Any, run_id: str, task: str = TASK, **options: Any) -> dict[str, Any]:
    """Return the raw output of a finished run."""
    body = {
        "pattern": "consensus",
        "question": task,
        "runId": run_id,
        "options": {"agents": AGENTS, "max_rounds": 1, **options},
    }
    answer = http.post("/api/v1/runs", json=body)
    assert answer.status_code == 201, answer.text
    document = http.get(f"/api/v1/runs/{run_id}?wait=30").json()
    assert document["status"] == "complete"
    raw: dict[str, Any] = document["document"]["raw"]
    return raw


def test_recorded_outcomes_weight_the_next_vote(archive_stage: Stage) -> None:
    (entry,) = archive_stage.get("/archive").json()
    assert (entry["task"], entry["winner"], entry["agents"]) == (TASK, "ann", ["ann", "bob", "cy"])
    assert [opinion["reasoning"] for opinion in entry["dissent"]] == ["cy says so."]
    changed = archive_stage.http.patch(
        f"/api/v1/archive/{entry['id']}", json={"right": "cy", "answer": "Build more rents."}
    )
    assert changed.status_code == 204, changed.text
    SEEN.clear()
    second = finish_run(archive_stage.http, "second", voting="weighted")
    assert second["tally"]["weights"]["cy"] > 1.0
    for text in ("a dissenting vote in it: cy says so.", "agreement on Build more rents.", "turned out to be wrong"):
        assert all(text in call.prompt for call in SEEN), text
    assert [entry["id"] for entry in archive_stage.get("/archive").json()] == ["second:consensus", "first:consensus"]


def test_request_can_skip_the_archive(archive_stage: Stage) -> None:
    """A debate that skips the archive reads no entries from it and adds none to it."""
    SEEN.clear()
    assert finish_run(archive_stage.http, "second", archive=False)["context"]["pastDebates"] == []
    assert len(archive_stage.get("/archive").json()) == 1


def test_archived_debate_can_be_deleted(archive_stage: Stage) -> None:
    """Deleting an archived debate does not delete its run."""
    assert archive_stage.http.delete("/api/v1/archive/first:consensus").status_code == 204
    assert archive_stage.get("/archive").json() == []
    assert archive_stage.get("/runs/first").json()["status"] == "complete"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"right": "zoe"}, "right"),
        ({}, "right"),
        ({"right": "ann", "wrong": "cy"}, "right"),
        ({"answer": ""}, "answer"),
    ],
)
def test_invalid_correction_is_rejected(archive_stage: Stage, body: dict[str, str], field: str) -> None:
    before = archive_stage.get("/archive").json()
    answer = archive_stage.http.patch("/api/v1/archive/first:consensus", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert archive_stage.http.patch("/api/v1/archive/nothing", json={"right": "ann"}).status_code == 422
    assert archive_stage.get("/archive").json() == before


def test_users_see_and_change_only_their_own_archive() -> None:
    with staged(lambda: Service(store="memory:", model=model(answer_vote)), authenticate=find_user) as stage:
        ann, ben = (
            httpx2.Client(base_url=stage.url, headers={"x-key": f"key-of-{name}"}, trust_env=False, verify=False)
            for name in ("ann", "ben")
        )
        with ann, ben:
            finish_run(ann, "of-ann")
            assert finish_run(ben, "of-ben", "Which rents are affordable?")["context"]["pastDebates"] == []
            assert [entry["id"] for entry in ben.get("/api/v1/archive").json()] == ["of-ben:consensus"]
            assert ben.patch("/api/v1/archive/of-ann:consensus", json={"right": "cy"}).status_code == 422
            assert ben.delete("/api/v1/archive/of-ann:consensus").status_code == 204
            assert TASK not in ben.get("/archive").text
            (entry,) = ann.get("/api/v1/archive").json()
            assert (entry["task"], entry["recorded"]) == (TASK, None)
            assert TASK in ann.get("/archive").text


def test_read_only_server_changes_nothing(archive_stage: Stage) -> None:
    """Requests that would change the archive return 403, and the archive page has no forms."""
    assert "<form" in get_page(archive_stage, "/archive")
    with staged(lambda: Service(store="memory:", model=model(answer_vote)), read_only=True) as stage:
        assert stage.http.patch("/api/v1/archive/first:consensus", json={"right": "cy"}).status_code == 403
        assert stage.http.delete("/api/v1/archive/first:consensus").status_code == 403
        assert "The archive has no consensus debates yet." in get_page(stage, "/archive")


def test_model_text_is_escaped_on_the_page() -> None:
    """Tasks, answers, dissents and names cannot add an element, an attribute or a URL to the page."""
    texts = ["plain"]

    def hostile(call: Call) -> Any:
        match call.phase:
            case "proposal":
                return texts[0]
            case "revision":
                return {"proposal": texts[0], "position": "p", "enough": True}
            case "vote":
                is_odd = call.agent.startswith("odd")
                return {"reasoning": texts[0], "choice": "ann" if is_odd else call.agent or "ann", "confidence": 0.9}
        return None

    with staged(lambda: Service(store="memory:", model=model(hostile))) as stage:
        plain: Parts | None = None
        for texts[0] in ["A\n\nplain text.", " ".join(HOSTILE), *HOSTILE[:6]]:
            task = texts[0].encode(errors="replace").decode()[:1_000]
            agents = [{"name": "ann"}, {"name": f"odd {task[:50]}"}, {"name": "cy"}]
            finish_run(stage.http, "one", task, agents=agents)
            stage.http.patch("/api/v1/archive/one:consensus", json={"wrong": "cy"})
            parts = Parts(get_page(stage, "/archive"))
            plain = plain or parts
            assert parts.found - SUBSET == plain.found - SUBSET, texts
            assert parts.addresses == plain.addresses, texts
            assert stage.http.delete("/api/v1/runs/one").status_code == 204
