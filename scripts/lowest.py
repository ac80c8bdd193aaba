"""Print the oldest supported versions of all packages in pyproject.toml, core and extras: `make test-lowest`.

Only these packages are old; their own dependencies have the newest compatible versions, as for users.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LEFT_OUT = {"inspect-ai", "langgraph", "litellm", "local-model", "openai-agents", "pydantic-ai"}
"""Extras to omit, because tests without frameworks would not use them or because they need 1.1 GB."""
TOOLS = {"hypothesis", "pytest"}
"""Test tools; their newest versions run the tests, and `scripts/wheel_check.py --oldest testing` tries the
oldest ones.
"""


def main() -> None:
    """Print the requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        name: requirements for name, requirements in project["optional-dependencies"].items() if name not in LEFT_OUT
    }
    names = {
        canonicalize_name(Requirement(requirement).name)
        for requirement in sum(extras.values(), project["dependencies"])
    }
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--resolution", "lowest-direct", "--no-header"]
    command += ["--no-annotate", "--python-version", "3.11", str(ROOT / "pyproject.toml")]
    command += [word for extra in extras for word in ("--extra", extra)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    for line in done.stdout.splitlines():
        if Requirement(line).name in names - TOOLS:
            print(line)


if __name__ == "__main__":
    main()
