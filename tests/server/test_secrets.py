"""Canary secrets: no key, password or token may appear in a server's responses, events, pages, exports or logs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import httpx2

from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import BRIEF, Stage, answer_debate, staged

if TYPE_CHECKING:
    import pytest

PLACE = "debate/round[1]/debate-turn-pro/debate-debater-pro"
KEY, PASSWORD, TOKEN = "canary-of-a-key", "canary-of-a-password", "canary-of-a-token-of-this-server"


def collect_output(stage: Stage, run_id: str) -> str:
    """Return everything that the server shows about a run and about itself."""
    texts = [stage.http.get("/").text, stage.http.get(f"/runs/{run_id}").text]
    for path, operations in stage.spec["paths"].items():
        if "get" in operations and "{code}" not in path:
            answer = stage.http.get(
                path.format(run_id=run_id, place=PLACE, name="notes.md"),
                params={"runs": run_id} if path.endswith("/events") and "{" not in path else {},
            )
            texts.append(f"{answer.headers}\n{answer.text}")
    return "\n".join(texts)


def test_no_output_contains_a_secret(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.setenv(name, KEY)
    base_url = f"http://user:{PASSWORD}@127.0.0.1:9/v1?key={PASSWORD}"
    options = {"max_rounds": 1, "model": "m", "attempts": 1}
    texts: list[str] = []
    with staged(
        lambda: Service(store="memory:", model=FunctionModel(answer_debate)),
        token=TOKEN,
        allow_base_urls=["http://127.0.0.1:9/v1"],
    ) as stage:
        texts.append(collect_output(stage, stage.finished()))
        failed = stage.begin(options={**options, "base_url": "http://127.0.0.1:9/v1"})
        assert stage.get(f"/runs/{failed}?wait=30").json()["status"] == "failed"
        texts.append(collect_output(stage, failed))
        for body in (
            {**BRIEF, "options": {**options, "base_url": base_url}},
            {**BRIEF, "options": {**options, "base_url": f"ftp://user:{PASSWORD}@x"}},
            {**BRIEF, "options": {**options, "base_url": f"http://user:{PASSWORD}@127.0.0.1:9/v1", "max_rounds": 0}},
            {**BRIEF, "options": {"record": f"/{PASSWORD}"}},
        ):
            response = stage.post("/runs", body)
            assert response.status_code == 422
            texts.append(response.text)
        with httpx2.Client(base_url=stage.url, trust_env=False, verify=False) as browser:
            for token in (TOKEN, f"{TOKEN}x"):
                answer = browser.get("/", params={"token": token})
                texts.append(f"{answer.headers}\n{answer.text}")
            texts.append(browser.get("/").text)
    logged = "\n".join(
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("flowdebate", "uvicorn", "fastapi", "starlette"))
    )
    for secret in (KEY, PASSWORD, TOKEN):
        assert secret not in "\n".join(texts)
        assert secret not in logged


def test_access_log_of_another_server_shows_no_token(caplog: pytest.LogCaptureFixture) -> None:
    """When uvicorn logs requests itself, it logs each URL without the token."""
    import socket
    import threading

    import uvicorn

    from flowdebate.server import create_app

    caplog.set_level(logging.INFO)
    app = create_app(Service(store="memory:"), token=TOKEN)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=True, ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=lambda: server.run(sockets=[bound]), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        for token in (TOKEN, f"{TOKEN}x"):
            httpx2.get(f"{url}/runs/x", params={"token": token, "limit": "3"}, trust_env=False, timeout=20)
        server.should_exit = True
        thread.join(30)
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("uvicorn"))
    assert "GET /runs/x?limit=3" in logged
    assert TOKEN not in logged
