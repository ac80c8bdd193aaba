"""Size and shape of source trees as a table: `python scripts/code_table.py src/flowdebate OTHER …`, a column for each.

Lines are all lines of the Python files. Ceremony is imports, stubs and `__all__`. A helper has one use if its name is
private and stands in its file twice: where it is defined, and once more. Comments for tools (`noqa`) do not count.
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
from typing import TypeAlias

FOR_TOOLS = re.compile(r"#\s*(noqa|type:|pragma|pyright|fmt:)")
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Tree:
    """What is counted in one source tree."""

    files: list[int] = field(default_factory=list)
    """Lines of each Python file."""
    stubs: int = 0
    """Lines of stubs, which say where a package's public names are."""
    functions: list[int] = field(default_factory=list)
    """Lines of each function."""
    used_once: int = 0
    ceremony: int = 0
    comments: int = 0
    folders: dict[Path, int] = field(default_factory=dict)
    """Python files in each folder."""

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
        self.comments += sum(each.type == tokenize.COMMENT and not FOR_TOOLS.search(each.string) for each in tokens)

    def rows(self) -> dict[str, str]:
        """The table's column."""
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
    """Count all Python files and stubs below `root`, or the one file that it is."""
    tree = Tree()
    for path in sorted(root.rglob("*.py*")) if root.is_dir() else [root]:
        if path.suffix in {".py", ".pyi"}:
            tree.add(path)
    return tree


if __name__ == "__main__":
    roots = sys.argv[1:] or ["src/flowdebate"]
    columns = [measure(Path(root)).rows() for root in roots]
    print("| |", " | ".join(roots), "|")
    print("|---|" + "---|" * len(roots))
    for title in columns[0]:
        print(f"| {title} |", " | ".join(column[title] for column in columns), "|")
