"""Reading a run: the page scrolls with the debate, and long runs can be navigated."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel, ModelResponse
from tests.browser.visit import read_finished_page
from tests.server.stage import QUESTION, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from flowdebate.models.base import ModelRequest
    from tests.browser.visit import Visit
    from tests.server.stage import Stage

pytestmark = pytest.mark.filterwarnings("ignore:debate 'debate'")
PARAGRAPH = "Whoever waits for the last bus does **not** ask what it costs. He asks whether it comes. " * 6
AT_END = "document.querySelector('#said').getBoundingClientRect().bottom <= innerHeight + 1"


class Dictated:
    """Model whose arguments the test dictates in pieces; None ends an argument."""

    name = "dictated"

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.asked = threading.Semaphore(0)

    async def request(self, request: ModelRequest, /) -> Any:
        if request.output_schema is not None:
            return ModelResponse(data={"reasoning": "Both.", "winner": None, "verdict": "Wait a **week**."})
        self._loop, text = asyncio.get_running_loop(), ""
        self.asked.release()
        while (piece := await self._pieces.get()) is not None:
            text += piece
            if request.on_text is not None:
                request.on_text(piece)
        return ModelResponse(text=text or "Nothing.")

    def say(self, *pieces: str | None) -> None:
        """Dictate the given pieces."""
        assert self._loop is not None
        for piece in pieces:
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


@pytest.fixture
def dictated() -> Dictated:
    """Create the model used by `stage`."""
    return Dictated()


@pytest.fixture
def stage(dictated: Dictated) -> Iterator[Stage]:
    """Serve debates that the test dictates."""
    with staged(lambda: Service(store="memory:", model=dictated)) as stage:
        yield stage


@pytest.fixture(scope="module")
def long_run() -> Iterator[tuple[Stage, str]]:
    """Finish a run with 40 turns."""
    counter = iter(range(1_000))

    def answer(request: ModelRequest) -> Any:
        if request.output_schema is not None:
            return {"reasoning": "Both.", "winner": None, "verdict": "Wait."}
        return f"{PARAGRAPH}\n\n- point {next(counter)}"

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        yield stage, stage.finished(options={"max_rounds": 20, "synthesizer": False})


def wait_for(page: Page, condition: str) -> None:
    """Wait until a condition is met. The page's policy permits evaluating it only through the debugger."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def dictate(page: Page, dictated: Dictated, number: int) -> None:
    """Dictate a numbered paragraph and wait until it appears."""
    dictated.say(f"{PARAGRAPH}\n\n{number}.th\n\n")
    page.get_by_text(f"{number}.th").wait_for()


def test_page_scrolls_with_the_debate(stage: Stage, dictated: Dictated, visit: Callable[[str], Visit]) -> None:
    """The page follows new text only while the reader is at the end.

    Readers who scroll up stay there, and can jump to the latest text to follow it again. Nothing flickers, because the
    element of a finished block is never replaced.
    """
    page = visit(stage.url).open(f"/runs/{stage.begin()}")
    page.locator("#speaking .turn").wait_for()
    for number in range(6):
        dictate(page, dictated, number)
        if number == 0:
            page.locator("#speaking .prose > *").first.evaluate("block => { block.first = block.innerHTML; }")
    wait_for(page, f"scrollY > 300 && {AT_END}")
    assert page.locator("#latest").is_hidden()
    page.mouse.wheel(0, -500)
    page.locator("#latest").wait_for()
    place = page.evaluate("scrollY")
    for number in range(6, 9):
        dictate(page, dictated, number)
    assert page.evaluate("scrollY") == place
    page.get_by_role("button", name="Jump to latest").click()
    wait_for(page, AT_END)
    dictate(page, dictated, 10)
    wait_for(page, AT_END)
    assert page.locator("#speaking strong").count() > 0
    assert page.locator("#speaking .prose > *").first.evaluate("block => block.first === block.innerHTML")
    dictated.say(None, "Short.", None)


def test_bar_links_to_the_verdict(stage: Stage, dictated: Dictated, visit: Callable[[str], Visit]) -> None:
    """The bar stays above the transcript until the verdict comes into view."""
    page = visit(stage.url).open(f"/runs/{stage.begin(options={'max_rounds': 1, 'synthesizer': False})}")
    page.locator("#speaking .turn").wait_for()
    for number in range(8):
        dictate(page, dictated, number)
    dictated.say(None, PARAGRAPH, None)
    read_finished_page(page)
    wait_for(page, "document.querySelector('#verdict').getBoundingClientRect().bottom < 0")
    page.get_by_role("link", name="See the verdict").click()
    page.locator("#over").wait_for(state="detached")
    assert page.locator("#verdict").get_by_text("week", exact=True).evaluate("each => each.localName") == "strong"
    assert page.locator("#board").get_attribute("open") is None


