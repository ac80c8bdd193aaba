"""Public links, each of which opens one run for reading or for a blind vote until the link is revoked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate import council
from flowdebate.errors import ProviderFailed
from flowdebate.server import links
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, TOKEN, Stage, answer_debate, staged
from tests.server.test_owners import list_routes

if TYPE_CHECKING:
    from collections.abc import Iterator

LABELS = {"team": "label-of-the-team"}
NOTE = "note-of-the-team"
READER = "a-reader-of-these-tests"


@pytest.fixture
def stranger(stage: Stage) -> Iterator[httpx2.Client]:
    """Create a browser client without a token."""
    with httpx2.Client(base_url=stage.url, headers={"accept": "text/html"}, trust_env=False, verify=False) as http:
        yield http


def share_run(stage: Stage, run_id: str, shows: str = "run", **changes: Any) -> dict[str, Any]:
    """Create a public link."""
    response = stage.post(f"/runs/{run_id}/links", {"shows": shows, "seconds": 60, **changes})
    assert response.status_code == 201, response.text
    link: dict[str, Any] = response.json()
    return link


def test_public_link_shows_the_run_and_search_engines_skip_it(stage: Stage, stranger: httpx2.Client) -> None:
    run_id = stage.finished(labels=LABELS)
    stage.http.put(f"/api/v1/runs/{run_id}/note", json={"note": NOTE})
    page = share_run(stage, run_id)["page"]
    for path in (page, f"{page}/present"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["x-robots-tag"]) == (200, "noindex, nofollow")
        assert "Should we ship?" in answer.text
        assert "debate-debater-pro is sure." in answer.text
        assert '<meta property="og:title" content="Should we ship?">' in answer.text
        assert '<meta property="og:description" content="Wait a week.">' in answer.text
        [picture] = re.findall(r'<meta property="og:image" content="([^"]+)">', answer.text)
        response = stranger.get(picture)  # an absolute URL, since preview generators do not resolve relative ones
        assert (response.headers["content-type"], picture.startswith("http://")) == ("image/png", True)
        for secret in (TOKEN, NOTE, *LABELS, *LABELS.values(), "seed ", "/~", "/runs/", run_id):
            assert secret not in answer.text, secret


def test_unshared_runs_are_not_public(stage: Stage, stranger: httpx2.Client) -> None:
    """A run has no public link until somebody creates one."""
    run_id = stage.finished()
    assert stage.get(f"/runs/{run_id}/links").json() == []
    assert stranger.get(f"/shared/{run_id}").status_code == 404
    link = share_run(stage, run_id)
    assert stage.get(f"/runs/{run_id}/links").json() == [link]
    assert stage.post(f"/runs/{run_id}/links", {"shows": "run", "role": "debate-judge"}).status_code == 422
    assert stage.post(f"/runs/{run_id}/links", {"shows": "trace"}).status_code == 422
    unjudged = stage.begin(options={"max_rounds": 1, "humans": ["judge"]})
    assert stage.get(f"/runs/{unjudged}?wait=30").json()["status"] == "awaiting"
    response = stage.post(f"/runs/{unjudged}/links", {"shows": "vote"})
    assert (response.status_code, "does not accept votes" in response.json()["detail"]) == (409, True)


def test_run_has_at_most_twenty_links(stage: Stage) -> None:
    run_id = stage.finished()
    shared_links = [share_run(stage, run_id) for _ in range(20)]
    assert stage.post(f"/runs/{run_id}/links", {"shows": "run"}).status_code == 409
    assert stage.http.delete(f"/api/v1/runs/{run_id}/links/{shared_links[0]['id']}").status_code == 204
    share_run(stage, run_id)


@pytest.mark.parametrize("shows", ["run", "vote"])
def test_link_gives_access_to_only_one_run(stage: Stage, stranger: httpx2.Client, shows: str) -> None:
    run_id, other = stage.finished(), stage.finished()
    code = share_run(stage, run_id, shows)["page"].rpartition("/")[2]
    opened = set()
    for method, path in list_routes(stage.app):
        names = set(re.findall(r"{(\w+)(?::path)?}", path))
        values = dict.fromkeys(names, "x")
        bare = path.replace(":path}", "}")
        for address in {bare.format(**{**values, "run_id": run, "code": code}) for run in (run_id, other, code)}:
            for headers in ({}, {"authorization": f"Bearer {code}"}, {"cookie": f"flowdebate={code}"}):
                body = {"answer": "x"} if method == "POST" else None
                if stranger.request(method, address, headers=headers, json=body).status_code < 400:
                    opened.add((method, path))
    reads = {"/shared/{code}"} | (
        {"/shared/{code}/present", "/api/v1/links/{code}/events"} if shows == "run" else set()
    )
    free = {"/api/v1/health", "/api/v1/ready"}
    assert opened == {("GET", path) for path in reads | free}


def test_revoked_link_returns_410(stage: Stage, stranger: httpx2.Client) -> None:
    """As soon as a link is revoked, all pages under it return this status. Other links to the run still work."""
    run_id = stage.finished()
    one, two = share_run(stage, run_id), share_run(stage, run_id, "vote")
    assert stage.http.delete(f"/api/v1/runs/{run_id}/links/{one['id']}").status_code == 204
    assert stage.http.delete(f"/api/v1/runs/{run_id}/links/{one['id']}").status_code == 404
    for path in (one["page"], f"{one['page']}/present"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["x-robots-tag"]) == (410, "noindex, nofollow")
        assert "This link was revoked" in answer.text
        assert "Should we ship?" not in answer.text
    assert stranger.get(two["page"], follow_redirects=True).status_code == 200
    stage.http.delete(f"/api/v1/runs/{run_id}/links/{two['id']}")
    assert stranger.post(two["path"], json={"winner": None, "reader": READER}).status_code == 410


def test_link_is_deleted_with_its_run(stage: Stage, stranger: httpx2.Client) -> None:
    """Starting a new run with the same id does not make the link work again, nor does importing the run."""
    run_id = stage.finished()
    page = share_run(stage, run_id)["page"]
    assert "shares" not in stage.get(f"/runs/{run_id}/export.jsonl").text
    stage.http.delete(f"/api/v1/runs/{run_id}")
    answer = stranger.get(page)
    assert (answer.status_code, "This link does not work" in answer.text) == (404, True)
    stage.finished(runId=run_id)
    assert stranger.get(page).status_code == 404


def test_each_reader_of_a_link_has_one_vote(stage: Stage, stranger: httpx2.Client) -> None:
    """Before voting, a reader sees neither the speakers' names nor the verdict.

    Even after the vote, the page does not link to any other page.
    """
    run_id = stage.finished()
    link = share_run(stage, run_id, "vote")
    before = stranger.get(link["page"], follow_redirects=True).text
    assert "Wait a week." not in before
    assert "Read both sides without names" in before
    assert stranger.get(f"{link['page']}/present").status_code == 404
    assert stranger.post(link["path"], json={"winner": None}).status_code == 422
    voted = stranger.post(link["path"], json={"winner": None, "reader": READER})
    assert (voted.status_code, voted.json()["readers"]) == (201, 1)
    assert stranger.post(link["path"], json={"winner": None, "reader": READER}).status_code == 409
    after = stranger.get(link["page"], params={"view": 0, "reader": READER}).text
    assert "Wait a week." in after
    for secret in (TOKEN, f"/runs/{run_id}", "See who spoke"):
        assert secret not in after
    assert stage.get(f"/runs/{run_id}/votes").json()["readers"] == 1
    assert stranger.post(share_run(stage, run_id)["page"], json={}).status_code == 405


def test_link_votes_are_limited(stage: Stage, stranger: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody with the link can vote under several identities, so each link has a limit.

    Other links to the run still accept votes.
    """
    monkeypatch.setattr(links, "MAX_VOTES", 3)
    run_id = stage.finished()
    one, two = share_run(stage, run_id, "vote"), share_run(stage, run_id, "vote")
    codes = [stranger.post(one["path"], json={"winner": None, "reader": f"{READER}-{n}"}).status_code for n in range(5)]
    assert codes == [201, 201, 201, 409, 409]
    assert stranger.post(two["path"], json={"winner": None, "reader": READER}).status_code == 201


