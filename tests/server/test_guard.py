"""Attacks on the server, in the order of its threat table, each sent over a real socket."""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
import pytest

from flowdebate.errors import ConfigurationError
from flowdebate.server import create_app
from flowdebate.server.guard import SESSION, _cookie_value, browser_root
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, SECURITY, TOKEN, Gate, Stage, answer_debate, staged
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEGABYTE = 1_000_000


@dataclass
class Case:
    """Request that must be rejected."""

    id: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "GET"
    path: str = "/api/v1/runs"
    body: bytes | None = None
    token: bool = True


BODY = json.dumps(BRIEF).encode()
JSON = {"content-type": "application/json"}
BEGIN: dict[str, Any] = {"method": "POST", "body": BODY}

REFUSED = [
    Case("another host, as in DNS rebinding", 421, {"host": "evil.example"}),
    Case("another host on our port", 421, {"host": "evil.example:8377"}),
    Case("a host that only begins as ours", 421, {"host": "localhost.evil.example"}),
    Case("a host that is no name", 421, {"host": "localhost/../evil"}),
    Case("a page of another origin", 403, {"origin": "http://evil.example", **JSON}, **BEGIN),
    Case("a page of another port of this machine", 403, {"origin": "http://localhost:1", **JSON}, **BEGIN),
    Case("a page without an origin, such as a file", 403, {"origin": "null", **JSON}, **BEGIN),
    Case("a page of another origin that reads", 403, {"origin": "http://evil.example"}),
    Case("a script in a page of another site", 403, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}),
    Case("a script in a page of another port", 403, {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}),
    Case(
        "a form in a page of another site",
        403,
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", **JSON},
        **BEGIN,
    ),
    Case(
        "a frame in a page of another site",
        403,
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ),
    Case("no token", 401, token=False),
    Case("a wrong token", 401, {"authorization": "Bearer nothing"}, token=False),
    Case("a token that is not ASCII", 401, {"authorization": "Bearer \xff\xff"}, token=False),
    Case("the token with something behind it", 401, {"authorization": f"Bearer {TOKEN}x"}, token=False),
    Case("the token by another scheme", 401, {"authorization": f"Basic {TOKEN}"}, token=False),
    Case("a wrong token in the URL", 401, path="/?token=nothing", token=False),
    Case("the token itself as a cookie", 401, {"cookie": f"flowdebate={TOKEN}"}, token=False),
    Case("a body of a form", 415, {"content-type": "application/x-www-form-urlencoded"}, **BEGIN),
    Case("a body of plain text", 415, {"content-type": "text/plain"}, **BEGIN),
    Case("a body without a type", 415, {}, **BEGIN),
    Case("a body that says twice what it is", 415, {"content-type": "text/plain; application/json"}, **BEGIN),
    Case(
        "an empty body of a form",
        415,
        {"content-type": "text/plain"},
        method="POST",
        path="/api/v1/runs/x/cancel",
        body=b"",
    ),
    Case("a body that is too long", 413, {"content-length": str(MEGABYTE + 1), **JSON}, "POST", "/api/v1/plans"),
    Case("too much material for a run", 413, {"content-length": str(14_000_001), **JSON}, method="POST"),
    Case("a body of a length that is no number", 400, {"content-length": "-1", **JSON}, method="POST"),
]


@pytest.fixture(scope="module")
def shared_stage() -> Iterator[Stage]:
    """Share one server between all attacks, since none of them leaves anything behind."""
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate))) as stage:
        yield stage


@dataclass
class Answer:
    """Response from the server."""

    status: int
    headers: dict[str, str]
    body: bytes


def send(stage: Stage, case: Case) -> Answer:
    """Send a request exactly as given, including requests that ordinary clients would not send."""
    with closing(http.client.HTTPConnection(urlsplit(stage.url).netloc, timeout=20)) as connection:
        return _send_over(connection, case)


