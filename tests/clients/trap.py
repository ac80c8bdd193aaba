"""A home folder full of user settings that must not affect a debate."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .vendor_stub import VendorStub

MARK = "ANSWER-LIKE-A-PIRATE"
SECRET = "THE-VAULT-OPENS-AT-NOON"  # noqa: S105 - of nobody
_MEMORIES = (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md", ".config/opencode/AGENTS.md", "AGENTS.md")
_SKILLS = (".claude", ".codex", ".gemini", ".agents", ".config/opencode")


def write_trap(home: Path, stub: VendorStub) -> None:
    """Fill `home` with memory files, skills, MCP servers, hooks and plugins for all four programs.

    Any server, hook or plugin that gets started appends a line to `home/started`.
    """
    started = f"open({str(home / 'started')!r}, 'a').write('started')"
    files = dict.fromkeys(_MEMORIES, MARK)
    files |= {
        f"{folder}/skills/pirate/SKILL.md": f"---\nname: pirate\ndescription: {MARK}\n---\n" for folder in _SKILLS
    }
    files["secret.txt"] = SECRET
    files["start.py"] = started
    server = {"command": sys.executable, "args": [str(home / "start.py")]}
    run = {"type": "command", "command": f"{sys.executable} {home}/start.py"}
    hooks = {
        "SessionStart": [{"hooks": [run]}],
        "UserPromptSubmit": [{"hooks": [run]}],
        "BeforeModel": [{"hooks": [run]}],
    }
    files[".claude.json"] = json.dumps({"mcpServers": {"spy": server}, "hasCompletedOnboarding": True})
    files[".claude/settings.json"] = json.dumps({"hooks": hooks})
    files[".codex/config.toml"] = (
        f'openai_base_url = "{stub.url}/v1"\ndeveloper_instructions = "{MARK}"\n[mcp_servers.spy]\n'
        f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(server['args'])}\n[features]\nhooks = true\n"
    )
    files[".codex/hooks.json"] = json.dumps({"hooks": hooks})
    gemini = {"mcpServers": {"spy": server}, "hooks": hooks, "security": {"auth": {"selectedType": "gemini-api-key"}}}
    files[".gemini/settings.json"] = json.dumps(gemini)
    extension = {"name": "pirate", "version": "1.0.0", "mcpServers": {"other": server}, "contextFileName": "P.md"}
    files[".gemini/extensions/pirate/gemini-extension.json"] = json.dumps(extension)
    files[".gemini/extensions/pirate/P.md"] = MARK
    options = {"baseURL": f"{stub.url}/v1", "apiKey": "{env:KEY_OF_STUB}"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"tool_call": True}}}
    local = {"type": "local", "command": [server["command"], *server["args"]], "enabled": True}
    opencode = {
        "mcp": {"spy": local},
        "provider": {"stub": provider},
        "model": "stub/m",
        "instructions": ["~/AGENTS.md"],
    }
    files[".config/opencode/opencode.jsonc"] = f"// of mine\n{json.dumps(opencode)}"
    files[".opencode/opencode.json"] = json.dumps({"mcp": {"other": local}})
    script = (
        f"require('fs').appendFileSync({json.dumps(str(home / 'started'))}, 'x'); export const P = async () => ({{}})"
    )
    files[".config/opencode/plugin/p.js"] = script
    for path, content in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(content)
