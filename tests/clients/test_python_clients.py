"""Unmodified Python clients of the OpenAI-compatible endpoint, in a separate environment (`make test-clients`)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.models.base import ModelResponse, Usage
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel
from tests.server.stage import TOKEN, propose_sides, staged

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

PYTHON = os.environ.get("FLOWDEBATE_PYTHON_CLIENTS", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="make test-clients installs the clients")
PLAN = {"steps": ["measure", "choose"]}
JSON_IN_TEXT = f"```json\n{json.dumps(PLAN)}\n```"


def answer(request: ModelRequest) -> Any:
    """Propose sides for a question that has none, and return a plan if one is requested."""
    fields = set((request.output_schema or {}).get("properties", ()))
    wants_json = "json" in json.dumps(request.messages).lower()
    if "steps" in fields:
        reply: Any = PLAN
    elif request.role == "synthesizer" or request.block.endswith("synthesizer"):
        reply = JSON_IN_TEXT if wants_json else "Measure first."
    else:
        reply = propose_sides(request)
    usage = Usage(calls=1, prompt_tokens=10, completion_tokens=2)
    return ModelResponse(**{"text" if isinstance(reply, str) else "data": reply}, usage=usage)


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        *[(name, "Measure first.") for name in ("openai", "litellm", "llm")],
        *[(f"instructor {mode}", json.dumps(PLAN["steps"])) for mode in ("TOOLS", "JSON", "MD_JSON", "JSON_SCHEMA")],
    ],
)
def test_unmodified_client_gets_the_answer_of_a_debate(client: str, expected: str, tmp_path: Path) -> None:
    program = Path(__file__).with_name("python_program.py")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LLM_USER_PATH": str(tmp_path / "llm")}
    with staged(lambda: Service(store="memory:", model=FunctionModel(answer)), openai=True) as stage:
        done = subprocess.run(  # noqa: S603 - the interpreter of the clients
            [PYTHON, str(program), f"{stage.url}/v1", TOKEN, client],
            env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        text, tokens = json.loads(done.stdout.splitlines()[-1])
        assert text == expected
        assert tokens > 0
        runs = stage.get("/runs").json()["runs"]
        assert {run["status"] for run in runs} == {"complete"}
