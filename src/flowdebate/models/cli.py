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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flowdebate._text import clean_text, one_line
from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    MalformedResponse,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
    ResponseTooLarge,
)
from flowdebate.models.base import ModelRequest, ModelResponse, ModelSettings, Usage
from flowdebate.models.call import Retry, check_real_calls_allowed, within
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
    folder: Sequence[str] = ()
    """Further options where it may read a folder."""
    keys: tuple[str, ...] = ()
    """Beginnings of variables of the environment that are its own: it gets no other keys."""
    signs_in: tuple[str, ...] | None = None
    """Beginnings of those whose key takes the place of signing in; None: all of them."""
    login: str = ""
    """How one signs in."""
    status: Sequence[str] = ()
    """The options with which it says whether somebody is signed in, and asks no model; none for one that cannot."""
    environment: Mapping[str, str] | None = None


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
    begin = output.find("{")
    result = json.loads(output[begin:]) if begin >= 0 else None
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


_DENIED = {"edit": "deny", "bash": "deny", "webfetch": "deny", "external_directory": "deny"}

PROGRAMS: Mapping[str, Program] = {
    "claude": Program(
        command=(
            "claude", "--print", "--output-format", "json", "--permission-mode", "dontAsk", "--strict-mcp-config",
            "--setting-sources", "", "--no-session-persistence", "--tools",
        ),
        folder=("Read,Glob,Grep",),
        read=_read_claude,
        model="--model",
        effort=("--effort", "{effort}"),
        keys=("ANTHROPIC_", "CLAUDE_"),
        status=("auth", "status"),
        login="run `claude` and sign in, or set ANTHROPIC_API_KEY",
    ),
    "codex": Program(
        command=(
            "codex", "exec", "--json", "--sandbox", "read-only", "--skip-git-repo-check", "--ephemeral",
            "--color", "never",
        ),
        read=_read_codex,
        model="--model",
        effort=("-c", 'model_reasoning_effort="{effort}"'),
        keys=("OPENAI_", "CODEX_"),
        signs_in=("CODEX_",),  # version 0.169 asks nobody with a key of OpenAI alone
        status=("login", "status"),
        login="run `codex login`, or set CODEX_API_KEY",
    ),
    "gemini": Program(
        command=("gemini", "--output-format", "json", "--approval-mode", "plan", "--skip-trust", "--prompt="),
        read=_read_gemini,
        model="--model",
        keys=("GEMINI_", "GOOGLE_"),
        login="run `gemini` and sign in, or set GEMINI_API_KEY",
    ),
    "opencode": Program(
        command=("opencode", "run", "--format", "json", "--pure", "--agent", "plan"),
        read=_read_opencode,
        model="--model",
        effort=("--variant", "{effort}"),
        keys=("OPENCODE_",),
        login="run `opencode auth login`",
        environment={"OPENCODE_CONFIG_CONTENT": json.dumps({"permission": _DENIED})},
    ),
}  # fmt: skip


_LARGEST = 16_000_000  # bytes of output
_RETRY = Retry(attempts=2)
_STYLES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LOGIN = re.compile(
    r"not (?:logged|signed) in|log ?in\b|sign ?in\b|auth method|unauthori[sz]ed|api.?key|\b401\b", re.IGNORECASE
)
_SIGNED_OUT = re.compile(r"not logged in|\"loggedIn\": ?false", re.IGNORECASE)
_PATIENCE = 10.0  # seconds for a program that says whether somebody is signed in: one that hangs is simply asked later
# Variables that may hold a secret: programs of others are not given them.
_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE)(?:_|$)", re.IGNORECASE)


