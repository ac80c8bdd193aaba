"""The judge audit in a browser: figures from stored ballots and votes, with their uncertainty."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import staged
from tests.server.test_pages import HOSTILE, Parts
from tests.server.test_travel_pages import get_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.stage import Stage

QUESTION = "Should we ship release {}?"
OPTIONS = {"max_rounds": 1, "schedule": "swap", "synthesizer": False}
RUNS = 12


def judge_first(request: Any) -> Any:
    """Judge in favor of the first position."""
    if request.output_schema is None:
        return "Because."
    names = list(request.output_schema["$defs"]["Scores"]["properties"])
    return {"reasoning": "r", "scores": {name: 60.0 - 20 * (name != names[0]) for name in names}, "verdict": "v"}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve debates judged in both orders by a position-biased judge."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(judge_first))) as stage:
        for number in range(RUNS):
            question = QUESTION.format(number)
            stage.finished(runId=f"r{number}", question=question, options=OPTIONS, labels={"half": str(number % 2)})
        yield stage


def read_counts(page: str) -> dict[str, str]:
    """Return the counts in the table of audited runs, by label."""
    return dict(re.findall(r'<tr><th scope="row">([^<]+)</th><td class="num">([^<]+)</td></tr>', page))


def test_audit_of_an_empty_server_is_empty() -> None:
    with staged(lambda: Service(store="memory:", model=FunctionModel(judge_first))) as stage:
        assert "These runs have no ballots of a judge yet." in get_page(stage, "/audit")


def test_figures_are_shown_with_their_sample_sizes(stage: Stage) -> None:
    page = get_page(stage, "/audit")
    assert read_counts(page)["Debates"] == str(RUNS)
    assert read_counts(page)["Ballots"] == str(2 * RUNS)
    assert f"In {RUNS} of {RUNS} debates judged in several orders, the verdict changed with the order" in page
    assert f"slot 1 of 2: 100%, {2 * RUNS} of {2 * RUNS}</title>" in page
    assert "Too few to tell: 12 items" in page
    assert "Nobody has voted on these debates yet" in page


def test_filters_select_the_audited_runs(stage: Stage) -> None:
    assert read_counts(get_page(stage, "/audit?label=half%3D1"))["Debates"] == str(RUNS // 2)
    assert read_counts(get_page(stage, "/audit?text=release+11&pattern=debate"))["Debates"] == "1"
    assert "These runs have no ballots of a judge yet" in get_page(stage, "/audit?pattern=council")
    assert stage.http.get("/audit?nothing=1").status_code == 422


def test_run_list_links_to_the_audit(stage: Stage) -> None:
    assert '<a href="/audit">Audit</a>' in get_page(stage, "/")
    assert '<a href="/audit" aria-current="page">Audit</a>' in get_page(stage, "/audit")


def test_reader_votes_are_compared_with_the_judge() -> None:
    """The page shows a confidence interval for the agreement, and makes no claim if there are only a few debates."""

    def sure(request: Any) -> Any:
        verdict = {"reasoning": "r", "winner": "We should ship release 1", "verdict": "v"}
        return verdict if request.output_schema else "Because."

    with staged(lambda: Service(store="memory:", model=FunctionModel(sure))) as stage:
        stage.finished(runId="r1", question=QUESTION.format(1))
        sides = list(stage.get("/runs/r1/votes").json()["sides"])
        for winner in (sides[0], sides[0], None):
            stage.post("/runs/r1/votes", {"winner": winner})
        page = get_page(stage, "/audit")
        assert "agreement with readers: 1.00, 1 debate</title>" in page
        assert "Too few to tell: in 1 of 1 debate most readers voted as the judge" in page
        assert "2 of 3 votes agreed with the judge." in page
        assert read_counts(page)["Reader votes"] == "3"


def test_ballots_shared_with_a_fork_count_once() -> None:
    """A fork contains its parent's ballots, which must not be counted a second time."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(judge_first))) as stage:
        stage.finished(runId="parent", question=QUESTION.format(1), options=OPTIONS)
        before = read_counts(get_page(stage, "/audit"))
        assert stage.post("/runs/parent/fork", {"forkId": "child"}).status_code == 201
        assert stage.get("/runs/child?wait=30").json()["status"] == "complete"
        assert read_counts(get_page(stage, "/audit")) == before


def test_users_see_only_the_audit_of_their_own_runs() -> None:
    people = {"key-of-ann": "ann", "key-of-ben": "ben"}
    service = Service(store="memory:", model=FunctionModel(judge_first))
    with staged(lambda: service, authenticate=lambda request: people.get(request.headers.get("x-key", ""))) as stage:
        stage.http.headers["x-key"] = "key-of-ann"
        stage.finished(question=QUESTION.format(1), options=OPTIONS)
        assert read_counts(get_page(stage, "/audit"))["Debates"] == "1"
        stage.http.headers["x-key"] = "key-of-ben"
        assert "These runs have no ballots of a judge yet" in get_page(stage, "/audit")


def test_hostile_text_is_escaped(stage: Stage) -> None:
    for text in HOSTILE[:4]:
        question = text.encode(errors="replace").decode()
        page = stage.http.get("/audit", params={"text": question, "label": f"a={question}", "pattern": question}).text
        assert Parts(page).found <= Parts(get_page(stage, "/audit?text=no&label=a%3Db&pattern=x")).found
