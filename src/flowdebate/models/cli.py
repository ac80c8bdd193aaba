"""`CliModel`: an agent's command line as a model, called once for each answer, and the programs known by name."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from flowdebate._text import clean_text, one_line
from flowdebate.errors import (
    AuthenticationFailed,
    BadAnswer,
    ConfigurationError,
    MalformedResponse,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
    ResponseTooLarge,
)
from flowdebate.models.base import ModelRequest, ModelResponse, ModelSettings, Usage
from flowdebate.models.call import Retry, check_real_calls_allowed, timeout_of, within
from flowdebate.models.isolation import Isolate, isolate_codex, isolate_gemini, isolate_opencode, isolated
from flowdebate.models.openai.clients import load
from flowdebate.models.openai.responses import instruction, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Output of a program, as it was read."""

    text: str = ""
    usage: Usage = Usage.unknown()  # noqa: RUF009 - frozen
    error: str = ""
    """What went wrong, in the program's words; empty for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Cloud through which a program may reach its models, with its own account."""

    variables: tuple[str, ...]
    """Variables for signing in, or patterns of their names."""
    switch: str | None = None
    """Variable that turns the cloud on."""
    models: str | None = None
    """Prefix of its models' names."""

    def is_used(self, model: str | None) -> bool:
        """Say whether the environment or the model's name selects this cloud."""
        by_name = self.models is not None and (model or "").startswith(self.models)
        return by_name or os.environ.get(self.switch or "", "").strip().lower() not in ("", "0", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One agent CLI."""

    command: Sequence[str]
    """The program and its options: it reads the prompt from its input, writes nothing and asks nobody."""
    read: Callable[[str], Said]
    """Reads its output; ValueError for what is none."""
    model: str | None = None
    """The option that names a model."""
    effort: Sequence[str] | None = None
    """The options that say how much to think, with `{effort}`; None for a program without any."""
    folder: Sequence[str] | None = None
    """Further options where it may read a folder, with `{folder}`; None for one that cannot be confined to it."""
    no_folder: Sequence[str] = ()
    """Further options where it may read none."""
    isolate: Isolate | None = None
    """Function that gives the program a folder in place of the user's own; None for one that needs none."""
    models: Sequence[str] = ()
    """The options with which it lists the models that `isolate` changes."""
    variables: tuple[str, ...] = ()
    """Environment variables of the program, or patterns of their names: its keys and settings."""
    clouds: tuple[Cloud, ...] = ()
    """Clouds through which the program can reach its models."""
    signs_in: tuple[str, ...] = ()
    """Prefixes of variables with a key in place of signing in."""
    login: str = ""
    """How one signs in."""
    status: Sequence[str] = ()
    """The options with which it says whether somebody is signed in, and asks no model; none for one that cannot."""
    environment: Mapping[str, str] | None = None


def is_model_name(name: str) -> bool:
    """Say whether a program can be told `name` as a model: it is not blank, and no program takes it for an option."""
    return bool(name.strip()) and not name.lstrip().startswith("-")


def _count(counts: object, *names: str) -> int | None:
    for name in names:
        counts = counts.get(name) if isinstance(counts, dict) else None
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts >= 0 else None


def _objects(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of an output that has one in a line; other lines are chatter."""
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _read_claude(output: str) -> Said:
    result = next((each for each in _objects(output) if each.get("type") == "result"), None)
    if result is None:
        raise ValueError(output)
    text, counts = str(result.get("result") or ""), result.get("usage")
    if result.get("is_error"):
        return Said(error=text or str(result.get("subtype")))
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
    return Said(text=text, usage=usage)


def _read_codex(output: str) -> Said:
    text, error, usage, ended = "", "", Usage.unknown(), False
    for event in _objects(output):
        kind, item = event.get("type"), event.get("item")
        if kind == "item.completed" and isinstance(item, dict) and item.get("type") == "agent_message":
            text = str(item.get("text") or "")  # the last one is the answer
        elif kind == "turn.completed":
            ended, counts = True, event.get("usage")
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
    if not ended and not error:
        raise ValueError(output)
    return Said(text=text, usage=usage) if ended else Said(error=error)


def _read_gemini(output: str) -> Said:
    # Beside an error it writes warnings and a stack trace: of the lines at which an object begins, the first whole one.
    result: Any = None
    for found in re.finditer(r"^\s*\{", output, re.MULTILINE):
        with suppress(ValueError, RecursionError):
            result = json.loads(output[found.start() :])
            break
    if not isinstance(result, dict):
        raise TypeError(output)
    if (error := result.get("error")) is not None:
        return Said(error=str(error.get("message") if isinstance(error, dict) else error))
    stats = result.get("stats")
    models = stats.get("models") if isinstance(stats, dict) else None
    usage = Usage.none()
    for each in models.values() if isinstance(models, dict) else ():
        thought, said = _count(each, "tokens", "thoughts"), _count(each, "tokens", "candidates")
        usage += Usage(
            calls=1,
            prompt_tokens=_count(each, "tokens", "prompt"),
            cached_tokens=_count(each, "tokens", "cached"),
            completion_tokens=None if said is None else said + (thought or 0),
            reasoning_tokens=thought,
        )
    return Said(text=str(result.get("response") or ""), usage=usage if usage.calls else Usage.unknown())


def _read_opencode(output: str) -> Said:
    texts, usage, seen = [], Usage.none(), False
    for event in _objects(output):
        part = event.get("part")
        if event.get("type") == "error":
            inner: Any = event.get("error")
            data = inner.get("data") if isinstance(inner, dict) else None
            return Said(error=str((data or inner).get("message") if isinstance(data or inner, dict) else inner))
        if event.get("type") == "text" and isinstance(part, dict):
            texts.append(str(part.get("text") or ""))
        elif event.get("type") == "step_finish" and isinstance(part, dict):
            seen = True
            counts = part.get("tokens")
            fresh, read = _count(counts, "input"), _count(counts, "cache", "read")
            written, thought, said = (
                _count(counts, *name) for name in (("cache", "write"), ("reasoning",), ("output",))
            )
            usage += Usage(
                calls=1,
                prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
                cached_tokens=read,
                completion_tokens=None if said is None else said + (thought or 0),
                reasoning_tokens=thought,
                cache_written_tokens=written,
            )
    if not seen and not texts:
        raise ValueError(output)
    return Said(text="\n\n".join(texts), usage=usage if seen else Usage.unknown())


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
        signs_in=("ANTHROPIC_", "CLAUDE_"),
        status=("auth", "status"),
        login="run `claude` and sign in, or set ANTHROPIC_API_KEY",
        environment={
            "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",  # "@path" in a quoted text would put that file into the prompt
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
        signs_in=("CODEX_",),  # version 0.169 asks nobody with a key of OpenAI alone
        status=("login", "status"),
        login="run `codex login`, or set CODEX_API_KEY",
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
        login="run `opencode auth login`",
    ),
}  # fmt: skip


_LARGEST = 16_000_000  # bytes of output
_LONGEST_CAUSE = 480  # characters


def _is_worth_another(error: ModelError) -> bool:
    """Say whether a program is started again: it has repeated itself what its vendor refused or failed to do."""
    return error.transient and isinstance(error, (ModelUnavailable, BadAnswer))


_RETRY = Retry(attempts=2, on=_is_worth_another)
_STYLES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LOGIN = re.compile(
    r"not (?:logged|signed) in|log ?in\b|sign ?in\b|auth method|unauthori[sz]ed|api.?key|\b401\b", re.IGNORECASE
)
_SIGNED_OUT = re.compile(r"not logged in|\"loggedIn\": ?false", re.IGNORECASE)
_PATIENCE = 10.0  # seconds for a program that says whether somebody is signed in: one that hangs is simply asked later
# All that programs are given of the environment, beside their own variables.
_PASSED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*", "TMPDIR", "TMP", "TEMP"),
    *(
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS",
    ),
    # of Windows
    *(
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "WINDIR",
        "COMSPEC",
        "PATHEXT",
        "APPDATA",
        "LOCALAPPDATA",
        "PROGRAMDATA",
        "USERNAME",
    ),
    *("USERPROFILE", "HOMEDRIVE", "HOMEPATH", "PROGRAMFILES", "PROGRAMFILES(X86)", "NUMBER_OF_PROCESSORS"),
    # proxies and certificates
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NODE_USE_ENV_PROXY", "NODE_USE_SYSTEM_CA"),
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE)(?:_|$)", re.IGNORECASE)


class CliModel:
    """An agent's command line as a model: the program named, or any `command` that reads a prompt and writes an answer.

    - `program`: "claude", "codex", "gemini" or "opencode", the installed program, called so that it reads at most, asks
      nobody and keeps no session; None with a `command`.
    - `command`: the program and its options; it gets the prompt on its input, and all that it writes is the answer.
    - `model`: the program's own name of a model; None for its default.
    - `workdir`: a folder that it may read; None for an empty one, anew for each answer.
    - `env`: further variables of the environment that it gets, by name.
    - `settings`: `timeout` bounds an answer, and `effort` says how much to think; others mean nothing to a program.
    - `label`: the name in errors and events.

    Structured answers are asked for in the prompt and validated. Of the environment the program gets its path, home,
    language, proxies, certificates, its own keys, and what `env` names. A cancelled call ends the program and all that
    it has started. ConfigurationError for a program that is not installed.

    >>> CliModel(command=["cat"]).name
    'cli/cat'
    """

    gives_logprobs: bool = False
    tells_attempts: bool = True

    def __init__(
        self,
        program: str | None = None,
        *,
        command: Sequence[str] | None = None,
        model: str | None = None,
        workdir: str | os.PathLike[str] | None = None,
        env: Sequence[str] = (),
        settings: ModelSettings | None = None,
        retry: Retry | None = _RETRY,
        label: str | None = None,
    ) -> None:
        where = "CliModel"
        if (program is None) == (command is None):
            raise ConfigurationError(where, "command", command, "given in place of a program")
        if program is not None and program not in PROGRAMS:
            raise ConfigurationError(where, "program", program, " or ".join(map(repr, PROGRAMS)))
        if command is not None and (isinstance(command, str) or not command or not all(map(str.strip, command))):
            raise ConfigurationError(where, "command", command, 'a list such as ["my-agent", "--quiet"]')
        if workdir is not None and not Path(workdir).is_dir():
            raise ConfigurationError(where, "workdir", str(workdir), "a folder that exists")
        if isinstance(env, str) or not all(isinstance(name, str) and _VARIABLE.fullmatch(name) for name in env):
            raise ConfigurationError(where, "env", type(env), 'names of environment variables, such as ["GH_TOKEN"]')
        plain = Program(command=tuple(command or ()), read=lambda output: Said(text=output))
        self._program = plain if program is None else PROGRAMS[program]
        if model is not None and self._program.model is None:
            raise ConfigurationError(where, "model", model, "left out where a command is given")
        if model is not None and not is_model_name(model):
            raise ConfigurationError(where, "model", model, "a model's name, which does not begin with a dash")
        if workdir is not None and program is not None and self._program.folder is None:
            hint = "Use claude for a seat that reads a folder, or pass the files as sources"
            allowed = f"left out: nothing confines what {program} reads to a folder"
            raise ConfigurationError(where, "workdir", str(workdir), allowed, hint=hint)
        self._name = label or "/".join(filter(None, ("cli", program or Path(self._program.command[0]).name, model)))
        self._path = shutil.which(self._program.command[0])
        if self._path is None:
            hint = f"Install {self._program.command[0]}, or put it on the PATH"
            raise ConfigurationError(
                where, "command", self._program.command[0], "a program that is installed", hint=hint
            )
        self._model = model
        self._env = tuple(env)
        self._workdir = None if workdir is None else str(Path(workdir).absolute())
        self._models = ""
        self._settings = settings or ModelSettings()
        self.takes_effort: bool = self._program.effort is not None
        self.retry = retry

    @property
    def name(self) -> str:
        """Name in errors, events and usage."""
        return self._name

    @property
    def timeout(self) -> float | None:
        """Deadline of its own, in seconds, for all attempts of a call; None to leave it to the request."""
        return timeout_of(self._settings)

    def __repr__(self) -> str:
        return f"CliModel({self._name!r})"

    async def check_ready(self) -> None:
        """Raise AuthenticationFailed where the program says that nobody is signed in, and there is no key for it."""
        program, mine = self._program, self._environment()
        has_key = any(name.startswith(program.signs_in) and _SECRET.search(name) for name in mine)
        if not program.status or has_key or self._clouds():
            return
        check_real_calls_allowed(self._name)
        with suppress(ModelTimeout):
            code, output, errors = await within(_PATIENCE, self._run([str(self._path), *program.status], ""))
            if code and _SIGNED_OUT.search(output + errors):
                raise AuthenticationFailed(f"{self._name} asks for a login: {program.login}")

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer once, by a process of its own."""
        check_real_calls_allowed(self._name)
        if request.choices:  # it gives no log-probabilities
            return ModelResponse(finish="stop")
        if request.tools:
            offered = [tool.name for tool in request.tools]
            raise ConfigurationError(request.block, "tools", offered, f"left out for {self._name}, which has its own")
        told = [(message.get("role"), str(message.get("content") or "")) for message in request.messages]
        prompt = "\n\n".join(f"Your last answer was:\n{text}" if role == "assistant" else text for role, text in told)
        if request.output is not None:
            await load(instruction, request.output, "json")
            prompt = f"{prompt}\n\n{instruction(request.output, 'json')}"
        command = self._command(request)
        with request.attempts.sending(self._name, request) as attempt:
            said = await within(self.timeout, self._ask(command, prompt))
            attempt.usage = said.usage
        text = clean_text(_STYLES.sub("", said.text)).strip()
        if request.on_text is not None and text:
            request.on_text(text)
        response = ModelResponse(text=text, usage=said.usage, model=self._model)
        if request.output is None:
            return response
        return replace(read(response, request.output, mode="md_json", offered=False), asked_as="md_json")

    def _command(self, request: ModelRequest) -> list[str]:
        effort = request.settings.effort or self._settings.effort
        if effort is not None and self._program.effort is None:
            raise ConfigurationError(self._name, "effort", effort, "None: it cannot be told how much to think")
        command = [str(self._path), *self._program.command[1:]]
        command += self._program.no_folder if self._workdir is None else self._program.folder or ()
        if self._model is not None:
            command.append(f"{self._program.model}={self._model}")  # one word: no name becomes an option of its own
        return [*command, *(part.replace("{effort}", effort) for part in self._program.effort or () if effort)]

    async def _ask(self, command: Sequence[str], prompt: str) -> Said:
        code, output, errors = await self._run(command, prompt, folder=self._workdir)
        broken = False
        try:
            said = self._program.read(output if output.strip() or not code else errors)
        except (ValueError, TypeError, AttributeError, RecursionError):
            said, broken = Said(), True
        if not code and not said.error and not broken:
            return said
        # the cause stands at the end, behind warnings and traces
        words = one_line(clean_text(_STYLES.sub("", said.error or errors.strip() or output.strip()))[-_LONGEST_CAUSE:])
        told = words or "nothing was said"
        if _LOGIN.search(words):
            raise AuthenticationFailed(f"{self._name} asks for a login: {self._program.login or 'sign in'} ({told})")
        if broken and not code:
            raise MalformedResponse(f"{self._name}: what it wrote cannot be read: {told}")
        raise ProviderFailed(f"{self._name} ended with exit code {code}: {told}")

    async def _run(self, command: Sequence[str], prompt: str, *, folder: str | None = None) -> tuple[int, str, str]:
        """Run the program in a folder of its own, where it finds the sign-in and nothing else of the user's."""
        program = self._program
        if program.models and not self._models:
            with isolated(None, "") as (home, _):
                listing = [str(self._path), *program.models]
                environment = {**self._environment(), "CODEX_HOME": str(home)}
                code, self._models, errors = await _run(listing, "", cwd=str(home / "work"), env=environment)
            if code or not self._models.lstrip().startswith("{"):
                self._models = ""
                said = one_line(clean_text(errors))
                raise ModelUnavailable(
                    f"{self._name} cannot be asked without tools: install its newest version ({said})"
                )
        with isolated(program.isolate, self._models) as (home, isolation):
            environment = {**self._environment(isolation.passed), **isolation.variables}
            return await _run(command, prompt, cwd=folder or str(home / "work"), env=environment)

    def _environment(self, passed: Sequence[str] = ()) -> dict[str, str]:
        names = [*_PASSED, *self._program.variables, *self._env, *passed]
        names += [name for cloud in self._clouds() for name in cloud.variables]
        variables = {
            name: value
            for name, value in os.environ.items()
            if any(fnmatchcase(name.upper(), pattern) for pattern in names) or name in (*self._env, *passed)
        }
        return {**variables, "NO_COLOR": "1", "CI": "1", **(self._program.environment or {})}

    def _clouds(self) -> list[Cloud]:
        return [cloud for cloud in self._program.clouds if cloud.is_used(self._model)]


class _Output(asyncio.SubprocessProtocol):
    """What a program writes, and its end, which does not wait for others that hold its output open."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()
        self._parts: dict[int, list[bytes]] = {1: [], 2: []}
        self._open = {1, 2}
        self._size = 0

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep a part; end the wait for a program that writes too much."""
        self._size += len(data)
        if self._size <= _LARGEST:
            self._parts[fd].append(data)
        elif not self.ended.done():
            self.ended.set_exception(ResponseTooLarge(_LARGEST, "bytes"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note that nothing more comes."""
        del exc  # a program may end before it has read all
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        """End the wait."""
        if not self.ended.done():
            self.ended.set_result(None)

    def text(self, fd: int) -> str:
        """Return what was written."""
        return b"".join(self._parts[fd]).decode(errors="replace")


_DRAIN = 1.0  # seconds for output that a program which has ended left in its pipes
_GRACE = 0.5  # seconds for a program that is told to end; a call that is late has a second


async def _run(command: Sequence[str], prompt: str, *, cwd: str, env: dict[str, str]) -> tuple[int, str, str]:
    """Run a program to its end: exit code, output and errors; its process group ends with the call."""
    loop = asyncio.get_running_loop()
    try:
        transport, output = await loop.subprocess_exec(_Output, *command, cwd=cwd, env=env, start_new_session=True)
    except OSError as error:
        raise ModelUnavailable(f"{command[0]} cannot be started ({error.strerror or error})") from None
    try:
        stdin = transport.get_pipe_transport(0)
        if isinstance(stdin, asyncio.WriteTransport):
            stdin.write(prompt.encode(errors="replace"))
            stdin.close()  # once all is written
        await output.ended
        with suppress(TimeoutError):
            await asyncio.wait_for(output.closed.wait(), _DRAIN)
        return transport.get_returncode() or 0, output.text(1), output.text(2)
    finally:
        try:
            if transport.get_returncode() is None:
                _signal(transport, signal.SIGTERM)  # so that it can remove what it keeps of the call
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(_exit_of(transport)), _GRACE)
        finally:
            _signal(transport, getattr(signal, "SIGKILL", signal.SIGTERM))
            transport.close()


async def _exit_of(transport: asyncio.SubprocessTransport) -> None:
    while transport.get_returncode() is None:  # noqa: ASYNC110 - the call that waited for its end was cancelled
        await asyncio.sleep(0.02)


def _signal(transport: asyncio.SubprocessTransport, number: signal.Signals) -> None:
    """Send a signal to a program and all in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), number)
        elif transport.get_returncode() is None:
            transport.send_signal(number)
