from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import wheel_check  # noqa: E402 - scripts are no package


def test_every_extra_is_checked() -> None:
    """`make dist` runs a program for each extra, and one for the base install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(wheel_check.USES) == {wheel_check.CORE, *project["optional-dependencies"]}


def test_every_program_can_be_compiled() -> None:
    """Without this check, a syntax error would be found only after a wheel has been built."""
    for extra, program in {**wheel_check.USES, "debate": wheel_check.DEBATE}.items():
        compile(program, extra, "exec")