def test_read_only_server_creates_no_links() -> None:
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate)), read_only=True) as stage:
        assert stage.post("/runs/none/links", {"shows": "run"}).status_code == 403


def test_users_can_share_only_their_own_runs() -> None:
    """The shared page does not name the user, and no other user can revoke its link."""

    def by_key(request: Any) -> str | None:
        return str(request.headers.get("x-key", "")) or None

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate)), authenticate=by_key) as stage:
        ann, ben = ({"x-key": name} for name in ("ann-of-the-team", "ben-of-the-team"))
        run_id = stage.post("/runs", BRIEF, headers=ann).json()["runId"]
        stage.get(f"/runs/{run_id}?wait=30", headers=ann)
        link = stage.post(f"/runs/{run_id}/links", {"shows": "run"}, headers=ann).json()
        assert stage.http.delete(f"/api/v1/runs/{run_id}/links/{link['id']}", headers=ben).status_code == 404
        page = stage.http.get(link["page"])
        assert (page.status_code, "of-the-team" in page.text) == (200, False)


def test_failure_details_are_not_public() -> None:
    """Error messages can contain private server addresses."""

    def failing(request: Any) -> Any:
        if "moderator" in request.block:
            return {"http://inside.example:8080": "what an error repeats"}
        return answer_debate(request)

    service = Service(store="memory:", model=FunctionModel(failing))
    with staged(lambda: service) as stage:
        run_id = stage.begin(options={"max_rounds": 1, "moderator": True})
        assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "degraded"
        assert "inside.example" in stage.http.get(f"/runs/{run_id}").text
        page = share_run(stage, run_id)["page"]
        for path in (page, f"{page}/present"):
            html = stage.http.get(path).text
            assert "inside.example" not in html
            assert "debate-debater-pro is sure." in html


def test_public_page_names_missing_speakers_without_the_reason() -> None:
    """The page says which speakers did not answer, even if their names contain quotation marks, but not why."""

    def failing(request: Any) -> Any:
        if request.block.endswith('-member-An"n'):
            raise ProviderFailed("http://inside.example:8080 is down")
        return {"answer": "Trams."} if request.block.endswith("-chair") else "I say so."

    members = [{"name": name} for name in ('An"n', "Ben", "Cleo")]
    panel = council(name="panel", members=members, review="none")
    with staged(lambda: Service({"panel": panel}, store="memory:", model=FunctionModel(failing))) as stage:
        run_id = stage.post("/runs", {"pattern": "panel", "question": "Trams or buses?"}).json()["runId"]
        assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "degraded"
        page = stage.http.get(share_run(stage, run_id)["page"]).text
    assert "Incomplete" in page
    assert "An&#34;n did not answer (ProviderFailed)" in page
    assert "inside.example" not in page
    assert "Trams." in page
