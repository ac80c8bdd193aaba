"""Run pages for readers who use a keyboard, a screen reader or dictation, or who print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.browser.test_reading import Dictated
from tests.browser.visit import read_finished_page
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.models.base import ModelRequest
    from tests.browser.visit import Visit
    from tests.server.stage import Stage

pytestmark = pytest.mark.filterwarnings("ignore:debate 'debate'")
TABLE = "| City | Rents |\n|---|--:|\n| Tokyo | -3% |\n\n```\nshort = 1\n```\n"
WIDE = (
    "| " + " | ".join(f"Column{n}WithALongName" for n in range(20)) + " |\n|" + "---|" * 20 + "\n" + "| 1 " * 20 + "|\n"
)
PAPER = (673, 986)
"""Width and height of the text area of an A4 page, in pixels."""
LONG = "And so on, at length, for a page or two of the report. " * 300
SHORT: dict[str, Any] = {"options": {"max_rounds": 1, "synthesizer": False, "schedule": "single"}}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve a finished four-round debate."""

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is not None:
            return {"reasoning": "Both.", "winner": "cap rents", "verdict": "Wait."}
        return LONG if request.role == "synthesizer" or "synthesizer" in request.block else f"{TABLE}\n{WIDE}"

    sides = [{"name": "Mira", "stance": "build more homes"}, {"name": "Jon", "stance": "cap rents"}]
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        options = {"max_rounds": 4, "debaters": sides}
        stage.post("/runs", {"pattern": "debate", "question": "Cap rents?", "runId": "rents", "options": options})
        assert stage.get("/runs/rents?wait=30").json()["status"] == "complete"
        yield stage


def test_tab_skips_short_regions_and_a_link_leads_to_the_vote(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """Tables and code blocks are tab stops only if they scroll, and a link near the top skips to the vote."""
    page = visit(stage.url).open("/runs/rents/blind")
    page.get_by_role("radio").first.wait_for()
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        stops = page.evaluate(
            "[...document.querySelectorAll('.prose [tabindex]')].map(each => each.scrollWidth > each.clientWidth)"
        )
        assert stops
        assert all(stops)
        assert len(stops) <= 8, "a wide table for each turn"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the vote"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "winner"


@pytest.mark.parametrize("place", ["run", "report", "public"])
def test_each_turn_has_a_permalink(stage: Stage, visit: Callable[[str], Visit], place: str) -> None:
    """The link can be copied, and leads to the turn on the run page, in the report and on the public page."""
    page = visit(stage.url).open("/")
    if place == "public":
        path = stage.url + stage.post("/runs/rents/links", {"shows": "run", "seconds": 60}).json()["page"]
    else:
        path = stage.pages + {"run": "/runs/rents", "report": "/api/v1/runs/rents/report.html"}[place]
    page.goto(path)
    link = page.get_by_role("link", name="#3, link to what Mira said")
    link.click()
    assert page.url == f"{path}#turn-3"
    assert page.locator("#turn-3:target").evaluate("each => each.getBoundingClientRect().top") >= 0
    assert link.evaluate("each => each.href") == page.url
    page.emulate_media(media="print")
    assert not link.is_visible(), "paper has no links"


def test_single_key_shortcuts_can_be_switched_off(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """Dictated text could otherwise trigger a shortcut and collapse turns by accident. The setting is remembered."""
    page = visit(stage.url).open("/runs/rents")
    page.keyboard.press("j")
    page.keyboard.press("o")
    folded = page.locator("[data-folded]")
    assert folded.count() == 1
    assert folded.locator("[data-fold]").get_attribute("aria-label") == "Expand what Mira said"
    page.keyboard.press("o")
    page.get_by_label("Keys").uncheck()
    page.locator("#turn-2").evaluate("each => { each.tabIndex = -1; each.focus(); }")
    for key in "jo/":
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.id") == "turn-2"
    page.reload()
    assert not page.get_by_label("Keys").is_checked()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.localName") == "body"


def test_end_of_a_run_is_announced_without_moving_the_focus(visit: Callable[[str], Visit]) -> None:
    """The end is announced in the page's only status element, and a focused link in the header keeps the focus."""
    dictated = Dictated()
    with staged(lambda: Service(store="memory:", model=dictated), ping=0.2) as stage:
        run_id = stage.begin(**SHORT)
        assert dictated.asked.acquire(timeout=10)
        dictated.say("First. ")
        page = visit(stage.url).open(f"/runs/{run_id}")
        page.get_by_text("pro is speaking").wait_for()
        page.locator("#doing").evaluate("each => { each.first = true; }")
        page.get_by_role("link", name="Markdown").focus()
        dictated.say(None, "Second.", None)
        read_finished_page(page)
        assert page.evaluate("document.activeElement.textContent") == "Markdown"
        status = page.locator("#doing[role=status]")
        assert status.evaluate("each => each.first && each.textContent").startswith("The run is over.")


def test_long_result_is_printed_on_several_pages(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """A long summary starts directly below the verdict, and interactive controls are left out."""
    page = visit(stage.url).open("/runs/rents")
    page.emulate_media(media="print")
    for name in ("#go-on", "#shares", "#acts", "#index"):
        assert not page.locator(name).is_visible(), name
    page = visit(stage.url).open("/api/v1/runs/rents/report.html")
    page.emulate_media(media="print")
    breaks = page.locator(".verdict > div > *").evaluate_all(
        "all => all.map(each => getComputedStyle(each).breakInside)"
    )
    assert "avoid" not in breaks[:-1]
    assert breaks[-1] == "avoid", "the figure of the ballots stays whole"


def test_no_line_is_cut_between_printed_pages(stage: Stage, visit: Callable[[str], Visit]) -> None:
    """The heading of a collapsible section or a round stays on the same page as the text that follows it."""
    pdfium = pytest.importorskip("pypdfium2")
    page = visit(stage.url).open("/api/v1/runs/rents/report.html")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER[0], "height": PAPER[1]})
    page.locator(".found").evaluate("each => each.after(document.createElement('p'))")
    for heading in ("Summary", "Round 1 of 4"):
        page.locator(".found + p").evaluate("each => { each.style.height = 0; }")
        if heading != "Summary":
            page.get_by_text("And so on").evaluate("each => each.closest('details').remove()")
        top = page.get_by_text(heading, exact=True).evaluate("each => each.getBoundingClientRect().top + scrollY")
        for further in range(-60, 20, 8):  # shift the text from well above the end of the first page to below it
            page.locator(".found + p").evaluate(f"each => {{ each.style.height = '{PAPER[1] - top + further}px'; }}")
            printed = pdfium.PdfDocument(page.pdf(format="A4", prefer_css_page_size=True))
            texts = [printed[number].get_textpage().get_text_range().rstrip() for number in range(2)]
            assert sum(heading in text for text in texts) == 1, further
            assert not texts[0].endswith((heading, "Mira", "step 1")), further
