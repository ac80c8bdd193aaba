"""`flowdebate serve` as a separate process, from start to finish."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import httpx2
import pytest

from flowdebate.cli.serving import _make_service
from flowdebate.errors import ConfigurationError
from tests.cli.stage import COMMAND
from tests.server.stage import BRIEF, read_frames
from tests.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANYWHERE = "0.0.0.0"  # noqa: S104 - for a moment
APPLICATION = """
import asyncio
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel

async def answer(request):
    await asyncio.sleep(DELAY)
    if request.output_schema is not None:
        return {"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."}
    with open("calls", "a") as file:
        file.write(request.block + "\\n")
    return f"{request.block} is sure."

def service():
    return Service(store="runs.sqlite3", model=FunctionModel(answer), recover=True)
"""


def user_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a user whose data is in `folder`."""
    return {**os.environ, "FLOWDEBATE_STORE": str(folder / "default.sqlite3"), "XDG_DATA_HOME": str(folder)}


@contextmanager
def start_server(folder: Path, *arguments: str) -> Iterator[tuple[Warm, str, str]]:
    """Start the process, and return it with its address and the token that it prints."""
    command = (COMMAND, "serve", "--port", "0", *arguments)
    with Warm(*command, stderr=subprocess.PIPE, cwd=folder, env=user_environment(folder)) as process:
        assert process.stderr is not None
        match = None
        while match is None:
            line = process.stderr.readline().decode()
            assert line, "the server has ended"
            match = re.search(r"Serving (http://\S+?/)(?:\?token=(\S+))?(?: |$)", line)
        yield process, match[1].rstrip("/"), match[2] or ""


def make_client(url: str, token: str) -> httpx2.Client:
    """Return a client that sends the token."""
    return httpx2.Client(
        base_url=url, headers={"authorization": f"Bearer {token}"}, trust_env=False, verify=False, timeout=30
    )


def test_error_suggests_another_port_if_the_port_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = (COMMAND, "serve", "--port", str(port))
        with Warm(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=user_environment(tmp_path)
        ) as process:
            message = process.communicate(timeout=60)[1].decode()
    assert message.endswith(f"Error: Port {port} is in use. Choose another --port; 0 picks a free one.\n")
    assert process.returncode == 2


