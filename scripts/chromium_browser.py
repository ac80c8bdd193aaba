"""Chromium for tests without a window: what is installed, or Debian's package; with the standard library alone."""

from __future__ import annotations

import shutil
from pathlib import Path

from debian_package import Unavailable, install_package

__all__ = ("Unavailable", "find", "install")

_PACKAGE = "chromium-headless-shell"
"""Chromium without what draws windows, 240 MB smaller than `chromium`."""
_PROGRAMS = (_PACKAGE, "chromium", "google-chrome")


def find() -> Path | None:
    """The program, if it is installed."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    return None if program is None else Path(program)


def install() -> Path:
    """The program; installs Debian's package where there is none."""
    return install_package(_PACKAGE, "Chromium", find, megabytes=290)
