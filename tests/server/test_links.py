"""Human answers over HTTP, and through a signed link for one request or one role of a run."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.server.guard import Link, Links
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import TOKEN, Stage, answer_debate, staged

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

SIDES = [{"name": "Ann", "stance": "Ship"}, {"name": "Ben", "stance": "Wait"}]
WITH_ANN = {"options": {"max_rounds": 1, "debaters": SIDES, "humans": ["Ann"]}}
WITH_JUDGE = {"options": {"max_rounds": 1, "debaters": SIDES, "humans": ["judge"]}}


def waiting_run(stage: Stage, **changes: object) -> str:
    """Start a run that waits for a human."""
    run_id = stage.begin(**{**WITH_ANN, **changes})
    assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "awaiting"
    return run_id


def test_human_can_answer_over_http(stage: Stage) -> None:
    run_id = waiting_run(stage)
    assert stage.frames(f"/runs/{run_id}/events")[-1].event == "end"
    (request,) = stage.get(f"/runs/{run_id}/requests").json()
    assert "Ship" in request["shown"]
    answer = stage.post(f"/runs/{run_id}/answers", {"answer": "We have tested it."})
    assert answer.status_code == 200
    ended = stage.get(f"/runs/{run_id}?wait=30").json()
    assert (ended["status"], ended["pending"]) == ("complete", [])
    assert ended["document"]["raw"]["transcript"][0]["text"] == "We have tested it."


def test_invalid_answer_is_rejected(stage: Stage) -> None:
    run_id = waiting_run(stage, **WITH_JUDGE)
    response = stage.post(f"/runs/{run_id}/answers", {"answer": {"winner": "Zoe", "verdict": ""}})
    assert response.status_code == 422
    assert response.json()["errors"]
    assert stage.get(f"/runs/{run_id}").json()["status"] == "awaiting"
    elsewhere = stage.post(f"/runs/{run_id}/answers", {"answer": "x", "place": "nowhere"})
    assert elsewhere.status_code == 409
    assert len(elsewhere.json()["open"]) == 1
    over = stage.finished()
    assert stage.post(f"/runs/{over}/answers", {"answer": "x"}).status_code == 409


def test_link_shows_one_request_and_takes_its_answer(stage: Stage) -> None:
    run_id = waiting_run(stage)
    response = stage.post(f"/runs/{run_id}/links", {"seconds": 60})
    assert response.status_code == 201
    path = response.json()["path"]
    assert response.headers["location"] == path
    with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
        assert person.get(path).json()["block"] == "debate-debater-Ann"
        assert person.post(path, json={"answer": ""}).status_code == 422
        assert person.post(path, json={"answer": "We have tested it."}).status_code == 204
        stage.get(f"/runs/{run_id}?wait=30")
        assert person.get(path).status_code == 409
        assert person.post(path, json={"answer": "No!"}).status_code == 409
    assert stage.get(f"/runs/{run_id}").json()["document"]["raw"]["transcript"][0]["text"] == "We have tested it."


WITH_BOTH = {"options": {"max_rounds": 2, "debaters": SIDES, "humans": ["Ann", "Ben", "judge"]}}
ANN, BEN, JUDGE = "debate-debater-Ann", "debate-debater-Ben", "debate-judge"


def _answer_with_names(request: ModelRequest) -> str:
    """Return arguments that name their author and the other side."""
    ann, ben = ("Ann", "Ben") if "Ann" in request.block else ("Ben", "Ann")
    return f"As {ann}, I say that {ben} is wrong. {ben}'s tests failed, @{ann} has seen it."


def test_human_judge_with_a_link_sees_no_names() -> None:
    """Names are hidden next to arguments and inside them, both on the link's page and over HTTP."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(_answer_with_names))) as stage:
        run_id = waiting_run(stage, **WITH_JUDGE)
        link = stage.post(f"/runs/{run_id}/links", {"role": JUDGE}).json()
        with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
            for text in (person.get(link["page"]).text, person.get(link["path"]).text):
                assert "I say that Speaker" in text
                assert not re.search("Ann|Ben", text)