def _send_over(connection: http.client.HTTPConnection, case: Case) -> Answer:
    connection.putrequest(case.method, case.path, skip_host="host" in case.headers, skip_accept_encoding=True)
    headers = {**({"authorization": f"Bearer {TOKEN}"} if case.token else {}), **case.headers}
    if case.body is not None:
        headers.setdefault("content-length", str(len(case.body)))
    for name, value in headers.items():
        connection.putheader(name, value.encode("latin-1"))
    connection.endheaders(case.body)
    answer = connection.getresponse()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_forbidden_requests_are_blocked(shared_stage: Stage, case: Case) -> None:
    before = len(shared_stage.get("/runs").json()["runs"])
    answer = send(shared_stage, case)
    assert answer.status == case.status, answer.body
    if case.status != 400:  # the HTTP parser rejects these first
        assert json.loads(answer.body)["status"] == case.status
        assert set(answer.headers) >= SECURITY
    assert len(shared_stage.get("/runs").json()["runs"]) == before


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://{netloc}"},
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        {"host": "LOCALHOST"},
        {"host": "[::1]:99"},
    ],
)
def test_permitted_requests_pass(shared_stage: Stage, headers: dict[str, str]) -> None:
    netloc = urlsplit(shared_stage.url).netloc
    formatted = {name: value.format(netloc=netloc) for name, value in headers.items()}
    assert send(shared_stage, Case("fine", 200, formatted)).status == 200


def test_body_without_a_length_is_limited_in_size(shared_stage: Stage) -> None:
    """A chunked body is rejected as soon as it is too long, without waiting for its end."""
    with socket.create_connection(
        (urlsplit(shared_stage.url).hostname, urlsplit(shared_stage.url).port), timeout=20
    ) as raw:
        head = f"POST /api/v1/plans HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        size = 0
        try:
            while size < 20 * MEGABYTE:
                raw.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                size += 0x10000
        except OSError:
            pass
        answer = raw.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert size < 20 * MEGABYTE


def test_token_in_the_url_becomes_a_cookie(shared_stage: Stage) -> None:
    """GET /?token= redirects to the clean URL. The cookie is hidden from scripts and not sent to other sites."""
    with httpx2.Client(base_url=shared_stage.url, trust_env=False, verify=False) as browser:
        answer = browser.get("/", params={"token": TOKEN, "limit": 3})
        root = browser_root(TOKEN)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{root}/?limit=3")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert f"Path={root}" in cookie
        assert "Max-Age=604800" in cookie
        assert TOKEN not in cookie
        assert browser.get(answer.headers["location"]).status_code == 200
        assert browser.get(f"{root}/api/v1/runs").status_code == 200
        # a cookie is sent to all ports and is limited only by its path
        assert browser.get("/api/v1/runs").status_code == 401


def test_cookie_is_limited_to_its_path(shared_stage: Stage) -> None:
    """Outside the secret path, the cookie gives no access to the pages or the API."""
    with httpx2.Client(base_url=shared_stage.url, trust_env=False, verify=False) as browser:
        cookie = browser.get("/", params={"token": TOKEN}).headers["set-cookie"].partition(";")[0]
    root, run_id = browser_root(TOKEN), shared_stage.finished()
    for path, method in (("/", "GET"), (f"/runs/{run_id}", "GET"), ("/api/v1/runs", "GET"), ("/new", "GET")):
        assert (
            send(shared_stage, Case(path, 401, {"cookie": cookie}, path=path, method=method, token=False)).status == 401
        )
        assert send(shared_stage, Case(path, 401, {"cookie": cookie}, path=f"{root}x{path}", token=False)).status == 401
        assert send(shared_stage, Case(path, 401, path=f"{root}{path}", token=False)).status == 401
        assert send(shared_stage, Case(path, 200, {"cookie": cookie}, path=f"{root}{path}", token=False)).status == 200
    cancel = Case("cancel", 401, {"cookie": cookie}, path=f"/api/v1/runs/{run_id}/cancel", method="POST", token=False)
    assert send(shared_stage, cancel).status == 401
    answer = shared_stage.http.get(f"{root}/api/v1/openapi.json")
    assert answer.json()["servers"] == [{"url": root}]


