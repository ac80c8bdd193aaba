"""Installation of Debian's packages that tests can use; with the standard library alone."""

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
    """A program is not here and cannot be installed; the message says why."""


def install_package(package: str, name: str, find: Callable[[], Path | None], *, megabytes: int) -> Path:
    """What `find` finds; where it finds nothing, installs Debian's package first, of so many `megabytes`."""
    program = find()
    if program is not None:
        return program
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{name} is not installed, and there is no apt-get to install it with")
    if os.geteuid() != 0:
        description = f"Debian's package {package}, {megabytes} MB"
        raise Unavailable(f"{name} is not installed, and only root can install it ({description})")
    with (Path(tempfile.gettempdir()) / "flowdebate-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run in several processes come here together
        program = find()
        if not program:
            print(f"Installing {name} from Debian ({package}): {megabytes} MB, once", file=sys.stderr, flush=True)
        problem = "" if program else _add(package)
    if (program := program or find()) is None:
        raise Unavailable(f"{name} cannot be installed: {problem}")
    return program


def _add(package: str) -> str:
    """Install the package; what the last command complained about."""
    # in runlevel 1 no service is started: tests start their own
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "--no-install-recommends", package]):
        done = subprocess.run([*command, "-y"], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stderr.strip()[-300:]
