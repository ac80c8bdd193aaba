"""A real Chromium, and visits to a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from chromium_browser import find

from tests.browser.visit import Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests in this folder need a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser, for all tests of a module: as long as it is there, no other event loop can run in this thread.

    Names below `.test` are this machine, to which it is then no secure context, as it is under the name localhost.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-web")
    program = find()
    if program is None:
        pytest.skip("Chromium is not installed: scripts/chromium install")
    names = "--host-resolver-rules=MAP *.test 127.0.0.1"
    with (
        playwright.sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=[names]) as browser,
    ):
        yield browser


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[[str], Visit]]:
    """Open a server with the token of the tests; its pages must not have caused a problem at the end."""
    visits: list[Visit] = []

    def opened(url: str) -> Visit:
        visits.append(Visit(chromium, url))
        return visits[-1]

    yield opened
    for open_visit in visits:
        open_visit.close()
    assert [open_visit.problems for open_visit in visits] == [[] for _ in visits]