def test_long_run_can_be_navigated_by_rounds_keys_and_search(
    long_run: tuple[Stage, str], visit: Callable[[str], Visit]
) -> None:
    stage, run_id = long_run
    page = visit(stage.url).open(f"/runs/{run_id}")
    assert page.locator("#rounds li").count() == 20
    page.locator("#rounds").get_by_role("link", name="Round 12 of 20").click()
    label = page.locator("#round-12-title")
    wait_for(page, "document.querySelector('#round-12').getBoundingClientRect().top < 120")
    page.mouse.wheel(0, 300)
    wait_for(page, "document.querySelector('#round-12').getBoundingClientRect().top < -50")
    assert label.evaluate("label => label.getBoundingClientRect().top") >= 0
    page.locator("#rounds [aria-current]").get_by_text("12").wait_for()
    page.locator("#turn-24").focus() if page.locator("#turn-24[tabindex]").count() else page.keyboard.press("k")
    first = page.evaluate("document.activeElement.id")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == f"turn-{int(first.removeprefix('turn-')) + 1}"
    page.keyboard.press("o")
    assert page.locator("[data-folded]").count() == 1
    page.get_by_role("button", name="Collapse all").click()
    assert page.locator("[data-folded]").count() == 40
    page.get_by_role("button", name="Expand all").click()
    page.keyboard.press("/")
    page.keyboard.type("Point 39")
    page.get_by_text("1 of 40 turns").wait_for()
    assert page.locator("article.turn:visible").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("article.turn:visible").count() == 40


def test_markdown_is_rendered_on_every_page_with_turns(
    long_run: tuple[Stage, str], visit: Callable[[str], Visit]
) -> None:
    """Turns appear in runs, reports, blind views, slides, public links, comparisons and answer pages."""
    stage, run_id = long_run
    waits, short = (
        stage.begin(options={"max_rounds": 1, "synthesizer": False, **options}) for options in ({"humans": ["con"]}, {})
    )
    for run_id_, status in ((waits, "awaiting"), (short, "complete")):
        assert stage.get(f"/runs/{run_id_}?wait=30").json()["status"] == status
    links = [
        stage.post(f"/runs/{run_id}/links", {"shows": shows, "seconds": 60}).json()["page"] for shows in ("run", "vote")
    ]
    visitor = visit(stage.url)
    page = visitor.open(f"/runs/{run_id}")
    suffixes = ("", "/blind?view=0", "/present", "/travel?step=7")
    paths = [f"{stage.pages}/runs/{run_id}{suffix}" for suffix in suffixes] + [f"{stage.pages}/runs/{waits}/answer"]
    paths += [f"{stage.pages}/compare?a={run_id}&b={short}", f"{stage.pages}/api/v1/runs/{run_id}/report.html"]
    for path in (*paths, *(stage.url + link for link in links)):
        page.goto(path)
        assert page.locator(".prose strong").get_by_text("not", exact=True).count() > 0, path
        assert "**not**" not in page.locator(".prose").all_inner_texts(), path


def test_turn_is_copied_as_written(long_run: tuple[Stage, str], visit: Callable[[str], Visit]) -> None:
    """The turn is copied as Markdown, with or without access to the clipboard."""
    stage, run_id = long_run
    page = visit(stage.url).open(f"/runs/{run_id}")
    page.evaluate(
        "() => { navigator.clipboard.write = async ([item]) => {"
        " window.copied = await (await item.getType('text/plain')).text(); }; }"
    )
    page.locator("#turn-1 [data-copy]").click()
    page.locator("#turn-1").get_by_text("Copied").wait_for()
    assert page.evaluate("copied") == f"{PARAGRAPH}\n\n- point 0"
    page.evaluate("() => { navigator.clipboard.write = navigator.clipboard.writeText = () => Promise.reject(); }")
    page.evaluate("() => { document.execCommand = () => { copied = document.activeElement.value; return true; }; }")
    page.locator("#turn-2 [data-copy]").click()
    page.locator("#turn-2").get_by_text("Copied").wait_for()
    assert page.evaluate("copied") == f"{PARAGRAPH}\n\n- point 1"


def test_actions_are_at_the_top_of_a_run_page(long_run: tuple[Stage, str], visit: Callable[[str], Visit]) -> None:
    """On a phone, the debate must start within the first one and a half screens."""
    stage, run_id = long_run
    page = visit(stage.url).open(f"/runs/{run_id}")
    page.set_viewport_size({"width": 1280, "height": 860})
    assert page.locator("#acts").evaluate("acts => acts.getBoundingClientRect().bottom") < 860
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{stage.pages}/new")
    assert page.get_by_role("button", name="Start the debate").evaluate("b => b.getBoundingClientRect().bottom") < 1110
    answer = page.goto(f"{stage.pages}/runs/{run_id}")
    assert answer is not None
    assert QUESTION in answer.text()
