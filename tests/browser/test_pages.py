"""All pages in a real browser: accessible, at every width, in light and dark themes."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.errors import ModelError
from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from tests.browser.answers import answer_request
from tests.browser.visit import Visit, read_finished_page
from tests.server.stage import QUESTION, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

# so many rounds cause a warning
pytestmark = pytest.mark.filterwarnings("ignore::flowdebate.errors.FlowDebateWarning")

WIDTHS = (320, 360, 500, 768, 1000, 1280)
LONG = "3f9d2c7a1b5e4d6f8a0b1c2d3e4f5a6b"
"""Id of a debate with 40 turns in Markdown."""
FORMS = (*(f"/new?pattern={name}" for name in PATTERNS), "/runs/waits", "/runs/waits/answer")
STATES = ("/runs/failed", "/runs/live", "/runs/stopped", "/compare")
OTHERS = ("/runs/debate/travel?step=3", "/compare?a=debate&b=council", "/runs/debate/blind?view=0", "/audit")
REPORTS = tuple(f"/api/v1/runs/{name}/report.html" for name in PATTERNS)
LONG_RUN = tuple(
    f"/runs/{LONG}{suffix}" for suffix in ("", "/travel?step=7", "/blind?view=0", "/present", "/present#3")
)
PAGES = (
    *("/", "/archive", "/runs/none"),
    *(f"/runs/{name}" for name in PATTERNS),
    *OTHERS, *FORMS, *STATES, *LONG_RUN, *REPORTS, f"/api/v1/runs/{LONG}/report.html", f"/compare?a={LONG}&b=failed",
)  # fmt: skip
PARTIES = [
    {
        "name": "Dr. Maximiliane-Theodora von Hohenzollern-Sigmaringen",
        "stance": "All buses should be free of charge for everybody and at all hours, paid for by a levy on employers",
    },
    {"name": "Jon", "stance": "Fares should stay"},
]
MARKDOWN = """### The **figures**

| Line | Riders a day | Cost per ride | Change |
|---|---:|---:|---:|
| 14 | 12,400 | 1.20 € | -3% |

1. They leave *full*, see https://example.org/a/very/long/address/that/does/not/break/anywhere?with=query&and=more
   - at the school

> Whoever waits for the last bus does not ask what it costs.

```python
a_very_long_identifier_that_does_not_break_anywhere_at_all_in_a_narrow_window = demand / supply_of_buses
```
"""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve a finished run of each pattern, a long run, and one run in each of the other states."""

    async def answer(request: ModelRequest) -> Any:
        await asyncio.sleep(0.02)
        prompt = str(request.messages)
        if "Never ends?" in prompt and "Jon" in request.block:
            await asyncio.Event().wait()
        if "Fails?" in prompt and "Jon" in request.block:
            raise ModelError("the server is overloaded, request 0123456789abcdef0123456789abcdef")
        return MARKDOWN if "free of charge" in prompt and request.output_schema is None else answer_request(request)

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        for name in PATTERNS:
            stage.post("/runs", {"pattern": name, "question": QUESTION, "runId": name})
            assert stage.get(f"/runs/{name}?wait=30").json()["status"] in ("complete", "degraded"), name
        judged = {"max_rounds": 1, "humans": ["judge"]}
        stage.post("/runs", {"pattern": "debate", "question": QUESTION, "options": judged, "runId": "waits"})
        assert stage.get("/runs/waits?wait=30").json()["status"] == "awaiting"
        for run_id, question, rounds in ((LONG, QUESTION, 20), ("failed", "Fails?", 1)):
            long = {"max_rounds": rounds, "debaters": PARTIES}
            stage.post("/runs", {"pattern": "debate", "question": question, "options": long, "runId": run_id})
            assert stage.get(f"/runs/{run_id}?wait=30").json()["status"] == ("complete" if rounds > 1 else "failed")
        for run_id in ("live", "stopped"):
            stage.post("/runs", {"pattern": "debate", "question": "Never ends?", "options": long, "runId": run_id})
        assert stage.post("/runs/stopped/cancel").status_code < 300
        assert stage.get("/runs/stopped?wait=30").json()["status"] == "interrupted"
        yield stage


