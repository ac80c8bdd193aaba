"""Fixtures that start a real Chromium and visit a server with it."""

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
    """Mark all tests in this folder as needing a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start a browser shared by all tests in a module. No other event loop can run in its thread while it is open.

    Names under `.test` resolve to this machine but, unlike localhost, are not secure contexts.
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
    """Open a server with the test token, and fail at the end if any of its pages caused a problem."""
    visits: list[Visit] = []

    def opened(url: str) -> Visit:
        visits.append(Visit(chromium, url))
        return visits[-1]

    yield opened
    for open_visit in visits:
        open_visit.close()
    assert [open_visit.problems for open_visit in visits] == [[] for _ in visits]
