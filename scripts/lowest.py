"""Print the oldest versions of what pyproject.toml names, core and extras, as requirements: `make test-lowest`.

Only these are old: what they bring with them is of the newest version that goes with them, as for users.
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
"""Extras that no test without frameworks, and without 1.1 GB, would use."""
TOOLS = {"hypothesis", "pytest"}
"""The newest ones run the tests; `scripts/wheel_check.py --oldest testing` tries the oldest ones."""


def main() -> None:
    """Print them."""
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
