"""A JupyterLab and a Chromium, for tests that click in notebooks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("chromium",)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
_SECONDS = 60


@contextmanager
def laboratory(folder: Path) -> Iterator[str]:
    """A JupyterLab over a folder; its address, with %s in the place of a notebook's name."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    environment = {**os.environ, **{name: str(folder / f".{name.lower()}") for name in places}}
    options = [f"--port={port}", "--no-browser", "--IdentityProvider.token=tests", f"--ServerApp.root_dir={folder}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    command = [sys.executable, "-m", "jupyterlab", "--LabApp.news_url=", *options]
    with (folder / "log").open("w") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as lab:  # noqa: S603
        try:
            _wait_for(f"http://127.0.0.1:{port}/api", lab)
            yield f"http://127.0.0.1:{port}/doc/tree/%s?token=tests"
        finally:
            lab.terminate()


def _wait_for(url: str, lab: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and lab.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - it is http
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail("JupyterLab does not answer")
