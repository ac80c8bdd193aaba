"""Check that flowdebate resolves beside the newest of what it is used with, on each Python: `make test-newest`.

Nothing is installed. A cap of ours, or of what we depend on, would show as an older version of one of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
BESIDE = ("openai", "pydantic-ai-slim[openai]", "inspect-ai", "litellm", "openai-agents", "langgraph")
MOST = 40
"""Packages of the base."""


def main() -> None:
    """Print each resolution; ends with what is wrong."""
    wrong = []
    for python in PYTHONS:
        base = resolved(python, str(ROOT))
        base.pop("flowdebate", None)
        print(f"{python}: the base has {len(base)} packages, with openai {base['openai']}")
        if len(base) > MOST:
            wrong.append(f"{python}: the base has {len(base)} packages, at most {MOST} are allowed")
        with ThreadPoolExecutor(2) as pool:
            alone = list(pool.map(lambda name: resolved(python, name), BESIDE))  # noqa: B023 - it is over by the next
        for wanted, names in [(each, [each]) for each in BESIDE] + [("all of them", list(BESIDE))]:
            found = resolved(python, str(ROOT), *names)
            versions = {each: (found[bare(each)], alone[BESIDE.index(each)][bare(each)]) for each in names}
            print(f"{python}: beside {wanted}: {', '.join(f'{bare(each)} {versions[each][0]}' for each in names)}")
            wrong += [
                f"{python}: beside {wanted}, {each} is {ours}, and {newest} without flowdebate"
                for each, (ours, newest) in versions.items()
                if ours != newest
            ]
    sys.exit("\n".join(wrong))


def bare(name: str) -> str:
    """The name of a package without its extras."""
    return name.partition("[")[0]


def resolved(python: str, *wanted: str) -> dict[str, str]:
    """The versions that uv chooses, by name."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "-"]
    done = subprocess.run(  # noqa: S603 - our own words
        [*command, "--python-version", python], input="\n".join(wanted), stdout=subprocess.PIPE, text=True, check=True
    )
    named = re.findall(r"^([\w.-]+)(?:==| @ )(\S+)", done.stdout, re.MULTILINE)
    return dict(named)


if __name__ == "__main__":
    main()
