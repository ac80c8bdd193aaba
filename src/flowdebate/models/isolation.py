"""Temporary home folders for agent CLIs.

They contain the user's credentials but no memory, skills, servers or sessions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """Contents of a program's temporary home folder, and environment variables for running the program."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that point the program to the folder or turn features off."""
    sign_in: Mapping[str, Path] = field(default_factory=dict)
    """Files containing the user's credentials, keyed by their paths in the temporary folder."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of additional files, keyed by their paths in the temporary folder."""
    passed: tuple[str, ...] = ()
    """Names of the environment variables from which the user's configuration reads keys."""


Isolate: TypeAlias = Callable[[Path, str], Isolation]
"""Function called with a new folder and the program's list of models; it returns the `Isolation` for one call."""


@contextmanager
def isolated(isolate: Isolate | None, models: str) -> Iterator[tuple[Path, Isolation]]:
    """Create a folder for one call with links to the user's credentials, and remove it afterwards.

    If the program replaces a link with renewed credentials, the user's own file is updated as well.
    """
    with TemporaryDirectory(prefix="flowdebate-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        for folder in ("work", "tmp"):
            (home / folder).mkdir()
        isolation = Isolation() if isolate is None else isolate(home, models)
        for path, content in isolation.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(content, encoding="utf-8")
        for path, source in isolation.sign_in.items():
            if source.is_file():
                (home / path).parent.mkdir(parents=True, exist_ok=True)
                try:
                    (home / path).symlink_to(source.resolve())
                except OSError:  # on Windows, symbolic links may require developer mode
                    shutil.copyfile(source, home / path)
        try:
            yield home, isolation
        finally:
            for path, source in isolation.sign_in.items():
                _restore(home / path, source)


def is_filled(folder: str) -> bool:
    """Return whether a folder exists and is not empty."""
    with suppress(OSError):
        return any(Path(folder).iterdir())
    return False


def _restore(renewed: Path, source: Path) -> None:
    with suppress(OSError):
        if renewed.is_symlink() or not renewed.is_file() or not source.is_file():
            return
        content = renewed.read_bytes()
        if content != source.read_bytes():
            beside = source.resolve().with_name(f".{source.name}.{os.getpid()}")
            beside.touch(mode=0o600)
            beside.write_bytes(content)
            beside.replace(source.resolve())


def isolate_codex(home: Path, models: str) -> Isolation:
    """Give codex the user's credentials and provider, and a model list with all tools turned off.

    The model list determines which tools a model gets, regardless of options.
    """
    folder = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    settings = _parse(folder / "config.toml", tomllib.loads)
    settings = {name: settings[name] for name in _codex_settings(settings)}
    providers = settings.get("model_providers")
    entries = providers.values() if isinstance(providers, dict) else ()
    keys = [entry.get("env_key") for entry in entries if isinstance(entry, dict)]
    listing = _jsonc(models).get("models")
    for model in listing if isinstance(listing, list) else ():
        if isinstance(model, dict):
            model.update(_NO_TOOLS)
    lines = [f"{name} = {_toml(value)}" for name, value in settings.items()]
    lines.append(f"model_catalog_json = {_toml(str(home / '.codex' / 'models.json'))}")
    return Isolation(
        # codex also looks for skills in the user's home folder
        variables={"CODEX_HOME": str(home / ".codex"), "HOME": str(home), "USERPROFILE": str(home)},
        sign_in={".codex/auth.json": folder / "auth.json"},
        files={
            ".codex/config.toml": "\n".join([*lines, _CODEX]),
            ".codex/models.json": json.dumps({"models": listing or []}),
        },
        passed=tuple(key for key in keys if isinstance(key, str)),
    )


def _codex_settings(settings: Mapping[str, Json]) -> list[str]:
    """Return the names of all settings for selecting codex's model provider."""
    names = [name for name in _CODEX_PROVIDER if name in settings]
    # keep the model as well, because another provider may not offer the default model
    if "model_provider" in names and "model" in settings:
        names.append("model")
    return names


_CODEX_PROVIDER = ("model_provider", "model_providers", "openai_base_url", "chatgpt_base_url", "forced_login_method",
                   "forced_chatgpt_workspace_id", "cli_auth_credentials_store")  # fmt: skip
_NO_TOOLS: Mapping[str, Json] = {
    "tool_mode": None,
    "multi_agent_version": None,
    "experimental_supported_tools": [],
    "apply_patch_tool_type": None,
    "supports_search_tool": False,
    "shell_type": "disabled",
}
_CODEX_FEATURES = (
    *("shell_tool", "unified_exec", "shell_snapshot", "apps", "plugins", "remote_plugin", "hooks", "goals", "memories"),
    *("browser_use", "browser_use_external", "computer_use", "in_app_browser", "image_generation", "view_image"),
    *("skill_search", "skill_mcp_dependency_install", "sleep_tool", "tool_suggest", "workspace_dependencies"),
    "daemon_auto_start",
)
_CODEX = """web_search = "disabled"
project_doc_max_bytes = 0
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[history]
persistence = "none"
[skills]
include_instructions = false
[skills.bundled]
enabled = false
[agents]
enabled = false
[tools.experimental_request_user_input]
enabled = false
[features]
""" + "".join(f"{name} = false\n" for name in _CODEX_FEATURES)


def isolate_gemini(home: Path, models: str) -> Isolation:
    """Give gemini the user's credentials, and turn off tools, servers, hooks, skills, agents and memory."""
    del models
    folder = gemini_folder()
    settings = {**_GEMINI, "security": {"auth": _gemini_auth()}}
    # gemini reads only the first .env file in or above the working folder; this one keeps it from reading any other
    keys = "".join(f"{name}={json.dumps(value)}\n" for name, value in gemini_keys().items())
    return Isolation(
        variables={"GEMINI_CLI_HOME": str(home)},
        sign_in={f".gemini/{name}": folder / name for name in _GEMINI_SIGN_IN},
        files={".gemini/settings.json": json.dumps(settings), ".gemini/.env": keys},
    )


_GEMINI_SIGN_IN = ("oauth_creds.json", "google_accounts.json", "gemini-credentials.json", "installation_id")
_GEMINI: Mapping[str, Json] = {
    "tools": {"core": []},
    "skills": {"enabled": False},
    "hooksConfig": {"enabled": False},
    "experimental": {"enableAgents": False},
    "context": {"memoryBoundaryMarkers": []},
    "general": {"maxAttempts": 3, "enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def _gemini_auth() -> dict[str, Json]:
    """Return the user's sign-in settings for gemini."""
    security = _parse(gemini_folder() / "settings.json", _jsonc).get("security")
    auth = security.get("auth") if isinstance(security, dict) else None
    return auth if isinstance(auth, dict) else {}


def gemini_folder() -> Path:
    """Return the folder containing the user's gemini settings."""
    return Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()) / ".gemini"


def has_gemini_sign_in(environment: Mapping[str, str], model: str | None) -> bool:
    """Return whether gemini's environment variables or files specify a way to sign in."""
    del model
    if any(environment.get(name) for name in _GEMINI_KEYS) or any(map(is_filled, GEMINI_MANAGED)) or gemini_keys():
        return True
    way = _gemini_auth().get("selectedType")
    if way == "oauth-personal" and not environment.get("GEMINI_FORCE_ENCRYPTED_FILE_STORAGE"):
        return (gemini_folder() / "oauth_creds.json").is_file()
    return way is not None  # no further check is possible, because the key may be in the system's keyring


_GEMINI_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA")
GEMINI_MANAGED = ("/etc/gemini-cli", "/Library/Application Support/GeminiCli", "C:/ProgramData/gemini-cli")
"""Folders containing an administrator's gemini settings."""


def gemini_keys() -> dict[str, str]:
    """Return the sign-in variables in the user's `.env` file for gemini."""
    for path in (gemini_folder() / ".env", Path.home() / ".env"):
        with suppress(OSError, ValueError):
            return {name: value.strip("\"'") for name, value in _KEY_LINE.findall(path.read_text(encoding="utf-8"))}
    return {}


_KEY_LINE = re.compile(r"^(?:export\s+)?((?:GEMINI_API_KEY|GOOGLE_[A-Z_]+))\s*=[ \t]*(.*?)\s*$", re.MULTILINE)


def isolate_opencode(home: Path, models: str) -> Isolation:
    """Give opencode the user's credentials and providers, and deny it all tools."""
    del models
    providers = opencode_providers()
    configuration = {
        **providers,
        "permission": {"*": "deny"},
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
    }
    folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE")}
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Isolation(
        variables={
            **folders,
            "HOME": str(home),  # opencode also reads the .opencode folder in the home folder
            "USERPROFILE": str(home),
            "XDG_CACHE_HOME": cache,  # keeps the provider packages, so they are not downloaded for each call
            "OPENCODE_CONFIG_CONTENT": json.dumps(configuration),
            **dict.fromkeys(_OPENCODE_OFF, "1"),
        },
        sign_in={"data/opencode/auth.json": opencode_sign_in()},
        passed=tuple(re.findall(r"\{env:(\w+)\}", json.dumps(providers))),
    )


_OPENCODE_OFF = (
    *("OPENCODE_DISABLE_PROJECT_CONFIG", "OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_EXTERNAL_SKILLS"),
    *("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_SHARE"),
)


def has_opencode_sign_in(environment: Mapping[str, str], model: str | None) -> bool:
    """Return whether opencode has access to a provider: through credentials, settings or free models."""
    configuration = opencode_providers()
    chosen_model = model or configuration.get("model")
    return (
        (isinstance(chosen_model, str) and chosen_model.startswith("opencode/"))
        or bool(configuration.get("provider") or _parse(opencode_sign_in(), _jsonc))
        or any(environment.get(name) for name in _OPENCODE_KEYS)
        or any(map(is_filled, OPENCODE_MANAGED))
    )


_OPENCODE_KEYS = ("OPENCODE_API_KEY", "OPENCODE_AUTH_CONTENT", "OPENCODE_CONSOLE_TOKEN")
OPENCODE_MANAGED = ("/etc/opencode", "/Library/Application Support/opencode", "C:/ProgramData/opencode")
"""Folders containing an administrator's opencode settings."""


def opencode_sign_in() -> Path:
    """Return the path of the file containing the user's opencode credentials."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "opencode" / "auth.json"


def opencode_providers() -> dict[str, Json]:
    """Return the providers and the default model from the user's opencode configuration."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "opencode"
    files = [folder / name for name in ("config.json", "opencode.json", "opencode.jsonc")]
    files += [Path(name) for name in [os.environ.get("OPENCODE_CONFIG")] if name]
    layers = [_parse(path, _jsonc) for path in files]
    with suppress(ValueError, TypeError):
        layers.append(_jsonc(os.environ.get("OPENCODE_CONFIG_CONTENT") or "{}"))
    names = ("provider", "model", "enabled_providers", "disabled_providers")
    return {name: value for layer in layers for name, value in layer.items() if name in names}


def _parse(path: Path, parse: Callable[[str], dict[str, Json]]) -> dict[str, Json]:
    """Parse one of the user's files.

    Returns {} if the file is missing or broken, since the program itself reports such problems.
    """
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return {}


_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[\]}])', re.DOTALL)


def _jsonc(text: str) -> dict[str, Json]:
    """Parse JSON with comments and trailing commas."""
    without_comments = _COMMENT.sub(lambda match: match[1] or "", text)
    # repeated, because a comment may separate a trailing comma from its bracket
    value: Json = json.loads(_COMMENT.sub(lambda match: match[1] or "", without_comments))
    if not isinstance(value, dict):
        raise TypeError(text)
    return value


def _toml(value: Json) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
