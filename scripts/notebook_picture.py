"""Take a screenshot of the example notebook for the docs: `notebook_picture.py FILE`.

It shows a person's turn in JupyterLab, below the contributions so far. Needs Chromium, `notebook` and `pictures`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from chromium_browser import find
from jupyter_lab import laboratory
from PIL import Image
from playwright.sync_api import sync_playwright

_EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "notebook.ipynb"
_SAID = "A covered pool teaches on two hundred days. Ask the school how many of its children can swim."
_CELLS = 10
"""Number of cells up to the form for the person's turn."""


def main() -> None:
    """Run the notebook up to the person's turn, and take the screenshot."""
    notebook = json.loads(_EXAMPLE.read_text("utf-8"))
    notebook["cells"] = notebook["cells"][:_CELLS]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        (folder / "debate.ipynb").write_text(json.dumps(notebook), "utf-8")
        with laboratory(folder) as address, driver.chromium.launch(executable_path=find()) as browser:
            page = browser.new_page(viewport={"width": 1100, "height": 1060})
            page.goto(address % "debate.ipynb")
            page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
            cells = page.locator(".jp-Notebook .jp-Cell")
            cells.nth(_CELLS - 1).wait_for()
            cells.first.click()
            for _ in range(_CELLS - 1):
                page.keyboard.press("Shift+Enter")
            page.keyboard.press("Control+Enter")
            form = page.locator(".flowdebate-page form")
            form.wait_for()
            form.get_by_role("textbox").fill(_SAID)
            form.get_by_role("button").scroll_into_view_if_needed()
            page.mouse.move(500, 500)
            page.mouse.wheel(0, -310)
            page.wait_for_timeout(1_000)
            page.screenshot(path=sys.argv[1])
    small = Image.open(sys.argv[1]).convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(sys.argv[1], optimize=True)


if __name__ == "__main__":
    main()
