"""Print size, shape and language of source trees as tables: `python scripts/code_table.py src/flowdebate OTHER …`.

The first table has one column per tree; code_measures.py defines its language measures. A table of each tree's rooms
follows. Lines are all lines of the Python files. Ceremony is imports, stubs and `__all__`. A helper has a single use if
its name is private and occurs twice in its file: in its definition, and once more. Comments for tools (`noqa`) do not
count.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import code_measures
from code_measures import Function

if TYPE_CHECKING:
    from collections.abc import Sequence

FOR_TOOLS = re.compile(r"#\s*(noqa|type:|pragma|pyright|fmt:)")


@dataclass
class Tree:
    """Counts for one source tree."""

    files: list[int] = field(default_factory=list)
    """Number of lines of each Python file."""
    stubs: int = 0
    """Number of lines in stubs, which declare where a package's public names are defined."""
    functions: list[int] = field(default_factory=list)
    """Number of lines of each function."""
    used_once: int = 0
    ceremony: int = 0
    comments: int = 0
    folders: dict[Path, int] = field(default_factory=dict)
    """Number of Python files in each folder."""

    def add(self, path: Path) -> None:
        """Count a file."""
        text = path.read_text("utf-8")
        lines = text.count("\n")
        if path.suffix == ".pyi":
            self.stubs += lines
            self.ceremony += lines
            return
        self.files.append(lines)
        self.folders[path.parent] = self.folders.get(path.parent, 0) + 1
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, Function):
                self.functions.append(_lines_of(node))
                once = len(re.findall(rf"\b{node.name}\b", text)) == 2  # noqa: PLR2004 - its definition, and one use
                self.used_once += node.name.startswith("_") and not node.name.endswith("__") and once
            elif isinstance(node, ast.Import | ast.ImportFrom) or _is_export_table(node):
                self.ceremony += _lines_of(node)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        self.comments += sum(token.type == tokenize.COMMENT and not FOR_TOOLS.search(token.string) for token in tokens)

    def rows(self) -> dict[str, str]:
        """Return the tree's column of the table."""
        lines = sum(self.files) + self.stubs
        *_, p90 = statistics.quantiles(self.functions, n=10)
        return {
            "files": f"{len(self.files)}",
            "lines (of them stubs)": f"{lines:,} ({self.stubs})",
            "mean / median file": f"{statistics.mean(self.files):.0f} / {statistics.median(self.files):.0f}",
            "largest file": f"{max(self.files)}",
            "folders; fullest": f"{len(self.folders)}; {max(self.folders.values())}",
            "function median / p90": f"{statistics.median(self.functions):.0f} / {p90:.0f}",
            "functions per 1,000 lines": f"{1000 * len(self.functions) / lines:.0f}",
            "private helpers with one use": f"{100 * self.used_once / len(self.functions):.1f} %",
            "ceremony": f"{100 * self.ceremony / lines:.1f} %",
            "comments with a reason per 1,000 lines": f"{1000 * self.comments / lines:.1f}",
        }


def _lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_export_table(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id in {"__all__", "_LAZY"} for target in targets)


def measure(root: Path) -> Tree:
    """Count all Python files and stubs below `root`, or `root` itself if it is a file."""
    tree = Tree()
    for path in sorted(root.rglob("*.py*")) if root.is_dir() else [root]:
        if path.suffix in {".py", ".pyi"}:
            tree.add(path)
    return tree


def language_rows(modules: Sequence[code_measures.Module]) -> dict[str, str]:
    """Measure names, annotations and docstrings for the second part of a tree's column."""
    annotations = code_measures.count_any(modules)
    factories = code_measures.factory_parameters(modules)
    return {
        "vague names of variables and parameters": f"{100 * code_measures.share_of_vague_names(modules):.1f} %",
        "`Any`: parameters / returns / assignments": (
            f"{annotations.parameters} / {annotations.returns} / {annotations.assignments}"
        ),
        "suppressions of ANN401": f"{code_measures.count_suppressions(modules, 'ANN401')}",
        "calls of `locals()`": f"{code_measures.count_locals_calls(modules)}",
        "parameters of factories": ", ".join(f"{name} {number}" for name, number in factories.items()) or "-",
        "function headlines with a verb": f"{100 * code_measures.share_of_verb_headlines(modules):.0f} %",
        "relative clauses per 1,000 docstring words": f"{code_measures.relative_clauses(modules):.1f}",
        "bare heads per 1,000 docstring words": f"{code_measures.bare_heads(modules):.1f}",
        "attribute docstrings with a subject": f"{100 * code_measures.share_of_attributes_with_subject(modules):.0f} %",
    }


def print_rooms(root: str, modules: Sequence[code_measures.Module]) -> None:
    """Print the number of lines and the headlines of each top-level folder of a tree."""
    print(f"\n| {root} | lines | headlines with a verb |\n|---|---|---|")
    for room, lines in code_measures.lines_per_room(modules).items():
        share = code_measures.share_of_verb_headlines([module for module in modules if module.room == room])
        print(f"| {room} | {lines:,} | {100 * share:.0f} % |")


if __name__ == "__main__":
    roots = sys.argv[1:] or ["src/flowdebate"]
    trees = {root: code_measures.read_modules(Path(root)) for root in roots}
    columns = [measure(Path(root)).rows() | language_rows(modules) for root, modules in trees.items()]
    print("| |", " | ".join(roots), "|")
    print("|---|" + "---|" * len(roots))
    for title in columns[0]:
        print(f"| {title} |", " | ".join(column[title] for column in columns), "|")
    for root, modules in trees.items():
        print_rooms(root, modules)
