"""Every page, in both themes and on narrow and wide screens: axe-core finds nothing of WCAG 2.2 AA to mend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.browser.answers import answer_of
from tests.browser.visit import Visit
from tests.server.stage import staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

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
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A server with runs of all kinds."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_of))) as stage:
        sides = [{"name": "Mira", "stance": "build"}, {"name": "Jon", "stance": "cap rents"}]
        options: dict[str, Any] = {"max_rounds": 3, "debaters": sides}
        debate = {"pattern": "debate", "question": "Cap rents, or build?", "options": options}
        stage.post("/runs", {**debate, "runId": "debate", "seed": 1})
        stage.post("/runs", {**debate, "runId": "other", "seed": 2})
        stage.post("/runs", {**debate, "runId": "waits", "options": {**options, "humans": ["judge"]}})
        stage.post("/runs", {"pattern": "review", "question": "def add(a, b): return a - b", "runId": "review"})
        for run_id in ("debate", "other", "waits", "review"):
            stage.get(f"/runs/{run_id}?wait=30")
        yield stage


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(stage: Stage, chromium: Browser, name: str, scheme: Any) -> None:
    """At 360 and 1280 pixels, with all folds open."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    visit = Visit(chromium, stage.url)
    page = visit.open(PAGES[name])
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        found = axe.run(page, options={"runOnly": TAGS, "rules": RULES}).response["violations"]
        assert [(each["id"], [node["html"][:160] for node in each["nodes"]]) for each in found] == [], width
    visit.close()