def test_browser_path_is_guarded_like_any_other(shared_stage: Stage) -> None:
    """Requests with no path, or without a trailing slash, must not bypass the guard."""
    root, header = browser_root(TOKEN), {"authorization": f"Bearer {TOKEN}"}
    assert (
        send(shared_stage, Case("bare", 307, header, path=root, token=False)).headers["location"].endswith(f"{root}/")
    )
    assert send(shared_stage, Case("none", 405, header, path="*", method="OPTIONS", token=False)).status in (404, 405)


def test_links_and_code_for_others_omit_the_browser_path(shared_stage: Stage) -> None:
    """All users of the machine can see personal links and shell commands, so the path must not be in them."""
    root = browser_root(TOKEN)
    begun = shared_stage.http.post(
        f"{root}/api/v1/runs", json={**BRIEF, "options": {"max_rounds": 1, "humans": ["judge"]}}
    )
    run_id = begun.json()["runId"]
    assert shared_stage.get(f"/runs/{run_id}?wait=30").json()["status"] == "awaiting"
    link = shared_stage.http.post(f"{root}/api/v1/runs/{run_id}/links", json={}).json()
    assert link["page"].startswith("/answer/")
    assert link["path"].startswith("/api/v1/links/")
    with httpx2.Client(base_url=shared_stage.url, trust_env=False, verify=False) as person:
        assert root not in person.get(link["page"]).text
        assert root not in person.get(link["path"]).text
    forms = shared_stage.http.post(f"{root}/api/v1/plans", json=BRIEF).json()
    assert f"{shared_stage.url}/api/v1/runs" in forms["curl"]


def test_browser_can_sign_out(tmp_path: Path) -> None:
    """Signing out invalidates all cookies on every server that uses the store, even after a restart.

    Each cookie expires after a week.
    """
    store = str(tmp_path / "runs.sqlite3")
    cookies, root = list[str](), browser_root(TOKEN)

    def status(stage: Stage, number: int) -> int:
        case = Case("page", 200, {"cookie": cookies[number]}, path=f"{root}/", token=False)
        return send(stage, case).status

    def sign_in(stage: Stage) -> None:
        with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as browser:
            cookies.append(browser.get("/", params={"token": TOKEN}).headers["set-cookie"].partition(";")[0])

    with staged(lambda: Service(store=store)) as stage, staged(lambda: Service(store=store), read_only=True) as other:
        sign_in(stage)
        sign_in(stage)
        assert [status(stage, 0), status(stage, 1), status(other, 0)] == [200, 200, 200]
        case = Case("out", 204, {"cookie": cookies[0]}, path=f"{root}/api/v1/logout", method="POST", token=False)
        assert send(other, case).status == 204
        assert [status(stage, 0), status(stage, 1), status(other, 0)] == [401, 401, 401]
        sign_in(stage)
        assert stage.get("/runs").status_code == 200  # programs are not affected
    with staged(lambda: Service(store=store)) as stage:
        assert [status(stage, 0), status(stage, 2)] == [401, 200]
        name, _, _ = cookies[2].partition("=")
        old = time.time() - SESSION - 60
        for at, expected in ((old, 401), (old + 120, 401), (time.time(), 200)):
            cookies.append(f"{name}={_cookie_value(TOKEN, at)}")
            assert status(stage, -1) == expected
            if expected == 401:
                cookies[-1] = cookies[-1].replace(str(round(at * 1000)), str(round(time.time() * 1000)))
                assert status(stage, -1) == 401


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example", "/%2F/evil.example"])
def test_token_exchange_redirects_only_to_this_server(shared_stage: Stage, path: str) -> None:
    answer = send(shared_stage, Case("redirect", 303, path=f"{path}?token={TOKEN}", token=False))
    assert answer.status == 303
    location = answer.headers["location"]
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))


