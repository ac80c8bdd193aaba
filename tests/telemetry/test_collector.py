"""Telemetry sent over HTTP to a collector, including that of killed processes and of the uninstrumented command."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate.telemetry import names
from tests import warm
from tests.cli.stage import Stage
from tests.telemetry.collector import Collector
from tests.telemetry.watched import run_program

if TYPE_CHECKING:
    import subprocess

    import pytest

ROOT = Path(__file__).parents[2]


def _life(collector: Collector, store: Path, killed_at: int) -> int:
    arguments = [collector.endpoint, str(store), str(killed_at)]
    return warm.run_warm(warm.run_module("tests.telemetry.life"), *arguments, cwd=ROOT, check=False).returncode


def test_killed_and_resumed_run_has_the_metrics_of_an_undisturbed_run(tmp_path: Path) -> None:
    """The exported tokens, calls and verdicts are the same as if the process had not been killed.

    The trace of the last process links to the first one.
    """
    with Collector() as undisturbed, Collector() as disturbed:
        assert _life(undisturbed, tmp_path / "one.sqlite3", 0) == 0
        # counted per process: the second one repeats the third request and is killed at the fourth
        for killed_at in (3, 2):
            assert _life(disturbed, tmp_path / "two.sqlite3", killed_at) == -signal.SIGKILL
        assert _life(disturbed, tmp_path / "two.sqlite3", 0) == 0
    assert undisturbed.counts[names.TOKEN_USAGE, _about("input")] == 600
    assert disturbed.counts == undisturbed.counts
    assert len([span for span in disturbed.spans if span.name.startswith("chat")]) == 6
    (workflow,) = [span for span in disturbed.spans if span.name.startswith("invoke_workflow")]
    (link,) = workflow.links
    assert link.trace_id == disturbed.spans[0].trace_id != workflow.trace_id


def _about(kind: str) -> str:
    pairs = {names.OPERATION: "chat", names.PROVIDER: "openai", names.REQUEST_MODEL: "small", names.TOKEN_TYPE: kind}
    return ", ".join(sorted(f"{key}={value}" for key, value in pairs.items()))


def _instrumented(collector: Collector, stage: Stage) -> subprocess.CompletedProcess[str]:
    folder = Path(sys.executable).parent
    debate = stage.options("--debater", "pro=Yes", "--debater", "con=No")
    command = [str(folder / "opentelemetry-instrument"), sys.executable, "-m", "flowdebate", *debate]
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_LOGS_EXPORTER": "none",
        "OPENAI_API_KEY": "k",
    }
    return run_program(*command, check=False, **settings)


def test_command_can_be_instrumented_without_code_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWDEBATE_STORE", "memory:")
    with Collector() as collector, Stage() as stage:
        done = _instrumented(collector, stage)
    assert done.returncode == 0, done.stderr
    by_id = {span.span_id: span for span in collector.spans}
    lines = {_line(span, by_id) for span in collector.spans}
    assert "invoke_workflow debate > invoke_agent pro > chat staged > POST" in lines
    assert any(line.startswith("invoke_workflow debate > invoke_agent debate-judge") for line in lines)
    assert any(name == names.OPERATION_DURATION for name, _ in collector.counts)
    assert "Homes first." not in str(collector.spans)


def _line(span: Any, by_id: dict[bytes, Any]) -> str:
    """Return the names from the root to the span."""
    parent = by_id.get(span.parent_span_id)
    return span.name if parent is None else f"{_line(parent, by_id)} > {span.name}"
