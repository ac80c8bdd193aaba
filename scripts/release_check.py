"""Check that a tag such as v0.2.0 matches the version in all files, and that the changelog has an entry for it."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Exit with a description of everything that is missing."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program, and the tag
        sys.exit("Which tag? For example: python scripts/release_check.py v0.2.0")
    version = sys.argv[1].removeprefix("v")
    wrong = [f"{place} says {value}, not {version}" for place, value in versions().items() if value != version]
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        wrong.append(f"CHANGELOG.md has no heading for {version}")
    sys.exit("\n".join(wrong) or None)  # None means success; even an empty string would mean failure


def versions() -> dict[str, str]:
    """Return the version stated in each file, keyed by its location."""
    module = ast.parse((ROOT / "src/flowdebate/__init__.py").read_text("utf-8"))
    (library_version,) = (
        str(ast.literal_eval(line.value))
        for line in module.body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__version__"
    )
    server = json.loads((ROOT / "server.json").read_text("utf-8"))
    plugin = json.loads((ROOT / ".claude-plugin/plugin.json").read_text("utf-8"))
    by_place = {"src/flowdebate/__init__.py": library_version, "server.json": server["version"]}
    by_place |= {f"server.json, {package['identifier']}": package["version"] for package in server["packages"]}
    return {**by_place, ".claude-plugin/plugin.json": plugin["version"]}


if __name__ == "__main__":
    main()
