"""Sharing and presenting a run, by mouse and keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.browser.visit import Visit
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

SIDES = [{"name": "Mira", "stance": "build more homes"}, {"name": "Jon", "stance": "cap rents"}]
BEGINNING = {"pattern": "debate", "question": "Cap rents, or build?", "options": {"max_rounds": 2, "debaters": SIDES}}
SAID = (
    """**Build first.**

1. *Supply* sets the price, as `Tokyo` shows.
2. See the table.

| City | Built | Rents |
|---|---:|---:|
| Tokyo | 140,000 | -3% |

```python
a_very_long_identifier_that_does_not_break_anywhere_at_all_in_a_narrow_window = demand / supply
```

> Nobody has shown a city that got cheaper by forbidding prices.
"""
    + "And so on, at length. " * 120
)
WIDTHS = (360, 768, 1280)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve a finished debate."""

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is not None:
            return {"reasoning": "Only one had *figures*.", "winner": "cap rents", "verdict": "Wait for the census."}
        return SAID if "Mira" in request.block else "It helps **who lives there now**."

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        stage.post("/runs", {**BEGINNING, "runId": "rents"})
        assert stage.get("/runs/rents?wait=30").json()["status"] == "complete"
        yield stage


@pytest.fixture
def owner_visit(chromium: Browser, stage: Stage) -> Iterator[Visit]:
    """Open a visit with the token."""
    visit = Visit(chromium, stage.url)
    yield visit
    visit.close()
    assert visit.problems == []


@pytest.fixture
def stranger(chromium: Browser, stage: Stage) -> Iterator[Visit]:
    """Open a visit without the token."""
    visit = Visit(chromium, stage.url, token=None)
    yield visit
    visit.close()
    assert visit.problems == []


def shared(stage: Stage, shows: str) -> str:
    """Return the page behind a new public link."""
    page: str = stage.post("/runs/rents/links", {"shows": shows, "seconds": 60}).json()["page"]
    return page


def test_link_is_created_and_revoked_on_the_run_page(stage: Stage, owner_visit: Visit, stranger: Visit) -> None:
    """A stranger can read the run until the link is revoked, and sees a notice afterwards."""
    for old_link in stage.get("/runs/rents/links").json():  # links from earlier tests
        assert stage.http.delete(f"/api/v1/runs/rents/links/{old_link['id']}").status_code == 204
    page = owner_visit.open("/runs/rents")
    page.locator("#shares > summary").click()
    assert page.locator("#shares li").count() == 0
    page.get_by_role("button", name="Make a public link").click()
    link = page.locator("#shares li a")
    address = link.get_attribute("href")
    assert address is not None
    public_page = stranger.open(address)
    public_page.get_by_text("Wait for the census.").first.wait_for()
    assert public_page.get_by_role("link").all_inner_texts() == ["Skip to content", "Present", "#1", "#2", "#3", "#4"]
    page.reload()  # the server still has the link
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("Revoked. The link no longer works.").wait_for()
    assert page.locator("#shares li").count() == 0
    public_page.reload()
    public_page.get_by_role("heading", name="This link was revoked").wait_for()


def test_stranger_votes_and_then_sees_the_verdict(stage: Stage, stranger: Visit) -> None:
    """A public link accepts one vote from each browser."""
    address = shared(stage, "vote")
    page = stranger.open(address)
    assert page.get_by_text("Wait for the census.").count() == 0
    assert page.get_by_text("Mira").count() == 0
    page.get_by_label("Neither").check()
    page.get_by_role("button", name="Vote").click()
    page.get_by_text("Wait for the census.").wait_for()
    assert page.get_by_role("link", name="See who spoke").count() == 0
    page.goto(stage.url + address)
    page.get_by_role("heading", name="Your vote").wait_for()
    assert stage.get("/runs/rents/votes").json()["neither"] == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_result_is_in_view_after_a_vote(stage: Stage, chromium: Browser, width: int) -> None:
    """On a phone, the result is below the whole debate, so the page has to scroll to it."""
    visit = Visit(chromium, stage.url, token=None)
    page = visit.open(shared(stage, "vote"))
    page.set_viewport_size({"width": width, "height": 740})
    ask = page.get_by_role("link", name="Who argued better?")
    if ask.is_visible():  # on a wide page, the question is in view, so there is no link to it
        ask.click()
    page.get_by_role("radio", name="Side A").check()
    page.get_by_role("button", name="Vote").click()
    heading = page.get_by_role("heading", name="Your vote")
    heading.wait_for()
    page.locator("#answer:focus").wait_for()
    assert heading.evaluate(
        "each => { const at = each.getBoundingClientRect(); return at.top >= 0 && at.bottom < innerHeight; }"
    )
    assert "reader=" not in page.url
    page.reload()
    heading.wait_for()
    visit.close()
    assert visit.problems == []


def current_slide(page: Page) -> tuple[str, str]:
    """Return the number and the text of the current slide."""
    return page.locator("#at").inner_text(), page.locator(".slide:visible").inner_text()


def test_presentation_can_be_controlled_by_keyboard(stage: Stage, owner_visit: Visit, stranger: Visit) -> None:
    """The slides are the question, each turn and the verdict.

    The URL records the current slide, and Escape returns to the run.
    """
    page = owner_visit.open("/runs/rents")
    page.get_by_role("link", name="Present").click()
    page.get_by_role("button", name="Next").wait_for()
    for tab in (page, stranger.open(f"{shared(stage, 'run')}/present")):
        for position, text in enumerate(["Cap rents", "Mira", "Jon", "Mira", "Jon", "Wait for the census."], 1):
            number, slide = current_slide(tab)
            assert (number, text in slide) == (f"{position} of 6", True), slide
            assert tab.locator(".slide:visible").count() == 1
            tab.keyboard.press("ArrowRight")
        assert current_slide(tab)[0] == "6 of 6"  # there is no slide after the last one
        tab.keyboard.press("ArrowLeft")
        assert current_slide(tab)[0] == "5 of 6"
        tab.reload()
        assert current_slide(tab)[0] == "5 of 6"
        tab.keyboard.press("Home")
        assert current_slide(tab)[0] == "1 of 6"
        tab.get_by_role("button", name="Next").click()
        tab.keyboard.press("PageDown")  # Mira's text is longer than the window, so the key first scrolls through it
        assert current_slide(tab)[0] == "2 of 6"
        tab.keyboard.press("End")
        tab.keyboard.press("Escape")
        tab.get_by_role("link", name="Present").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shows", ["run", "present", "vote"])
def test_shared_pages_are_accessible(stage: Stage, stranger: Visit, shows: str, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    address = shared(stage, "vote" if shows == "vote" else "run")
    page = stranger.open(f"{address}/present" if shows == "present" else address)
    page.emulate_media(color_scheme=scheme)
    for number in range(6 if shows == "present" else 1):
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (number, width)
            if number in (0, 1, 5):
                violations = axe.run(page).response["violations"]
                assert [(violation["id"], violation["nodes"][0]["html"]) for violation in violations] == [], (
                    number,
                    width,
                )
        page.keyboard.press("ArrowRight")


def test_all_slides_are_shown_without_scripts(chromium: Browser, stage: Stage) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{stage.url}{shared(stage, 'run')}/present")
    assert page.locator(".slide:visible").count() == 6
    assert not page.get_by_role("button", name="Next").is_visible()
    context.close()
