"""Dependencies of `pip install flowdebate`, which must be few and must not hold back other packages."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
MAX_PACKAGES = 41
"""Maximum number of packages in the base install; `scripts/resolutions.py` counts them for the newest versions."""


def installed_closure(requirements: list[str]) -> set[str]:
    """Return all packages that the requirements install, according to the installed metadata."""
    installed: set[tuple[str, str]] = set()
    waiting = [(Requirement(requirement_), "") for requirement_ in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for part in {"", *requirement.extras} - {part for installed_name, part in installed if installed_name == name}:
            installed.add((name, part))
            waiting += [(Requirement(dependency), part) for dependency in requires(name) or ()]
    return {name for name, _ in installed}


def test_base_install_has_few_packages() -> None:
    """Instructor is excluded because it would hold back openai, pydantic-ai and inspect-ai."""
    names = installed_closure(PROJECT["dependencies"])
    # only older versions of openai require these packages
    assert len(names - {"distro", "tqdm"}) <= MAX_PACKAGES, sorted(names)
    assert "instructor" not in names
    assert any(requirement_.startswith("instructor") for requirement_ in PROJECT["optional-dependencies"]["instructor"])


def test_newer_pythons_are_allowed() -> None:
    """If versions were capped, pip would silently install an old release of flowdebate or find none."""
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(">=3.11")
