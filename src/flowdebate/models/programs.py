"""Known agent CLIs: how to run them without tools, parse their output, and limit what they may read."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from flowdebate._util.documentation import AGENT_CLIS, cite
from flowdebate.models.base import Usage
from flowdebate.models.isolation import (
    GEMINI_MANAGED,
    OPENCODE_MANAGED,
    Isolate,
    has_gemini_sign_in,
    has_opencode_sign_in,
    is_filled,
    isolate_codex,
    isolate_gemini,
    isolate_opencode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A program's reply: either an answer or a failure."""

    text: str = ""
    usage: Usage = Usage.unknown()  # noqa: RUF009 - frozen
    error: str = ""
    """Cause of a failure, as worded by the program; empty for an answer."""
    status: int | None = None
    """HTTP status of the vendor's rejection; None if there is none or the program does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Cloud platform through which a program may access its models, using a separate account."""

    variables: tuple[str, ...]
    """Environment variables for signing in, or patterns matching their names."""
    switch: str | None = None
    """Environment variable that enables the cloud."""
    models: str | None = None
    """Prefix of model names on this cloud."""

    def is_used(self, model: str | None) -> bool:
        """Return whether the environment or the model's name selects this cloud."""
        by_name = self.models is not None and (model or "").startswith(self.models)
        return by_name or os.environ.get(self.switch or "", "").strip().lower() not in ("", "0", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An agent CLI and how to run it."""

    command: Sequence[str]
    """Program name and the options that make it answer the prompt on stdin without tools or questions."""
    read: Callable[[str], Reply]
    """Parser for the output; it raises ValueError or TypeError for unreadable output."""
    model: str | None = None
    """Option that selects the model."""
    effort: Sequence[str] | None = None
    """Options that set the amount of thinking, with `{effort}` as a placeholder; None if the program has no such
    options.
    """
    folder: Sequence[str] | None = None
    """Additional options that let the program read the working folder; None if the program cannot be confined to a
    folder.
    """
    no_folder: Sequence[str] = ()
    """Additional options that keep the program from reading any folder."""
    isolate: Isolate | None = None
    """Function that replaces the user's folders with temporary ones; None if options alone can turn off all
    features.
    """
    models: Sequence[str] = ()
    """Options that `isolate` uses to list the models; empty if `isolate` does not need the list."""
    variables: tuple[str, ...] = ()
    """Names of the program's own environment variables for keys and settings, or patterns that match the names."""
    clouds: tuple[Cloud, ...] = ()
    """Clouds through which the program may access its models."""
    key_prefixes: tuple[str, ...] = ()
    """Name prefixes of environment variables that contain API keys; if such a variable is set, signing in is
    unnecessary.
    """
    login: str = ""
    """Instructions for signing in."""
    status: Sequence[str] = ()
    """Options that check, without calling a model, whether the user is signed in; empty if there are none."""
    is_signed_in: Callable[[Mapping[str, str], str | None], bool] | None = None
    """Function that looks for signs of a login in files and variables, given the program's environment and model."""
    environment: Mapping[str, str] | None = None
    """Environment variables that turn features off."""
    keeps: tuple[str, ...] = ()
    """Features that cannot be turned off; empty for a custom command."""
    managed: tuple[str, ...] = ()
    """Folders for the machine administrator's settings; the user cannot override these settings."""

    def describe_limits(self, name: str) -> str:
        """Describe which features of the program `name` cannot be turned off on this machine.

        >>> print(Program(command=["my-agent"], read=lambda output: Reply(text=output)).describe_limits("cli/my-agent"))
        cli/my-agent is run unchanged, with your user's permissions: its tools, servers, memory and sessions stay on
        """
        if not self.keeps:
            on = "its tools, servers, memory and sessions stay on"
            return f"{name} is run unchanged, with your user's permissions: {on}"
        managed = [f"the administrator's settings in {folder}" for folder in self.managed if is_filled(folder)]
        *parts, last = (*self.keeps, *managed)
        limits = f"{', '.join(parts)} and {last}" if parts else last
        return f"{name} keeps {limits}, and runs with your user's permissions; see {cite(AGENT_CLIS)}"


def is_model_name(name: str) -> bool:
    """Return whether `name` can be passed to a program as a model: it must not be blank or look like an option."""
    return bool(name.strip()) and not name.lstrip().startswith("-")


def _count(counts: object, *names: str) -> int | None:
    for name in names:
        counts = counts.get(name) if isinstance(counts, dict) else None
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts >= 0 else None


def _objects(output: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects on the lines of `output`, skipping other lines."""
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _read_claude(output: str) -> Reply:
    result = next((event for event in _objects(output) if event.get("type") == "result"), None)
    if result is None:
        raise ValueError(output)
    text, counts = str(result.get("result") or ""), result.get("usage")
    if result.get("is_error"):
        return Reply(error=text or str(result.get("subtype")), status=_count(result, "api_error_status"))
    fresh, read = _count(counts, "input_tokens"), _count(counts, "cache_read_input_tokens")
    written = _count(counts, "cache_creation_input_tokens")
    usage = Usage(
        calls=1,
        prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        cached_tokens=read,
        completion_tokens=_count(counts, "output_tokens"),
        reasoning_tokens=_count(counts, "output_tokens_details", "thinking_tokens"),
        cache_written_tokens=written,
    )
    return Reply(text=text, usage=usage)


def _read_codex(output: str) -> Reply:
    text, error, usage, has_ended = "", "", Usage.unknown(), False
    for event in _objects(output):
        kind, item = event.get("type"), event.get("item")
        if kind == "item.completed" and isinstance(item, dict) and item.get("type") == "agent_message":
            text = str(item.get("text") or "")  # the last text is the answer
        elif kind == "turn.completed":
            has_ended, counts = True, event.get("usage")
            usage = Usage(
                calls=1,
                prompt_tokens=_count(counts, "input_tokens"),
                cached_tokens=_count(counts, "cached_input_tokens"),
                completion_tokens=_count(counts, "output_tokens"),
                reasoning_tokens=_count(counts, "reasoning_output_tokens"),
            )
        elif kind in ("turn.failed", "error"):
            inner: Any = event.get("error")
            error = str(inner.get("message") if isinstance(inner, dict) else event.get("message") or kind)
    if not has_ended and not error:
        raise ValueError(output)
    return Reply(text=text, usage=usage) if has_ended else Reply(error=error)


def _read_gemini(output: str) -> Reply:
    # The program also prints warnings and a stack trace, so take the first line that starts a complete object.
    result: Any = None
    for line in re.finditer(r"^\s*\{", output, re.MULTILINE):
        with suppress(ValueError, RecursionError):
            result = json.loads(output[line.start() :])
            break
    if not isinstance(result, dict):
        raise TypeError(output)
    if (error := result.get("error")) is not None:
        return Reply(error=_message(error), status=_count(error, "code"))
    stats = result.get("stats")
    models = stats.get("models") if isinstance(stats, dict) else None
    usage = Usage.zero()
    for model in models.values() if isinstance(models, dict) else ():
        thinking, answer = _count(model, "tokens", "thoughts"), _count(model, "tokens", "candidates")
        usage += Usage(
            calls=1,
            prompt_tokens=_count(model, "tokens", "prompt"),
            cached_tokens=_count(model, "tokens", "cached"),
            completion_tokens=None if answer is None else answer + (thinking or 0),
            reasoning_tokens=thinking,
        )
    return Reply(text=str(result.get("response") or ""), usage=usage if usage.calls else Usage.unknown())


def _message(error: object) -> str:
    """Return an error's message, which may be nested inside JSON text."""
    text = str(error.get("message") if isinstance(error, dict) else error)
    with suppress(ValueError, RecursionError):
        inner = json.loads(text)
        if isinstance(inner, dict) and "error" in inner:
            return _message(inner["error"])
    return text


def _read_opencode(output: str) -> Reply:
    texts: list[str] = []
    usage = Usage.zero()
    for event in _objects(output):
        kind, part = event.get("type"), event.get("part")
        if kind == "error":
            error = event.get("error")
            data = error.get("data") if isinstance(error, dict) else None
            return Reply(error=_message(data or error), status=_count(data, "statusCode"))
        if kind == "text" and isinstance(part, dict):
            texts.append(str(part.get("text") or ""))
        elif kind == "step_finish" and isinstance(part, dict):
            usage += _opencode_usage(part.get("tokens"))
    if not usage.calls and not texts:
        raise ValueError(output)
    return Reply(text="\n\n".join(texts), usage=usage if usage.calls else Usage.unknown())


def _opencode_usage(counts: object) -> Usage:
    fresh, read, written = _count(counts, "input"), _count(counts, "cache", "read"), _count(counts, "cache", "write")
    thinking, answer = _count(counts, "reasoning"), _count(counts, "output")
    return Usage(
        calls=1,
        prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        cached_tokens=read,
        completion_tokens=None if answer is None else answer + (thinking or 0),
        reasoning_tokens=thinking,
        cache_written_tokens=written,
    )


# Variables passed to every program in addition to its own.
SHARED_VARIABLES: tuple[str, ...] = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*", "TMPDIR", "TMP", "TEMP"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    "DBUS_SESSION_BUS_ADDRESS",
    # on Windows
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
    *("USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "PROGRAMFILES", "PROGRAMFILES(X86)"),
    "NUMBER_OF_PROCESSORS",
    # proxies and certificates
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NODE_USE_ENV_PROXY", "NODE_USE_SYSTEM_CA"),
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_AWS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE"),
    *("AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
    *("AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_*", "AWS_SDK_LOAD_CONFIG"),
    *("AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK*", "AWS_EC2_METADATA_*"),
)
_VERTEX = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GCLOUD_PROJECT"),
    *("CLOUD_ML_REGION", "CLOUDSDK_*", "VERTEX_*"),
)
_FOUNDRY = ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_TENANT_ID",
            "AZURE_FEDERATED_TOKEN_FILE", "AZURE_CONFIG_DIR", "IDENTITY_ENDPOINT", "IDENTITY_HEADER")  # fmt: skip

_INSTRUCTIONS = ("its own instructions in each prompt",)

PROGRAMS: Mapping[str, Program] = {
    "claude": Program(
        command=(
            "claude", "--print", "--output-format", "json", "--permission-mode", "dontAsk", "--strict-mcp-config",
            "--setting-sources", "", "--no-session-persistence", "--disable-slash-commands",
        ),
        folder=("--tools", "Read,Glob,Grep"),
        no_folder=("--tools", ""),
        read=_read_claude,
        model="--model",
        effort=("--effort", "{effort}"),
        variables=(
            *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_*", "CLAUDE_CODE_SKIP_*_AUTH"),
            *("CLAUDE_CODE_CLIENT_*", "CLAUDE_CODE_CERT_STORE", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "ANTHROPIC_API_KEY"),
            *("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_BETAS"),
            *("ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_*MODEL*", "ANTHROPIC_BEDROCK_*", "ANTHROPIC_VERTEX_*"),
            "ANTHROPIC_FOUNDRY_*",
        ),
        clouds=(
            Cloud(switch="CLAUDE_CODE_USE_BEDROCK", variables=_AWS),
            Cloud(switch="CLAUDE_CODE_USE_VERTEX", variables=_VERTEX),
            Cloud(switch="CLAUDE_CODE_USE_FOUNDRY", variables=_FOUNDRY),
        ),
        key_prefixes=("ANTHROPIC_", "CLAUDE_"),
        status=("auth", "status"),
        login="run `claude` and sign in, or set ANTHROPIC_API_KEY",
        keeps=_INSTRUCTIONS,
        managed=("/etc/claude-code", "/Library/Application Support/ClaudeCode", "C:/Program Files/ClaudeCode"),
        environment={
            # otherwise "@path" in quoted text would insert that file into the prompt
            "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
            "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
        },
    ),
    "codex": Program(
        command=(
            "codex", "exec", "--json", "--sandbox", "read-only", "--skip-git-repo-check", "--ephemeral",
            "--color", "never",
        ),
        read=_read_codex,
        model="--model",
        effort=("-c", 'model_reasoning_effort="{effort}"'),
        variables=(
            *("CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE", "OPENAI_BASE_URL", "OPENAI_ORG*"),
            "OPENAI_PROJECT*",
        ),
        isolate=isolate_codex,
        models=("debug", "models", "--bundled"),
        key_prefixes=("CODEX_",),  # codex 0.169 ignores OPENAI_API_KEY
        status=("login", "status"),
        login="run `codex login`, or set CODEX_API_KEY",
        keeps=_INSTRUCTIONS,
        managed=("/etc/codex", "C:/ProgramData/OpenAI/Codex"),
    ),
    "gemini": Program(
        command=(
            "gemini", "--output-format", "json", "--approval-mode", "plan", "--skip-trust",
            "--allowed-mcp-server-names", "none", "--extensions", "none", "--prompt=",
        ),
        isolate=isolate_gemini,
        read=_read_gemini,
        model="--model",
        variables=(
            *("GEMINI_API_KEY*", "GEMINI_MODEL", "GEMINI_FORCE_*", "GEMINI_CLI_CUSTOM_HEADERS", "GOOGLE_API_KEY"),
            *("GOOGLE_GENAI_*", "GOOGLE_GEMINI_*", "GOOGLE_VERTEX_*"),
            *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_ACCESS_TOKEN"),
        ),
        clouds=(Cloud(switch="GOOGLE_GENAI_USE_VERTEXAI", variables=_VERTEX),),
        login="run `gemini` and sign in, or set GEMINI_API_KEY",
        is_signed_in=has_gemini_sign_in,
        keeps=_INSTRUCTIONS,
        managed=GEMINI_MANAGED,
    ),
    "opencode": Program(
        command=("opencode", "run", "--format", "json", "--pure", "--title", "flowdebate"),
        isolate=isolate_opencode,
        read=_read_opencode,
        model="--model",
        effort=("--variant", "{effort}"),
        variables=("OPENCODE_API_KEY", "OPENCODE_AUTH_CONTENT", "OPENCODE_CONSOLE_TOKEN", "OPENCODE_MODELS_*"),
        clouds=(
            Cloud(models="amazon-bedrock/", variables=_AWS),
            Cloud(models="google-vertex", variables=_VERTEX),
        ),
        login="run `opencode auth login`, or name a free model, as in cli/opencode/opencode/big-pickle",
        is_signed_in=has_opencode_sign_in,
        keeps=(*_INSTRUCTIONS, "the packages of its providers"),
        managed=OPENCODE_MANAGED,
    ),
}  # fmt: skip


def limits_of(models: Iterable[str]) -> list[str]:
    """Describe the limitations of all installed programs matching `models`, a list of names or name patterns."""
    return [
        program.describe_limits(f"cli/{name}")
        for name, program in PROGRAMS.items()
        if any(fnmatchcase(f"cli/{name}", model) or model.startswith(f"cli/{name}/") for model in models)
        and shutil.which(program.command[0]) is not None
    ]
