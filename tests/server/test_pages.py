"""Pages as the server sends them, before any script runs."""

from __future__ import annotations

import gzip
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.testing import ATTACKS, FunctionModel
from flowdebate.web.templates import assets
from tests.server.stage import QUESTION, staged
from tests.web.test_prose import SUBSET

if TYPE_CHECKING:
    from tests.server.stage import Stage

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[x](javascript:alert(1)) ![x](http://evil.example/x.png) <http://evil.example>",
    "&lt;b&gt; \ud83d \u202e",
    "]]>--><svg/onload=alert(1)>",
    "{{ 7 * 7 }} {% raw %} </textarea></title><base href=//evil.example>",
    *(attack.written() for attack in ATTACKS),
]


class Parts(HTMLParser):
    """HTML parser that collects elements with the names of their attributes, and the addresses that they refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, ...]] = set()
        self.addresses: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, *sorted(name for name, _ in attrs)))
        self.addresses.update(str(value) for name, value in attrs if name in ("href", "src", "action"))


def test_run_list_links_to_the_runs(stage: Stage) -> None:
    assert "No runs yet" in stage.http.get("/").text
    run_id = stage.finished()
    listed = stage.http.get("/?text=&status=&pattern=")
    assert listed.headers["content-type"] == "text/html; charset=utf-8"
    assert re.search(rf'<a href="/runs/{run_id}"[^>]*>{re.escape(QUESTION)}</a>', listed.text)
    assert "No runs match" in stage.http.get("/?text=nothing+like+it").text
    for number in range(3):
        stage.finished(runId=f"r{number}")
    assert '<a class="button" href="?limit=2&amp;before=' in stage.http.get("/?limit=2").text


def test_pages_and_data_are_compressed_but_streams_are_not(stage: Stage) -> None:
    """Compression makes responses much smaller, but the events in a stream must be sent as they occur."""
    run_id = stage.finished()
    asking = {"accept-encoding": "gzip"}
    for path in ("/", f"/runs/{run_id}", f"/api/v1/runs/{run_id}"):
        assert stage.http.get(path, headers=asking).headers["content-encoding"] == "gzip"
        assert "content-encoding" not in stage.http.get(path, headers={"accept-encoding": "identity"}).headers
    with stage.http.stream("GET", f"/api/v1/runs/{run_id}/events", headers=asking) as events:
        assert "content-encoding" not in events.headers


def test_each_run_has_a_page(stage: Stage) -> None:
    page = stage.http.get(f"/runs/{stage.finished()}").text
    for text in ("Wait a week.", "debate-debater-pro is sure.", "What the judge saw", "Both have a point."):
        assert text in page
    assert stage.http.get("/runs/nothing").status_code == 404


def test_run_page_shows_the_full_question(stage: Stage) -> None:
    """Lists shorten the question to one line.

    Run and vote pages show all of it, including the zero-width joiners that its writing system requires.
    """
    question = "क्\u200dया हम बदलें?\n\n" + "The build takes long. " * 60 + "Should we move to a monorepo?"
    sides = [{"name": "one", "stance": "One repository"}, {"name": "many", "stance": "Many"}]
    run_id = stage.finished(question=question, options={"max_rounds": 1, "debaters": sides})
    for path in ("", "/blind?view=0", "/present"):
        assert f"{question}</h1>" in stage.http.get(f"/runs/{run_id}{path}").text
    assert stage.http.get(f"/api/v1/runs/{run_id}").json()["question"] == question
    listed = stage.http.get("/").text
    assert "क्\u200dया हम बदलें? The build" in listed
    assert "monorepo" not in listed


@pytest.mark.parametrize("name", list(assets()))
def test_page_assets_are_served(shared: Stage, name: str) -> None:
    answer = shared.http.get(f"/static/{name}", headers={"authorization": ""})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(("text/css", "text/javascript", "image/"))


def test_pages_are_small() -> None:
    """All assets together take up less than 150 KB, or less than 60 KB when compressed."""
    contents = list(assets().values())
    assert sum(map(len, contents)) < 150_000
    assert sum(len(gzip.compress(content)) for content in contents) < 60_000


def test_other_files_are_not_served(stage: Stage) -> None:
    for name in ("../app.py", "..%2Fapp.py", "templates", "%2Fetc%2Fpasswd", "style.css%00"):
        assert stage.http.get(f"/static/{name}").status_code in (404, 422)


def test_hostile_text_is_escaped() -> None:
    text = ""

    def answer(request: Any) -> Any:
        return {"reasoning": text, "winner": None, "verdict": text} if request.output_schema else text

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        plain: Parts | None = None
        for text in ["A\n\nplain text.", " ".join(HOSTILE), *HOSTILE[:6]]:
            question = text.encode(errors="replace").decode()[:1_000]
            sides = [{"name": question[:60], "stance": question}, {"name": "B", "stance": "y"}]
            stage.begin(question=question, options={"max_rounds": 1, "debaters": sides}, runId="one")
            stage.get("/runs/one?wait=30")
            pages = [stage.http.get(path).text for path in ("/?limit=1", "/runs/one")]
            parts = Parts("".join(pages))
            plain = plain or parts
            assert parts.found <= plain.found | {("h1", "class"), ("p", "class")} | SUBSET, text
            assert parts.addresses <= plain.addresses, text
            assert stage.http.delete("/api/v1/runs/one").status_code == 204
