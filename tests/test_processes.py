"""Processes that tests start, wherever the tests themselves were started."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.processes import pytest_configure


def test_ctrl_c_reaches_the_processes_of_tests_that_run_in_the_background() -> None:
    """SIGINT is ignored in background jobs and in all that they start; the plugin undoes that."""
    command = [sys.executable, "-S", "-c", "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert subprocess.run(command, capture_output=True, check=True, timeout=30).stdout.strip() == b"True"  # noqa: S603
        pytest_configure()
        assert subprocess.run(command, capture_output=True, check=True, timeout=30).stdout.strip() == b"False"  # noqa: S603
    finally:
        signal.signal(signal.SIGINT, before)
