"""`flowdebate models`: the selected model with its origin and capabilities, but never a key."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import pytest
from typer.testing import CliRunner

from flowdebate.cli.app import app
from flowdebate.models.openai.optional import learned_of
from flowdebate.models.providers import PROVIDERS
from flowdebate.testing import serve_recording
from tests.evaluation.model_stub import Stub
from tests.vendors import vendors

from .stage import PATIENCE, Stage, clean_environment

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SECRET = "sk-geheim-0123456789"  # noqa: S105 - of nobody
KEYS = [provider.key_env for provider in PROVIDERS.values() if provider.key_env]
CLEAN = dict.fromkeys(("FLOWDEBATE_MODEL", "OPENAI_BASE_URL", "FLOWDEBATE_LOCAL_MODEL", *KEYS), "")


def run_models(*arguments: str, **env: str) -> Result:
    """Run the command in an environment that contains only `env`."""
    return CliRunner(env={**CLEAN, **env}).invoke(app, ["models", *arguments], catch_exceptions=False)


@pytest.mark.parametrize(
    ("env", "model", "source"),
    [
        ({"FLOWDEBATE_MODEL": "ollama/gemma3", "OPENAI_API_KEY": SECRET}, "ollama/gemma3", "FLOWDEBATE_MODEL names it"),
        ({"OPENAI_API_KEY": SECRET}, "openai/gpt-5.6-luna", "OPENAI_API_KEY is set"),
        ({"OPENAI_BASE_URL": "http://me:geheim@127.0.0.1:9/v1"}, "openai/gpt-5.6-luna", "OPENAI_BASE_URL is set"),
        ({"ANTHROPIC_API_KEY": SECRET}, "anthropic/claude-haiku-5-5", "ANTHROPIC_API_KEY is set"),
    ],
)
def test_model_is_shown_with_its_origin(env: dict[str, str], model: str, source: str) -> None:
    """The page and the JSON output show which API keys are set, but never the keys themselves."""
    page, document = run_models(**env), json.loads(run_models("--json", **env).stdout)
    assert page.exit_code == 0
    assert f"Model: {model}\n" in page.stdout
    assert f"  From: {source}\n" in page.stdout
    assert document["default"] == {"model": model, "from": source}
    key = next(provider for provider in document["providers"] if provider["name"] == "openai")
    assert key["keySet"] == ("OPENAI_API_KEY" in env)
    assert "geheim" not in page.output + json.dumps(document)


def test_local_model_is_shown_with_its_weights(tmp_path: Path) -> None:
    """The path and the size of the model are shown even if the runtime is not installed."""
    weights = tmp_path / "own.gguf"
    weights.write_bytes(b"GGUF" + bytes(1_500_000_000 // 1000))
    local = json.loads(run_models("--json", FLOWDEBATE_LOCAL_MODEL=str(weights), OPENAI_API_KEY="x").stdout)["local"]
    assert (local["title"], local["path"], local["bytes"]) == ("own", str(weights), weights.stat().st_size)
    document = json.loads(
        run_models("--json", FLOWDEBATE_LOCAL_MODEL=str(tmp_path / "no.gguf"), OPENAI_API_KEY="x").stdout
    )
    assert (document["local"]["path"], document["local"]["bytes"]) == (None, None)


def test_setup_options_are_listed_if_no_model_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowdebate.models.local.gguf.local_model_installed", lambda: False)
    monkeypatch.setattr("flowdebate.models.resolve.running_servers", lambda: {"ollama": None})
    result = run_models()
    assert result.exit_code == 3
    assert result.stdout.startswith(
        "No model is set up.\nNeither FLOWDEBATE_MODEL nor the key of a provider is set, no "
    )
    assert "(ollama is running, but has none)" in result.stdout
    assert re.search(r"^ollama +none needed +has no model +http", result.stdout, re.MULTILINE)
    assert re.search(r"^vllm +none needed +does not answer +http", result.stdout, re.MULTILINE)


def test_local_server_is_shown_with_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any call is made, the first line printed by a run also states where the model comes from."""
    monkeypatch.setattr("flowdebate.models.resolve.running_servers", lambda: {"ollama": "gemma3"})
    page, document = run_models(), json.loads(run_models("--json").stdout)
    assert "Model: ollama/gemma3\n" in page.stdout
    assert "  From: it answers at http://127.0.0.1:11434/v1, and no key is set\n" in page.stdout
    (ollama,) = [provider for provider in document["providers"] if provider["name"] == "ollama"]
    assert (ollama["model"], ollama["answers"], ollama["keySet"]) == ("gemma3", True, None)
    sides = ("--debater", "ann=Trams", "--debater", "bob=Roads")
    options = ("--max-rounds", "1", "--attempts", "1", "--no-store")
    run = CliRunner(env=CLEAN).invoke(app, ["debate", "Trams or roads?", *sides, *options])
    assert "Model: ollama/gemma3 (a server on this machine, at http://127.0.0.1:11434/v1)" in run.output


