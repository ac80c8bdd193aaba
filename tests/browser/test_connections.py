"""Pages that follow a run: many at once, in the background, turned away by the server, or silently disconnected."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from flowdebate.errors import ConnectionLost
from flowdebate.service.service import Service
from flowdebate.testing import ModelRequest, ModelResponse
from tests.browser.proxy import Proxy
from tests.browser.test_reading import Dictated
from tests.browser.visit import Visit, read_finished_page
from tests.server.stage import TOKEN, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from tests.server.stage import Stage

pytestmark = pytest.mark.filterwarnings("ignore:debate 'debate'")
SHORT: dict[str, Any] = {"options": {"max_rounds": 1, "synthesizer": False, "schedule": "single"}}
HIDE = """([hidden]) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Script that simulates a background tab, since a headless browser shows all tabs."""


TAKE_STREAMS = """() => {
    for (const slot of [0, 1, 2]) localStorage.setItem(`flowdebate-stream-${slot}`, `others ${Date.now() + 600_000}`);
}"""
"""Script that opens as many streams as three other pages would."""


@pytest.fixture
def dictated() -> Dictated:
    """Create the model used by `stage`."""
    return Dictated()


@pytest.fixture
def stage(dictated: Dictated) -> Iterator[Stage]:
    """Serve debates in progress with five heartbeats per second."""
    with staged(lambda: Service(store="memory:", model=dictated), ping=0.2) as stage:
        yield stage


def count_readers(stage: Stage, run_id: str) -> int:
    """Return the number of connections that follow a run."""
    number: int = stage.app.state.front.readers._reading[run_id]
    return number


def wait_for_readers(page: Page, stage: Stage, run_id: str, number: int) -> None:
    """Wait until the given number of connections follow a run."""
    for _ in range(200):
        if count_readers(stage, run_id) == number:
            return
        page.wait_for_timeout(50)
    raise AssertionError(count_readers(stage, run_id))


class Talking:
    """Model that starts an answer and never finishes it."""

    name = "talking"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        if request.on_text is not None:
            request.on_text("All say this. ")
        await asyncio.Event().wait()
        return ModelResponse(text="")


@pytest.mark.parametrize("host", ["127.0.0.1", "debates.test"])
def test_twelve_live_pages_leave_connections_free(visit: Callable[[str], Visit], host: str) -> None:
    """The run list still opens, runs can still be saved and stopped, and the full text appears on every page.

    Plain HTTP with a host name is tested as well, because browsers do not offer Web Locks there.
    """
    with staged(lambda: Service(store="memory:", model=Talking()), ping=0.2, allow_hosts=["debates.test"]) as stage:
        visitor, run_ids = visit(stage.url.replace("127.0.0.1", host)), [stage.begin(**SHORT) for _ in range(4)]
        pages = [visitor.open(f"/runs/{run_id}") for run_id in run_ids * 3]
        for page in pages:
            page.locator("#speaking").get_by_text("All say this.").wait_for()
        assert pages[0].evaluate("isSecureContext") is (host == "127.0.0.1")
        visitor.open("/").get_by_role("heading", name="Runs").first.wait_for()
        last = pages[-1]
        last.locator("#noted > summary").click()
        last.get_by_label("Note on this run").fill("The twelfth")
        last.get_by_role("button", name="Save").click()
        last.get_by_text("Saved.").wait_for()
        last.get_by_role("button", name="Stop").click()
        for page in (pages[3], pages[7], last):  # some pages have no stream and poll instead
            page.get_by_role("button", name="Resume").wait_for()


def test_reloaded_page_follows_the_run_immediately(
    stage: Stage, dictated: Dictated, visit: Callable[[str], Visit]
) -> None:
    """A closing page hands its connection to the next page, which does not have to wait for a free one."""
    run_id = stage.begin(**SHORT)
    dictated.asked.acquire(timeout=10)
    dictated.say("Before. ")
    page = visit(stage.url).open(f"/runs/{run_id}")
    for _ in range(5):
        page.get_by_text("pro is speaking").wait_for()
        page.reload()
    wait_for_readers(page, stage, run_id, 1)
    page.wait_for_timeout(500)
    assert count_readers(stage, run_id) == 1
    slots = page.evaluate("Object.keys(localStorage).filter(name => name.startsWith('flowdebate-stream'))")
    assert slots == ["flowdebate-stream-0"]


def test_hidden_page_uses_no_connection(stage: Stage, dictated: Dictated, visit: Callable[[str], Visit]) -> None:
    """The page catches up as soon as it becomes visible again."""
    run_id = stage.begin(**SHORT)
    dictated.asked.acquire(timeout=10)
    page = visit(stage.url).open(f"/runs/{run_id}")
    wait_for_readers(page, stage, run_id, 1)
    page.evaluate(HIDE, [True])
    wait_for_readers(page, stage, run_id, 0)
    dictated.say("Said behind the back.")
    page.wait_for_timeout(500)
    assert count_readers(stage, run_id) == 0
    assert page.get_by_text("Said behind the back.").count() == 0
    page.evaluate(HIDE, [False])
    page.locator("#speaking").get_by_text("Said behind the back.").wait_for()
    page.evaluate(HIDE, [True])
    dictated.say(None, "Then the other.", None)
    stage.get(f"/runs/{run_id}?wait=10")
    page.evaluate(HIDE, [False])
    assert "Then the other." in read_finished_page(page)


def test_65th_viewer_sees_a_notice_and_waits(stage: Stage, dictated: Dictated, visit: Callable[[str], Visit]) -> None:
    """Once a slot is free, the waiting page starts following the run without being reloaded."""
    run_id, address = stage.begin(**SHORT), urlsplit(stage.url)
    dictated.asked.acquire(timeout=10)
    request = (
        f"GET /api/v1/runs/{run_id}/events HTTP/1.1\r\nhost: {address.netloc}\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    )
    with ExitStack() as viewers:
        for _ in range(64):
            viewer = viewers.enter_context(socket.create_connection((str(address.hostname), address.port or 0)))
            viewer.sendall(request.encode())
            viewer.recv(1)
        page = visit(stage.url).open(f"/runs/{run_id}")
        loads: list[str] = []
        page.on("framenavigated", lambda frame: loads.append(frame.url))
        page.get_by_text("Too many people are watching this run").wait_for()
        assert page.get_by_role("button", name="Stop").is_hidden()
        page.wait_for_timeout(2500)
        assert page.get_by_text("Too many people are watching this run").is_visible()
    dictated.say("Room again.")
    page.locator("#speaking").get_by_text("Room again.").wait_for()
    page.get_by_role("button", name="Stop").wait_for()
    assert loads == []


@pytest.mark.parametrize("has_stream", [True, False])
def test_silently_dropped_connection_is_noticed(
    stage: Stage, dictated: Dictated, visit: Callable[[str], Visit], *, has_stream: bool
) -> None:
    """The page no longer shows a speaker or a stop button, and opens a new stream automatically.

    If other pages are using all the streams, it polls every few seconds instead.
    """
    run_id = stage.begin(**SHORT)
    dictated.asked.acquire(timeout=10)
    dictated.say("Before. ")
    with Proxy(int(stage.url.rpartition(":")[2])) as proxy:
        visitor = visit(proxy.url)
        if not has_stream:
            visitor.open("/").evaluate(TAKE_STREAMS)
        page = visitor.open(f"/runs/{run_id}")
        page.locator("#speaking").get_by_text("Before.").wait_for()
        page.get_by_text("pro is speaking").wait_for()
        proxy.freeze()
        page.get_by_text("The server does not answer").wait_for()
        assert page.get_by_text("is speaking").count() == 0
        assert page.get_by_role("button", name="Stop").is_hidden()
        assert page.locator(".caret:visible, .think:visible").count() == 0
        dictated.say("After. ")
        proxy.thaw()
        page.locator("#speaking").get_by_text("After.").wait_for()
        page.get_by_text("pro is speaking").wait_for()
        page.get_by_role("button", name="Stop").wait_for()


def test_network_change_opens_a_new_connection(stage: Stage, dictated: Dictated, visit: Callable[[str], Visit]) -> None:
    """When the network changes, the page reconnects at once instead of waiting until the old connection times out."""
    run_id = stage.begin(**SHORT)
    dictated.asked.acquire(timeout=10)
    dictated.say("Before. ")
    with Proxy(int(stage.url.rpartition(":")[2])) as proxy:
        page = visit(proxy.url).open(f"/runs/{run_id}")
        page.get_by_text("pro is speaking").wait_for()
        streams = proxy.requests.count(b"/events?page=1")
        page.evaluate("dispatchEvent(new Event('online'))")
        for _ in range(40):
            if proxy.requests.count(b"/events?page=1") > streams:
                break
            page.wait_for_timeout(50)
        assert proxy.requests.count(b"/events?page=1") > streams
        page.get_by_text("pro is speaking").wait_for()


class Failing(Dictated):
    """`Dictated` model that fails for the second speaker with an error that reveals the server's address and key."""

    name = "failing"

    async def request(self, request: ModelRequest, /) -> ModelResponse | Any:
        if "con" in request.block:
            raise ConnectionLost("http://10.1.2.3:8000/v1 refuses the key sk-secret")
        return await super().request(request)


