"""Server under a path prefix, which a real nginx either removes or passes on."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate.errors import ConfigurationError
from flowdebate.server import create_app
from flowdebate.server.guard import browser_root
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, QUESTION, TOKEN, answer_debate, read_frames, staged

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from nginx_server import Proxy, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "proxy.test"
PREFIX = "/team/debates"
LOCATION = """
location {prefix}/ {{
  proxy_pass http://127.0.0.1:{port}{end};
  proxy_set_header Host {host};
  {header}
}}
"""
HEADER = f"proxy_set_header X-Forwarded-Prefix {PREFIX};"


def make_service() -> Service:
    """Create a service that runs short debates."""
    return Service(store="memory:", model=FunctionModel(answer_debate))


@contextmanager
def proxied_browser(prefix: str, end: str, header: str, host: str, **options: Any) -> Iterator[httpx2.Client]:
    """Open a browser that reaches the server through nginx, which serves it under `prefix`."""
    with staged(make_service, allow_hosts=[HOST], **options) as stage:
        port = int(stage.url.rpartition(":")[2])
        try:
            proxy = Proxy(LOCATION.format(prefix=prefix, port=port, end=end, host=host, header=header)).__enter__()
        except Unavailable as error:
            pytest.skip(str(error))
        try:
            url = f"http://127.0.0.1:{proxy.port}"
            with httpx2.Client(
                base_url=url, headers={"host": f"{HOST}:{proxy.port}"}, trust_env=False, verify=False, timeout=30
            ) as http:
                yield http
        finally:
            proxy.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prefix", "end", "header", "host", "options"),
    [
        (PREFIX, "/", HEADER, "$host", {}),
        (PREFIX, "/", "", "$http_host", {"root_path": PREFIX}),
        (PREFIX, "", "", "$http_host", {"root_path": f"{PREFIX}/"}),
        ("/runs", "/", "", "$http_host", {"root_path": "/runs"}),
    ],
    ids=["by header", "by option", "passed on", "one of its own paths"],
)
def test_pages_and_streams_work_under_a_prefix(
    prefix: str, end: str, header: str, host: str, options: dict[str, Any]
) -> None:
    with proxied_browser(prefix, end, header, host, **options) as http:
        assert http.get(f"{prefix}/").status_code == 401
        entrance = http.get(f"{prefix}/", params={"token": TOKEN})
        root = f"{prefix}{browser_root(TOKEN)}"
        assert (entrance.status_code, entrance.headers["location"]) == (303, f"{root}/")
        assert f"path={root};" in entrance.headers["set-cookie"].lower().replace(root.lower(), root)
        cookie = entrance.headers["set-cookie"].partition(";")[0]
        http.headers["cookie"] = cookie
        page_origin = {"origin": f"http://{HOST}:{http.base_url.port}", "sec-fetch-site": "same-origin"}
        begun = http.post(f"{root}/api/v1/runs", json=BRIEF, headers=page_origin)
        assert begun.status_code == 201, begun.text
        address = begun.headers["location"]
        assert address.startswith(f"{root}/api/v1/runs/")
        with http.stream("GET", f"{address}/events") as response:
            events = [frame.event for frame in read_frames(response.iter_lines())]
        assert events[0] == "run_started"
        assert events[-1] == "end"
        run_id = address.rpartition("/")[2]
        pages = ("/", "/new", f"/runs/{run_id}", f"/runs/{run_id}/travel", "/archive", "/none")
        for path in pages:
            page = http.get(f"{root}{path}", headers={"accept": "text/html"})
            assert page.status_code == (404 if path == "/none" else 200), path
            addresses = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
            assert addresses, path
            assert [link for link in addresses if not link.startswith(f"{root}/")] == []
            for asset in sorted({link for link in addresses if "/static/" in link}):
                assert http.get(asset).status_code == 200, asset
            assert f'<meta name="root" content="{root}">' in page.text
        redirected = http.get(f"{root}/runs/{run_id}/blind", follow_redirects=True)
        assert (redirected.status_code, redirected.url.path) == (200, f"{root}/runs/{run_id}/blind")
        assert QUESTION in http.get(f"{root}/runs/{run_id}").text
        shared = http.post(f"{root}/api/v1/runs/{run_id}/links", json={"shows": "run"}, headers=page_origin)
        assert shared.status_code == 201, shared.text
        path = shared.json()["page"]
        assert path.startswith(f"{prefix}/shared/")
        del http.headers["cookie"]
        assert http.get(path).status_code == 200
        foreign = {"origin": "http://evil.test", "cookie": cookie}
        assert http.post(f"{root}/api/v1/runs", json=BRIEF, headers=foreign).status_code == 403


def test_prefix_header_is_used_only_for_allowed_hosts() -> None:
    """The header is ignored if the path is invalid or the request was sent to the machine's own name or address."""
    with staged(make_service, allow_hosts=[HOST]) as stage:
        for host, header, root in (
            (HOST, "/debates", "/debates"),
            (HOST, "/debates/", "/debates"),
            ("127.0.0.1", "/debates", ""),
            (HOST, "//evil.test", ""),
            (HOST, "/a/../b", ""),
            (HOST, '/a"><script>', ""),
            (HOST, "/~x", ""),
            (HOST, "evil.test", ""),
        ):
            headers = {"host": host, "x-forwarded-prefix": header}
            entrance = stage.http.get("/new", params={"token": TOKEN}, headers=headers)
            assert entrance.headers["location"] == f"{root}{browser_root(TOKEN)}/new"


@pytest.mark.parametrize("root", ["debates", "//x", "/a b", "/..", "/~x"])
def test_invalid_root_path_is_rejected(root: str) -> None:
    with pytest.raises(ConfigurationError, match="root_path"):
        create_app(make_service(), root_path=root)
