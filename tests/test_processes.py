"""Processes started by tests that run in the foreground or in the background."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.processes import pytest_configure


def test_ctrl_c_reaches_processes_of_background_tests() -> None:
    """Without the plugin, background jobs and their child processes would ignore SIGINT."""
    command = [sys.executable, "-S", "-c", "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert subprocess.run(command, capture_output=True, check=True, timeout=30).stdout.strip() == b"True"  # noqa: S603
        pytest_configure()
        assert subprocess.run(command, capture_output=True, check=True, timeout=30).stdout.strip() == b"False"  # noqa: S603
    finally:
        signal.signal(signal.SIGINT, before)


_RUN = ("run", "check_output", "check_call")
"""Functions in `subprocess` that wait for a process."""


def test_every_wait_for_a_process_has_a_timeout() -> None:
    """A process that hangs under load must fail its own test instead of the whole suite."""
    unbounded = []
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_text("utf-8")
        if not re.search(r"\.communicate\(|process\.wait\(|subprocess\.\w+\(", text):
            continue
        tree = ast.parse(text)
        bounded = {id(part) for node in ast.walk(tree) if _calls(node, "wait_for") for part in ast.walk(node)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or id(node) in bounded or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in ("communicate", "wait", *_RUN):
                continue
            on, keywords = ast.unparse(node.func.value), {keyword.arg for keyword in node.keywords}
            waits = node.func.attr == "communicate" or (node.func.attr == "wait" and on.endswith("process"))
            runs = on == "subprocess" and node.func.attr in _RUN
            if (waits and not node.args and "timeout" not in keywords) or (runs and "timeout" not in keywords):
                unbounded.append(f"{path.name}:{node.lineno}: {ast.unparse(node)[:60]}")
    assert not unbounded, "\n".join(unbounded)


def _calls(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == name
