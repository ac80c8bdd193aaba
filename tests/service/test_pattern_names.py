"""Names of concrete patterns, which only a pattern's own folder and the registry may contain."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flowdebate
from flowdebate.patterns import PATTERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(flowdebate.__file__).parent
NAMES = {name for info in PATTERNS.values() for name in (info.name, info.verb)}

DEBATES = {
    "evaluation/": "judge audits, benefits and leaderboards are statistics of debates' ballots",
    "cli/ballots.py": "the commands of these statistics, which say of other patterns that they have none",
    "cli/benefit.py": "compares debates with baselines, which only a debate has",
    "cli/demo/__init__.py": "shows a debate that was recorded",
    "cli/study.py": "writes the plan of a study, whose pattern is a debate unless it says otherwise",
    "server/pages/runs.py": "the page of a debate that is read blind",
    "mcp/judging.py": "the tool that has texts judged, by the judge of a debate",
    "adapters/inspect_ai.py": "scores of an evaluation are the verdict of a debate",
    "telemetry/opentelemetry.py": "the metric of verdicts is defined for a judge of stances",
    "testing/": "drawn debates, simulated judges and the promise of a verdict",
    "server/protocols/chat_request.py": 'says "debate/" before the names of registered blocks, in the wire format',
    "resources/archive.py": "the name of a parameter: a stored debate",
    "store/archive.py": "the name of a parameter: a stored debate",
    "events.py": "imports the events of a debate for type checkers",
}
"""Modules that may name the debate pattern, which is always available, each with its reason. Folders end
with a slash.
"""
OTHERS = {
    "events.py": "imports the events of patterns for type checkers",
    "testing/examples.py": "an example calls the tool `handoff` wherever it is offered",
    "resources/archive.py": "an outcome of a stored debate is called consensus",
    "measures/topologies.py": "a topology has the name of a pattern",
    "cli/benchmark.py": "measures reviews, for the option --benchmark",
    "cli/critics.py": "measures critics, for the command eval critic",
    "cli/help.py": "links the command eval critic to its page of the documentation",
    "cli/demo/__init__.py": "plays the recording of a review",
    "cli/pull_request.py": "posts reviews, for the option --pr",
    "evaluation/critique_check.py": "compares a critique with its judge alone",
    "evaluation/model_check.py": "checks a model in the roles of the patterns that there are",
}
"""Modules that may name other patterns, although each of these can be deleted (`scripts/delete_patterns.py`)."""
OWN = ("patterns/__init__.py", *(f"patterns/{name}/" for name in PATTERNS))


def find_names(path: Path, names: set[str]) -> Iterator[str]:
    """Yield the places where a module imports from a pattern or uses a pattern's name as a value."""
    source = path.read_text("utf-8")
    if not re.search(rf"\b(?:{'|'.join(names)})\b", source):
        return
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("flowdebate"):
                parts = {*module.split("."), *(alias.name for alias in node.names)}
                if parts & names and "measures" not in parts:
                    yield f"{node.lineno}: imports from {module}"
            case ast.Constant(value=str(value)) if value in names and id(node) not in docstrings:
                yield f"{node.lineno}: {value!r}"
            case _:
                pass


MODULES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]


def test_no_other_module_names_a_pattern() -> None:
    """Knowledge about a pattern belongs on its page or in its registry entry."""
    occurrences = {}
    for module in MODULES:
        if not module.startswith(OWN):
            allowed = {"debate"} if module.startswith((*DEBATES,)) else set()
            allowed |= NAMES - {"debate"} if module in OTHERS else set()
            occurrences[module] = list(find_names(ROOT / module, NAMES - allowed))
    assert not any(occurrences.values()), {module: lines for module, lines in occurrences.items() if lines}


@pytest.mark.parametrize(
    ("entry", "names"),
    [*((entry, {"debate"}) for entry in DEBATES), *((entry, NAMES - {"debate"}) for entry in OTHERS)],
)
def test_every_listed_exception_is_needed(entry: str, names: set[str]) -> None:
    assert [module for module in MODULES if module.startswith(entry) and any(find_names(ROOT / module, names))]
