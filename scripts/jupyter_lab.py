"""JupyterLab for the notebook tests and pictures; it loads nothing from other hosts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ("laboratory",)

_SECONDS = 60
_SETTINGS = {"themes": {"theme": "JupyterLab Light"}, "notification": {"fetchNews": "false", "checkForUpdates": False}}


@contextmanager
def laboratory(folder: Path, *, dark: bool = False) -> Iterator[str]:
    """Run a JupyterLab in a folder, and yield its URL, with %s in place of a notebook's name."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {name: folder / f".{name.lower()}" for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    settings = folders["JUPYTER_CONFIG_DIR"] / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    for name, values in _SETTINGS.items():
        text = json.dumps(values)
        (settings / f"{name}.jupyterlab-settings").write_text(text.replace("Light", "Dark") if dark else text, "utf-8")
    options = [f"--port={port}", "--no-browser", "--IdentityProvider.token=here", f"--ServerApp.root_dir={folder}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    environment = {**os.environ, **{name: str(place) for name, place in folders.items()}}
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (folder / "log").open("w") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as lab:  # noqa: S603
        try:
            _wait_for(f"http://127.0.0.1:{port}/api", lab)
            yield f"http://127.0.0.1:{port}/doc/tree/%s?token=here"
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
    raise RuntimeError("JupyterLab does not answer")
