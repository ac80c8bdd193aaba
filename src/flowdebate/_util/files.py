"""Private files: only their owner may read what a debate has written, whatever the umask."""

from __future__ import annotations

import os
from pathlib import Path


def open_private(path: str | Path, flags: int) -> int:
    """Open `path` and return its descriptor; a newly created file has the mode 0600, an existing one its own."""
    return os.open(path, flags | os.O_CREAT, 0o600)


def make_private_folder(folder: Path) -> None:
    """Create `folder` and its missing parents with the mode 0700; existing folders stay as they are."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
