"""Consistency of the image, the compose file and the locked versions; `make test-deployment` tries them out."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from typer.main import get_command

from flowdebate.cli.app import app
from flowdebate.models.providers import PROVIDERS
from flowdebate.server import create_app
from flowdebate.service import Service
from flowdebate.testing import ScriptedModel
from flowdebate.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
sys.path.insert(0, str(ROOT / "scripts"))

import deployment_check  # noqa: E402 - scripts are no package
import lock  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
BUILD, IMAGE = deployment_check.stages((DEPLOY / "Dockerfile").read_text("utf-8"))
COMPOSE = deployment_check.services((DEPLOY / "compose.yaml").read_text("utf-8"))


@pytest.fixture
def load_debates(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Load the module used by the containers."""
    monkeypatch.syspath_prepend(str(DEPLOY))
    monkeypatch.setenv("FLOWDEBATE_STORE", COMPOSE["worker"]["environment"]["FLOWDEBATE_STORE"])
    yield importlib.import_module("debates")
    del sys.modules["debates"]


def test_modules_named_by_the_containers_exist(load_debates: ModuleType) -> None:
    """The server's command names a function that returns a Service.

    The workers' command names one that returns Workers.
    """
    server, worker = COMPOSE["server"]["command"], COMPOSE["worker"]["command"]
    assert server[server.index("--app") + 1] == "debates:service"
    assert worker[-1] == "debates:workers"
    assert isinstance(load_debates.service(), Service)
    assert isinstance(load_debates.workers(), Workers)


@pytest.mark.parametrize("command", [IMAGE.command, COMPOSE["server"]["command"]])
def test_commands_are_valid(command: list[str]) -> None:
    program, name, *options = command
    group = get_command(app)
    context = group.make_context(program, [name], resilient_parsing=True)
    subcommand = group.get_command(context, name)  # type: ignore[attr-defined]
    assert subcommand.make_context(name, options).params["host"] == "0.0.0.0"  # noqa: S104 - inside of the container


def test_health_check_uses_an_endpoint_without_a_token() -> None:
    """If the endpoint were renamed without updating the image, every container would be reported as unhealthy."""
    application = create_app(Service(store="memory:", model=ScriptedModel()), token="a" * 20)
    (path,) = (path_ for path_ in application.openapi()["paths"] if path_.endswith("/health"))
    assert f"http://127.0.0.1:8377{path}'" in IMAGE.health[-1]


def test_containers_have_limits_and_read_only_folders() -> None:
    """Passwords are stored in files, since every process in the container can read the environment variables."""
    for name in ("server", "worker"):
        assert COMPOSE[name]["read_only"]
        assert COMPOSE[name]["mem_limit"]
        assert "postgres_password" in COMPOSE[name]["secrets"]
        assert ":" not in COMPOSE[name]["environment"]["FLOWDEBATE_STORE"].partition("@")[0].removeprefix("postgresql:")
    port = COMPOSE["worker"]["command"][COMPOSE["worker"]["command"].index("--health") + 1]
    assert f"http://127.0.0.1:{port}/health'" in COMPOSE["worker"]["healthcheck"]["test"][-1]


def test_any_provider_key_reaches_server_and_workers() -> None:
    """FLOWDEBATE_MODEL, which selects the default model, is also passed to both the server and the workers."""
    keys = {provider.key_env for provider in PROVIDERS.values() if provider.key_env}
    for name in ("server", "worker"):
        assert keys | {"FLOWDEBATE_MODEL"} <= set(COMPOSE[name]["environment"])


def test_image_does_not_run_as_root() -> None:
    assert int(IMAGE.last("USER")) > 0
    assert COMPOSE["server"]["ports"] == [f"127.0.0.1:{IMAGE.last('EXPOSE')}:{IMAGE.last('EXPOSE')}"]


def test_image_has_a_supported_python() -> None:
    version = BUILD.last("FROM").removeprefix("python:").partition("-")[0]
    assert SpecifierSet(PROJECT["project"]["requires-python"]).contains(f"{version}.0")
    assert version in lock.PYTHONS


def test_files_copied_into_the_image_exist_and_are_not_ignored() -> None:
    """Dockerfile.dockerignore excludes everything except the paths that it lists."""
    ignored, *allowed_paths = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert ignored == "*"
    copied = [source for name, argument in BUILD.steps if name == "COPY" for source in argument.split()[:-1]]
    assert [source for source in copied if f"!{source}" not in allowed_paths or not (ROOT / source).exists()] == []


@pytest.mark.parametrize("name", ["server", "worker"])
def test_compose_builds_this_repository_and_mounts_its_patterns(name: str) -> None:
    """Paths in the Compose file are relative to its folder.

    Only the path of the Dockerfile is relative to the build context.
    """
    build = COMPOSE[name]["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == ROOT
    assert context / build["dockerfile"] == DEPLOY / "Dockerfile"
    assert all((DEPLOY / volume.partition(":")[0]).is_file() for volume in COMPOSE[name]["volumes"])


@pytest.mark.parametrize("name", ["image", "build"])
def test_locked_versions_satisfy_the_project(name: str) -> None:
    """Each requirement is pinned to one exact version, with hashes but no URL.

    `make lock` updates the pins.
    """
    text = (DEPLOY / "requirements" / f"{name}.txt").read_text("utf-8")
    assert "://" not in text
    entries = [entry for entry in text.replace(" \\\n", "").splitlines() if not entry.startswith("#")]
    assert all("--hash=sha256:" in entry for entry in entries)
    locked = {
        requirement_.name: requirement_
        for requirement_ in (Requirement(entry.partition("    --hash")[0]) for entry in entries)
    }
    extras = PROJECT["project"]["optional-dependencies"]
    requirements = [
        *PROJECT["project"]["dependencies"],
        *(dependency for extra in lock.EXTRAS for dependency in extras[extra]),
    ]
    for requirement in map(Requirement, requirements if name == "image" else PROJECT["build-system"]["requires"]):
        (version,) = locked[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(version.version), requirement


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("py3-none-any", True),
        ("cp311-cp311-manylinux_2_17_x86_64", True),
        ("cp39-abi3-manylinux_2_28_aarch64", True),
        ("cp313-cp313t-manylinux_2_17_x86_64", False),
        ("cp314-cp314-manylinux_2_17_x86_64", False),
        ("cp313-cp313-musllinux_1_2_x86_64", False),
        ("cp313-cp313-macosx_11_0_arm64", False),
    ],
)
def test_wheel_hashes_for_the_image_are_locked(tag: str, fits: bool) -> None:  # noqa: FBT001
    """The wheels are for Linux with glibc, on two architectures and all supported Python versions."""
    assert lock.fits(Tag(*tag.split("-", 2))) is fits
