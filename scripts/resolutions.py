"""Check that flowdebate resolves with the newest versions of related packages on each Python: `make test-newest`.

Nothing is installed. A version cap in flowdebate or in a dependency would show up as an older version of a package.
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
MAX_PACKAGES = 40
"""Maximum number of packages for the base install."""


def main() -> None:
    """Print each resolution, and exit with a description of all problems."""
    groups = [(), *((name,) for name in BESIDE), BESIDE]
    queries = [(python, *names) for python in PYTHONS for names in groups]
    alone = [(python, name) for python in PYTHONS for name in BESIDE]
    with ThreadPoolExecutor(8) as pool:  # threads, because the resolutions wait for the index
        resolutions = dict(
            zip(queries, pool.map(lambda query: resolved(query[0], str(ROOT), *query[1:]), queries), strict=True)
        )
        newest = dict(zip(alone, pool.map(lambda query: resolved(*query), alone), strict=True))
    wrong = []
    for (python, *names), versions in resolutions.items():
        versions.pop("flowdebate", None)
        text = ", ".join(f"{name} {versions[name]}" for name in map(bare, names or ["openai"]))
        print(f"{python}: {text}; {len(versions)} packages beside flowdebate")
        if not names and len(versions) > MAX_PACKAGES:
            wrong.append(f"{python}: the base has {len(versions)} packages, at most {MAX_PACKAGES} are allowed")
        for name in names:
            version = newest[python, name][bare(name)]
            if versions[bare(name)] != version:
                wrong.append(f"{python}: {name} is {versions[bare(name)]}, and {version} without flowdebate")
    sys.exit("\n".join(wrong) or None)  # None means success; even an empty string would mean failure


def bare(name: str) -> str:
    """Return the name of a package without its extras."""
    return name.partition("[")[0]


def resolved(python: str, *requirements: str) -> dict[str, str]:
    """Return the versions that uv chooses, keyed by name."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "-"]
    done = subprocess.run(  # noqa: S603 - our own words
        [*command, "--python-version", python],
        input="\n".join(requirements),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pins = re.findall(r"^([\w.-]+)(?:==| @ )(\S+)", done.stdout, re.MULTILINE)
    return dict(pins)


if __name__ == "__main__":
    main()
