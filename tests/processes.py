"""Ctrl-C for the processes that tests start: a pytest plugin, which conftest.py registers."""

from __future__ import annotations

import signal

__all__ = ("pytest_configure",)


def pytest_configure() -> None:
    """Let SIGINT interrupt again where the tests run in the background.

    A shell starts background jobs with SIGINT ignored, and what is ignored stays ignored in every process that a test
    starts. A handler is not inherited: these processes get the default again.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
