"""No module outside of a pattern's folder and the registry names a concrete pattern."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flowdebate
from flowdebate.patterns import PATTERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(flowdebate.__file__).parent
NAMES = {name for info in PATTERNS.values() for name in (info.name, info.verb)}

ALLOWED = {
    "events.py": "makes the events of the library's own patterns importable, and types their union",
    "evaluation/": "judge audits, benefits and leaderboards are statistics of debates' ballots",
    "cli/ballots.py": "the commands of these statistics, which say of other patterns that they have none",
    "cli/evaluate.py": "compares debates with baselines, which only a debate has",
    "cli/demo/__init__.py": "shows a debate that was recorded",
    "cli/study.py": "writes the plan of a study, whose pattern is a debate unless it says otherwise",
    "server/pages/runs.py": "the page of a debate that is read blind",
    "mcp/tools.py": "has tools of their own for councils and reviews, which hosts ask for by these names",
    "mcp/judging.py": "the tool that has texts judged, by the judge of a debate",
    "adapters/inspect_ai.py": "scores of an evaluation are the verdict of a debate",
    "telemetry/opentelemetry.py": "the metric of verdicts is defined for a judge of stances",
    "testing/": "drawn debates, simulated judges and the promises that only some patterns make",
    "server/protocols/chat_request.py": 'says "debate/" before the names of registered blocks, in the wire form',
    "resources/archive.py": "says how a debate ended that is stored for later ones, in the wire form",
    "store/archive.py": "says which parameter was wrong: a stored debate",
    "measures/topologies.py": "has a topology that is called as a pattern is",
}
"""What else may name one, with the reason; a folder ends in a slash."""
OWN = ("patterns/__init__.py", *(f"patterns/{name}/" for name in PATTERNS))


def named_in(path: Path) -> Iterator[str]:
    """Where a module imports of a pattern, or says the name of one as a value."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("flowdebate"):
                parts = {*module.split("."), *(each.name for each in node.names)}
                if parts & NAMES and "measures" not in parts:
                    yield f"{node.lineno}: imports from {module}"
            case ast.Constant(value=str(value)) if value in NAMES and id(node) not in docstrings:
                yield f"{node.lineno}: {value!r}"
            case _:
                pass


MODULES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]


@pytest.mark.parametrize("module", [each for each in MODULES if not each.startswith((*OWN, *ALLOWED))])
def test_a_module_names_no_pattern(module: str) -> None:
    """What it has to know of one stands on the pattern's page, or in its entry."""
    assert list(named_in(ROOT / module)) == []


@pytest.mark.parametrize("entry", ALLOWED)
def test_every_exception_is_needed(entry: str) -> None:
    """An exception that nothing needs any more is taken out of the list."""
    assert [module for module in MODULES if module.startswith(entry) and any(named_in(ROOT / module))]
