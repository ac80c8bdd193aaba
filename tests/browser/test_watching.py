"""Pages that follow a run to its end, even if connections are lost or the server restarts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.proxy import Proxy
from tests.browser.visit import read_finished_page
from tests.server.stage import BRIEF, TOKEN
from tests.server.test_serve import make_client, start_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.visit import Visit

OPTIONS = ("--app", "application:service", "--token-file", "token")
BLOCKS = ("debate-debater-pro", "debate-debater-con", "debate-judge", "debate-synthesizer")
BEGINS, ENDS = "👍 {} begins,", "and ends. 👎"
PRO, CON = (BEGINS.format(block) for block in BLOCKS[:2])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Serve a model that may not finish any call yet, and return its folder."""
    shutil.copy(Path(__file__).with_name("application.py"), tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    allow_calls(tmp_path, 0)
    return tmp_path


def allow_calls(folder: Path, calls: int) -> None:
    """Allow the model to finish the given number of calls."""
    (folder / "new").write_text(str(calls))
    (folder / "new").rename(folder / "allowed")


def begin_run(url: str) -> str:
    """Start a run that makes four calls."""
    with make_client(url, TOKEN) as http:
        answer = http.post("/api/v1/runs", json={**BRIEF, "seed": 1})
    assert answer.status_code == 201, answer.text
    run_id: str = answer.json()["runId"]
    return run_id


def test_disconnected_page_reconnects(folder: Path, visit: Callable[[str], Visit]) -> None:
    """A page that loses its connection twice while text is streaming ends up identical to one that never lost it."""
    with start_server(folder, *OPTIONS) as (_, url, _), Proxy(int(url.rpartition(":")[2])) as proxy:
        run_id = begin_run(url)
        near, far = visit(url).open(f"/runs/{run_id}"), visit(proxy.url).open(f"/runs/{run_id}")
        far.get_by_text(PRO).wait_for()
        proxy.cut()
        allow_calls(folder, 1)  # the page misses the rest of this text
        far.get_by_text(CON).wait_for()
        proxy.cut()
        far.get_by_text("Connection lost").wait_for()
        allow_calls(folder, 4)
        text = read_finished_page(near)
        assert read_finished_page(far) == text
        for block in BLOCKS[:2]:
            assert text.count(f"👍 {block} begins, and ends. 👎") == 1
        assert "Wait a week." in text
        assert len(set(proxy.marks)) == 2


def test_two_pages_survive_a_server_restart(folder: Path, visit: Callable[[str], Visit]) -> None:
    """The server is killed while it is streaming text.

    Both pages end up complete, and no answer is paid for twice.
    """
    with start_server(folder, *OPTIONS) as (_, url, _):
        visitor, run_id = visit(url), begin_run(url)
        pages = [visitor.open(f"/runs/{run_id}"), visit(url).open(f"/runs/{run_id}")]
        allow_calls(folder, 1)
        for page in pages:
            page.get_by_text(CON).wait_for()
    allow_calls(folder, 5)
    with start_server(folder, *OPTIONS, "--port", url.rpartition(":")[2]):
        first, second = map(read_finished_page, pages)
        assert first == second == read_finished_page(visitor.open(f"/runs/{run_id}"))
    pro, con, *later = BLOCKS
    assert (folder / "calls").read_text().split() == [pro, con, con, *later]  # `con` had not answered


def test_text_appears_as_it_is_written(folder: Path, visit: Callable[[str], Visit]) -> None:
    """The first half of an answer appears under its speaker and in the status line before the rest is written."""
    with start_server(folder, *OPTIONS) as (_, url, _):
        page = visit(url).open(f"/runs/{begin_run(url)}")
        turn = page.locator("#speaking .turn[data-side='1']")
        turn.get_by_text(PRO).wait_for()
        assert ENDS not in turn.inner_text()
        page.get_by_text("pro is speaking").wait_for()
        allow_calls(folder, 1)
        page.locator("#said #turn-1").get_by_text(ENDS).wait_for()
        page.get_by_text(CON).wait_for()
        page.locator("#speaking .turn").nth(1).wait_for(state="detached")


def test_run_can_be_stopped_and_resumed_on_its_page(folder: Path, visit: Callable[[str], Visit]) -> None:
    with start_server(folder, *OPTIONS) as (_, url, _):
        page = visit(url).open(f"/runs/{begin_run(url)}")
        allow_calls(folder, 1)
        page.get_by_text(CON).wait_for()
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Resume").click()
        allow_calls(folder, 5)
        page.locator("#verdict").get_by_text("Wait a week.").wait_for()
    assert (folder / "calls").read_text().split().count(BLOCKS[0]) == 1