@pytest.fixture
def strangers(chromium: Browser) -> Iterator[Callable[[str], Visit]]:
    """Open visits without a token, and fail at the end if any of their pages caused a problem."""
    visits: list[Visit] = []

    def opened(url: str) -> Visit:
        visits.append(Visit(chromium, url, token=None))
        return visits[-1]

    yield opened
    for visit in visits:
        visit.close()
    assert [visit.problems for visit in visits] == [[] for _ in visits]


def test_public_link_to_a_run_in_progress_updates_live(
    stage: Stage, dictated: Dictated, strangers: Callable[[str], Visit]
) -> None:
    """Readers without an account see each contribution as it is written, but not the steps or token counts."""
    run_id = stage.begin(**SHORT)
    assert dictated.asked.acquire(timeout=10)
    link = stage.post(f"/runs/{run_id}/links", {"shows": "run", "seconds": 600}).json()["page"]
    pages = [strangers(stage.url).open(link) for _ in range(2)]
    dictated.say("Homes **first**. ")
    for page in pages:
        page.locator("#speaking strong").get_by_text("first").wait_for()
        page.get_by_text("pro is speaking").wait_for()
        assert page.get_by_role("button", name="Stop").count() == 0
    assert len(stage.app.state.front.readers._public_pages[run_id].readers) == 2
    dictated.say(None)
    assert dictated.asked.acquire(timeout=10)
    with stage.http.stream("GET", link.replace("/shared/", "/api/v1/links/") + "/events") as response:
        sent = next(line for line in response.iter_lines() if "turn-1" in line)
    assert "Homes" in sent
    assert "step-1" not in sent
    assert "tokens" not in sent
    dictated.say("Then caps.", None)
    for page in pages:
        assert "Wait a <strong>week</strong>." in read_finished_page(page)
        page.get_by_text("The run is over.").wait_for(state="attached")


