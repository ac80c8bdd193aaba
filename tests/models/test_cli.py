"""Agent CLIs as models, tested with fake programs.

The programs are slow, print too much or in color, fail, or wait for input.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from flowdebate import CliModel, Debater, debate
from flowdebate._util.documentation import read_page
from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ContextTooLong,
    EmptyResponse,
    FlowDebateWarning,
    MalformedResponse,
    ModelTimeout,
    ProviderFailed,
    RateLimited,
    RealModelForbidden,
    ResponseTooLarge,
)
from flowdebate.models import (
    ModelRequest,
    ModelSettings,
    OutputSchema,
    Retry,
    ToolSpec,
    Usage,
    forbid_real_models,
    resolve_model,
)
from flowdebate.models.call import ask
from flowdebate.models.programs import PROGRAMS, Program, Reply
from flowdebate.models.resolve import check_model
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

HEAD = "#!{python}\nimport json, os, sys, time\nprompt = sys.stdin.read()\nargs = sys.argv[1:]\n"
# `codex debug models` lists the models
HEAD += "if args[:1] == ['debug']:\n    print(json.dumps({'models': []}))\n    sys.exit()\n"
CLAUDE = {
    "type": "result", "is_error": False, "result": "Cap them.",
    "usage": {
        "input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10, "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    },
}  # fmt: skip
USED = {"input_tokens": 105, "cached_input_tokens": 90, "output_tokens": 7, "reasoning_output_tokens": 3}
CODEX = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.completed", "item": {"type": "reasoning", "text": "Hm."}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "Cap them."}},
    {"type": "turn.completed", "usage": USED},
]
GEMINI = {
    "response": "Cap them.",
    "stats": {"models": {"g": {"tokens": {"prompt": 105, "candidates": 4, "cached": 90, "thoughts": 3}}}},
}
COUNTS = {"input": 5, "output": 4, "reasoning": 3, "cache": {"read": 90, "write": 10}}
OPENCODE = [
    {"type": "step_start", "part": {}},
    {"type": "text", "part": {"type": "text", "text": "Cap them."}},
    {"type": "step_finish", "part": {"tokens": COUNTS}},
]
ANSWERS: dict[str, Any] = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "opencode": OPENCODE}


@pytest.fixture
def install_fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a fake program: a script, or a program that writes the given JSON, one object per line."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(name: str, says: Any) -> None:
        lines = [json.dumps(event) for event in (says if isinstance(says, list) else [says])]
        script = says if isinstance(says, str) else "\n".join(f"print({line!r})" for line in lines)
        path = folder / name
        path.write_text(HEAD.replace("{python}", sys.executable) + script)
        path.chmod(0o755)

    return install


def question(content: str = "Why?", **options: Any) -> ModelRequest:
    output = options.pop("output", None)
    messages = [{"role": "system", "content": "Debate."}, {"role": "user", "content": content}]
    schema = None if output is None else OutputSchema.of(output)
    return ModelRequest(messages=messages, block="ann", output=schema, **options)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_each_programs_answer_and_usage_are_read(name: str, install_fake: Callable[..., None]) -> None:
    """Whatever else a program writes to stdout or stderr is ignored."""
    says = ANSWERS[name]
    body = "\n".join(f"print({json.dumps(event)!r})" for event in (says if isinstance(says, list) else [says]))
    install_fake(name, f"print('Loading \x1b[32mplugins\x1b[0m …')\nprint('warning: old', file=sys.stderr)\n{body}")
    pieces: list[str] = []
    answered = await ask(resolve_model(f"cli/{name}"), question(on_text=pieces.append))
    assert answered.text == "Cap them."
    assert pieces == ["Cap them."]
    used = answered.usage
    assert (used.prompt_tokens, used.cached_tokens, used.completion_tokens, used.reasoning_tokens) == (105, 90, 7, 3)


SPY = (
    "seen = [args, prompt, os.getcwd(), os.listdir('.'), dict(os.environ)]\n"
    "print(json.dumps({'type': 'result', 'result': json.dumps(seen)}))"
)


async def spied(model: CliModel, **options: Any) -> Any:
    return json.loads((await ask(model, question(**options))).text)


async def test_a_program_can_only_answer(
    install_fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program runs in an empty temporary folder.

    It reads the prompt from stdin and is given no API keys for other providers.
    """
    install_fake("claude", SPY)
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    args, prompt, folder, listed, environment = await spied(CliModel("claude", model="opus"))
    assert prompt == "Debate.\n\nWhy?"
    assert listed == []
    assert not os.path.exists(folder)  # noqa: ASYNC240, PTH110 - a moment
    assert "value of ANTHROPIC_API_KEY" in environment.values()
    assert not {"OPENAI_API_KEY", "GEMINI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GH_TOKEN"} & environment.keys()
    assert args[args.index("--tools") + 1] == ""
    assert "--model=opus" in args
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "plan.md").write_text("x")
    args, _, folder, listed, _ = await spied(
        CliModel("claude", workdir=tmp_path / "work"), settings=ModelSettings(effort="low")
    )
    assert (folder, listed) == (str(tmp_path / "work"), ["plan.md"])
    assert args[args.index("--tools") + 1] == "Read,Glob,Grep"
    assert args[args.index("--effort") + 1] == "low"


