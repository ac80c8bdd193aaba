"""Installation of Debian packages for tests. Uses only the standard library."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Unavailable", "install_package")


class Unavailable(Exception):
    """Raised if a program is missing and cannot be installed; the message gives the reason."""


def install_package(package: str, name: str, find: Callable[[], Path | None], *, megabytes: int) -> Path:
    """Return the result of `find`, installing Debian's package of this many `megabytes` first if necessary."""
    program = find()
    if program is not None:
        return program
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{name} is not installed, and there is no apt-get to install it with")
    if os.geteuid() != 0:
        description = f"Debian's package {package}, {megabytes} MB"
        raise Unavailable(f"{name} is not installed, and only root can install it ({description})")
    with (Path(tempfile.gettempdir()) / "flowdebate-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes may get here at the same time
        program = find()
        if not program:
            print(f"Installing {name} from Debian ({package}): {megabytes} MB, once", file=sys.stderr, flush=True)
        problem = "" if program else _add(package)
    if (program := program or find()) is None:
        raise Unavailable(f"{name} cannot be installed: {problem}")
    return program


def _add(package: str) -> str:
    """Install the package; return the error output of the last command."""
    # Runlevel 1 prevents services from starting; tests start their own.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "--no-install-recommends", package]):
        done = subprocess.run([*command, "-y"], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stderr.strip()[-300:]