def test_role_link_covers_all_turns(stage: Stage) -> None:
    """Each person has one link for the whole run and sees what has been contributed since their last turn."""
    run_id = waiting_run(stage, **WITH_BOTH)
    links = {
        role: stage.post(f"/runs/{run_id}/links", {"role": role, "seconds": 60}).json() for role in (ANN, BEN, JUDGE)
    }
    with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:

        def page(role: str) -> str:
            response = person.get(links[role]["page"])
            assert response.status_code == 200
            return response.text

        def say(role: str, answer: object) -> int:
            status = person.post(links[role]["path"], json={"answer": answer}).status_code
            stage.get(f"/runs/{run_id}?wait=30")
            return status

        assert "Your turn" in page(ANN)
        assert "Not your turn" in page(BEN)
        assert say(BEN, "Me first.") == 409
        assert say(ANN, "It is tested.") == 204
        assert "Not your turn" in page(ANN)
        assert "It is tested." in page(BEN)
        assert say(BEN, "It is slow.") == 204
        assert "It is slow." in page(ANN)
        assert say(ANN, "It is fast enough.") == 204
        for role in (ANN, JUDGE):
            assert "Not your turn" in page(role)
            assert "Since then" not in page(role)
        assert say(BEN, "Nobody has measured.") == 204
        assert "Since then" in page(ANN)
        assert "Nobody has measured." in page(ANN)
        assert "It is tested." not in page(ANN)
        assert "Side A" in page(JUDGE)
        assert say(JUDGE, {"reasoning": "-", "winner": "Ship", "verdict": "Ship it."}) == 204
        for role in links:
            assert "The run is over" in page(role)
    steps = asyncio.run(recorded_answers(stage, run_id))
    assert [json.loads(step).get("by") for step in steps] == [
        f"a link for {role}" for role in (ANN, BEN, ANN, BEN, JUDGE)
    ]


async def recorded_answers(stage: Stage, run_id: str) -> list[str]:
    """Return the recorded human answers."""
    service: Service = stage.app.state.front.service
    return [step.body or "" for step in await service.store.steps(run_id) if step.kind == "human"]


def test_unchanged_page_is_not_sent_again(stage: Stage) -> None:
    """Waiting pages poll often, so an unchanged page should cost almost nothing."""
    run_id = waiting_run(stage, **WITH_BOTH)
    link = stage.post(f"/runs/{run_id}/links", {"role": BEN}).json()["page"]
    version = stage.http.get(link).text.partition('data-seen="')[2].partition('"')[0]
    assert stage.http.get(f"{link}?seen={version}").status_code == 204
    stage.post(f"/runs/{run_id}/answers", {"answer": "Yes."})
    assert stage.http.get(f"{link}?seen={version}").status_code == 200


