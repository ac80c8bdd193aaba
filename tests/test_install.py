"""What `pip install flowdebate` brings along: little, and nothing that keeps other packages old."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
MOST = 41
"""Packages of the base; `scripts/resolutions.py` counts those of the newest versions."""


def brought_along(wanted: list[str]) -> set[str]:
    """All packages that the requirements install, as those that are installed here say."""
    found: set[tuple[str, str]] = set()
    waiting = [(Requirement(each), "") for each in wanted]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for part in {"", *requirement.extras} - {part for known, part in found if known == name}:
            found.add((name, part))
            waiting += [(Requirement(each), part) for each in requires(name) or ()]
    return {name for name, _ in found}


def test_the_base_brings_few_packages() -> None:
    """And instructor is none of them: it would keep openai, pydantic-ai and inspect-ai at old versions."""
    names = brought_along(PROJECT["dependencies"])
    assert len(names - {"distro", "tqdm"}) <= MOST, sorted(names)  # of openai before 3.4, and of still older ones
    assert "instructor" not in names
    assert any(each.startswith("instructor") for each in PROJECT["optional-dependencies"]["instructor"])


def test_no_newer_python_is_refused() -> None:
    """With a cap pip would silently take an old release of flowdebate, or none."""
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(">=3.11")
