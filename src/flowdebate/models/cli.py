"""`CliModel`: an agent's command-line program used as a model; each answer is a separate run of the program."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from flowdebate._text import clean_text, one_line, without_keys
from flowdebate._util.validation import check_choice
from flowdebate.errors import (
    AuthenticationFailed,
    BadAnswer,
    ConfigurationError,
    ContextTooLong,
    FlowDebateWarning,
    MalformedResponse,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
    RateLimited,
    Refused,
)
from flowdebate.models.base import ModelRequest, ModelResponse, ModelSettings
from flowdebate.models.call import Retry, check_real_calls_allowed, timeout_of, within
from flowdebate.models.isolation import isolated
from flowdebate.models.openai.clients import load
from flowdebate.models.openai.error_mapping import status_error
from flowdebate.models.openai.responses import instruction, read
from flowdebate.models.process import run_program
from flowdebate.models.programs import PROGRAMS, SHARED_VARIABLES, Cloud, Program, Reply, is_model_name


def _is_retryable(error: ModelError) -> bool:
    """Return whether to run the program again.

    Failures of the vendor's server are not retried here, because the program itself retries them.
    """
    return error.transient and isinstance(error, (ModelUnavailable, BadAnswer))


_RETRY = Retry(attempts=2, on=_is_retryable)
_MAX_CAUSE_LENGTH = 480  # maximum length of an error message, in characters
# timeout in seconds for a program's login check; if the check hangs, the first call will reveal the problem
_PATIENCE = 10.0
_STYLES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LOGIN = re.compile(
    r"not (?:logged|signed) in|log ?in\b|sign ?in\b|auth method|unauthori[sz]ed|api.?key|\b401\b", re.IGNORECASE
)
_STATUS = re.compile(r"(?:status|error|rejected|http)\W{0,3}(?:code\W{1,2})?([45]\d\d)\b", re.IGNORECASE)
_RATE_LIMIT = re.compile(r"rate.?limit|too many requests|quota", re.IGNORECASE)
_PLAN_LIMIT = re.compile(
    r"(?:usage|session|hour|daily|weekly|monthly) limit|hit your (?:[\w-]+ ){0,3}limit|limit reached|exhausted your",
    re.IGNORECASE,
)
_SIGNED_OUT = re.compile(r"not logged in|\"loggedIn\": ?false", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE)(?:_|$)", re.IGNORECASE)


class CliModel:
    """Model backed by an agent's command-line program: a known one, or any `command` that answers a prompt.

    - `program`: "claude", "codex", "gemini" or "opencode", which must be installed; the program runs read-only, asks no
      questions and keeps no session. None if `command` is set.
    - `command`: the program and its options; it receives the prompt on stdin, and its output is the answer.
    - `model`: the program's own name for a model; None for the program's default.
    - `workdir`: a folder the program may read; None for a new, empty folder per answer.
    - `env`: names of additional environment variables to pass on.
    - `settings`: `timeout` limits the total time of all attempts at an answer; `effort` sets the amount of thinking;
      other settings have no effect.
    - `label`: the name in errors and events.

    Structured answers are requested in the prompt and validated. From the environment, the program inherits only its
    path, home, language, proxies, certificates, its own keys, and the variables in `env`. Cancelling a call terminates
    the program and all its child processes. A missing program raises ConfigurationError.

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
        _check_options(program, command, model, workdir, env)
        if program is None:
            self._program = Program(command=tuple(command or ()), read=lambda output: Reply(text=output))
        else:
            self._program = PROGRAMS[program]
        executable = self._program.command[0]
        self._kind = f"cli/{program or Path(executable).name}"
        self._name = label or "/".join(filter(None, (self._kind, model)))
        path = shutil.which(executable)
        if path is None:
            message = f"CliModel: the program {executable} is not installed or not on the PATH"
            raise ConfigurationError("CliModel", "command", executable, message=message)
        self._path: str = path
        self._model = model
        self._env = tuple(env)
        self._workdir = None if workdir is None else str(Path(workdir).absolute())
        self._models = ""
        self._settings = settings or ModelSettings()
        self.takes_effort: bool = self._program.effort is not None
        self.retry = retry

    @property
    def name(self) -> str:
        """Name of the model in errors, events and usage."""
        return self._name

    @property
    def timeout(self) -> float | None:
        """Time limit in seconds for all attempts at a call combined; None to use the request's deadline."""
        return timeout_of(self._settings)

    def __repr__(self) -> str:
        return f"CliModel({self._name!r})"

    async def check_ready(self) -> None:
        """Warn once about features that cannot be turned off.

        Raises AuthenticationFailed if the user is not signed in.
        """
        program, environment = self._program, self._environment()
        _warn_once(program.describe_limits(self._kind))
        has_key = any(name.startswith(program.key_prefixes) and _SECRET.search(name) for name in environment)
        if has_key or self._clouds():
            return
        has_further_key = any(name in environment for name in self._env)
        if program.is_signed_in and not has_further_key and not program.is_signed_in(environment, self._model):
            raise self._no_sign_in("")
        if program.status:
            check_real_calls_allowed(self._name)
            with suppress(ModelTimeout):
                code, output, errors = await within(_PATIENCE, self._run([self._path, *program.status], ""))
                if code and _SIGNED_OUT.search(output + errors):
                    raise self._no_sign_in("")

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Run the program once, in a new process, to answer the request."""
        check_real_calls_allowed(self._name)
        if request.choices:  # programs report no log-probabilities
            return ModelResponse(finish="stop")
        if request.tools:
            raise ConfigurationError(
                request.block, "tools", None, f"are not supported by {self._name}, which has its own tools"
            )
        command, prompt = self._command(request), await _prompt(request)
        # a prompt that begins with a slash would be taken for one of the program's commands
        if prompt.startswith("/") and self._program.keeps:
            prompt = f"\n{prompt}"
        with request.attempts.sending(self._name, request) as attempt:
            reply = await within(self.timeout, self._ask(command, prompt))
            attempt.usage = reply.usage
        text = clean_text(_STYLES.sub("", reply.text)).strip()
        if request.on_text is not None and text:
            request.on_text(text)
        response = ModelResponse(text=text, usage=reply.usage, model=self._model)
        if request.output is None:
            return response
        return replace(read(response, request.output, mode="md_json", offered=False), asked_as="md_json")

    def _command(self, request: ModelRequest) -> list[str]:
        program, effort = self._program, request.settings.effort or self._settings.effort
        if effort is not None and program.effort is None:
            raise ConfigurationError(self._name, "effort", effort, "is not supported by this model")
        command = [self._path, *program.command[1:]]
        command += program.no_folder if self._workdir is None else program.folder or ()
        if self._model is not None:
            # passed as a single argument, so that the model name cannot be parsed as another option
            command.append(f"{program.model}={self._model}")
        return [*command, *(part.replace("{effort}", effort) for part in program.effort or () if effort)]

    async def _ask(self, command: Sequence[str], prompt: str) -> Reply:
        code, output, errors = await self._run(command, prompt, folder=self._workdir)
        try:
            reply = self._program.read(output if output.strip() or not code else errors)
        except (ValueError, TypeError, AttributeError, RecursionError):
            reply = None
        if not code and reply is not None and not reply.error:
            return reply
        # the cause comes last, after warnings and traces; keys are redacted before truncation, which could split them
        cause = (reply.error if reply is not None else "") or errors.strip() or output.strip()
        cause = one_line(without_keys(clean_text(_STYLES.sub("", cause)))[-_MAX_CAUSE_LENGTH:]) or "it gave no reason"
        if reply is None and not code:
            raise MalformedResponse(f"the output of {self._name} could not be parsed: {cause}")
        raise self._failure(code, cause, status=None if reply is None else reply.status)

    def _failure(self, code: int, cause: str, *, status: int | None) -> ModelError:
        """Return the error for a program that exited with `code`, based on its vendor's HTTP `status` or on `cause`."""
        is_limited = _PLAN_LIMIT.search(cause) is not None
        if status is None and (match := _STATUS.search(cause)):
            status = int(match[1])
        if status is None and (is_limited or _RATE_LIMIT.search(cause)):
            status = 429
        message = f"{self._name} ended with exit code {code}: {cause}" if code else f"{self._name}: {cause}"
        if status is None or status < 400:  # noqa: PLR2004 - a success
            return self._no_sign_in(cause) if _LOGIN.search(cause) else ProviderFailed(message)
        match status_error(status, {"error": {"message": cause}}, headers={}):
            case AuthenticationFailed():
                return self._no_sign_in(cause)
            case RateLimited() as error:
                is_used_up = error.quota_exhausted or is_limited
                wait = error.retry_after
                return RateLimited(message, retry_after=wait, quota_exhausted=is_used_up, status=status)
            case ContextTooLong() | ModelNotFound() as error:
                return type(error)(message, status=status)
            case Refused() as error:
                return error
            case _:
                return ProviderFailed(message, status=status)

    def _no_sign_in(self, cause: str) -> AuthenticationFailed:
        advice = self._program.login or "sign in"
        return AuthenticationFailed(f"{self._name} requires a login: {advice}{f' ({cause})' if cause else ''}")

    async def _run(self, command: Sequence[str], prompt: str, *, folder: str | None = None) -> tuple[int, str, str]:
        """Run the program in `folder` or a new, empty folder, with a temporary home folder if it needs one."""
        if self._program.models and not self._models:
            self._models = await self._list_models()
        with isolated(self._program.isolate, self._models) as (home, isolation):
            environment = {**self._environment(isolation.passed), **isolation.variables}
            if self._program.keeps:  # the program writes failure reports containing the whole prompt to this folder
                environment |= dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(home / "tmp"))
            return await run_program(command, prompt, cwd=folder or str(home / "work"), env=environment)

    async def _list_models(self) -> str:
        with isolated(None, "") as (home, _):
            environment = {**self._environment(), "CODEX_HOME": str(home)}
            command = [self._path, *self._program.models]
            code, listing, errors = await run_program(command, "", cwd=str(home / "work"), env=environment)
        if code or not listing.lstrip().startswith("{"):
            advice = f"install its latest version ({one_line(clean_text(errors))})"
            raise ModelUnavailable(f"{self._name} cannot be run with its tools turned off: {advice}")
        return listing

    def _environment(self, passed: Sequence[str] = ()) -> dict[str, str]:
        names = [*SHARED_VARIABLES, *self._program.variables]
        names += [name for cloud in self._clouds() for name in cloud.variables]
        variables = {
            name: value
            for name, value in os.environ.items()
            if name in (*self._env, *passed) or any(fnmatchcase(name.upper(), pattern) for pattern in names)
        }
        return {**variables, "NO_COLOR": "1", "CI": "1", **(self._program.environment or {})}

    def _clouds(self) -> list[Cloud]:
        return [cloud for cloud in self._program.clouds if cloud.is_used(self._model)]


