"""Isolation of agent CLIs used as models, tested with each real program (`make test-clients` installs them)."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from typing import TYPE_CHECKING

import pytest

from flowdebate import CliModel
from flowdebate.errors import AuthenticationFailed, FlowDebateWarning, RateLimited
from flowdebate.models import ModelRequest
from flowdebate.models.call import ask
from flowdebate.models.programs import PROGRAMS

from .trap import MARK, SECRET, write_trap
from .vendor_stub import ANSWER, KEY, VendorStub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENTS = os.environ.get("FLOWDEBATE_CLIENTS", "")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not CLIENTS, reason="make test-clients installs the programs"),
]
MAX_REQUESTS = 6
"""Maximum number of requests that a program sends before it stops retrying."""
SESSIONS = ("projects/", "session", "chats/", "history", "rollout", "opencode.db")


@pytest.fixture
def stub() -> Iterator[VendorStub]:
    """Start the vendor stubs."""
    with VendorStub() as stub:
        yield stub


@pytest.fixture
def home(stub: VendorStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a home folder in which all programs are set up and signed in with keys."""
    home = tmp_path / "home"
    write_trap(home, stub)
    list_temporary(home).mkdir()
    for name in os.environ:
        if name.startswith(("ANTHROPIC_", "CLAUDE", "CODEX_", "OPENAI_", "GEMINI_", "GOOGLE_", "OPENCODE_", "XDG_")):
            monkeypatch.delenv(name)
    variables = {
        "HOME": str(home),
        "TMPDIR": str(list_temporary(home)),
        "PATH": f"{CLIENTS}{os.pathsep}{os.environ['PATH']}",
        "ANTHROPIC_BASE_URL": stub.url,
        "GOOGLE_GEMINI_BASE_URL": stub.url,
        "KEY_OF_STUB": KEY,
        **dict.fromkeys(("ANTHROPIC_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY"), KEY),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return home


def request_with_syntax(home: Path) -> ModelRequest:
    """Return a request with the syntax that programs use to include files, skills or commands in a prompt."""
    words = f"Cap rents? /help @{home}/secret.txt @secret.txt $pirate /pirate"
    return ModelRequest(messages=[{"role": "user", "content": words}], block="ann")


def list_temporary(home: Path) -> Path:
    """Return the user's folder of temporary files."""
    return home.parent / "tmp"


async def check_ready(model: CliModel) -> None:
    """Check that the program is signed in, ignoring warnings about settings that it still reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowDebateWarning)
        await model.check_ready()


def clear(folder: Path) -> None:
    """Empty a folder."""
    shutil.rmtree(folder)
    folder.mkdir()


def list_files(folder: Path) -> set[str]:
    """Return all files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_program_receives_nothing_but_its_credentials(program: str, home: Path, stub: VendorStub) -> None:
    """The program has no access to the user's tools, servers, hooks, plugins, memory, skills, files or sessions.

    Each answer takes a single request.
    """
    before = list_files(home)
    model = CliModel(program)
    await check_ready(model)
    answered = await ask(model, request_with_syntax(home))
    assert answered.text == ANSWER
    assert answered.usage.completion_tokens == 3
    (body,) = stub.bodies
    payload = json.dumps(body)
    tools = [
        tool.get("functionDeclarations", tool) if program == "gemini" else tool for tool in body.get("tools") or []
    ]
    assert [tool for tool in tools if tool] == []
    assert "additional_tools" not in payload
    assert MARK not in payload
    assert SECRET not in payload
    assert not (home / "started").exists()
    assert [path for path in list_files(home) - before if any(word in path.lower() for word in SESSIONS)] == []
    assert not list(list_temporary(home).iterdir())
    if program == "claude":
        assert not (home / ".claude" / "projects").exists()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("status", "error"), [(401, AuthenticationFailed), (429, RateLimited)])
