"""The example notebook, run from top to bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.testing import ScriptedModel
from tests.notebook.conftest import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from playwright.sync_api import Browser

for library in ("anywidget", "ipykernel", "nbclient", "nbconvert"):
    pytest.importorskip(library, reason=f"{library} is not installed: make test-notebook")


@pytest.fixture(scope="module")
def executed_notebook() -> Any:
    """Run all cells and return the notebook."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLE, as_version=4)
    committed = output_kinds(notebook)
    NotebookClient(notebook, timeout=60, kernel_name="python3", store_widget_state=False).execute()
    # to commit new outputs: `jupyter nbconvert --to notebook --execute --inplace examples/notebook.ipynb`
    assert output_kinds(notebook) == committed
    return notebook


def output_kinds(notebook: Any) -> list[list[list[str]]]:
    """Return the output kinds for each cell."""
    return [[sorted(output.get("data", ())) for output in cell.get("outputs", ())] for cell in notebook.cells]


def outputs_of_kind(notebook: Any, kind: str) -> Sequence[str]:
    """Return all outputs of one kind, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


def test_example_runs(executed_notebook: Any) -> None:
    reports = [html for html in outputs_of_kind(executed_notebook, "text/html") if "<iframe" in html]
    assert len(reports) == 2
    assert "A covered pool teaches on two hundred days." in reports[1]
    assert any("<table" in html for html in outputs_of_kind(executed_notebook, "text/html"))
    assert len(outputs_of_kind(executed_notebook, "application/vnd.jupyter.widget-view+json")) == 1
    assert "Judge audit" in "".join(outputs_of_kind(executed_notebook, "text/markdown"))


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_example_page_has_no_horizontal_overflow(
    executed_notebook: Any, chromium: Browser, tmp_path: Path, width: int, scheme: Any
) -> None:
    from nbconvert import HTMLExporter

    (tmp_path / "page.html").write_text(HTMLExporter().from_notebook_node(executed_notebook)[0], "utf-8")
    with chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
        page.goto((tmp_path / "page.html").as_uri(), wait_until="domcontentloaded")
        for number in range(page.locator("iframe").count()):
            frame = page.locator("iframe").nth(number)
            frame.scroll_into_view_if_needed()
            inner = frame.content_frame
            inner.get_by_text("Should Harrow keep its open-air pool?").first.wait_for()
            box = frame.bounding_box()
            assert box is not None
            assert box["width"] > 0.7 * width - 40
            assert inner.locator("body").evaluate("body => body.scrollWidth <= innerWidth")
        wide = page.locator(".jp-OutputArea-output").evaluate_all(
            "all => all.filter(each => each.getBoundingClientRect().right > innerWidth + 1).length"
        )
        assert wide == 0


@pytest.mark.browser
def test_links_inside_a_report_stay_inside(chromium: Browser, tmp_path: Path) -> None:
    """The number after a quote links to the report's own list of quotes, not to a place in the surrounding notebook."""
    sides = [Debater("ann", "repair"), Debater("bob", "build")]
    sources = {"engineer.txt": "The basin is sound. The pipes beneath it are not."}
    pattern = debate(name="pool", debaters=sides, sources=sources, max_rounds=1, synthesizer=False)
    quote = "The engineer writes: “The basin is sound. The pipes beneath it are not.”"
    verdict = {"reasoning": "-", "winner": "repair", "verdict": "Repair it."}
    result = pattern.run_sync("Should Harrow keep its pool?", model=ScriptedModel(quote, "No.", verdict))
    (tmp_path / "page.html").write_text(f"<!doctype html>{result._repr_html_()}", "utf-8")
    with chromium.new_context(viewport={"width": 900, "height": 700}) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        frame = page.frames[1]
        frame.locator("a.ref").first.click()
        frame.locator("#quote-1:target").wait_for()
        assert frame.url == "about:srcdoc#quote-1"
