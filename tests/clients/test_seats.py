"""What a seat of an agent CLI must not have, held against each real program (`make test-clients` installs them)."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from flowdebate import CliModel
from flowdebate.errors import AuthenticationFailed
from flowdebate.models import ModelRequest
from flowdebate.models.call import ask
from flowdebate.models.programs import PROGRAMS

from .trap import MARK, SECRET, set_trap
from .vendor_stub import ANSWER, KEY, VendorStub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENTS = os.environ.get("FLOWDEBATE_CLIENTS", "")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not CLIENTS, reason="make test-clients installs the programs"),
]
SESSIONS = ("projects/", "session", "chats/", "history", "rollout", "opencode.db")


@pytest.fixture
def stub() -> Iterator[VendorStub]:
    """The vendors."""
    with VendorStub() as stub:
        yield stub


@pytest.fixture
def home(stub: VendorStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has set up everything, and is signed in by keys."""
    home = tmp_path / "home"
    set_trap(home, stub)
    for name in os.environ:
        if name.startswith(("ANTHROPIC_", "CLAUDE", "CODEX_", "OPENAI_", "GEMINI_", "GOOGLE_", "OPENCODE_", "XDG_")):
            monkeypatch.delenv(name)
    variables = {
        "HOME": str(home),
        "PATH": f"{CLIENTS}{os.pathsep}{os.environ['PATH']}",
        "ANTHROPIC_BASE_URL": stub.url,
        "GOOGLE_GEMINI_BASE_URL": stub.url,
        "KEY_OF_STUB": KEY,
        **dict.fromkeys(("ANTHROPIC_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY"), KEY),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return home


def question(home: Path) -> ModelRequest:
    """A request with the words by which programs put a file, a skill or a command into a prompt."""
    words = f"Cap rents? /help @{home}/secret.txt @secret.txt $pirate /pirate"
    return ModelRequest(messages=[{"role": "user", "content": words}], block="ann")


def paths(folder: Path) -> set[str]:
    """Files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_seat_has_the_sign_in_and_nothing_else(program: str, home: Path, stub: VendorStub) -> None:
    """No tools, MCP servers, hooks, plugins, memory, skills, files and sessions; one request for an answer."""
    before = paths(home)
    model = CliModel(program)
    await model.check_ready()
    answered = await ask(model, question(home))
    assert answered.text == ANSWER
    assert answered.usage.completion_tokens == 3
    (body,) = stub.bodies
    sent = json.dumps(body)
    tools = [
        tool.get("functionDeclarations", tool) if program == "gemini" else tool for tool in body.get("tools") or []
    ]
    assert [tool for tool in tools if tool] == []
    assert "additional_tools" not in sent
    assert MARK not in sent
    assert SECRET not in sent
    assert not (home / "started").exists()
    assert [path for path in paths(home) - before if any(word in path.lower() for word in SESSIONS)] == []
    if program == "claude":
        assert not (home / ".claude" / "projects").exists()


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_wrong_key_is_an_authentication_error(program: str, home: Path, stub: VendorStub) -> None:
    """Nobody asks again: the program itself has tried as often as it does."""
    stub.refuses = True
    request = question(home)
    with pytest.raises(AuthenticationFailed, match=r"API key|401"):
        await ask(CliModel(program), request)
    assert len(request.attempts.made) == 1


@pytest.mark.parametrize("program", ["codex", "opencode"])
async def test_a_sign_in_by_file_is_carried_over_and_never_changed(program: str, home: Path, stub: VendorStub) -> None:
    """A key that the program keeps in its own file is sent, and the file stays as it is."""
    own = {
        "codex": (home / ".codex" / "auth.json", {"OPENAI_API_KEY": KEY}),
        "opencode": (home / ".local" / "share" / "opencode" / "auth.json", {"stub": {"type": "api", "key": KEY}}),
    }
    path, content = own[program]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    for name in ("CODEX_API_KEY", "KEY_OF_STUB"):
        os.environ.pop(name)
    await CliModel(program).check_ready()
    assert (await ask(CliModel(program), question(home))).text == ANSWER
    assert json.loads(path.read_text()) == content
    assert len(stub.bodies) == 1


@pytest.mark.parametrize("name", ["a-model-of-tomorrow"])
async def test_a_model_that_codex_does_not_know_has_no_tools_either(name: str, home: Path, stub: VendorStub) -> None:
    """Its list of models may be older than the model."""
    await ask(CliModel("codex", model=name), question(home))
    (body,) = stub.bodies
    assert body["model"] == name
    assert not body.get("tools")
    assert "additional_tools" not in json.dumps(body)


def test_the_programs_are_installed() -> None:
    """All of them, where the tests are told."""
    assert [program for program in PROGRAMS if shutil.which(program, path=CLIENTS) is None] == []