def test_server_can_be_started_and_stopped(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION.replace("DELAY", "3600"))
    with start_server(tmp_path, "--app", "application:service") as (process, url, token):
        assert len(token) > 32
        with make_client(url, token) as http:
            run_id = http.post("/api/v1/runs", json=BRIEF).json()["runId"]
            with http.stream("GET", f"/api/v1/runs/{run_id}/events") as response:
                frames = read_frames(response.iter_lines())
                assert next(frames).event == "run_started"
                process.send_signal(signal.SIGINT)
                assert "end" not in {frame.event for frame in frames}
        process.send_signal(signal.SIGINT)  # calls in flight are not awaited
        assert process.wait(30) in (130, -signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_server_stops_immediately(tmp_path: Path, number: signal.Signals) -> None:
    """As shells expect, the exit code shows which signal stopped the server."""
    with start_server(tmp_path) as (process, url, token):
        with make_client(url, token) as http:
            assert http.get("/api/v1/runs").json()["runs"] == []
        process.send_signal(number)
        assert process.wait(30) in (-number, 128 + number)


ENDLESS = """
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel

def answer(request):
    while True:
        pass

def service():
    return Service(store="runs.sqlite3", model=FunctionModel(answer))
"""


@pytest.mark.slow
def test_server_stops_while_its_event_loop_is_blocked(tmp_path: Path) -> None:
    """If application code blocks the loop, the server waits five seconds before it stops."""
    (tmp_path / "application.py").write_text(ENDLESS)
    with start_server(tmp_path, "--app", "application:service") as (process, url, token):
        with make_client(url, token) as http:
            with suppress(httpx2.ReadTimeout):  # the run may begin before its request is answered
                http.post("/api/v1/runs", json=BRIEF, timeout=1)
            with pytest.raises(httpx2.ReadTimeout):
                http.get("/api/v1/health", timeout=1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (143, -signal.SIGTERM)


def test_next_server_resumes_the_runs_of_a_killed_server(tmp_path: Path) -> None:
    """After a SIGKILL, the next server resumes the unfinished runs without repeating any recorded calls."""
    (tmp_path / "application.py").write_text(APPLICATION.replace("DELAY", "0.2"))
    (tmp_path / "token").write_text("the-token-of-this-test\n")
    options = ("--app", "application:service", "--token-file", "token")
    with start_server(tmp_path, *options) as (process, url, token), make_client(url, "the-token-of-this-test") as http:
        assert token == ""
        run_id = http.post("/api/v1/runs", json={**BRIEF, "runId": "killed"}).json()["runId"]
        last = None
        with http.stream("GET", f"/api/v1/runs/{run_id}/events") as response:
            for frame in read_frames(response.iter_lines()):
                last = frame.id or last
                if frame.event == "turn_finished":
                    process.kill()
                    break
    with start_server(tmp_path, *options) as (process, url, _), make_client(url, "the-token-of-this-test") as http:
        headers = {"last-event-id": str(last)}
        with http.stream("GET", f"/api/v1/runs/{run_id}/events", headers=headers) as response:
            rest = [frame.event for frame in read_frames(response.iter_lines())]
        assert rest[-2:] == ["run_finished", "end"]
        assert rest.count("turn_finished") == 1
        assert http.get(f"/api/v1/runs/{run_id}").json()["status"] == "complete"
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("debate-debater-pro") == 1


def test_token_survives_a_restart(tmp_path: Path) -> None:
    """The token is kept in a private file, so bookmarks, cookies and scripts continue to work.

    The option --new-token replaces the token.
    """
    with start_server(tmp_path) as (_, url, first), make_client(url, first) as http:
        assert http.get("/api/v1/runs").status_code == 200
    path = tmp_path / "flowdebate" / "token"
    assert (path.read_text().strip(), path.stat().st_mode & 0o777) == (first, 0o600)
    with start_server(tmp_path) as (_, url, second), make_client(url, first) as http:
        assert second == first
        signed_in = http.get("/", params={"token": first}, headers={"authorization": ""})
        assert signed_in.status_code == 303
    with start_server(tmp_path, "--new-token") as (_, url, third), make_client(url, first) as http:
        assert (path.read_text().strip(), path.stat().st_mode & 0o777) == (third, 0o600)
        assert third != first
        page = http.get("/", headers={"accept": "text/html", "authorization": "", "sec-fetch-dest": "document"})
        assert page.status_code == 401
        assert http.get("/api/v1/runs").status_code == 401
    assert [entry.name for entry in path.parent.iterdir()] == ["token"]


def test_servers_started_simultaneously_share_one_token(tmp_path: Path) -> None:
    """The first server writes the file, and the others leave it as it is."""
    with ThreadPoolExecutor(4) as threads, ExitStack() as stack:
        started = list(threads.map(lambda _: stack.enter_context(start_server(tmp_path)), range(4)))
    assert len({token for _, _, token in started}) == 1


@pytest.mark.parametrize("how", ["readable", "linked", "short"])
def test_exposed_token_is_rejected(tmp_path: Path, how: str) -> None:
    path = tmp_path / "flowdebate" / "token"
    path.parent.mkdir()
    path.write_text("short" if how == "short" else "the-token-of-this-test")
    path.chmod(0o644 if how == "readable" else 0o600)
    if how == "linked":
        path.symlink_to(path.rename(tmp_path / "elsewhere"))
    code, message = start_failing_server(tmp_path)
    words = " ".join(message.split())
    wrong = {"readable": "mode 0644 instead of 0600", "linked": "is not a regular file", "short": "at least 16"}
    assert (code, wrong[how] in words, "flowdebate/token" in words) == (2, True, True), message
    with start_server(tmp_path, "--new-token") as (_, _, token):
        assert len(token) > 32


def test_unsaved_token_is_valid_until_the_server_stops(tmp_path: Path) -> None:
    """The server starts, but explains that it will use a different token the next time."""
    (tmp_path / "flowdebate").write_text("no folder")
    command = (COMMAND, "serve", "--port", "0")
    tokens = set()
    for _ in range(2):
        with Warm(*command, stderr=subprocess.PIPE, cwd=tmp_path, env=user_environment(tmp_path)) as process:
            assert process.stderr is not None
            message = process.stderr.readline().decode() + process.stderr.readline().decode()
            process.kill()
        assert "cannot be saved in" in message
        tokens.add(message.partition("?token=")[2].strip())
    assert len(tokens) == 2
    assert "" not in tokens


@pytest.mark.parametrize(
    ("arguments", "is_custom_code"),
    [
        ((), True),
        (("--allow-model", "openai/gpt-5"), False),
        pytest.param(("--allow-host", "debates.example"), False, marks=pytest.mark.slow),
        pytest.param(("--root-path", "/debates"), False, marks=pytest.mark.slow),
    ],
)
def test_local_server_allows_all_models_of_its_providers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], *, is_custom_code: bool
) -> None:
    """A local server can be reached only from its own machine, so it does not restrict the models.

    If an option opens the server to other machines, only configured models are allowed.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with start_server(tmp_path, *arguments) as (_, url, token), make_client(url, token) as http:
        assert ("openai/*" in http.get("/api/v1/models").json()["allowed"]) == is_custom_code


def start_failing_server(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the messages of a server that fails to start."""
    with Warm(
        COMMAND, "serve", *arguments, stderr=subprocess.PIPE, cwd=folder, env=user_environment(folder)
    ) as process:
        assert process.stderr is not None
        return process.wait(60), process.stderr.read().decode()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--host", ANYWHERE), "--token-file"),
        (("--token-file", "nothing"), "cannot be read"),
        (("--token-file", "short"), "at least 16"),
        (("--token-file", "short", "--new-token"), "cannot be combined with"),
        (("--port", "70000"), "between 0 and 65535"),
        (("--app", "nothing:service"), "MODULE:OBJECT"),
        (("--app", "application:service", "--model", "local"), "cannot be combined with"),
        (("--allow-base-url", "ftp://x"), "http://"),
    ],
)
def test_error_explains_misuse_without_a_traceback(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    (tmp_path / "short").write_text("short")
    code, message = start_failing_server(tmp_path, *arguments)
    assert code == 2
    assert expected in message
    assert "Traceback" not in message


def test_environment_sets_address_and_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command-line options take precedence. Invalid numbers are rejected before anything is served."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.2", 0))
        port = str(opened.getsockname()[1])
    (tmp_path / "token").write_text("the-token-of-this-test")
    variables = {"FLOWDEBATE_HOST": "127.0.0.2", "FLOWDEBATE_PORT": port, "FLOWDEBATE_MAX_CALLS": "3"}
    variables |= {"FLOWDEBATE_MAX_TOKENS": "500", "FLOWDEBATE_MAX_SECONDS": "1.5"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Warm(COMMAND, "serve", "--token-file", "token", stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert f"Serving http://127.0.0.2:{port}/" in process.stderr.readline().decode()
    options = dict.fromkeys(("model", "price", "max_calls", "max_tokens", "max_seconds", "keep_days"))
    options |= dict.fromkeys(("budget_calls", "budget_tokens", "budget_cost"))
    for flag, calls in ((None, 3), (2, 2)):
        service = _make_service(None, "memory:", {**options, "max_calls": flag}, None, recover=False)
        bounds = service._recipes._limits
        assert bounds is not None
        assert (bounds.calls, bounds.tokens, bounds.seconds) == (calls, 500, 1.5)
    monkeypatch.setenv("FLOWDEBATE_MAX_CALLS", "many")
    with pytest.raises(ConfigurationError, match="FLOWDEBATE_MAX_CALLS"):
        _make_service(None, "memory:", options, None, recover=False)


def test_error_names_the_port_that_is_in_use(tmp_path: Path) -> None:
    with start_server(tmp_path) as (_, url, _):
        port = url.rpartition(":")[2]
        code, message = start_failing_server(tmp_path, "--port", port)
    assert code == 2
    assert port in message


def test_open_server_warns_about_access(tmp_path: Path) -> None:
    """A server that other machines can reach requires an explicit token.

    It warns that anyone with the token can read all runs.
    """
    (tmp_path / "token").write_text("the-token-of-this-test")
    command = ("--host", ANYWHERE, "--token-file", "token", "--allow-host", "debates.example", "--read-only")
    with start_server(tmp_path, *command) as (process, url, token):
        assert token == ""
        assert process.stderr is not None
        message = process.stderr.readline().decode()
        assert "anyone with the token can read all runs" in " ".join(message.split())
        port = url.rpartition(":")[2]
        with make_client(f"http://127.0.0.1:{port}", "the-token-of-this-test") as http:
            assert http.get("/api/v1/runs", headers={"host": "debates.example"}).status_code == 200
            assert http.get("/api/v1/runs", headers={"host": ANYWHERE}).status_code == 421


def test_token_is_not_among_the_browser_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All users of a machine can see the arguments of its programs, so --open passes a private file instead."""
    browser = tmp_path / "browser"
    browser.write_text(
        '#!/bin/sh\necho "$@" > given\nfile="${1#file://}"\nstat -c %a "$file" > mode\n'
        'cat "$file" > page.part\nmv page.part page\n'
    )
    browser.chmod(0o700)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("HOME", str(home))
    with start_server(tmp_path, "--open") as (process, url, token):
        for _ in range(200):
            if (tmp_path / "page").exists():
                break
            time.sleep(0.05)
        assert token not in (tmp_path / "given").read_text()
        assert (tmp_path / "mode").read_text() == "600\n"
        assert f"url={url}/?token={token}" in (tmp_path / "page").read_text()
        [entrance] = home.glob("flowdebate-*.html")
        assert str(entrance) in (tmp_path / "given").read_text()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert not list(home.glob("flowdebate-*"))  # it would also be deleted after a minute
