"""Creation of files and folders accessible only to their owner, regardless of the umask."""

from __future__ import annotations

import os
from pathlib import Path


def open_private(path: str | Path, flags: int) -> int:
    """Open `path` and return its descriptor; a new file gets mode 0600, and an existing one keeps its mode."""
    return os.open(path, flags | os.O_CREAT, 0o600)


def make_private_folder(folder: Path) -> None:
    """Create `folder` and its missing parents with mode 0700; existing folders keep their mode."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