async def test_error_keeps_its_cause(
    program: str, status: int, error: type[Exception], home: Path, stub: VendorStub
) -> None:
    """The error shows why the vendor refused the request.

    The program has already retried the request by itself, so the library does not try again.
    """
    stub.refuses = status
    request = request_with_syntax(home)
    # without a model name, gemini calls a second model ten times within two minutes
    model = CliModel(program, model="gemini-2.5-pro" if program == "gemini" else None)
    with pytest.raises(error):
        await ask(model, request)
    assert len(stub.bodies) <= MAX_REQUESTS
    assert len(request.attempts.made) == 1
    assert not list(list_temporary(home).iterdir())


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("word", ["/help", "/pirate", "/init", "!touch started", "@secret.txt", "# secret"])
async def test_prompts_never_start_a_command(program: str, word: str, home: Path, stub: VendorStub) -> None:
    """Text that looks like a command or a file reference reaches the vendor unchanged and triggers nothing."""
    words = f"{word} of rents: cap them?"
    answered = await ask(CliModel(program), ModelRequest(messages=[{"role": "user", "content": words}], block="ann"))
    assert answered.text == ANSWER
    (body,) = stub.bodies
    payload = json.dumps(body)
    assert words in payload
    assert MARK not in payload
    assert SECRET not in payload
    assert not (home / "started").exists()


async def test_claude_reads_only_the_files_in_its_folder(home: Path, stub: VendorStub) -> None:
    """The model cannot leave the folder by means of absolute paths, parent segments or links."""
    folder = home / "work"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "plan.txt").write_text("THE-PLAN")
    (folder / "link.txt").symlink_to(home / "secret.txt")
    (folder / "up").symlink_to(home)
    outside = [home / "secret.txt", folder / ".." / "secret.txt", folder / "link.txt", folder / "up" / "secret.txt"]
    stub.reads = [str(folder / "notes" / "plan.txt"), *map(str, outside)]
    answered = await ask(CliModel("claude", workdir=folder), request_with_syntax(home))
    assert answered.text == ANSWER
    payload = json.dumps(stub.bodies[-1])
    assert "THE-PLAN" in payload
    assert SECRET not in payload
    assert {tool["name"] for tool in stub.bodies[0]["tools"]} == {"Read", "Glob", "Grep"}


async def test_gemini_key_is_copied_from_its_file(home: Path, stub: VendorStub) -> None:
    """Gemini can read its key from the `.env` file in its configuration folder."""
    os.environ.pop("GEMINI_API_KEY")
    (home / ".gemini" / ".env").write_text(f"GEMINI_API_KEY={KEY}\n")
    model = CliModel("gemini")
    await check_ready(model)
    assert (await ask(model, request_with_syntax(home))).text == ANSWER
    assert stub.keys == [KEY]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_missing_credentials_are_reported_before_the_first_call(
    program: str, home: Path, stub: VendorStub
) -> None:
    """Each real program is started in a home directory in which it is not signed in."""
    clear(home)
    for name in ("ANTHROPIC_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "KEY_OF_STUB"):
        os.environ.pop(name)
    with pytest.raises(AuthenticationFailed, match=f"run `{program}"):
        await check_ready(CliModel(program))
    assert stub.bodies == []


@pytest.mark.parametrize("program", ["codex", "opencode"])
async def test_sign_in_file_is_copied_and_never_changed(program: str, home: Path, stub: VendorStub) -> None:
    sign_ins = {
        "codex": (home / ".codex" / "auth.json", {"OPENAI_API_KEY": KEY}),
        "opencode": (home / ".local" / "share" / "opencode" / "auth.json", {"stub": {"type": "api", "key": KEY}}),
    }
    path, content = sign_ins[program]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    for name in ("CODEX_API_KEY", "KEY_OF_STUB"):
        os.environ.pop(name)
    await check_ready(CliModel(program))
    assert (await ask(CliModel(program), request_with_syntax(home))).text == ANSWER
    assert json.loads(path.read_text()) == content
    assert len(stub.bodies) == 1


@pytest.mark.parametrize("name", ["a-model-of-tomorrow"])
async def test_model_unknown_to_codex_has_no_tools(name: str, home: Path, stub: VendorStub) -> None:
    """The model may be newer than the list of models built into Codex, but it must not get any tools."""
    await ask(CliModel("codex", model=name), request_with_syntax(home))
    (body,) = stub.bodies
    assert body["model"] == name
    assert not body.get("tools")
    assert "additional_tools" not in json.dumps(body)


def test_programs_are_installed() -> None:
    assert [program for program in PROGRAMS if shutil.which(program, path=CLIENTS) is None] == []