@pytest.fixture(scope="module")
def visitor(chromium: Browser, stage: Stage) -> Iterator[Visit]:
    """Open a visit that fails on any problem."""
    visit = Visit(chromium, stage.url)
    yield visit
    visit.close()
    assert visit.problems == []


@pytest.fixture(scope="module")
def page(visitor: Visit) -> Page:
    """Open a window shared by all pages."""
    return visitor.open("/")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(page: Page, stage: Stage, path: str, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.emulate_media(color_scheme=scheme)
    page.goto(stage.pages + path)
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
    violations = axe.run(page).response["violations"]
    assert [(violation["id"], violation["nodes"][0]["html"]) for violation in violations] == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_page_watched_live_ends_up_like_one_opened_later(page: Page, stage: Stage, pattern: str) -> None:
    run_id = stage.post("/runs", {"pattern": pattern, "question": QUESTION}).json()["runId"]
    page.goto(f"{stage.pages}/runs/{run_id}")
    watched = read_finished_page(page)
    assert len(watched) > 2_000
    page.reload()
    assert read_finished_page(page) == watched


@pytest.mark.parametrize("path", PAGES)
def test_pages_do_not_scroll_sideways(page: Page, stage: Stage, path: str) -> None:
    page.goto(stage.pages + path)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_names_are_aligned_in_a_column_and_ids_are_short(page: Page, stage: Stage) -> None:
    """Even long names are aligned. Hovering over an id shows it in full."""
    page.set_viewport_size({"width": 1280, "height": 800})
    for path in (f"/runs/{LONG}", f"/runs/{LONG}/travel", f"/compare?a={LONG}&b=failed"):
        page.goto(stage.pages + path)
        column = page.locator(f"[title='{LONG}']").first
        assert column.inner_text() == LONG[:8]
        assert column.evaluate("id => id.scrollWidth") < 100
    page.goto(f"{stage.pages}/runs/{LONG}")
    lefts = page.locator(".sides .serif").evaluate_all("found => found.map(each => each.getBoundingClientRect().left)")
    assert len(lefts) == 2
    assert len(set(lefts)) == 1


def test_names_without_a_stance_fit_on_one_line(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.pages}/runs/review")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        tops = page.locator(".sides .who").evaluate_all("all => all.map(each => each.getBoundingClientRect().top)")
        heights = page.locator(".sides .who").evaluate_all("all => all.map(each => each.offsetHeight)")
        assert (len(tops), len(set(tops))) == (3, 1), width
        assert max(heights) < 40, width


def test_consensus_outcomes_are_concise(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.pages}/runs/consensus")
    assert page.locator("#verdict .found").count() == 1
    assert page.locator("#verdict p.small").count() <= 5
    folded = page.locator("#verdict details")
    assert folded.get_by_text("How the result was reached").is_visible()
    assert not folded.locator("li").first.is_visible()


def test_report_can_be_printed_and_its_journal_downloaded(page: Page, stage: Stage) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{stage.pages}/runs/debate")
    page.get_by_role("link", name="Report").click()
    page.wait_for_url("**/report.html")
    assert page.evaluate("getComputedStyle(document.querySelector('.verdict')).borderTopWidth") == "4px"
    journal = page.locator("#journal")
    is_visible = "journal => journal.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})"
    assert not journal.evaluate(is_visible)
    page.emulate_media(media="print")
    assert journal.evaluate(is_visible)
    page.emulate_media(media="screen")
    page.locator("#evidence > summary").click()
    with page.expect_download() as download:
        journal.click()
    lines = gzip.decompress(Path(download.value.path()).read_bytes())
    assert lines.decode() == stage.get("/runs/debate/export.jsonl").text


def test_run_list_can_be_filtered(page: Page, stage: Stage) -> None:
    """The filter is an ordinary form, which the server's Content-Security-Policy permits."""
    page.goto(f"{stage.pages}/")
    page.get_by_role("combobox", name="Pattern").select_option("council")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/?text=&status=&pattern=council")
    councils = stage.get("/runs?pattern=council").json()["runs"]
    assert page.locator("table.list tbody tr").count() == len(councils)