def test_run_that_cannot_start_leaves_no_files(tmp_path: Path) -> None:
    """The command prints only the reason, since there is nothing to resume."""
    env = {**CLEAN, "FLOWDEBATE_STORE": str(tmp_path / "runs.sqlite3")}
    command_line = ["debate", "Trams or roads?", "--debater", "ann=Trams", "--debater", "bob=Roads"]
    run = CliRunner(env=env).invoke(app, [*command_line, "--model", "openai/gpt-5-mini"])
    assert run.exit_code == 1
    assert "OPENAI_API_KEY" in run.output
    assert "resume" not in run.output
    assert "Failed after" not in run.output
    assert CliRunner(env=env).invoke(app, ["runs"]).output == "No runs.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes it")
@pytest.mark.parametrize("pattern", ["debate", "council"])
def test_closed_stdin_is_treated_as_empty(pattern: str, tmp_path: Path) -> None:
    """Cron and some containers start the command without stdin."""
    command_line = f"{pattern} 'Trams or roads?' --model openai/gpt-5-mini"
    command = f"exec {shlex.quote(sys.executable)} -m flowdebate {command_line} <&-"
    env = {**os.environ, "HOME": str(tmp_path), "OPENAI_API_KEY": ""}
    shell = ["sh", "-c", command]
    run = subprocess.run(shell, env=env, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own
    assert "Traceback" not in run.stderr
    assert "Error: " in run.stderr


def test_anthropic_key_alone_is_sufficient() -> None:
    """The command uses Anthropic's API with this key and does not mention OpenAI."""
    with vendors() as clients:
        sides = ("--debater", "ann=Trams", "--debater", "bob=Roads")
        command_line = ["debate", "Trams or roads?", *sides, "--max-rounds", "1", "--no-synthesizer", "--no-store"]
        key = str(clients["anthropic"].key)
        run = CliRunner(env={**CLEAN, "ANTHROPIC_API_KEY": key}).invoke(app, command_line, catch_exceptions=False)
    assert run.exit_code == 0, run.output
    assert "Model: anthropic/claude-haiku-5-5" in run.output
    assert "openai" not in run.output.lower()
    assert {name for name, vendor in clients.items() if vendor.asked} == {"anthropic"}
    assert {request.headers["authorization"] for request in clients["anthropic"].asked} == {f"Bearer {key}"}


def test_quick_check_makes_one_call_and_reports_its_duration() -> None:
    """Each model gets one call. If a model does not answer, the exit code is 1, but the others are still checked."""
    with Stage(turns=[["ready"]]) as stage:
        env = {"OPENAI_BASE_URL": stage.base_url, "OPENAI_API_KEY": SECRET}
        fine = run_models("check", "--quick", **env)
        assert len(stage.bodies) == 1
        result = run_models("check", "ollama/none", "openai/staged", "--quick", "--json", **env)
    assert fine.exit_code == 0
    assert "Answers: openai/gpt-5.6-luna, in " in fine.stdout
    assert result.exit_code == 1
    failed, working = json.loads(result.stdout)["checks"]
    assert failed["error"]
    assert (working["error"], working["tokens"]) == (None, 13)
    assert SECRET not in fine.output + result.output


def test_unknown_model_is_rejected_with_a_suggestion() -> None:
    result = run_models("check", "openai:gpt-5", "--quick")
    assert result.exit_code == 2
    assert "Did you mean openai/gpt-5?" in result.stderr


class CheckStub:
    """Stub server for model checks, running in a separate thread within its `with` block."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    async def _serve(self) -> None:
        async with self._stub.server() as server:
            self.base_url = server.base_url
            self._ready.set()
            await self._done.wait()

    def __enter__(self) -> Self:
        learned_of.cache_clear()  # forget what was learned about an earlier server on this port
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(PATIENCE)
        self._loop.close()


def test_check_shows_capabilities_and_recommended_settings(tmp_path: Path) -> None:
    record = tmp_path / "check.jsonl"
    with CheckStub(Stub(refuses=["temperature", "schema"], words="Not with this model.")) as played:
        options = ("check", "m", "--base-url", played.base_url)
        page = run_models(*options, "--record", str(record), OPENAI_API_KEY=SECRET)
        document = run_models(*options, "--json", OPENAI_API_KEY=SECRET)
    assert (page.exit_code, document.exit_code) == (0, 0), page.output
    assert page.stderr.startswith("Checking m: about 22 short calls, at most 60 requests.")
    assert re.search(r"^temperature +refused +400: Not with this model\.$", page.stdout, re.MULTILINE)
    assert re.search(r"^json_schema +refused +400", page.stdout, re.MULTILINE)
    assert re.search(r"^judge in both orders +works", page.stdout, re.MULTILINE)
    assert 'Set structured="tools"' in page.stdout
    (report,) = json.loads(document.stdout)["checks"]
    assert (report["model"], report["status"], report["error"], report["calls"]) == ("m", "complete", None, 22)
    assert {row["outcome"] for row in report["rows"] if row["group"] == "roles"} == {"works"}
    assert report["advice"][0] == "Do not set temperature in ModelSettings."
    assert SECRET not in page.output + document.output + record.read_text()
    with serve_recording(record) as base_url:
        learned_of.cache_clear()
        second = run_models("check", "m", "--base-url", base_url, OPENAI_API_KEY=SECRET)
    assert second.stdout.partition("REQUEST")[2] == page.stdout.partition("REQUEST")[2].partition("\n  Record:")[0]


def test_recording_is_not_overwritten(tmp_path: Path) -> None:
    """An existing recording may be the only copy."""
    record = tmp_path / "check.jsonl"
    record.write_text("mine")
    with CheckStub(Stub()) as played:
        result = run_models("check", "m", "--base-url", played.base_url, "--record", str(record), OPENAI_API_KEY=SECRET)
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert record.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["check", "openai/gpt-5-mini"], 1, "there is no API key: set OPENAI_API_KEY"),
        (["check"], 3, "no model is configured"),
        (["check", "m", "--base-url", "http://127.0.0.1:9/v1"], 1, "127.0.0.1:9"),
        (
            ["check", "--base-url", "http://127.0.0.1:9/v1"],
            2,
            "SPEC is required with --base-url: specify a model on the server at",
        ),
        (
            ["check", "local", "ollama/m", "--record", "x.jsonl"],
            2,
            "--record cannot be combined with several models",
        ),
        (["check", "local", "--quick", "--record", "x.jsonl"], 2, "--record cannot be combined with --quick"),
        (["list", "openai/gpt-5-mini"], 2, "SPEC can only be used with `flowdebate models check`"),
        (["--quick"], 2, "--quick can only be used with `flowdebate models check`"),
        (["openai/gpt-5-mini"], 2, "ACTION must be"),
    ],
)
def test_failed_check_states_the_reason(
    arguments: list[str], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowdebate.models.local.gguf.local_model_installed", lambda: False)
    monkeypatch.setattr("flowdebate.models.resolve.running_servers", dict)
    result = run_models(*arguments)
    assert result.exit_code == code, result.output
    assert says in result.output


def test_ctrl_c_shows_partial_results() -> None:
    def stall(body: Any, data: Any) -> Any:
        if "confidence" in data:
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)  # let the signal arrive before the answer
        return data

    with CheckStub(Stub(refuses=["temperature"], data=stall)) as played:
        command = [sys.executable, "-m", "flowdebate", "models", "check", "m", "--base-url", played.base_url]
        env = {**clean_environment(), "OPENAI_API_KEY": SECRET}
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603 - our own
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Interrupted: what follows is all that is known" in out
    assert re.search(r"^temperature +refused", out, re.MULTILINE)
    assert "Do not set temperature in ModelSettings." in out
    assert "ROLES" not in out


def test_python_dash_m_runs_the_command() -> None:
    """Messages still refer to the program as `flowdebate`."""
    arguments = [sys.executable, "-m", "flowdebate", "--help"]
    process = subprocess.run(arguments, env=clean_environment(), capture_output=True, timeout=60, text=True, check=True)  # noqa: S603 - our own
    assert process.stdout.startswith("Usage:\n  flowdebate debate ")
