"""Pages on other ports of the host. Browsers send them the host's cookies, which must not give access to a server."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx2
import pytest

from flowdebate.cli.serving import write_entrance
from flowdebate.server.guard import browser_root
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import TOKEN, answer_debate, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.browser.visit import Visit
    from tests.server.stage import Stage

_PAGE = """<!doctype html><title>Another</title>
<iframe src="/framed"></iframe><iframe src="{server}/"></iframe><img src="/image">
<form id="form" action="/form" method="post"></form>
<script>
  const seen = +(sessionStorage.getItem("seen") ?? 0);
  sessionStorage.setItem("seen", seen + 1);
  document.cookie = "flowdebate=forged; path=/";
  fetch("/fetched", {{ credentials: "include" }});
  fetch("{server}/api/v1/runs", {{ credentials: "include", mode: "no-cors" }}).catch(() => null);
  setTimeout(() => {{
    if (seen < 2) location.reload();
    else if (seen < 3) location.assign("/top");
    else document.title = "done";
  }}, 300);
</script>"""


@contextmanager
def another_server(attacked: str) -> Iterator[tuple[str, list[str]]]:
    """Run a second server on this host and collect the cookies it receives."""
    cookies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(f"{self.path} {self.headers.get('cookie', '')}")
            body = _PAGE.format(server=attacked).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.path in ("/", "/top"):
                self.wfile.write(body)
            else:
                self.wfile.write(b" " * len(body))

        do_POST = do_GET  # noqa: N815 - of the library

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", cookies
        server.shutdown()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Serve a model that answers immediately."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


def test_page_on_another_port_gets_no_credentials(chromium: Browser, stage: Stage) -> None:
    """A page on another port tries to gain access through frames, scripts, images, navigation and reloads."""
    run_id = stage.begin()
    context = chromium.new_context()
    try:
        own_page = context.new_page()
        own_page.goto(f"{stage.url}/?token={TOKEN}")
        assert own_page.url == f"{stage.pages}/"
        assert own_page.locator("text=Should we ship?").count()
        assert [item["name"] for item in context.cookies() if item["name"].startswith("flowdebate")]
        with another_server(stage.url) as (url, cookies):
            own_page.goto(f"{url}/")  # in the same tab and in another one
            own_page.wait_for_function("document.title === 'done'")
            other = context.new_page()
            other.goto(f"{url}/")
            other.wait_for_function("document.title === 'done'")
        assert {entry.partition(" ")[0] for entry in cookies} >= {"/", "/framed", "/image", "/fetched", "/top"}
        assert any("flowdebate=forged" in entry for entry in cookies)  # browsers do send the host's cookies
        secret = browser_root(TOKEN)[2:]
        assert secret not in " ".join(cookies)
        with httpx2.Client(base_url=stage.url, trust_env=False) as thief:
            for cookie in {entry.partition(" ")[2] for entry in cookies}:
                for path in ("/", f"/runs/{run_id}", "/api/v1/runs"):
                    assert thief.get(path, headers={"cookie": cookie}).status_code == 401
                assert thief.post(f"/api/v1/runs/{run_id}/cancel", headers={"cookie": cookie}).status_code == 401
        # the reader stays signed in, whatever cookies the other server has set
        again = context.new_page()
        again.goto(f"{stage.pages}/runs/{run_id}")
        assert again.locator("h1").count()
    finally:
        context.close()


def test_readers_can_sign_out(visit: Callable[[str], Visit], stage: Stage) -> None:
    """After signing out, readers are told how to sign in again."""
    visitor = visit(stage.url)
    page = visitor.open("/")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{stage.pages}/")
    page.get_by_text("This page needs the token of the server").wait_for()
    assert "This page needs the token of the server" in (visitor.open("/new").text_content("body") or "")


def test_page_from_a_file_can_open_the_server(chromium: Browser, stage: Stage, tmp_path: Path) -> None:
    """`flowdebate serve --open` opens a local page so that the token does not appear in the browser's command line."""
    path = write_entrance(f"{stage.url}/?token={TOKEN}", tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(path.as_uri())
        page.wait_for_url(f"{stage.pages}/")
        assert page.get_by_role("button", name="Sign out").count()
    finally:
        context.close()
