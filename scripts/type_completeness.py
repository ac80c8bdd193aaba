"""Check that users' type checkers know every public type: basedpyright's score for flowdebate is 100 %.

Modules for a framework that is not installed are left out, and said so.
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
"""Modules by the framework without which their types are unknown."""


def main() -> None:
    """Print each public name whose type is not known; the exit status is 1 if there are some."""
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
    """What basedpyright finds out about the types of the installed package."""
    folder = Path(sys.executable).parent  # without it, basedpyright looks for libraries beside another Python
    command = [folder / "basedpyright", "--verifytypes", "flowdebate", "--ignoreexternal", "--outputjson"]
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)  # noqa: S603
    try:
        return json.loads(done.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        sys.exit(f"basedpyright: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
