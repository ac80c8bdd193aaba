"""Pages about HTTP, whose `curl` commands run unchanged against a real server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flowdebate.server.problems import STATUSES
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import TOKEN, answer_debate, staged

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "http.md").read_text("utf-8")
_FENCE = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADDRESS = "localhost:8377"


def extract_commands(text: str) -> list[str]:
    """Return the curl commands in shell blocks, with continued lines joined."""
    lines = "\n".join(_FENCE.findall(text)).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("curl ")]


def answer(request: Any) -> Any:
    """Answer in debates and councils."""
    return (
        answer_debate(request)
        if request.output_schema is None or "debate" in request.block
        else {"ranking": ["A", "B", "C"]}
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("text", [PAGE, (ROOT / "README.md").read_text("utf-8")], ids=["docs/http.md", "README.md"])
def test_curl_examples_run(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none-is-asked")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    lines = extract_commands(text)
    assert lines
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer))) as stage:
        environment = {**os.environ, "TOKEN": TOKEN}
        for line in lines:
            assert _ADDRESS in line
            command = line.replace(_ADDRESS, stage.url.removeprefix("http://")).replace(
                "curl ", "curl -sS --fail-with-body ", 1
            )
            shell = ["bash", "-c", command]
            ended = subprocess.run(shell, env=environment, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - lines of our own pages
            assert ended.returncode == 0, (line, ended.stdout, ended.stderr)


def test_endpoint_table_is_complete() -> None:
    with staged(lambda: Service(store="memory:")) as stage:
        rows = PAGE.split("## All endpoints")[1].split("## Errors")[0]
        for path in stage.spec["paths"]:
            short = path.removeprefix("/api/v1").replace("{run_id}", "{id}")
            assert f"{short}`" in rows or f"`{short.removeprefix('/runs/{id}')}`" in rows, short


def test_documented_problem_matches_a_real_one() -> None:
    import json

    example = json.loads(PAGE.split("```json\n")[1].split("```")[0])
    with staged(lambda: Service(store="memory:")) as stage:
        problem = stage.post(
            "/runs", {"pattern": "debate", "question": "Should we?", "options": {"max_rounds": 0}}
        ).json()
    assert problem == example


def test_documented_conflicts_are_complete() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| 409 |"))
    names = set(re.findall(r"`([A-Z]\w+)`", row))
    conflicts = {kind.__name__ for kind, status in STATUSES.items() if status == 409}
    assert conflicts - names == {"LimitReached", "JournalMismatch", "TaskError"}