def test_health_check_needs_no_token(shared_stage: Stage) -> None:
    """Processes that have no token can check whether the server is up but learn nothing else."""
    answer = send(shared_stage, Case("health", 200, path="/api/v1/health", token=False))
    assert json.loads(answer.body)["status"] == "ok"


def test_every_other_path_requires_the_token(shared_stage: Stage) -> None:
    """Without a token, the paths in the OpenAPI document, pages and unknown paths all return 401."""
    public = ("/health", "/ready")
    paths = [path for path in shared_stage.spec["paths"] if not path.endswith(public) and "/links/" not in path]
    for path in [*paths, "/", "/runs/x", "/style.css", "/api/v1/openapi.json", "/nothing"]:
        url = path.format(run_id="x", place="y/z", debate="x:y", name="z")
        answer = send(shared_stage, Case(path, 401, path=url, token=False))
        assert answer.status == 401, path


@pytest.mark.parametrize("length", [20_001, 100_000])
def test_question_length_is_limited(shared_stage: Stage, length: int) -> None:
    """The limit is 20,000 characters."""
    response = shared_stage.post("/runs", {**BRIEF, "question": "?" * length})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "question"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"record": "answers.jsonl"}, "record"),
        ({"replay": "/etc/passwd"}, "replay"),
        ({"output_schema": "/etc/passwd"}, "output_schema"),
        ({"sources": ["/etc/passwd"]}, "sources"),
        ({"model": "m", "base_url": "http://127.0.0.1:9/v1"}, "base_url"),
        ({"model": "m", "base_url": "http://user:canary@evil.example/v1"}, "base_url"),
    ],
)
def test_options_read_no_file_and_reach_no_server(shared_stage: Stage, options: dict[str, Any], field: str) -> None:
    """Paths and addresses in options are rejected before anything is opened, and the response does not repeat them."""
    for body in ({**BRIEF, "options": options}, {**BRIEF, "options": {**BRIEF["options"], **options}}):  # type: ignore[dict-item]
        response = shared_stage.post("/runs", body)
        assert response.status_code == 422, response.text
        assert response.json()["errors"][0]["field"] == field
        assert "canary" not in response.text


def test_fifo_is_not_opened(shared_stage: Stage, tmp_path: Path) -> None:
    """Opening a named pipe would block the server, even if the pipe were opened only for a check."""
    import os

    os.mkfifo(tmp_path / "pipe")
    assert (
        shared_stage.post("/runs", {**BRIEF, "options": {"output_schema": str(tmp_path / "pipe")}}).status_code == 422
    )
    run_id = shared_stage.finished()
    assert (
        shared_stage.post(f"/runs/{run_id}/fork", {"options": {"output_schema": str(tmp_path / "pipe")}}).status_code
        == 422
    )


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("http://127.0.0.1:9/v1", 201),
        ("http://127.0.0.1:9/v1/deeper", 201),
        ("http://127.0.0.1:9/v10", 422),
        ("http://127.0.0.1:9/v1/../admin", 422),
        ("http://127.0.0.1:99/v1", 422),
        ("http://127.0.0.1:9@evil.example/v1", 422),
        ("https://127.0.0.1:9/v1", 422),
    ],
)
def test_base_urls_can_be_allowed(url: str, status: int) -> None:
    with staged(lambda: Service(store="memory:"), allow_base_urls=["http://127.0.0.1:9/v1"]) as stage:
        answer = stage.post(
            "/runs", {**BRIEF, "options": {"max_rounds": 1, "model": "m", "base_url": url, "attempts": 1}}
        )
        assert answer.status_code == status, answer.text
        if status == 422:
            assert "must be at or below http://127.0.0.1:9/v1 for requests over HTTP" in answer.text


