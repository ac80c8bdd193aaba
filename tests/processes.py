"""Processes that tests start: Ctrl-C reaches them, they end, and all workers of pytest-xdist fork them from one.

A pytest plugin, which conftest.py registers.
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

__all__ = ("pytest_configure", "pytest_configure_node", "pytest_sessionstart", "started")


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process, and kill it at the end: `with Popen(…)` alone would wait forever after a failed test."""
    with subprocess.Popen(command, **options) as process:  # noqa: S603 - what tests start
        try:
            yield process
        finally:
            process.kill()


def pytest_configure() -> None:
    """Let SIGINT interrupt again where the tests run in the background.

    A shell starts background jobs with SIGINT ignored, and what is ignored stays ignored in every process that a test
    starts. A handler is not inherited: these processes get the default again.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where to fork from."""
    node.workerinput["warm"] = warm.server()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Receive the address to fork from, as a worker."""
    if worker_input := getattr(session.config, "workerinput", {}):
        warm.share(worker_input["warm"])