class CliModel:
    """An agent's command line as a model: the program named, or any `command` that reads a prompt and writes an answer.

    - `program`: "claude", "codex", "gemini" or "opencode", the installed program, called so that it reads at most, asks
      nobody and keeps no session; None with a `command`.
    - `command`: the program and its options; it gets the prompt on its input, and all that it writes is the answer.
    - `model`: the program's own name of a model; None for its default.
    - `workdir`: a folder that it may read; None for an empty one, anew for each answer.
    - `settings`: `timeout` bounds an answer, and `effort` says how much to think; others mean nothing to a program.
    - `label`: the name in errors and events.

    Structured answers are asked for in the prompt and validated. The environment is passed on without keys of others. A
    cancelled call ends the program and all that it has started. ConfigurationError for a program that is not installed.

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
        plain = Program(command=tuple(command or ()), read=lambda output: Said(text=output))
        self._program = plain if program is None else PROGRAMS[program]
        if model is not None and self._program.model is None:
            raise ConfigurationError(where, "model", model, "left out where a command is given")
        self._name = label or "/".join(filter(None, ("cli", program or Path(self._program.command[0]).name, model)))
        self._path = shutil.which(self._program.command[0])
        if self._path is None:
            hint = f"Install {self._program.command[0]}, or put it on the PATH"
            raise ConfigurationError(
                where, "command", self._program.command[0], "a program that is installed", hint=hint
            )
        self._model = model
        self._workdir = None if workdir is None else str(Path(workdir).absolute())
        self._settings = settings or ModelSettings()
        self.takes_effort: bool = self._program.effort is not None
        self.retry = retry

    @property
    def name(self) -> str:
        """Name in errors, events and usage."""
        return self._name

    def __repr__(self) -> str:
        return f"CliModel({self._name!r})"

    async def check_ready(self) -> None:
        """Raise AuthenticationFailed where the program says that nobody is signed in, and there is no key for it."""
        program, mine = self._program, self._environment()
        begins = program.keys if program.signs_in is None else program.signs_in
        if not program.status or any(name.startswith(begins) and _SECRET.search(name) for name in mine):
            return
        check_real_calls_allowed(self._name)
        with suppress(ModelTimeout), TemporaryDirectory(prefix="flowdebate-", ignore_cleanup_errors=True) as empty:
            asked = [str(self._path), *program.status]
            code, output, errors = await within(_PATIENCE, _run(asked, "", cwd=empty, env=mine))
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
        timeout = self._settings.timeout
        with request.attempts.sending(self._name, request) as attempt:
            said = await within(None if timeout == ModelSettings().timeout else timeout, self._ask(command, prompt))
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
        if self._program.folder:
            command += self._program.folder if self._workdir is not None else [""]
        if self._model is not None:
            command += [str(self._program.model), self._model]
        return [*command, *(part.replace("{effort}", effort) for part in self._program.effort or () if effort)]

    async def _ask(self, command: Sequence[str], prompt: str) -> Said:
        with TemporaryDirectory(prefix="flowdebate-", ignore_cleanup_errors=True) as empty:
            code, output, errors = await _run(command, prompt, cwd=self._workdir or empty, env=self._environment())
        broken = False
        try:
            said = self._program.read(output if output.strip() or not code else errors)
        except (ValueError, TypeError, AttributeError, RecursionError):
            said, broken = Said(), True
        if not code and not said.error and not broken:
            return said
        words = one_line(clean_text(_STYLES.sub("", said.error or errors.strip() or output.strip())))[-500:]
        told = words or "nothing was said"
        if _LOGIN.search(words):
            raise AuthenticationFailed(f"{self._name} asks for a login: {self._program.login or 'sign in'} ({told})")
        if broken and not code:
            raise MalformedResponse(f"{self._name}: what it wrote cannot be read: {told}")
        raise ProviderFailed(f"{self._name} ended with exit code {code}: {told}")

    def _environment(self) -> dict[str, str]:
        mine = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(self._program.keys or ("\0",)) or not _SECRET.search(name)
        }
        return {**mine, "NO_COLOR": "1", "CI": "1", **(self._program.environment or {})}


async def _run(command: Sequence[str], prompt: str, *, cwd: str, env: dict[str, str]) -> tuple[int, str, str]:
    """Run a program to its end: exit code, output and errors; it and all that it started end with the call."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, start_new_session=True
        )
    except OSError as error:
        raise ModelUnavailable(f"{command[0]} cannot be started ({error.strerror or error})") from None
    assert process.stdin is not None  # noqa: S101 - all three are pipes
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101

    async def write() -> None:
        with suppress(ConnectionError):  # it may end before it has read all
            process.stdin.write(prompt.encode(errors="replace"))  # type: ignore[union-attr]
            await process.stdin.drain()  # type: ignore[union-attr]
        process.stdin.close()  # type: ignore[union-attr]

    try:
        _, output, errors = await asyncio.gather(write(), _all(process.stdout), _all(process.stderr))
        return await process.wait(), output, errors
    finally:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)  # with its group: all that it has left behind
            elif process.returncode is None:
                process.kill()
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - a pipe that is full keeps wait() waiting
        with suppress(ProcessLookupError):
            await asyncio.shield(process.wait())


async def _all(stream: asyncio.StreamReader) -> str:
    parts, size = [], 0
    while part := await stream.read(65_536):
        size += len(part)
        if size > _LARGEST:
            raise ResponseTooLarge(_LARGEST, "bytes")
        parts.append(part)
    return b"".join(parts).decode(errors="replace")
