"""Tests that pages report errors, lost servers and unsaved input truthfully."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.browser.test_watching import CON, OPTIONS, PRO, allow_calls, begin_run, folder
from tests.browser.visit import Visit, read_finished_page
from tests.server.stage import answer_debate, staged
from tests.server.test_serve import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

__all__ = ("folder",)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve short debates."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


@pytest.fixture
def waits(stage: Stage) -> str:
    """Start a run that waits for a human. Each test gets its own run, because some tests answer it."""
    run_id = stage.begin(options={"max_rounds": 1, "humans": ["con"]})
    assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "awaiting"
    return run_id


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/runs/none", "Page not found"),
        ("/nothing", "Page not found"),
        ("/compare", "Incomplete address"),
        ("/api/v1/runs/none/report.html", "Page not found"),
    ],
)
def test_failed_page_requests_return_error_pages(
    stage: Stage, visit: Callable[[str], Visit], path: str, title: str
) -> None:
    """Browsers get a page with a link back; programs get JSON from the same address."""
    page = visit(stage.url).open(path)
    assert page.get_by_role("heading", level=1).inner_text() == title
    page.get_by_role("link", name="All runs").click()
    page.locator("table.list").wait_for()
    assert stage.http.get(path).headers["content-type"] == "application/problem+json"


def test_browser_without_the_token_gets_instructions(stage: Stage, waits: str, chromium: Browser) -> None:
    """The page explains how to sign in and has a field in which users can enter the token."""
    visitor = Visit(chromium, stage.url, token=None)
    page = visitor.open(f"/runs/{waits}")
    assert page.get_by_role("heading", level=1).inner_text() == "Sign in with the server’s address"
    page.get_by_label("Or paste the token").fill("a-token-of-these-tests")
    page.get_by_role("button", name="Sign in").click()
    page.locator("#people").get_by_text("Your turn").wait_for()
    assert page.title().startswith("(your turn) ")
    visitor.close()
    assert visitor.problems == []


def test_page_reports_a_lost_connection_and_reconnects(folder: Path, visit: Callable[[str], Visit]) -> None:
    """No speaker is shown as writing until the page has reconnected."""
    with start_server(folder, *OPTIONS) as (_, url, _):
        visitor, run_id = visit(url), begin_run(url)
        page = visitor.open(f"/runs/{run_id}")
        page.get_by_text(PRO).wait_for()
        page.locator(".caret").wait_for()
    page.get_by_text("The server does not answer.").wait_for()
    assert page.locator(".caret").is_hidden()
    allow_calls(folder, 5)
    with start_server(folder, *OPTIONS, "--port", url.rpartition(":")[2]):
        assert "Wait a week." in read_finished_page(page)
        page.locator("[data-lost]").wait_for(state="detached")


def test_page_reports_a_changed_token(folder: Path, visit: Callable[[str], Visit]) -> None:
    """A page opened with the old token reports that there is a new one and shows nothing further."""
    with start_server(folder, *OPTIONS) as (_, url, _):
        page = visit(url).open(f"/runs/{begin_run(url)}")
        page.get_by_text(PRO).wait_for()
    (folder / "token").write_text("another-token-of-these-tests")
    with start_server(folder, *OPTIONS, "--port", url.rpartition(":")[2]):
        page.get_by_text("a new token").wait_for()
        assert CON not in page.inner_text("body")


def test_input_survives_a_reload(stage: Stage, waits: str, visit: Callable[[str], Visit]) -> None:
    page = visit(stage.url).open("/new")
    page.locator("#question").fill("Is it so?")
    page.get_by_role("button", name="Add a side").click()
    page.locator(".seats > li").nth(2).locator("input").first.fill("Zoe")
    page.reload()
    assert page.locator("#question").input_value() == "Is it so?"
    assert page.locator(".seats > li").nth(2).locator("input").first.input_value() == "Zoe"
    page.goto(f"{stage.pages}/runs/{waits}/answer")
    assert page.title().startswith("(your turn) ")
    field = page.locator("form textarea")
    field.press("Control+Enter")
    page.locator(".problem").get_by_text("Write an answer first.").wait_for()
    assert page.get_by_text("Write an answer first.").count() == 1
    field.fill("We should **wait**.")
    page.reload()
    assert field.input_value() == "We should **wait**."
    field.press("Control+Enter")
    page.locator("#verdict").wait_for()
    page.locator("#turn-2 strong").wait_for()
    assert page.evaluate("run => Object.keys(sessionStorage).filter(key => key.includes(run))", waits) == []


def test_run_duration_never_decreases_after_an_answer(stage: Stage) -> None:
    run_id = stage.begin(options={"max_rounds": 1, "humans": ["con", "judge"]})
    seconds = []
    for answer in ("So.", {"reasoning": "-", "winner": None, "verdict": "Wait."}):
        seconds.append(stage.get(f"/runs/{run_id}?wait=30").json()["seconds"])
        stage.post(f"/runs/{run_id}/answers", {"answer": answer})
    seconds.append(stage.get(f"/runs/{run_id}?wait=30").json()["seconds"])
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


def test_unparsed_answers_are_reported_in_plain_language(visit: Callable[[str], Visit]) -> None:
    """The raw fields of the answer are collapsed on the page but printed in full in the report."""

    def answer(request: ModelRequest) -> str | dict[str, Any]:
        return {"winner": 12} if request.output_schema is not None else "Homes first."

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        run_id = stage.begin()
        assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "no_verdict"
        page = visit(stage.url).open(f"/runs/{run_id}")
        problem = page.locator("#incomplete")
        assert problem.inner_text().startswith("Incomplete: the judge's answer could not be read.")
        read = page.locator("body").inner_text()
        assert "SchemaViolation" not in read
        assert "`verdict`" not in read
        assert "Time: 0.0 s" not in read
        problem.get_by_text("Details").click()
        problem.get_by_text("`verdict` is missing").wait_for()
        assert "Field required" not in page.content()
        page.goto(f"{stage.pages}/api/v1/runs/{run_id}/report.html")
        assert page.locator("#incomplete").get_by_text("`verdict` is missing").is_visible()