def test_server_limits_apply_to_every_run(gate: Gate) -> None:
    """The body and the options of a run can lower a server limit but not raise it."""
    from flowdebate.runs.limits import Limits

    with staged(lambda: Service(store="memory:", model=FunctionModel(answer_debate), limits=Limits(calls=2))) as stage:
        for changes, calls in (
            ({"limits": {"calls": 100}}, 2),
            ({"options": {"max_rounds": 1, "max_calls": 100}}, 2),
            ({"limits": {"seconds": 100}}, 2),
            ({"limits": {"calls": 1}}, 1),
        ):
            run_id = stage.post("/runs", {**BRIEF, **changes}).json()["runId"]
            ended = stage.get(f"/runs/{run_id}?wait=30").json()
            assert (ended["status"], ended["usage"]["calls"]) == ("limit", calls)


def test_read_only_server_starts_no_runs(tmp_path: Path) -> None:
    """A read-only server shows the runs in its store and rejects all changes."""
    store = str(tmp_path / "runs.sqlite3")
    with staged(lambda: Service(store=store, model=FunctionModel(answer_debate))) as stage:
        run_id = stage.finished()
    with staged(lambda: Service(store=store), read_only=True) as stage:
        assert stage.get(f"/runs/{run_id}").json()["status"] == "complete"
        assert stage.frames(f"/runs/{run_id}/events")[-1].event == "end"
        assert stage.post("/runs", BRIEF).status_code == 403
        for verb in ("resume", "cancel", "fork", "links"):
            assert stage.post(f"/runs/{run_id}/{verb}").status_code == 403
        assert stage.post(f"/runs/{run_id}/answers", {"answer": "yes"}).status_code == 403
        assert stage.http.delete(f"/api/v1/runs/{run_id}").status_code == 403


def test_additional_hosts_can_be_allowed() -> None:
    with staged(lambda: Service(store="memory:"), allow_hosts=["Debates.example"]) as stage:
        assert send(stage, Case("named", 200, {"host": "debates.example"})).status == 200
        assert send(stage, Case("other", 421, {"host": "other.example"})).status == 421


def test_short_token_is_rejected() -> None:
    service = Service(store="memory:")
    with pytest.raises(ConfigurationError, match=r"at least 16 characters .got 5"):
        create_app(service, token="short")  # noqa: S106
    with pytest.raises(ConfigurationError, match="cannot be combined with `authenticate`"):
        create_app(service, token=TOKEN, authenticate=lambda _: "ann")
    assert len(create_app(service).state.token) > 32
    assert create_app(service, token=False).state.token is None


