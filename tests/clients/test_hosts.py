"""Tests that use the configurations from docs/mcp.md in real MCP hosts (`make test-clients`).

Stubs stand in for the hosts' vendors.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .vendor_stub import KEY, VendorStub

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = os.environ.get("FLOWDEBATE_CLIENTS", "")
pytestmark = pytest.mark.skipif(not CLIENTS, reason="make test-clients installs the programs")
PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
HOSTS = ("claude", "codex", "gemini", "opencode")
ROWS = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
ASK = {
    "claude": "claude -p 'Hold it.' --allowedTools mcp__flowdebate__start_debate",
    "codex": "codex exec -m m --skip-git-repo-check 'Hold it.'",
    "gemini": "gemini --approval-mode yolo -p 'Hold it.'",
    "opencode": "opencode run 'Hold it.' --title trams",
}


def documented_command(host: str) -> str:
    """Return the documented command that adds the server to a host."""
    match = re.search(rf"^\| {ROWS[host]} \| `([^`]+)`", PAGE, re.MULTILINE)
    assert match is not None
    return match[1].replace("=…", f"={KEY}")


def block(language: str, part: str) -> str:
    """Return the page's code block that contains the given text."""
    (code_block,) = [code for code in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if part in code]
    return str(code_block)


@dataclass(frozen=True)
class Desk:
    """A user's home folder and working folder, with the vendor stubs."""

    home: Path
    stub: VendorStub
    env: dict[str, str]

    def run(self, line: str) -> str:
        """Run a command in the folder and return its output."""
        done = subprocess.run(  # noqa: S603 - a host, in a home of its own
            shlex.split(line), env=self.env, cwd=self.home / "work", stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def write(self, path: str, text: str) -> None:
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).write_text(text)

    def trust(self) -> None:
        """Mark the folder as trusted, in the format of Gemini CLI."""
        self.write(".gemini/trustedFolders.json", json.dumps({str(self.home / "work"): "TRUST_FOLDER"}))

    def add(self, host: str) -> None:
        """Set up the server as documented."""
        if host == "codex":
            with (self.home / ".codex" / "config.toml").open("a") as config:
                config.write(block("toml", "mcp_servers.flowdebate"))
        elif host == "opencode":
            path = self.home / ".config" / "opencode" / "opencode.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | json.loads(block("json", '"mcp": {'))))
        else:
            self.trust()
            line = documented_command(host)
            self.run(line if "OPENAI_API_KEY" in self.env else line.replace(f"--env OPENAI_API_KEY={KEY} ", ""))

    def result(self) -> str:
        """Return the text from which the host's model reads the tool's result."""
        kinds = ('"tool_result"', '"function_call_output"', '"functionResponse"', '"role": "tool"')
        texts = [json.dumps(body) for body in self.stub.bodies]
        results = [
            text[max(text.rfind(kind) for kind in kinds) :] for text in texts if any(kind in text for kind in kinds)
        ]
        assert results, [[tool.get("name") for tool in body.get("tools") or []] for body in self.stub.bodies]
        return results[-1].replace("\\", "")  # the result is JSON inside JSON

    def runs(self) -> list[Any]:
        """Return the stored runs."""
        line = f"{sys.executable} -m flowdebate runs --json --store {self.home}/runs.sqlite3"
        return json.loads(self.run(line)) if (self.home / "runs.sqlite3").exists() else []


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Provide a home folder with four signed-in programs, and a `uvx` that starts the server from this environment."""
    with VendorStub() as stub:
        stub.tool, stub.arguments = "start_debate", {"question": "Should we build trams?", "max_rounds": 1, "wait": 0}
        env = {
            "HOME": str(tmp_path),
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{CLIENTS}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "ANTHROPIC_BASE_URL": stub.url,
            "GOOGLE_GEMINI_BASE_URL": stub.url,
            "ENABLE_TOOL_SEARCH": "false",
            **dict.fromkeys(("ANTHROPIC_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "KEY_OF_STUB"), KEY),
            "OPENAI_API_KEY": KEY,
        }
        desk = Desk(tmp_path, stub, env)
        (tmp_path / "work").mkdir()
        # otherwise the hosts' own keys would add models
        server = (
            "#!/bin/sh\nunset ANTHROPIC_API_KEY GEMINI_API_KEY\n"
            f"export FLOWDEBATE_STORE={tmp_path}/runs.sqlite3\n"
            f'[ -z "$OPENAI_API_KEY" ] || export OPENAI_BASE_URL={stub.url}/v1\n'
        )
        desk.write("bin/flowdebate", f'{server}exec {sys.executable} -m flowdebate "$@"\n')
        desk.write(
            "bin/uvx", '#!/bin/sh\n[ "$1 $2 $3" = "--from flowdebate[mcp] flowdebate" ] || exit 9\nshift 2\nexec "$@"\n'
        )
        for name in ("flowdebate", "uvx"):
            (tmp_path / "bin" / name).chmod(0o755)
        desk.write(".codex/config.toml", f'openai_base_url = "{stub.url}/v1"\n')
        desk.write(".gemini/settings.json", json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
        options = {"baseURL": f"{stub.url}/v1", "apiKey": "{env:KEY_OF_STUB}"}
        provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"tool_call": True}}}
        config = {"provider": {"stub": provider}, "model": "stub/m"}
        desk.write(".config/opencode/opencode.json", json.dumps(config))
        yield desk


@pytest.mark.parametrize("host", HOSTS)
def test_documented_host_starts_a_debate(host: str, desk: Desk) -> None:
    desk.add(host)
    desk.run(ASK[host])
    assert re.search(r'"status": ?"(running|complete)', desk.result())
    assert "Should we build trams?" in desk.result()
    assert len(desk.runs()) == 1


@pytest.mark.parametrize("host", HOSTS)
def test_host_without_a_key_gets_an_error_and_stores_no_run(host: str, desk: Desk) -> None:
    del desk.env["OPENAI_API_KEY"]
    desk.add(host)
    desk.run(ASK[host])
    assert "OPENAI_API_KEY" in desk.result()
    assert desk.runs() == []


def test_codex_asks_for_approval_by_default(desk: Desk) -> None:
    desk.run(documented_command("codex"))
    desk.run(f"{ASK['codex']} -c mcp_servers.flowdebate.required=true")
    assert "requires approval" in desk.result()
    desk.stub.bodies.clear()
    desk.run(f"{ASK['codex']} -c mcp_servers.flowdebate.required=true "
             "-c mcp_servers.flowdebate.default_tools_approval_mode=approve")  # fmt: skip
    assert "run_id" in desk.result()


def test_gemini_disables_the_server_in_an_untrusted_folder(desk: Desk) -> None:
    desk.run(documented_command("gemini"))
    assert "Disabled" in desk.run("gemini mcp list")
    desk.trust()
    assert "Disabled" not in desk.run("gemini mcp list")


@pytest.mark.parametrize("part", ['"--model"', '"--app"'])
def test_desktop_configuration_starts_a_debate(part: str, desk: Desk) -> None:
    desk.write("my_debates.py", block("py", "# my_debates.py").replace('"runs.sqlite3"', f'"{desk.home}/runs.sqlite3"'))
    entry = block("json", part).replace("/home/ann/debates", str(desk.home)).replace("your key", KEY)
    desk.write("entry.json", entry)
    del desk.env["OPENAI_API_KEY"]
    if part == '"--app"':
        desk.stub.arguments |= {"pattern": "debate"}
    desk.run(f"{ASK['claude']} --mcp-config {desk.home}/entry.json")
    assert "run_id" in desk.result()
    assert len(desk.runs()) == 1