def test_public_pages_hide_failure_details(strangers: Callable[[str], Visit]) -> None:
    """A failed call's error message may contain the server's address, so public pages do not show it."""
    dictated = Failing()
    with staged(lambda: Service(store="memory:", model=dictated), ping=0.2) as stage:
        run_id = stage.begin(**SHORT)
        assert dictated.asked.acquire(timeout=10)
        page = strangers(stage.url).open(
            stage.post(f"/runs/{run_id}/links", {"shows": "run", "seconds": 600}).json()["page"]
        )
        dictated.say("Homes first. ")
        page.locator("#speaking").get_by_text("first").wait_for()
        dictated.say(None)
        text = read_finished_page(page)
        assert "Homes first." in text
        assert "10.1.2.3" not in page.content()


def test_revoked_link_stops_showing_the_run(
    stage: Stage, dictated: Dictated, strangers: Callable[[str], Visit]
) -> None:
    run_id = stage.begin(**SHORT)
    dictated.asked.acquire(timeout=10)
    link = stage.post(f"/runs/{run_id}/links", {"shows": "run", "seconds": 600}).json()
    dictated.say("Before. ")
    page = strangers(stage.url).open(link["page"])
    page.get_by_text("pro is speaking").wait_for()
    assert stage.http.delete(f"/api/v1/runs/{run_id}/links/{link['id']}").status_code == 204
    page.get_by_text("This link was revoked.").wait_for()
    dictated.say("A secret.")
    page.wait_for_timeout(500)
    assert page.get_by_text("A secret.").count() == 0
