"""Installable files for agents: skills with tested commands, the plugin, and the registry file."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

import flowdebate
from flowdebate.cli.app import app
from flowdebate.models.providers import PROVIDERS
from tests.runs.durable.patterns import fill_schema

from .stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SKILLS = {path.parent.name: path.read_text("utf-8") for path in sorted(ROOT.glob("skills/*/SKILL.md"))}
_FENCE = re.compile(r"^ *```bash\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"`(raw\.\w+|output|usage)`")
FACTS = {"plan.md": "The audit log grows by 2 GB a day.", "change.diff": "+limit = 5_000_000"}


def answer(request: str) -> Any:
    """Return data that fits a schema; a ranking contains all answers."""
    schema = json.loads(request)["json_schema"]["schema"]
    definitions = schema.get("$defs", {})
    if "ranking" in schema["properties"]:
        return {"ranking": [{"answer": label} for label in re.findall(r'"([A-Z])"', json.dumps(schema))]}
    return fill_schema(schema, definitions, Random(1))


def split_commands(text: str) -> Iterator[list[str]]:
    """Return each command in a skill as a list of words, with continued lines joined."""
    for fence in _FENCE.findall(text):
        for line in fence.replace("\\\n", " ").splitlines():
            if line.strip():
                yield shlex.split(line)


@pytest.fixture
def skill_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a folder with a model and the files named in the commands."""
    monkeypatch.chdir(tmp_path)
    for provider in PROVIDERS.values():
        if provider.key_env is not None:
            monkeypatch.delenv(provider.key_env, raising=False)
    for name, text in FACTS.items():
        (tmp_path / name).write_text(text)
    with Stage(answers={"properties": answer}) as on:
        monkeypatch.setenv("OPENAI_API_KEY", "none-is-needed")
        monkeypatch.setenv("OPENAI_BASE_URL", on.base_url)
        monkeypatch.setenv("FLOWDEBATE_MODEL", "openai/staged")
        yield tmp_path


@pytest.mark.parametrize("skill", SKILLS)
def test_skill_commands_run(skill: str, skill_folder: Path) -> None:
    text = SKILLS[skill]
    ran = 0
    for program, *words in split_commands(text):
        if program == "git":  # skill_folder already contains its output file
            assert words[-1] in FACTS
            continue
        assert program == "flowdebate"
        *arguments, sign, target = words if ">" in words else [*words, "", ""]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.stderr)
        ran += 1
        if sign:
            (skill_folder / target).write_text(result.stdout)
    assert ran > 1
    document: Any = json.loads((skill_folder / f"{skill.removeprefix('flowdebate-')}.json").read_text())
    for field in _FIELD.findall(text):
        value = document
        for part in field.split("."):
            value = value[part]


@pytest.mark.parametrize("skill", SKILLS)
def test_each_skill_has_an_installable_format(skill: str) -> None:
    _, head, body = SKILLS[skill].split("---\n", 2)
    metadata = yaml.safe_load(head)
    assert set(metadata) == {"name", "description", "license", "compatibility"}
    assert metadata["name"] == skill
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", skill)
    assert len(metadata["description"]) <= 1024
    assert len(metadata["compatibility"]) <= 500
    assert len(body.splitlines()) < 500


def test_plugin_and_registry_agree_on_the_version_and_start_the_server() -> None:
    """The plugin and the registry use the package's version, and the command has all the options that they pass."""
    plugin = json.loads((ROOT / ".claude-plugin/plugin.json").read_text())
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())
    server = json.loads((ROOT / "server.json").read_text())
    (package,) = server["packages"]
    assert plugin["version"] == server["version"] == package["version"] == flowdebate.__version__
    assert [entry["name"] for entry in market["plugins"]] == [plugin["name"]]
    assert len(server["description"]) <= 100
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    started = plugin["mcpServers"]["flowdebate"]["args"]
    words = started[started.index("mcp") :]
    arguments = [argument.get("name", argument.get("value")) for argument in package["packageArguments"]]
    help_text = CliRunner().invoke(app, ["mcp", "--help"]).stdout
    for word in {*words, *arguments}:
        assert not word.startswith("--") or word in help_text
    assert arguments[0] == words[0] == "mcp"


def test_release_check_requires_a_changelog_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check also fails if the version in any file differs from the version in the tag."""
    import runpy
    import sys

    def release_check_message(tag: str) -> object:
        monkeypatch.setattr(sys, "argv", ["release_check.py", tag])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "scripts/release_check.py"), run_name="__main__")
        return ended.value.code

    assert (
        release_check_message(f"v{flowdebate.__version__}")
        == f"CHANGELOG.md has no heading for {flowdebate.__version__}"
    )
    assert ".claude-plugin/plugin.json says" in str(release_check_message("v99.0.0"))
