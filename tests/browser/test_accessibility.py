"""Accessibility of every page in all themes and at narrow and wide widths, checked by axe-core against WCAG 2.2 AA."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel, ModelResponse
from tests.browser.answers import answer_request
from tests.browser.visit import Visit
from tests.server.stage import TOKEN, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PIL.Image import Image
    from playwright.sync_api import Browser, Locator, Page

    from flowdebate.models.base import ModelRequest
    from tests.server.stage import Stage

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES = {"target-size": {"enabled": True}, "label-content-name-mismatch": {"enabled": True}}
PAGES = {
    "list": "/",
    "new": "/new?pattern=debate",
    "new review": "/new?pattern=review",
    "run": "/runs/debate",
    "review": "/runs/review",
    "awaiting": "/runs/waits",
    "answer": "/runs/waits/answer",
    "travel": "/runs/debate/travel?step=2",
    "compare": "/compare?a=debate&b=other",
    "blind": "/runs/debate/blind",
    "present": "/runs/debate/present",
    "report": "/api/v1/runs/debate/report.html",
    "archive": "/archive",
    "audit": "/audit",
    "help": "/help",
    "missing": "/runs/nothing",
    "live": "/runs/{live}",
    "no verdict": "/runs/unread",
}
PUBLIC = {
    "public run": ("debate", "run", ""),
    "public live run": ("live", "run", ""),
    "public slides": ("debate", "run", "/present"),
    "public vote": ("debate", "vote", ""),
    "revoked link": ("debate", "run", ""),
    "sign in": ("", "", ""),
}
"""Public pages, each given as its run, the kind of link, and the rest of its path."""
SIDES = [{"name": "Mira", "stance": "build"}, {"name": "Jon", "stance": "cap rents"}]
OPTIONS: dict[str, Any] = {"max_rounds": 3, "debaters": SIDES}
SAID = "**So far**, and more.\n\n- a point\n\n| City | Rents |\n|---|--:|\n| Tokyo | -3% |\n"


class Mixed:
    """Model that plays every role.

    If the question contains "Live:", it never finishes a streamed answer. If the question contains "Unread:", its
    verdicts have an invalid format.
    """

    name = "mixed"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        prompt = str(request.messages)
        if "Live:" in prompt and request.on_text is not None:
            request.on_text(SAID)
            await asyncio.Event().wait()
        if "Unread:" in prompt and request.output is not None:
            return await FunctionModel(lambda _: {"winner": 12}).request(request)
        return await FunctionModel(answer_request).request(request)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Serve runs of every kind."""
    with staged(lambda: Service(store="memory:", model=Mixed())) as stage:
        debate = {"pattern": "debate", "question": "Cap rents, or build?", "options": OPTIONS}
        stage.post("/runs", {**debate, "runId": "debate", "seed": 1})
        stage.post("/runs", {**debate, "runId": "other", "seed": 2})
        stage.post("/runs", {**debate, "runId": "waits", "options": {**OPTIONS, "humans": ["judge"]}})
        stage.post("/runs", {"pattern": "review", "question": "def add(a, b): return a - b", "runId": "review"})
        stage.post("/runs", {**debate, "runId": "unread", "question": "Unread: cap rents?"})
        for run_id in ("debate", "other", "waits", "review", "unread"):
            stage.get(f"/runs/{run_id}?wait=30")
        yield stage


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*PAGES, *PUBLIC])
def test_axe_finds_no_violations(stage: Stage, chromium: Browser, name: str, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    visit = Visit(chromium, stage.url, token=None if name in PUBLIC else TOKEN)
    # start a new run for each test, since a call lasts at most five minutes
    live = stage.begin(question="Live: cap rents?", options=OPTIONS) if "live" in name else ""
    page = visit.open(PAGES[name].format(live=live) if name in PAGES else public_path(stage, name, live))
    if live:
        page.locator("#speaking td").last.wait_for()
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        violations = axe.run(page, options={"runOnly": TAGS, "rules": RULES}).response["violations"]
        assert [
            (violation["id"], [node["html"][:160] for node in violation["nodes"]]) for violation in violations
        ] == [], width
    visit.close()


def public_path(stage: Stage, name: str, live: str) -> str:
    """Return the path of a public page."""
    run_id, shows, end = PUBLIC[name]
    if not run_id:
        return "/"
    link = stage.post(f"/runs/{live or run_id}/links", {"shows": shows, "seconds": 600}).json()
    if name == "revoked link":
        stage.http.delete(f"/api/v1/runs/{run_id}/links/{link['id']}")
    return f"{link['page']}{end}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colors_do_not_hide_controls(stage: Stage, visit: Callable[[str], Visit], scheme: Any) -> None:
    pages = visit(stage.url)
    travel = pages.open(PAGES["travel"])
    force_colors(travel, scheme)
    slider = travel.locator("#slider")
    assert has_contrast(take_picture(slider))
    before = take_picture(slider)
    slider.press("ArrowRight")
    travel.wait_for_timeout(300)
    assert differ(before, take_picture(slider)), "the thumb has moved"
    travel.close()
    for name in ("blind", "answer"):
        page = pages.open(PAGES[name])
        force_colors(page, scheme)
        radio = page.get_by_role("radio").first
        empty = take_picture(radio)
        radio.check()
        page.locator("h1").click()
        assert has_contrast(empty), name
        assert has_contrast(take_picture(radio)), name
        assert differ(empty, take_picture(radio)), name
        page.close()
    new = pages.open(PAGES["new"])
    force_colors(new, scheme)
    selected_tab = take_picture(new.locator(".patterns [aria-current]"))
    assert has_contrast(selected_tab.crop((0, 8, 12, selected_tab.height - 8))), "a line around what is chosen"


def force_colors(page: Page, scheme: Any) -> None:
    """Emulate forced colors on the page."""
    page.emulate_media(forced_colors="active", color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 900})


def take_picture(control: Locator) -> Image:
    """Take a screenshot of a control."""
    pillow = pytest.importorskip("PIL.Image")
    image: Image = pillow.open(io.BytesIO(control.screenshot())).convert("RGB")
    return image


def differ(one: Image, other: Image) -> bool:
    """Return whether two pictures differ by more than anti-aliasing."""
    changes = zip(list_pixels(one), list_pixels(other), strict=True)
    return sum(sum(abs(a - b) for a, b in zip(*pair, strict=True)) > 200 for pair in changes) > 20


def list_pixels(image: Image) -> list[tuple[int, int, int]]:
    """Return the colors of a picture's pixels, in order."""
    raw = image.tobytes()
    return list(zip(raw[0::3], raw[1::3], raw[2::3], strict=True))


def has_contrast(image: Image) -> bool:
    """Return whether an element's contrast with its background is at least 3, as WCAG 1.4.11 requires."""
    counts = Counter(list_pixels(image))
    background = _luminance(counts.most_common(1)[0][0]) + 0.05
    contrasts = ((_luminance(color) + 0.05) / background for color in counts.elements())
    return sum(max(contrast, 1 / contrast) >= 3 for contrast in contrasts) >= 10


def _luminance(color: tuple[int, int, int]) -> float:
    parts = (part / 255 for part in color)
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