def test_role_link_gives_access_to_nothing_else(stage: Stage) -> None:
    """The link does not work for other roles' requests or for other runs."""
    run_id, other = waiting_run(stage, **WITH_BOTH), waiting_run(stage, **WITH_JUDGE)
    link = stage.post(f"/runs/{run_id}/links", {"role": BEN}).json()
    judging = stage.get(f"/runs/{other}/requests").json()[0]
    with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
        assert person.get(link["path"]).status_code == 409
        assert "<form" not in person.get(link["page"]).text
        assert person.post(link["path"], json={"answer": "x", "place": judging["place"]}).status_code == 409
        first = stage.get(f"/runs/{run_id}/requests").json()[0]["place"]
        assert person.post(link["path"], json={"answer": "x", "place": first}).status_code == 409
        assert stage.get(f"/runs/{run_id}/requests").json()[0]["place"] == first
        for target in ("/", "/new", f"/runs/{run_id}", f"/runs/{run_id}/answer", f"{link['page']}/x", "/answer"):
            assert person.get(target).status_code in (401, 404)
        assert 'href="/"' not in person.get(link["page"]).text
    response = stage.post(f"/runs/{run_id}/links", {"role": "debate-synthesizer"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["problem"].endswith(f"Choose {ANN}, {BEN} or {JUDGE}")


def test_page_of_an_invalid_link_explains_the_problem(stage: Stage) -> None:
    """The page can be opened without a token, even after the run has been deleted."""
    run_id = waiting_run(stage)
    link = stage.post(f"/runs/{run_id}/links").json()["page"]
    assert stage.http.delete(f"/api/v1/runs/{run_id}").status_code == 204
    for path in ("/answer/nothing", link):
        response = httpx2.get(f"{stage.url}{path}", trust_env=False)
        assert response.status_code == 404
        assert "This link does not work" in response.text


def test_link_is_invalid_for_a_later_run_with_the_same_id(stage: Stage) -> None:
    """A link to a deleted run must not open a new run that has the same id."""
    run_id = waiting_run(stage, runId="again", **WITH_BOTH)
    link = stage.post(f"/runs/{run_id}/links", {"role": ANN}).json()
    assert stage.http.delete(f"/api/v1/runs/{run_id}").status_code == 204
    assert waiting_run(stage, runId="again", **WITH_BOTH) == run_id
    with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
        assert person.get(link["path"]).status_code == 404
        assert person.get(link["page"]).status_code == 404
        assert person.post(link["path"], json={"answer": "It is tested."}).status_code == 404


def test_link_for_one_request_has_a_page(stage: Stage) -> None:
    """Once the request has been answered, the page says that there is nothing more to do."""
    run_id = waiting_run(stage, **WITH_BOTH)
    link = stage.post(f"/runs/{run_id}/links").json()
    with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
        assert "Your turn" in person.get(link["page"]).text
        assert person.post(link["path"], json={"answer": "We have tested it."}).status_code == 204
        stage.get(f"/runs/{run_id}?wait=30")
        assert "You have nothing more to do here" in person.get(link["page"]).text


def test_link_code_gives_no_access_to_other_paths(stage: Stage) -> None:
    """The code is not accepted as a token, and it gives no access to the run's other requests or to longer paths."""
    run_id = waiting_run(stage)
    path = stage.post(f"/runs/{run_id}/links").json()["path"]
    code = path.rpartition("/")[2]
    with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as person:
        for target in ("/api/v1/runs", f"/api/v1/runs/{run_id}", f"/api/v1/runs/{run_id}/requests", "/"):
            assert person.get(target).status_code == 401
            assert person.get(target, headers={"authorization": f"Bearer {code}"}).status_code == 401
            assert person.get(target, params={"token": code}).status_code == 401
        for suffix in ("/", "/x", "/../../runs", "%2F..%2Fruns"):
            assert person.get(f"{path}{suffix}").status_code in (307, 401, 404)
        assert person.request("DELETE", path).status_code == 405
        origin = {"origin": "http://evil.example"}
        assert person.post(path, json={"answer": "x"}, headers=origin).status_code == 403
        assert person.post(path, content=b"answer=x").status_code == 415


def test_link_expires() -> None:
    """A link becomes invalid after its duration has passed or when the server's secret changes."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        run_id = waiting_run(stage)
        path = stage.post(f"/runs/{run_id}/links", {"seconds": 0.01}).json()["path"]
        while stage.http.get(path).status_code == 200:
            pass
        assert stage.http.get(path).status_code == 404
    now = 0.0
    links = Links("secret", clock=lambda: now)
    code = links.sign(Link(run_id="a", started_at=0.0, place="p", expires_at=10.0))
    assert links.read(code) is not None
    assert Links("another", clock=lambda: now).read(code) is None
    now = 10.0
    assert links.read(code) is None


def test_links_survive_a_restart_with_the_same_token(tmp_path: object) -> None:
    """Links are signed with the token, so a person can still answer after a restart."""
    store = f"{tmp_path}/runs.sqlite3"
    with staged(lambda: Service(store=store, model=FunctionModel(answer_debate))) as stage:
        run_id = waiting_run(stage)
        path = stage.post(f"/runs/{run_id}/links").json()["path"]
    with staged(lambda: Service(store=store, model=FunctionModel(answer_debate))) as stage:
        assert stage.http.get(path, headers={"authorization": ""}).status_code == 200


@given(st.text() | st.text(alphabet="abcXYZ019-_.=", min_size=1))
def test_unsigned_code_is_rejected(code: str) -> None:
    """Any path segment that is not signed is rejected without a server error."""
    assert Links(TOKEN).read(code) is None


@given(st.integers(0, 200), st.characters())
def test_changed_code_is_rejected(index: int, character: str) -> None:
    """Changing a single character invalidates the code."""
    links = Links(TOKEN, clock=lambda: 0.0)
    link = Link(run_id="city", started_at=0.0, place="debate/round[1]/ann", expires_at=60.0)
    code = links.sign(link)
    index %= len(code)
    changed = code[:index] + character + code[index + 1 :]
    assert links.read(changed) in ((link,) if changed == code else (None,))


def test_link_requires_a_pending_request(stage: Stage) -> None:
    """No link is created for a run without a pending request, and an unknown run is reported as not found."""
    assert stage.post(f"/runs/{stage.finished()}/links").status_code == 409
    assert stage.post("/runs/nothing/links").status_code == 404
    run_id = waiting_run(stage)
    assert stage.post(f"/runs/{run_id}/links", {"place": "nowhere"}).status_code == 409


@pytest.mark.parametrize("seconds", [0, -1, 10**9])
def test_link_duration_is_limited(stage: Stage, seconds: float) -> None:
    """A link can be valid for at most one year."""
    assert stage.post(f"/runs/{waiting_run(stage)}/links", {"seconds": seconds}).status_code == 422


def test_repeated_answer_counts_once(stage: Stage) -> None:
    """If the same answer is sent again, it counts for the next round only if it specifies that round's path.

    A different answer always counts.
    """
    run_id = waiting_run(stage, options={"max_rounds": 3, "debaters": SIDES, "humans": ["Ann"]})
    assert stage.post(f"/runs/{run_id}/answers", {"answer": "Ship it."}).status_code == 200
    assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "awaiting"
    second = stage.post(f"/runs/{run_id}/answers", {"answer": "Ship it."})
    assert second.status_code == 409
    assert "already has this answer: to submit it again, specify its place" in second.json()["detail"]
    [place] = second.json()["open"]
    assert stage.post(f"/runs/{run_id}/answers", {"answer": "Ship it.", "place": place}).status_code == 200
    assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "awaiting"
    assert stage.post(f"/runs/{run_id}/answers", {"answer": "Now."}).status_code == 200
    assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
