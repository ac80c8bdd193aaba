"""Processes started by tests.

They can be interrupted, are always killed in the end, and are all forked from a single process, which pytest-xdist's
workers share. A pytest plugin, registered by conftest.py.
"""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests import warm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ("pytest_configure", "pytest_configure_node", "pytest_sessionstart", "start_process")


@contextmanager
def start_process(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process and kill it at the end. A plain `with Popen(…)` would wait forever after a failed test."""
    with subprocess.Popen(command, **options) as process:  # noqa: S603 - what tests start
        try:
            yield process
        finally:
            process.kill()


def pytest_configure() -> None:
    """Make SIGINT interrupt tests in the background.

    A shell starts background jobs with SIGINT ignored, and child processes inherit this. They do not inherit a handler,
    so they get the default action again.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a pytest-xdist worker the address of the process to fork from."""
    node.workerinput["warm"] = warm.server()


def pytest_sessionstart(session: pytest.Session) -> None:
    """If this is a pytest-xdist worker, receive the address of the process to fork from."""
    if worker_input := getattr(session.config, "workerinput", {}):
        warm.share(worker_input["warm"])
