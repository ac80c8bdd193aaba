"""A user in JupyterLab: a real browser, a real kernel, and clicks."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from jupyter_lab import laboratory

from flowdebate import Debater, debate
from flowdebate.testing import ScriptedModel
from tests.notebook.conftest import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

for library in ("anywidget", "ipykernel", "jupyterlab"):
    pytest.importorskip(library, reason=f"{library} is not installed: make test-notebook")


AT_ONCE = """
from IPython.display import display

turn = HumanTurn()
display(turn)
tomas = Debater("Tomas", "Build a covered pool", block=human(name="tomas", ask=turn.ask))
pool = debate(name="pool", debaters=[sides[0], tomas], max_rounds=1, synthesizer=False)
result = await show(pool.start("Should Harrow keep its open-air pool?", model=model))
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Start JupyterLab, and return its folder and a notebook's address."""
    folder = tmp_path_factory.mktemp("lab")
    with laboratory(folder) as address:
        yield folder, address


@contextmanager
def open_notebook(chromium: Browser, address: str, name: str) -> Iterator[Page]:
    """Open a notebook with its kernel in the browser."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(address % name)
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        yield page


@pytest.mark.browser
def test_user_argues_in_jupyterlab(chromium: Browser, lab: tuple[Path, str]) -> None:
    from playwright.sync_api import expect

    folder, address = lab
    shutil.copy(EXAMPLE, folder / "debate.ipynb")
    with open_notebook(chromium, address, "debate.ipynb") as page:
        cells = page.locator(".jp-Notebook .jp-Cell")
        count = len(json.loads(EXAMPLE.read_text("utf-8"))["cells"])
        expect(cells).to_have_count(count)
        cells.first.click()
        turn = page.locator(".flowdebate-page form")
        for _ in range(4):  # run the cells up to the one that starts the first run
            page.keyboard.press("Shift+Enter")
        page.locator(".flowdebate-page .live").first.wait_for()
        for _ in range(6):
            page.keyboard.press("Shift+Enter")
        turn.wait_for()
        turn.get_by_role("button", name="Send").click()
        turn.locator(".problem").wait_for()  # the input was empty
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


@pytest.mark.browser
def test_cell_awaiting_the_run_gets_the_answer(chromium: Browser, lab: tuple[Path, str]) -> None:
    """JupyterLab delivers messages from a widget even while a cell is running."""
    folder, address = lab
    notebook = json.loads(EXAMPLE.read_text("utf-8"))
    notebook["cells"] = [notebook["cells"][1], {**notebook["cells"][3], "source": AT_ONCE.strip()}]
    (folder / "at-once.ipynb").write_text(json.dumps(notebook), "utf-8")
    with open_notebook(chromium, address, "at-once.ipynb") as page:
        page.locator(".jp-Notebook .jp-Cell .jp-InputPrompt").first.click()
        for _ in range(2):
            page.keyboard.press("Shift+Enter")
        turn = page.locator(".flowdebate-page form")
        turn.get_by_role("textbox").fill("Two hundred days.")
        turn.get_by_role("button", name="Send").click()
        page.get_by_text("Your answer is in the debate.").wait_for()
        report = page.locator("iframe").first
        report.wait_for()
        report.content_frame.get_by_text("Two hundred days.").wait_for()


@pytest.mark.browser
def test_untrusted_notebook_shows_the_result(chromium: Browser, lab: tuple[Path, str]) -> None:
    """JupyterLab's sanitizer removes frames, so the question and the result are shown in place of the page."""
    folder, address = lab
    pattern = debate(name="pool", debaters=[Debater("ann", "repair"), Debater("bob", "build")], max_rounds=1)
    model = ScriptedModel("Yes.", "No.", {"reasoning": "-", "winner": "repair", "verdict": "Repair it."}, "Repair.")
    result = pattern.run_sync("Should Harrow keep its pool?", model=model)
    notebook = json.loads(EXAMPLE.read_text("utf-8"))
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/html": result._repr_html_()}}
    notebook["cells"] = [{**notebook["cells"][1], "outputs": [output]}]
    (folder / "mailed.ipynb").write_text(json.dumps(notebook), "utf-8")
    with open_notebook(chromium, address, "mailed.ipynb") as page:
        page.get_by_text("Verdict: Repair it.").wait_for()
        assert page.locator("iframe").count() == 0


JUDGE = """
from IPython.display import display

turn = HumanTurn()
display(turn)
pool = debate(name="pool", debaters=sides, judge=human(name="me", ask=turn.ask), max_rounds=1, synthesizer=False)
result = await show(pool.start("Should Harrow keep its open-air pool?", model=model))
"""


@pytest.mark.browser
def test_jupyterlab_shortcuts_do_not_affect_the_form(chromium: Browser, lab: tuple[Path, str]) -> None:
    """When a choice or button has the focus, arrow keys select another side.

    Letter keys neither delete nor move a cell.
    """
    folder, address = lab
    notebook = json.loads(EXAMPLE.read_text("utf-8"))
    notebook["cells"] = [notebook["cells"][1], {**notebook["cells"][3], "source": JUDGE.strip()}]
    (folder / "judge.ipynb").write_text(json.dumps(notebook), "utf-8")
    with open_notebook(chromium, address, "judge.ipynb") as page:
        cells = page.locator(".jp-Notebook .jp-Cell")
        cells.locator(".jp-InputPrompt").first.click()
        for _ in range(2):
            page.keyboard.press("Shift+Enter")
        form = page.locator(".flowdebate-page form")
        choices = form.get_by_role("radio")
        choices.first.wait_for()
        count = cells.count()
        choices.first.click()
        page.keyboard.press("ArrowDown")
        assert choices.nth(1).is_checked()
        assert page.evaluate("document.activeElement.type") == "radio"
        for place in (choices.nth(1), form.get_by_role("button", name="Send")):
            place.focus()
            for key in "ddabxm":
                page.keyboard.press(key)
            assert cells.count() == count
            assert form.is_visible()
