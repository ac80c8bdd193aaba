"""A real server on a real socket in a thread, and a client that checks responses against the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
from jsonschema import Draft202012Validator

from flowdebate.server import create_app
from flowdebate.server.app import Server, serve
from flowdebate.server.guard import browser_root
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fastapi import FastAPI

    from flowdebate.models.base import ModelRequest
    from flowdebate.service.service import Service

TOKEN = "a-token-of-these-tests"  # noqa: S105 - it opens nothing else
HTTP_TIMEOUT = 30.0
QUESTION = "Should we ship?"
BRIEF = {"pattern": "debate", "question": QUESTION, "options": {"max_rounds": 1, "schedule": "single"}}
"""Options for a run with four calls."""
SECURITY = {
    "content-security-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "referrer-policy",
    "x-content-type-options",
}


def answer_debate(request: ModelRequest) -> str | dict[str, Any]:
    """Answer a request in a short debate, either with two lines of text or with a verdict."""
    if request.output_schema is not None:
        return {"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."}
    return f"{request.block} is sure.\nSo it is."


def propose_sides(request: ModelRequest) -> str | dict[str, Any]:
    """Answer a request in a debate whose sides have to be proposed first."""
    if request.block == "sides":
        positions = ("Postgres is enough", "MySQL is simpler", "SQLite will do")
        return {"sides": [{"name": position.split()[0], "position": position} for position in positions]}
    return answer_debate(request)


class Gate:
    """Model that gives the answers from `answer` one at a time, as each call is permitted."""

    name = "gate"

    def __init__(self, answer: Callable[[ModelRequest], Any] = answer_debate) -> None:
        self.calls = 0
        self.asked = threading.Semaphore(0)
        """Released at each call."""
        self._answers = FunctionModel(answer)
        self._open = asyncio.Semaphore(0)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def request(self, request: ModelRequest, /) -> Any:
        self._loop = asyncio.get_running_loop()
        self.calls += 1
        self.asked.release()
        await self._open.acquire()
        return await self._answers.request(request)

    def let(self, number: int = 1) -> None:
        """Permit the given number of calls, the first of which must already have been made."""
        assert self._loop is not None
        for _ in range(number):
            self._loop.call_soon_threadsafe(self._open.release)

    def wait_for_call(self) -> None:
        assert self.asked.acquire(timeout=HTTP_TIMEOUT)


@dataclass
class Frame:
    """One server-sent event."""

    event: str
    data: Any
    id: str | None


_specs: dict[tuple[Any, ...], dict[str, Any]] = {}
"""OpenAPI documents, keyed by the options that add endpoints. They are cached because building one takes half as long
as a test.
"""


class Stage:
    """Running server, with a client that sends its token."""

    def __init__(
        self, url: str, app: FastAPI, http: httpx2.Client, stop: Callable[[], None], spec: dict[str, Any]
    ) -> None:
        self.url = url
        self.pages = url + browser_root(TOKEN)
        """Base address for a browser signed in with the token of these tests."""
        self.http = http
        self.stop = stop
        self.app = app
        self.spec = spec

    def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        return (
            self.http.post(f"/api/v1{path}", json=body, **options)
            if body is not None
            else self.http.post(f"/api/v1{path}", **options)
        )

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.http.get(f"/api/v1{path}", **options)

    def begin(self, **changes: Any) -> str:
        answer = self.post("/runs", {**BRIEF, **changes})
        assert answer.status_code == 201, answer.text
        run_id: str = answer.json()["runId"]
        return run_id

    def finished(self, **changes: Any) -> str:
        run_id = self.begin(**changes)
        assert self.get(f"/runs/{run_id}?wait=30").json()["status"] == "complete"
        return run_id

    def frames(self, path: str, **headers: str) -> list[Frame]:
        return list(self.follow(path, **headers))

    def follow(self, path: str, **headers: str) -> Iterator[Frame]:
        request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        with self.http.stream("GET", f"/api/v1{path}", headers=request_headers) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield from read_frames(response.iter_lines())


def read_frames(lines: Iterator[str]) -> Iterator[Frame]:
    """Parse the events in the lines of a stream."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line and "event" in fields:
            yield Frame(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


@contextmanager
def staged(service: Callable[[], Service], *, token: str | None = TOKEN, **options: Any) -> Iterator[Stage]:
    """Serve the result of `service` on a separate event loop until the end of the block."""
    ready = threading.Event()
    details: dict[str, Any] = {}
    failures: list[BaseException] = []

    async def main() -> None:
        def started(address: str, server: Server) -> None:
            details.update(url=address.rstrip("/"), server=server)
            ready.set()

        settings = {"patience": 0.1, **({} if "authenticate" in options else {"token": token}), **options}
        details["app"] = create_app(service(), **settings)
        await serve(details["app"], port=0, started=started)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - it is raised in the test
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(HTTP_TIMEOUT)

    def stop() -> None:
        if "server" in details:
            details["server"].should_exit = True
        thread.join(HTTP_TIMEOUT)
        assert not thread.is_alive(), "the server does not stop"

    if failures:
        raise failures[0]
    headers = {} if not token or "authenticate" in options else {"authorization": f"Bearer {token}"}
    http = httpx2.Client(base_url=details["url"], headers=headers, timeout=HTTP_TIMEOUT, trust_env=False, verify=False)
    routers = options.get("openai"), options.get("ag_ui")
    if routers not in _specs:
        _specs[routers] = details["app"].openapi()
    stage = Stage(details["url"], details["app"], http, stop, _specs[routers])
    http.event_hooks["response"] = [lambda response: check_response(stage.spec, response)]
    try:
        with http:
            yield stage
    finally:
        stop()
        if failures:
            raise failures[0]


def check_response(spec: Mapping[str, Any], response: httpx2.Response) -> None:
    """Check that the response has the security headers and matches the OpenAPI document."""
    assert set(response.headers) >= SECURITY, response.headers
    assert "access-control-allow-origin" not in response.headers
    assert "server" not in response.headers
    kind = response.headers.get("content-type", "").partition(";")[0]
    if kind == "text/event-stream":
        return
    response.read()
    assert response.status_code < 500 or response.status_code == 503, response.text
    operation = find_operation(spec, response.request.method, response.request.url.path)
    if operation is None:
        schema = {"$ref": "#/components/schemas/Problem"} if kind.endswith("problem+json") else None
    else:
        described = operation["responses"].get(str(response.status_code)) or operation["responses"]["default"]
        assert kind in described.get("content", {"": {}}), (kind, described)
        schema = described.get("content", {}).get(kind, {}).get("schema")
    if schema is not None and kind.endswith("json") and response.request.method != "HEAD":
        components = {"components": spec["components"]}
        Draft202012Validator({**components, **schema}).validate(response.json())


def find_operation(spec: Mapping[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """Return the document's operation for a request."""
    for template, operations in spec["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template.replace("{place}", ".+")), path):
            operation: dict[str, Any] | None = operations.get(method.lower())
            return operation
    return None
