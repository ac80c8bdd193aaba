"""Changes of a git repository as sources: a diff for each changed file, without secrets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from flowdebate.errors import BadFile
from flowdebate.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

GIT = "git:"
"""Begins a source that is a diff: "git:main..HEAD"; "git:HEAD" are the changes that are not committed."""
_RANGE = re.compile(r"[\w./@~^{}+:-]+")
_SECONDS = 60
# without what the configuration of a repository or of a user could change, or run
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")


def is_diff(given: str) -> bool:
    """Whether a source is the diff of a repository, and no file."""
    return given.startswith(GIT) and not Path(given).exists()


def read_diff(given: str, folder: Path, why_secret: Callable[[Path, bytes], str | None]) -> list[Source]:
    """The diff of each file that differs in a range of commits, and what is left out, of the repository at `folder`.

    `why_secret(path, content)` says why a file is never read. BadFile for what git cannot compare.
    """
    wanted = given.removeprefix(GIT)
    if not _RANGE.fullmatch(wanted) or wanted.startswith("-"):
        raise BadFile(given, "names no commits: give BASE..HEAD, or one commit to compare with what is here now")
    names = _git(given, folder, *_DIFF, "--name-only", "-z", wanted, "--").decode(errors="replace").split("\0")[:-1]
    if not names:
        raise BadFile(given, "has no changes; files that git does not track are not among them")
    # ten lines around a change: three are too few to judge it by
    diff = _git(given, folder, *_DIFF, "--unified=10", wanted, "--")
    parts = re.split(rb"^(?=diff --git )", diff, flags=re.MULTILINE)[1:]
    listed = "\0".join(names).encode(errors="replace")
    ignored = _git(given, folder, "check-ignore", "--no-index", "-z", "--stdin", text=listed, codes=(0, 1))
    left = set(ignored.decode(errors="replace").split("\0"))
    found = []
    for name, part in zip(names, parts, strict=True):
        why = why_secret(Path(name), part)
        if why is None and name in left:
            why = "is in .gitignore"
        header = part.partition(b"\n@@ ")[0]
        if why is None and re.search(
            rb"^(?:new file|deleted file|new|old) mode 120000|\.\.\w+ 120000$", header, re.MULTILINE
        ):
            why = "is a link"
        if why is None and b"\n@@ " not in part:
            why = "is binary" if b"\nBinary files " in part else "has no changed lines"
        try:
            text = part.decode("utf-8") if why is None else ""
        except UnicodeDecodeError:
            why = "is not UTF-8"
        shown = PurePosixPath(name).as_posix()
        found.append(Source.of(shown, text, part) if why is None else Source(name=shown, left_out=why))
    if all(source.left_out is not None for source in found):
        reasons = ", ".join(f"{source.name} {source.left_out}" for source in found[:3])
        raise BadFile(given, f"has no changes that can be read: {reasons}")
    return found


def _git(given: str, folder: Path, *arguments: str, text: bytes = b"", codes: tuple[int, ...] = (0,)) -> bytes:
    """What git writes; BadFile with what it says where it fails."""
    command = ["git", "-c", "core.quotePath=false", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, cwd=folder, input=text, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603 - no shell, and a checked range
    except FileNotFoundError:
        raise BadFile(given, "cannot be read: git is not installed") from None
    except subprocess.TimeoutExpired:
        raise BadFile(given, f"cannot be read: git takes more than {_SECONDS} s") from None
    if done.returncode not in codes:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["git fails"]
        raise BadFile(given, f"cannot be read: {said[0]}")
    return done.stdout
