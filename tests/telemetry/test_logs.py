"""Log records for the end of each run and for each skipped failure, without content."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, FailurePolicy, debate
from flowdebate.errors import ProviderFailed
from flowdebate.runs.durable.replay import replay
from flowdebate.store import MemoryStore
from flowdebate.telemetry import JsonLines
from flowdebate.testing import FunctionModel
from tests.cli.stage import COMMAND, PATIENCE, Stage
from tests.telemetry.watched import PATTERNS_OF_ALL_KINDS, QUESTION, answer_with_usage
from tests.warm import Warm, run_warm

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

pytestmark = pytest.mark.anyio


def failing_model(request: ModelRequest) -> Any:
    """Answer as a model whose provider fails for one side."""
    if request.block.endswith("bob"):
        raise ProviderFailed("CANARY", status=503)
    return answer_with_usage(request)


def _skipping() -> Any:
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    policy = FailurePolicy(on_failure="skip", quorum=1)
    return debate(name="rent", debaters=sides, max_rounds=1, failures=policy)


def _lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    formatter = JsonLines(times=False)
    return [json.loads(formatter.format(record)) for record in caplog.records]


async def test_end_of_a_run_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flowdebate")
    model = FunctionModel(answer_with_usage)
    await PATTERNS_OF_ALL_KINDS["debate"]().run(QUESTION, model=model, run_id="r", seed=1)
    (line,) = _lines(caplog)
    assert line.pop("seconds") >= 0
    assert line.pop("message").startswith("run r of rent: complete, 6 calls in ")
    assert line == {
        "level": "INFO",
        "logger": "flowdebate.runs",
        "run_id": "r",
        "block": "rent",
        "status": "complete",
        "error": None,
        "calls": 6,
        "prompt_tokens": 600,
        "completion_tokens": 60,
    }


async def test_skipped_failure_is_logged_as_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Resuming or viewing the run logs nothing more. The error's message is omitted because it may contain quotes."""
    caplog.set_level(logging.INFO, "flowdebate")
    store, pattern, model = MemoryStore(), _skipping(), FunctionModel(failing_model)
    await pattern.run(QUESTION, model=model, run_id="r", store=store)
    warning, end = _lines(caplog)
    assert warning == {
        "level": "WARNING",
        "logger": "flowdebate.runs",
        "message": "run r continues: block rent-debater-bob, role debater, round 1, error ProviderFailed, "
        "recovery skipped",
        "run_id": "r",
        "block": "rent-debater-bob",
        "role": "debater",
        "round": 1,
        "error": "ProviderFailed",
        "recovery": "skipped",
    }
    assert end["status"] == "degraded"
    caplog.clear()
    await replay(pattern, await store.run("r"), await store.steps("r"), model=model)
    assert _lines(caplog) == []
    await pattern.resume("r", model=model, store=store)
    assert [line["level"] for line in _lines(caplog)] == ["INFO"]
    assert "CANARY" not in caplog.text


async def test_failed_run_logs_the_error_class(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flowdebate")
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1)
    with pytest.raises(ProviderFailed):
        await pattern.run(QUESTION, model=FunctionModel(failing_model))
    (line,) = _lines(caplog)
    assert (line["status"], line["error"]) == ("failed", "ProviderFailed")
    assert "CANARY" not in json.dumps(line)


def test_exceptions_are_logged_by_class() -> None:
    """An exception's message may quote a model's answer, so only the class of the exception is logged."""
    try:
        raise ValueError("CANARY")  # noqa: TRY301 - to have a traceback
    except ValueError:
        record = logging.makeLogRecord({"msg": "It failed", "levelname": "ERROR", "exc_info": sys.exc_info()})
    line = json.loads(JsonLines().format(record))
    assert line["exception"] == "ValueError"
    assert "CANARY" not in json.dumps(line)
    assert line["time"].endswith("+00:00")


def test_program_without_logging_sees_nothing_on_stderr() -> None:
    """Only the application decides where log records go."""
    program = (
        "import logging; assert logging.root.handlers == []\n"  # without a handler, warnings would go to stderr
        "from tests.telemetry.test_logs import _skipping, failing_model, FunctionModel\n"
        "_skipping().run_sync('?', model=FunctionModel(failing_model))"
    )
    done = run_warm(program, cwd=Path(__file__).parents[2])
    assert done.stderr == ""


def test_command_appends_json_lines(tmp_path: Path) -> None:
    """With `--log-json FILE`, each run appends one line to the file. The value "-" sends the lines to stderr."""
    log = tmp_path / "runs.jsonl"
    with Stage() as stage:
        debate_ = [*stage.options("--debater", "pro=Yes", "--debater", "con=No", "--no-store", "--json")]
        for target in (str(log), str(log), "-"):
            command = (COMMAND, "--log-json", target, *debate_)
            with Warm(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                stdout, stderr = (stream.decode() for stream in process.communicate(PATIENCE))
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert [(line["block"], line["status"]) for line in lines] == [("debate", "complete")] * 2
    assert log.stat().st_mode & 0o777 == 0o600
    assert process.returncode == 0
    assert json.loads(stdout)["status"] == "complete"
    assert json.loads(stderr.splitlines()[-1])["status"] == "complete"
    assert "Homes first." not in log.read_text("utf-8") + stderr


def test_unwritable_log_is_reported_before_any_call(tmp_path: Path) -> None:
    done = run_warm(COMMAND, "--log-json", str(tmp_path / "no" / "log"), "debate", "?", check=False)
    assert done.returncode == 2
    assert "cannot be written: there is no folder" in done.stderr
