"""A person in JupyterLab: a real browser, a real kernel, and clicks."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from jupyter_lab import laboratory

from tests.notebook.conftest import EXAMPLE

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

for library in ("anywidget", "ipykernel", "jupyterlab"):
    pytest.importorskip(library, reason=f"{library} is not installed: make test-notebook")


@pytest.mark.browser
def test_a_person_argues_in_jupyterlab(chromium: Browser, tmp_path: Path) -> None:
    """The run is seen live, the form takes what is typed, shortcuts of the notebook do not, and the report has it."""
    from playwright.sync_api import expect

    shutil.copy(EXAMPLE, tmp_path / "debate.ipynb")
    with laboratory(tmp_path) as address, chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(address % "debate.ipynb")
        cells = page.locator(".jp-Notebook .jp-Cell")
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        count = len(json.loads(EXAMPLE.read_text("utf-8"))["cells"])
        expect(cells).to_have_count(count)
        cells.first.click()
        turn = page.locator(".flowdebate-page form")
        for _ in range(4):  # up to the first run
            page.keyboard.press("Shift+Enter")
        page.locator(".flowdebate-page .live").first.wait_for()
        for _ in range(6):
            page.keyboard.press("Shift+Enter")
        turn.wait_for()
        turn.get_by_role("button", name="Send").click()
        turn.locator(".problem").wait_for()  # nothing was written
        field = turn.get_by_role("textbox")
        field.click()
        page.keyboard.type("aabb dd jj xx: two hundred days.")
        page.keyboard.press("Enter")
        page.keyboard.type("Every winter.")
        assert cells.count() == count
        turn.get_by_role("button", name="Send").click()
        page.get_by_text("Your answer is recorded").wait_for()
        cells.nth(count - 2).click()
        for _ in range(2):
            page.keyboard.press("Shift+Enter")
        report = page.locator("iframe").nth(1)
        report.wait_for()
        report.scroll_into_view_if_needed()
        report.content_frame.get_by_text("aabb dd jj xx: two hundred days.").wait_for()
        page.get_by_text("The run is over (complete)").wait_for()
