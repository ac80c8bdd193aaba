"""All pages, as a real browser has them: for everybody, at every width, light and dark."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.browser.answers import answer_of
from tests.browser.visit import Visit, page_at_the_end
from tests.server.stage import QUESTION, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

WIDTHS = (320, 360, 500, 768, 1000, 1280)
FORMS = ("/new", "/new?pattern=consensus", "/runs/waits", "/runs/waits/answer")
OTHERS = ("/runs/debate/travel?step=3", "/compare?a=debate&b=council", "/runs/debate/blind?view=0", "/audit")
REPORTS = tuple(f"/api/v1/runs/{name}/report.html" for name in PATTERNS)
PAGES = ("/", "/archive", "/runs/none", *(f"/runs/{name}" for name in PATTERNS), *OTHERS, *FORMS, *REPORTS)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A server with a run of each pattern that is over, and one that waits for a judge."""

    async def answer(request: ModelRequest) -> Any:
        await asyncio.sleep(0.02)
        return answer_of(request)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        for name in PATTERNS:
            stage.post("/runs", {"pattern": name, "question": QUESTION, "runId": name})
            assert stage.get(f"/runs/{name}?wait=30").json()["status"] in ("complete", "degraded"), name
        judged = {"max_rounds": 1, "humans": ["judge"]}
        stage.post("/runs", {"pattern": "debate", "question": QUESTION, "options": judged, "runId": "waits"})
        assert stage.get("/runs/waits?wait=30").json()["status"] == "awaiting"
        yield stage


@pytest.fixture(scope="module")
def there(chromium: Browser, stage: Stage) -> Iterator[Visit]:
    """A visit to it, in which nothing may be amiss."""
    visit = Visit(chromium, stage.url)
    yield visit
    visit.close()
    assert visit.problems == []


@pytest.fixture(scope="module")
def page(there: Visit) -> Page:
    """One window for all pages."""
    return there.open("/")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(page: Page, stage: Stage, path: str, scheme: Any) -> None:
    """No finding of axe-core, with all folds open."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.emulate_media(color_scheme=scheme)
    page.goto(stage.pages + path)
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
    found = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_page_that_was_watched_ends_as_one_that_is_opened_later(page: Page, stage: Stage, pattern: str) -> None:
    """Whoever was there from the beginning has the same page as whoever comes afterwards."""
    run_id = stage.post("/runs", {"pattern": pattern, "question": QUESTION}).json()["runId"]
    page.goto(f"{stage.pages}/runs/{run_id}")
    watched = page_at_the_end(page)
    assert len(watched) > 2_000
    page.reload()
    assert page_at_the_end(page) == watched


@pytest.mark.parametrize("path", PAGES)
def test_nothing_has_to_be_scrolled_sideways(page: Page, stage: Stage, path: str) -> None:
    """From the narrowest telephone on."""
    page.goto(stage.pages + path)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_a_report_is_set_for_paper_and_gives_its_journal_away(page: Page, stage: Stage) -> None:
    """With its own style, all folds open in print, and the export as a file."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{stage.pages}/runs/debate")
    page.get_by_role("link", name="Report").click()
    page.wait_for_url("**/report.html")
    assert page.evaluate("getComputedStyle(document.querySelector('.verdict')).borderTopWidth") == "4px"
    journal = page.locator("#journal")
    shown = "journal => journal.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})"
    assert not journal.evaluate(shown)
    page.emulate_media(media="print")
    assert journal.evaluate(shown)
    page.emulate_media(media="screen")
    page.locator("#evidence > summary").click()
    with page.expect_download() as download:
        journal.click()
    lines = gzip.decompress(Path(download.value.path()).read_bytes())
    assert lines.decode() == stage.get("/runs/debate/export.jsonl").text


def test_the_list_is_filtered(page: Page, stage: Stage) -> None:
    """By a form, which the server's own policy allows."""
    page.goto(f"{stage.pages}/")
    page.get_by_role("combobox", name="Pattern").select_option("council")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/?text=&status=&pattern=council")
    councils = stage.get("/runs?pattern=council").json()["runs"]
    assert page.locator("table.list tbody tr").count() == len(councils)