OF_OTHERS = (
    *(
        "DATABASE_URL",
        "FLOWDEBATE_STORE",
        "REDIS_URL",
        "MYSQL_PWD",
        "DB_PASS",
        "GPG_PASSPHRASE",
        "GITHUB_PAT",
        "SENTRY_DSN",
    ),
    *("AZURE_STORAGE_CONNECTION_STRING", "PIP_INDEX_URL", "JWT", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "MY_COMPANY"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLIENT_SECRET", "ANTHROPIC_ADMIN_KEY", "OPENAI_API_KEY", "HF_TOKEN"),
    *("LD_PRELOAD", "NODE_OPTIONS", "PYTHONPATH", "SSH_AUTH_SOCK", "GH_TOKEN"),
)
FOR_ALL = ("LANG", "LC_ALL", "https_proxy", "NO_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "XDG_CONFIG_HOME")
CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": {"AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"},
    "CLAUDE_CODE_USE_VERTEX": {"GOOGLE_APPLICATION_CREDENTIALS"},
}


@pytest.mark.parametrize("switch", [None, *CLOUDS])
async def test_a_program_receives_only_the_named_variables(
    switch: str | None, install_fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_fake("claude", SPY)
    variables = ("ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "ANTHROPIC_SMALL_FAST_MODEL")
    for name in (*OF_OTHERS, *FOR_ALL, *variables):
        monkeypatch.setenv(name, "1")
    for name in CLOUDS:
        monkeypatch.delenv(name, raising=False)
    if switch is not None:
        monkeypatch.setenv(switch, "1")
    *_, environment = await spied(CliModel("claude", env=["MY_COMPANY", "NOT_SET"]))
    passed = CLOUDS.get(switch or "", set()) | {"MY_COMPANY"}
    assert environment.keys() >= {*FOR_ALL, *variables, *passed, "PATH", "HOME"}
    assert environment.keys() & set(OF_OTHERS) == passed
    script = tmp_path / "spy.py"
    script.write_text("import json, os, sys; sys.stdin.read(); print(json.dumps(dict(os.environ)))")
    model = CliModel(command=[sys.executable, str(script)], env=("MY_COMPANY",))
    answered = json.loads((await ask(model, question())).text)
    assert answered.keys() & {*OF_OTHERS, *variables} == {"MY_COMPANY"}


@pytest.mark.parametrize("env", ["GH_TOKEN", ["GH_TOKEN=secret"], ["*"], [3]])
def test_environment_variables_must_be_named_individually(env: Any) -> None:
    """A value or a pattern in place of a name is rejected, and the error does not reveal it."""
    with pytest.raises(ConfigurationError, match="list of environment variable names") as refused:
        CliModel(command=["cat"], env=env)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("program", "status"),
    [("claude", """print('{"loggedIn": false}')"""), ("codex", "sys.stderr.write('Not logged in')")],
)
async def test_a_missing_sign_in_is_reported_before_the_first_call(
    program: str, status: str, install_fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no key is set and the program has a status command that calls no model, the library runs the command.

    Codex receives a key only from CODEX_API_KEY, never from OPENAI_API_KEY.
    """
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    install_fake(program, f"{status}\nsys.exit('status' in args)")
    await check_sign_in(CliModel(program), is_ready=False)
    for script in ("sys.exit(0)", "sys.exit('error: unknown command')", f"{status}\nsys.exit(0)"):
        install_fake(program, script)
        await check_sign_in(CliModel(program), is_ready=True)
    install_fake(program, f"{status}\nsys.exit(1)")
    monkeypatch.setenv("CODEX_API_KEY" if program == "codex" else "ANTHROPIC_API_KEY", "key")
    await check_sign_in(CliModel(program), is_ready=True)


GEMINI_WAYS: list[tuple[dict[str, str], dict[str, str], bool]] = [
    ({}, {}, False),
    ({"settings.json": "{}"}, {}, False),
    ({"settings.json": '{"security": {"auth": {"selectedType": "oauth-personal"}}}'}, {}, False),
    (
        {"settings.json": '{"security": {"auth": {"selectedType": "oauth-personal"}}}', "oauth_creds.json": "{}"},
        {},
        True,
    ),
    # signed in through the system keyring
    ({"settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'}, {}, True),
    ({".env": "GEMINI_API_KEY=key"}, {}, True),
    ({}, {"GEMINI_API_KEY": "key"}, True),
    ({}, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, True),
]


@pytest.mark.parametrize(("files", "variables", "is_ready"), GEMINI_WAYS)
async def test_gemini_without_a_sign_in_fails_before_the_call(
    files: dict[str, str],
    variables: dict[str, str],
    is_ready: bool,  # noqa: FBT001 - a case
    install_fake: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program itself needs eight seconds to report a missing sign-in, so the library checks for one first."""
    install_fake("gemini", f"open({str(tmp_path / 'called')!r}, 'w')")
    set_home(tmp_path, monkeypatch, {f".gemini/{name}": content for name, content in files.items()}, variables)
    await check_sign_in(CliModel("gemini"), is_ready=is_ready)
    assert not (tmp_path / "called").exists()


STUB = '{"provider": {"stub": {}}, "model": "stub/m"} // mine'
OPENCODE_WAYS: list[tuple[dict[str, str], dict[str, str], str | None, bool]] = [
    ({}, {}, None, False),
    ({".local/share/opencode/auth.json": "{}"}, {}, "anthropic/claude-opus-5-5", False),
    ({".local/share/opencode/auth.json": '{"anthropic": {"type": "api", "key": "k"}}'}, {}, None, True),
    ({".config/opencode/opencode.jsonc": STUB}, {}, None, True),
    ({}, {}, "opencode/big-pickle", True),
    ({".config/opencode/opencode.json": '{"model": "opencode/big-pickle"}'}, {}, None, True),
    ({}, {"OPENCODE_API_KEY": "key"}, None, True),
    ({}, {"MY_KEY": "key"}, None, True),
    ({}, {"AWS_PROFILE": "work"}, "amazon-bedrock/claude", True),
]


@pytest.mark.parametrize(("files", "variables", "model", "is_ready"), OPENCODE_WAYS)
async def test_opencode_without_a_provider_fails_before_the_call(
    files: dict[str, str],
    variables: dict[str, str],
    model: str | None,
    is_ready: bool,  # noqa: FBT001 - a case
    install_fake: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without this check, the program would choose a free model on its own.

    It might also wait up to a minute for its model list.
    """
    install_fake("opencode", f"open({str(tmp_path / 'called')!r}, 'w')")
    set_home(tmp_path, monkeypatch, files, variables)
    await check_sign_in(CliModel("opencode", model=model, env=["MY_KEY"]), is_ready=is_ready)
    assert not (tmp_path / "called").exists()


def set_home(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], variables: dict[str, str]) -> None:
    """Make `folder` the user's home directory."""
    for name in os.environ:
        if name.startswith(("GEMINI_", "GOOGLE_", "OPENCODE_", "XDG_")):
            monkeypatch.delenv(name)
    for name, value in {"HOME": str(folder), "USERPROFILE": str(folder), **variables}.items():
        monkeypatch.setenv(name, value)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


async def check_sign_in(model: CliModel, *, is_ready: bool) -> None:
    """Check whether the program is ready or requires a sign-in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        if is_ready:
            await model.check_ready()
        else:
            with pytest.raises(AuthenticationFailed, match=f"requires a login: run `{model.name.split('/')[1]}"):
                await model.check_ready()


@pytest.mark.parametrize("name", PROGRAMS)
def test_permanent_settings_are_reported_and_documented(name: str) -> None:
    """The documentation describes the settings in the warning's words, so that users can search for them."""
    program, page = PROGRAMS[name], read_page("models") or ""
    row = re.search(rf"^\| `{name}` \| `{name} .*$", page, re.MULTILINE)
    assert row is not None
    for setting in program.keeps:
        assert setting in program.describe_limits(f"cli/{name}")
        assert setting.removesuffix(" in each prompt") in page
    assert program.managed[0] in row[0]


def test_administrator_settings_are_reported_with_their_path(tmp_path: Path) -> None:
    program = replace(PROGRAMS["claude"], managed=(str(tmp_path),))
    assert str(tmp_path) not in program.describe_limits("cli/claude")
    (tmp_path / "managed-settings.json").write_text("{}")
    assert f"the administrator's settings in {tmp_path}" in program.describe_limits("cli/claude")


class Verdict(BaseModel):
    """A judge's answer."""

    winner: str


async def test_structured_answers_are_requested_in_the_prompt_and_validated(install_fake: Callable[..., None]) -> None:
    """If an answer is invalid, the model is asked again with a prompt that states the problem."""
    install_fake(
        "codex",
        "said = 'Here: ```json\\n{\"winner\": \"for\"}\\n```' if 'could not be used' in prompt else '{\"who\": 1}'\n"
        "assert '\"winner\"' in prompt\n"
        "print(json.dumps({'type': 'item.completed', 'item': {'type': 'agent_message', 'text': said}}))\n"
        "print(json.dumps({'type': 'turn.completed'}))",
    )
    request = question(output=Verdict)
    answered = await ask(resolve_model("cli/codex"), request)
    assert answered.data == Verdict(winner="for")
    assert [attempt.error for attempt in request.attempts.made] == ["SchemaViolation", None]


def test_two_programs_can_debate(install_fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    install_fake("claude", CLAUDE)
    install_fake("gemini", GEMINI)
    answer = {"reasoning": "-", "winner": None, "verdict": "Both."}
    install_fake("judge-of-rents", answer)
    judge = CliModel(command=["judge-of-rents"], label="judge")
    sides = [Debater("ann", "cap", model="cli/claude"), Debater("ben", "free", model="cli/gemini")]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, model={"synthesize": judge})
    with pytest.warns(FlowDebateWarning) as warned:
        result, _ = [rent.run_sync("Should rents be capped?") for _ in range(2)]
    limits = [str(warning.message) for warning in warned if "judge-of-rents" in str(warning.message)]
    assert limits == [Program(command=(), read=lambda _: Reply()).describe_limits("cli/judge-of-rents")]
    assert result.status == "complete"
    assert result.raw.verdict is not None
    assert result.raw.verdict.verdict == "Both."
    assert [event.model for event in result.events if isinstance(event, ModelCalled)] == [
        "cli/claude",
        "cli/gemini",
        "judge",
    ]


UNAUTHORIZED = {"message": "unexpected status 401 Unauthorized"}
# messages that the programs print when their vendor refuses a request: claude 2.1.332, codex 0.171.0, gemini 0.61.0,
# opencode 1.18.33
GEMINI_REFUSED = (
    "said = json.dumps({{'error': {{'code': {status}, 'message': '{words}', 'status': '{name}'}}}})\n"
    "sys.stderr.write('Ripgrep is not available.\\nError when talking to Gemini API _ApiError: ' + said + '\\n'\n"
    "'    at x {{\\n  status: {status}\\n}}\\n' + json.dumps({{'session_id': 's', 'error': {{'type': 'Error', "
    "'message': said, 'code': {status}}}}}, indent=2))\nsys.exit({status} % 256)"
)
GEMINI_LIMITED = GEMINI_REFUSED.format(status=429, words="Slow down", name="RESOURCE_EXHAUSTED")
REFUSALS: list[tuple[str, Any, Any, str]] = [
    (
        "claude",
        {"type": "result", "is_error": True, "api_error_status": 429, "api_error_type": "rate_limit_error",
         "result": "API Error: Request rejected (429) · Too many requests, slow down"},
        RateLimited,
        "slow down",
    ),
    (
        "claude",
        {"type": "result", "is_error": True, "api_error_status": 401, "api_error_type": "authentication_error",
         "result": "Failed to authenticate. API Error: 401 Request denied"},
        AuthenticationFailed,
        "run `claude` and sign in",
    ),
    (
        "codex",
        [{"type": "error", "message": "exceeded retry limit, last status: 429 Too Many Requests"},
         {"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"}}],
        RateLimited,
        "429 Too Many Requests",
    ),
    (
        "codex",
        {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized: Request denied, url: u"}},
        AuthenticationFailed,
        "codex login",
    ),
    ("gemini", GEMINI_LIMITED, RateLimited, "Slow down"),
    (
        "gemini",
        GEMINI_REFUSED.format(status=401, words="Request denied", name="UNAUTHENTICATED"),
        AuthenticationFailed,
        "GEMINI_API_KEY (Request denied)",
    ),
    ("gemini", GEMINI_REFUSED.format(status=503, words="Overloaded", name="UNAVAILABLE"), ProviderFailed, "Overloaded"),
    (
        "opencode",
        {"type": "error", "error": {"name": "APIError", "data": {"message": "Slow down", "statusCode": 429}}},
        RateLimited,
        "Slow down",
    ),
    (
        "opencode",
        {"type": "error", "error": {"name": "APIError", "data": {"message": "Request denied", "statusCode": 401}}},
        AuthenticationFailed,
        "opencode auth login",
    ),
    (
        "opencode",
        {"type": "error", "error": {"name": "APIError", "data": {"message": "prompt is too long", "statusCode": 400}}},
        ContextTooLong,
        "too long",
    ),
]  # fmt: skip
FAILURES: list[tuple[str, Any, Any, str]] = [
    *REFUSALS,
    (
        "claude",
        {"type": "result", "is_error": True, "result": "Not logged in · Please run /login"},
        AuthenticationFailed,
        "run `claude` and sign in",
    ),
    (
        "gemini",
        "print(json.dumps({'error': {'message': 'Please set an Auth method'}}), file=sys.stderr)\nsys.exit(41)",
        AuthenticationFailed,
        "GEMINI_API_KEY",
    ),
    ("codex", [{"type": "turn.failed", "error": UNAUTHORIZED}], AuthenticationFailed, "codex login"),
    ("codex", [{"type": "turn.failed", "error": {"message": "stream closed"}}], ProviderFailed, "stream closed"),
    ("opencode", {"type": "error", "error": {"data": {"message": "no such model"}}}, ProviderFailed, "no such model"),
    (
        "claude",
        "print('\x1b[31mSegmentation fault\x1b[0m', file=sys.stderr)\nsys.exit(3)",
        ProviderFailed,
        "exit code 3: Segmentation fault",
    ),
    ("claude", "print('Update available! Run npm i')", MalformedResponse, "could not be parsed"),
    ("gemini", "print('{\"response\": ')", MalformedResponse, "could not be parsed"),
    ("claude", {"type": "result", "result": "  "}, EmptyResponse, "no text"),
    ("claude", "sys.stdout.write('x' * 17_000_000)", ResponseTooLarge, "16,000,000 bytes"),
]


@pytest.mark.parametrize(("name", "says", "error", "message"), FAILURES)
async def test_a_failure_quotes_the_message_from_the_program(
    name: str, says: Any, error: Any, message: str, install_fake: Callable[..., None]
) -> None:
    """Color codes are removed. If the program asks the user to sign in, the error explains how to do so."""
    install_fake(name, says)
    with pytest.raises(error, match=re.escape(message)) as caught:
        await ask(CliModel(name, retry=None), question())
    assert "\x1b" not in str(caught.value)
    assert caught.value.model == f"cli/{name}"


@pytest.mark.parametrize(
    "words",
    [
        "You've hit your usage limit. Upgrade to Pro, or try again at 3:01 PM.",
        "You've hit your session limit · resets 3:45pm",
        "You have exhausted your daily quota on this model.",
    ],
)
async def test_an_exhausted_plan_is_not_retried(words: str, install_fake: Callable[..., None]) -> None:
    """Programs report an exhausted plan in prose rather than with a status code."""
    install_fake("claude", {"type": "result", "is_error": True, "result": words})
    with pytest.raises(RateLimited, match=re.escape(words)) as limited:
        await ask(CliModel("claude"), question())
    assert limited.value.quota_exhausted
    assert not limited.value.transient


async def test_a_timeout_kills_the_program_and_its_children(install_fake: Callable[..., None], tmp_path: Path) -> None:
    """Cancelling the call kills the same processes as a timeout does."""
    pids = tmp_path / "pids"
    install_fake(
        "claude",
        "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} {{child.pid}}\\n')\ntime.sleep(600)",
    )
    with pytest.raises(ModelTimeout):
        await ask(CliModel("claude", retry=None), question(settings=ModelSettings(timeout=2)))
    call = asyncio.create_task(ask(CliModel("claude", retry=None), question()))
    while not pids.exists() or pids.read_text().count("\n") < 2:  # noqa: ASYNC110 - a program's own pace
        await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    started = [int(pid) for pid in pids.read_text().split()]
    async with asyncio.timeout(10):
        while any(_runs(pid) for pid in started):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
    assert len(started) == 4


async def test_a_model_deadline_covers_all_attempts(install_fake: Callable[..., None]) -> None:
    """A program that hangs until the deadline is not started again."""
    install_fake("claude", "time.sleep(600)")
    model = CliModel("claude", settings=ModelSettings(timeout=0.5), retry=Retry(first_wait=0))
    request = question()
    with pytest.raises(ModelTimeout, match=r"0\.5 s"):
        await ask(model, request)
    assert [attempt.error for attempt in request.attempts.made] == ["ModelTimeout"]


async def test_an_answer_does_not_wait_for_leftover_processes(
    install_fake: Callable[..., None], tmp_path: Path
) -> None:
    """If a leftover process keeps the output open, it is terminated when the call ends."""
    install_fake(
        "claude",
        "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\nprint({json.dumps(CLAUDE)!r})",
    )
    async with asyncio.timeout(10):
        assert (await ask(CliModel("claude"), question())).text == "Cap them."
        while _runs(int((tmp_path / "pid").read_text())):  # noqa: ASYNC110 - a program's own pace
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("ends", [True, False])
async def test_an_overdue_program_is_terminated_and_then_killed(
    ends: bool,  # noqa: FBT001 - a case
    install_fake: Callable[..., None],
    tmp_path: Path,
) -> None:
    """SIGTERM is sent first, followed by SIGKILL half a second later."""
    install_fake(
        "claude",
        "import signal\n"
        "def clean_up(*_):\n"
        f"    open({str(tmp_path / 'cleaned')!r}, 'w').write('x')\n"
        f"    {'sys.exit()' if ends else 'pass'}\n"
        "signal.signal(signal.SIGTERM, clean_up)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "while True:\n    time.sleep(0.05)",
    )
    call = asyncio.create_task(ask(CliModel("claude"), question()))
    async with asyncio.timeout(10):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while _runs(int((tmp_path / "pid").read_text())):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
    assert (tmp_path / "cleaned").exists()


@pytest.mark.parametrize("by_rename", [True, False])
async def test_a_renewed_sign_in_is_written_back(
    by_rename: bool,  # noqa: FBT001 - a case
    install_fake: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refresh token can be used only once, so the user would be signed out if the new one were lost."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    sign_in = tmp_path / "codex" / "auth.json"
    sign_in.parent.mkdir()
    sign_in.write_text('{"refresh_token": "old"}')
    sign_in.chmod(0o600)
    written = "'.new'" if by_rename else "''"
    install_fake(
        "codex",
        "path = os.environ['CODEX_HOME'] + '/auth.json'\n"
        "assert json.load(open(path)) == {'refresh_token': 'old'}\n"
        f"open(path + {written}, 'w').write(json.dumps({{'refresh_token': 'new'}}))\n"
        f"{'os.replace(path + chr(46) + chr(110) + chr(101) + chr(119), path)' if by_rename else ''}\n"
        f"for line in {[json.dumps(event) for event in CODEX]!r}: print(line)",
    )
    assert (await ask(CliModel("codex"), question())).text == "Cap them."
    assert json.loads(sign_in.read_text()) == {"refresh_token": "new"}
    assert sign_in.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in sign_in.parent.iterdir()] == ["auth.json"]


async def test_gemini_sign_in_is_copied_from_its_files(
    install_fake: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library copies nothing but the account files, the sign-in method and the keys in a `.env` file."""
    folder = tmp_path / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(
        '{"security": {"auth": {"selectedType": "oauth-personal"}}, "mcpServers": {}}'
    )
    (folder / "oauth_creds.json").write_text('{"access_token": "a"}')
    (folder / ".env").write_text("export GEMINI_API_KEY='key'\nDATABASE_URL=secret\n")
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    install_fake(
        "gemini",
        "home = os.environ['GEMINI_CLI_HOME'] + '/.gemini/'\n"
        "seen = {name: open(home + name).read() for name in ('settings.json', 'oauth_creds.json', '.env')}\n"
        "print(json.dumps({'response': json.dumps(seen)}))",
    )
    accounts = json.loads((await ask(CliModel("gemini"), question())).text)
    settings = json.loads(accounts["settings.json"])
    assert settings["security"] == {"auth": {"selectedType": "oauth-personal"}}
    assert "mcpServers" not in settings
    assert json.loads(accounts["oauth_creds.json"]) == {"access_token": "a"}
    assert accounts[".env"] == 'GEMINI_API_KEY="key"\n'


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123 - a process
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_unsupported_requests_are_rejected_before_the_call(install_fake: Callable[..., None]) -> None:
    install_fake("gemini", "sys.exit('it was called')")
    model = CliModel("gemini")
    assert not model.takes_effort
    tools = [ToolSpec(name="t", description="d", parameters={"type": "object"})]
    with pytest.raises(ConfigurationError, match="has its own"):
        await ask(model, question(tools=tools))
    with pytest.raises(ConfigurationError, match="`effort` is not supported by this model"):
        await ask(model, question(settings=ModelSettings(effort="high")))
    assert (await ask(model, question(choices=["A", "B"]))).logprobs is None
    with forbid_real_models(allow_local=True), pytest.raises(RealModelForbidden):
        await ask(model, question())


def test_a_missing_program_is_reported_before_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    check_model("cli/claude/opus", location="run")
    with pytest.raises(ConfigurationError, match="the program claude is not installed or not on the PATH"):
        resolve_model("cli/claude")
    for wrong in ("cli/cursor", "cli/", "cli/claude/", "cli/opencode/--attach=http://127.0.0.1:9", "cli/claude/ -p"):
        with pytest.raises(ConfigurationError, match="cli/opencode"):
            check_model(wrong, location="run")
    wrong_options: list[dict[str, Any]] = [
        {},
        {"program": "claude", "command": ["x"]},
        {"command": "my agent"},
        {"program": "x"},
        {"program": "claude", "model": "--settings=x"},
    ]
    for options in wrong_options:
        with pytest.raises(ConfigurationError):
            CliModel(**options)


async def test_unreported_usage_is_unknown() -> None:
    answered = await ask(CliModel(command=["cat"]), question())
    assert (answered.text, answered.usage) == ("Debate.\n\nWhy?", Usage.unknown())