def test_mounted_application_is_guarded() -> None:
    """The application's paths, redirect and cookie are all below the path at which it is mounted."""
    import threading

    import uvicorn
    from fastapi import FastAPI

    service = Service(store="memory:", model=FunctionModel(answer_debate))
    outer = FastAPI()
    outer.mount("/debates", create_app(service, token=TOKEN))
    server = uvicorn.Server(uvicorn.Config(outer, log_config=None, ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=lambda: server.run(sockets=[bound]), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with httpx2.Client(base_url=url, trust_env=False, verify=False, timeout=20) as browser:
            assert browser.get("/debates/api/v1/health").status_code == 200
            assert browser.get("/debates/").status_code == 401
            exchanged = browser.get("/debates/", params={"token": TOKEN})
            root = f"/debates{browser_root(TOKEN)}"
            assert exchanged.headers["location"] == f"{root}/"
            assert f"Path={root}" in exchanged.headers["set-cookie"]
            assert f'<a href="{root}/">' in browser.get(f"{root}/").text
            begun = browser.post(f"{root}/api/v1/runs", json=BRIEF)
            assert begun.headers["location"].startswith(f"{root}/api/v1/runs/")
            assert browser.get(begun.headers["location"]).status_code == 200
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()


LOCAL = ("ollama/x", "vllm/x", "lmstudio/x", "llama-server/x")


@pytest.mark.parametrize("model", LOCAL)
def test_request_cannot_name_a_local_server(shared_stage: Stage, model: str) -> None:
    """A request that named a local port would be forwarded to whatever service listens there.

    Every option that takes model names is checked, even for forks.
    """
    run_id = shared_stage.finished()
    sides = [{"name": "Ann", "stance": "a", "model": model}, {"name": "Ben", "stance": "b"}]
    for options in (
        {"model": model},
        {"model": {"judge": model}},
        {"fallback": ["openai/gpt-5", model]},
        {"debaters": sides},
    ):
        for path, body in (
            ("/runs", {**BRIEF, "options": {"max_rounds": 1, **options}}),
            (f"/runs/{run_id}/fork", {"options": options}),
        ):
            response = shared_stage.post(path, body)
            assert response.status_code == 422, response.text
            [error] = response.json()["errors"]
            assert error["field"] == ("debaters[0].model" if "debaters" in options else next(iter(options)))
            assert error["problem"].startswith("must be a model that this server allows")
    body = {"pattern": "council", "question": "Why?", "options": {"model": {"chair": model}}}
    assert shared_stage.post("/runs", body).json()["errors"][0]["field"] == "model"


FORWARDING = ("x-forwarded-for", "x-forwarded-proto", "forwarded", "via", "x-real-ip", "cf-connecting-ip")


def test_local_server_allows_every_model_of_a_configured_provider() -> None:
    """A request forwarded by a proxy may name only the default models.

    The error names the flag that allows others.
    """
    with vendors() as clients, staged(lambda: Service(store="memory:"), own_machine=True) as stage:
        body = {**BRIEF, "options": {"max_rounds": 1, "model": "openai/gpt-4o"}}
        begun = stage.post("/runs", body)
        assert begun.status_code == 201, begun.text
        assert stage.get(f"/runs/{begun.json()['runId']}?wait=30").json()["status"] == "complete"
        assert {request.model for request in clients["openai"].asked} == {"gpt-4o"}
        assert "openai/*" in stage.get("/models").json()["allowed"]
        for name in FORWARDING:
            response = stage.post("/runs", body, headers={name: "203.0.113.9"})
            assert response.status_code == 422
            assert '--allow-model "openai/*"' in response.json()["errors"][0]["problem"]
            assert "openai/*" not in stage.get("/models", headers={name: "203.0.113.9"}).json()["allowed"]
        for model, remedy in (("xai/grok-4.3", "Set XAI_API_KEY"), ("some-model", "provider/model")):
            response = stage.post("/runs", {**BRIEF, "options": {"model": model}})
            assert remedy in response.json()["errors"][0]["problem"], response.text


def test_error_of_a_shared_server_names_the_flag_that_allows_the_model() -> None:
    with vendors(), staged(lambda: Service(store="memory:")) as stage:
        response = stage.post("/runs", {**BRIEF, "options": {"model": "openai/gpt-4o"}})
        assert '--allow-model "openai/*"' in response.json()["errors"][0]["problem"]


def test_models_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def status(stage: Stage, model: str) -> int:
        return stage.post("/runs", {**BRIEF, "options": {"max_rounds": 1, "model": model, "attempts": 1}}).status_code

    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with staged(lambda: Service(store="memory:", model="vllm/own", allow_models=["ollama/gem*"])) as stage:
        assert [status(stage, name) for name in ("ollama/gemma", "vllm/own", "ollama/x", "openai/gpt-5", "local")] == [
            201,
            201,
            422,
            422,
            422,
        ]
    with staged(lambda: Service(store="memory:", model="vllm/own")) as stage:
        names = ("vllm/own", "vllm/x", "openai/gpt-5", "openai/gpt-5.6-luna")
        assert [status(stage, name) for name in names] == [201, 422, 422, 201]
