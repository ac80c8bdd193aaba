"""Delete each pattern except debate from a copy of the sources, and check that the rest works: `delete_patterns.py`.

Only its folder and its registry entry are deleted. The exit code is 1 if a front end, a command, a debate or another
pattern's tests then fail.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from flowdebate.patterns import DEFAULT, PATTERNS

ROOT = Path(__file__).resolve().parents[1]
DEBATE = """
import asyncio
import flowdebate, flowdebate.events, flowdebate.server.app
from flowdebate.mcp.server import create_server
from flowdebate.patterns import PATTERNS
from flowdebate.service import Service
from flowdebate.testing import ScriptedModel, check_debate

async def hold() -> None:
    verdict = {"reasoning": "-", "winner": None, "verdict": "-"}
    model = ScriptedModel("Homes.", "Build.", verdict, verdict, "Both.")  # the judge reads both orders
    async with Service(store="memory:", model=model) as service:
        await create_server(service).list_tools()
        options = {"max_rounds": 1, "debaters": [{"name": "a", "stance": "cap"}, {"name": "b", "stance": "build"}]}
        run = await service.begin("debate", "Should rents be capped?", options=options)
        details = await service.wait(run.run_id)
        assert details.status == "complete", details.error
        kinds = [flowdebate.events.wire_of(event)["kind"] for event in await service.events(run.run_id)]
        assert "verdict_reached" in kinds, kinds

asyncio.run(hold())
assert all(hasattr(flowdebate.events, name) for name in dir(flowdebate.events))
flowdebate.events.event_schema()
debaters = [flowdebate.Debater("a", "cap"), flowdebate.Debater("b", "build")]
check_debate(flowdebate.debate(name="rent", debaters=debaters, max_rounds=1), max_examples=3)
"""
"""Program that uses all remaining front ends."""
TESTS = {
    "round_robin": ("tests/patterns/round_robin/test_output.py", "tests/patterns/round_robin/test_rounds.py"),
    "deliberation": ("tests/patterns/deliberation/test_ending.py", "tests/patterns/deliberation/test_rounds.py"),
}
"""Pattern tests; whichever pattern is deleted, at least one of them remains."""


def delete_pattern(pattern: str, into: Path) -> Path:
    """Copy the sources without a pattern's folder and registry entry."""
    sources = into / "src"
    shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
    patterns = sources / "flowdebate" / "patterns"
    shutil.rmtree(patterns / pattern)
    registry = patterns / "__init__.py"
    text = registry.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    for statement in ast.parse(text).body:
        match statement:
            case ast.Expr(value=ast.Call(args=[ast.Constant(value=name)])) if name == pattern:
                del lines[statement.lineno - 1 : statement.end_lineno]
                registry.write_text("".join(lines), "utf-8")
                return sources
            case _:
                pass
    sys.exit(f"patterns/__init__.py has no entry of {pattern}")


def failures_without(pattern: str) -> list[str]:
    """Return the failures in the sources without a pattern."""
    other_tests = next(tests for name, tests in TESTS.items() if name != pattern)
    commands = {
        "front ends and a debate": ("-c", DEBATE),
        "flowdebate --help": ("-m", "flowdebate", "--help"),
        "flowdebate debate --help": ("-m", "flowdebate", DEFAULT, "--help"),
        "tests of another pattern": ("-m", "pytest", "-q", "-p", "no:cacheprovider", *other_tests),
    }
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": str(delete_pattern(pattern, Path(folder))), "PYTHONDONTWRITEBYTECODE": "1"}
        for name, command in commands.items():
            done = subprocess.run(  # noqa: S603 - our own modules
                [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                failures.append(f"{name}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
    return failures


def main() -> int:
    """Print one line per pattern."""
    failed = False
    for pattern in PATTERNS:
        if pattern != DEFAULT:
            failures = failures_without(pattern)
            failed |= bool(failures)
            print(f"without {pattern}: {'; '.join(failures) or 'the rest works'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