def _check_options(
    program: str | None,
    command: Sequence[str] | None,
    model: str | None,
    workdir: str | os.PathLike[str] | None,
    env: Sequence[str],
) -> None:
    location = "CliModel"
    if (program is None) == (command is None):
        problem = "is required unless `program` is set" if command is None else "cannot be combined with `program`"
        raise ConfigurationError(location, "command", None, problem)
    if program is not None:
        check_choice(location, PROGRAMS, program=program)
    if command is not None and (isinstance(command, str) or not command or not all(map(str.strip, command))):
        raise ConfigurationError(location, "command", command, 'must be a list such as ["my-agent", "--quiet"]')
    if workdir is not None and not Path(workdir).is_dir():
        raise ConfigurationError(location, "workdir", str(workdir), "must be an existing folder")
    if isinstance(env, str) or not all(isinstance(name, str) and _VARIABLE.fullmatch(name) for name in env):
        raise ConfigurationError(
            location, "env", type(env), 'must be a list of environment variable names, such as ["GH_TOKEN"]'
        )
    if model is not None and program is None:
        raise ConfigurationError(location, "model", None, "cannot be combined with `command`")
    if model is not None and not is_model_name(model):
        raise ConfigurationError(location, "model", model, "must be a model name that does not begin with a dash")
    if workdir is not None and program is not None and PROGRAMS[program].folder is None:
        hint = "Use claude for a role that reads a folder, or pass the files as sources"
        problem = f"is not supported by {program}, whose file access is not limited to a folder"
        raise ConfigurationError(location, "workdir", None, problem, hint=hint)


async def _prompt(request: ModelRequest) -> str:
    """Render the messages as a single string, ending with instructions for a structured answer if one is requested."""
    messages = [(message.get("role"), str(message.get("content") or "")) for message in request.messages]
    texts = [f"Your last answer was:\n{text}" if role == "assistant" else text for role, text in messages]
    if request.output is not None:
        await load(instruction, request.output, "json")
        texts.append(instruction(request.output, "json"))
    return "\n\n".join(texts)


@cache
def _warn_once(limits: str) -> None:
    warnings.warn(limits, FlowDebateWarning, stacklevel=3)
