"""Imports between modules, which must be acyclic so that threads can import them concurrently.

Before a thread can import a module, it has to wait for the module's package. If that package is being imported by
another thread and itself imports the module, the two threads wait for each other, and Python ends the deadlock with an
error.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flowdebate
from tests.cases import slow_but_first

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(flowdebate.__file__).parent
FILES = {
    ".".join(("flowdebate", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def executed_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Return the imports executed when a module is imported, leaving out imports in functions and for type checkers."""
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.If() if "TYPE_CHECKING" not in ast.unparse(statement.test):
                yield from executed_imports([*statement.body, *statement.orelse])
            case ast.Try() | ast.With() | ast.ClassDef():
                yield from executed_imports(statement.body)
            case _:
                pass


def imported_modules(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Return the package's modules that a statement imports, including those of lazy names."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names if alias.name in FILES)
    elif (package := statement.module or "") in FILES:
        yield package
        lazy = lazy_homes(FILES[package].with_suffix(".pyi"))
        for alias in statement.names:
            inner = f"{package}.{lazy.get(alias.name, alias.name)}"
            yield from (module for module in (inner, inner.rpartition(".")[0]) if module in FILES)


def lazy_homes(stub: Path) -> dict[str, str]:
    """Return the module of each lazy name according to a package's stub."""
    body = ast.parse(stub.read_text("utf-8")).body if stub.exists() else []
    imports = [statement for statement in body if isinstance(statement, ast.ImportFrom)]
    return {alias.name: f"{statement.module}.{alias.name}" for statement in imports for alias in statement.names}


def parent_packages(name: str) -> Iterator[str]:
    """Return the packages imported before a module."""
    while (name := name.rpartition(".")[0]) in FILES:
        yield name


def awaited_modules(name: str) -> set[str]:
    """Return all modules that a thread waits for while it imports the module `name`."""
    direct = {
        module
        for statement in executed_imports(ast.parse(FILES[name].read_text()).body)
        for module in imported_modules(statement)
    }
    return {*parent_packages(name), *direct, *(package for module in direct for package in parent_packages(module))} - {
        name
    }


def test_no_module_imports_itself_indirectly() -> None:
    """Threads that import the modules of a cycle concurrently could deadlock."""
    graph = {name: awaited_modules(name) for name in FILES}
    assert sum(map(len, graph.values())) > 1_000  # the graph is not empty
    TopologicalSorter(graph).prepare()  # CycleError names the modules


THREADS = """
import random, sys, threading, flowdebate
sys.setswitchinterval(1e-6)
names = [("flowdebate", name) for name in dir(flowdebate)]
modules = ("events", "errors", "patterns.debate.schemas", "models.base")
names += [(f"flowdebate.{module}", "__doc__") for module in modules]
start, failed = threading.Barrier(8), []
def use(seed):
    mine = random.Random(seed).sample(names, len(names))
    start.wait()
    for package, name in mine:
        try:
            exec(f"from {package} import {name}", {})
        except Exception as error:
            failed.append((package, name, repr(error)))
threads = [threading.Thread(target=use, args=(8 * int(sys.argv[1]) + number,), daemon=True) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failed)
"""


@pytest.mark.parametrize("seed", slow_but_first(range(3)))
def test_eight_threads_can_import_concurrently(seed: int) -> None:
    command = [sys.executable, "-c", THREADS, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
