"""Check that all public types are known to users' type checkers: basedpyright's score for flowdebate must be 100%.

Modules for frameworks that are not installed are skipped with a message.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

FRAMEWORKS = {
    "flowdebate.adapters.deepeval": "deepeval",
    "flowdebate.adapters.inspect_ai": "inspect_ai",
    "flowdebate.adapters.langgraph": "langgraph",
    "flowdebate.adapters.litellm": "litellm",
    "flowdebate.adapters.openai_agents": "agents",
    "flowdebate.adapters.pydantic_ai": "pydantic_ai",
    "flowdebate.adapters.pydantic_evals": "pydantic_evals",
}
"""Modules keyed by the framework that their types require."""


def main() -> None:
    """Print each public name of unknown type; the exit status is 1 if there are any."""
    missing = tuple(f"{module}." for module, framework in FRAMEWORKS.items() if find_spec(framework) is None)
    report = completeness()
    unknown = [
        symbol
        for symbol in report["symbols"]
        if symbol["isExported"]
        and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"])
        and not symbol["name"].startswith(missing)
    ]
    for symbol in unknown:
        print(symbol["name"])
        for diagnostic in symbol["diagnostics"]:
            location = (
                f"{diagnostic['file']}:{diagnostic['range']['start']['line'] + 1}: " if "range" in diagnostic else ""
            )
            print(f"  {location}{diagnostic['message']}")
    for module in missing:
        print(f"{module[:-1]} is left out: {FRAMEWORKS[module[:-1]]} is not installed")
    print(f"{sum(report['exportedSymbolCounts'].values())} public names, {len(unknown)} with an unknown type")
    sys.exit(bool(unknown))


def completeness() -> dict:
    """Return basedpyright's report on the types of the installed package."""
    folder = Path(sys.executable).parent  # otherwise, basedpyright looks for libraries next to another Python
    command = [folder / "basedpyright", "--verifytypes", "flowdebate", "--ignoreexternal", "--outputjson"]
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)  # noqa: S603
    try:
        return json.loads(done.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        sys.exit(f"basedpyright: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
