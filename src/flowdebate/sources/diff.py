"""Git diffs as sources: one source for each changed file."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from flowdebate._text import counted
from flowdebate.errors import BadFile
from flowdebate.sources.files import MAX_FILE_MEGABYTES, MEGABYTE
from flowdebate.sources.secrets import SECRET, is_secret, mask_secrets
from flowdebate.sources.source import Source, matches_glob

_SECONDS = 60
_CONTEXT = "--unified=10"
"""Git option to show ten lines of context around each change; the default of three is too few for a review."""
_LINK, _SUBMODULE = "120000", "160000"
IS_LINK, IS_SUBMODULE, IS_BINARY = "is a link", "is a submodule", "is binary"
HOLDS_SECRETS = f"{SECRET}, so it is never read"
TOO_LARGE = f"is larger than {MAX_FILE_MEGABYTES} MB"
"""Reason given for omitting a changed file that is too large."""
_MAX_CONTROL_SHARE = 0.02
"""Maximum proportion of control characters in a text file; in compressed files, it is about 0.12."""
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_CODE = re.compile(
    r"\.(c|cc|cpp|cs|css|dart|exs?|fs|go|h|hpp|hs|html|java|m?jsx?|kt|lua|md|mli?|php|p[lm]|pyi?|r|rb|rs|rst|scala|sh|sql|"
    r"swift|tsx?|vue|zig)$",
    re.IGNORECASE,
)
"""Suffixes of source code files. A source code file's name does not indicate secrets: `secrets.py` is a
Python module.
"""
_GENERATED = (
    *("*.lock", "*-lock.json", "*-lock.yaml", "*.lockb", "go.sum", "npm-shrinkwrap.json", "packages.lock.json"),
    *("*.min.js", "*.min.css", "*.js.map", "*.css.map", "*.snap", "*.pb.go", "*_pb2.py", "*_pb2.pyi", "*.g.dart"),
)
"""Names of generated files. Nobody reviews these files by hand, so they come last, and only the beginning of each is
included.
"""
_MINIFIED = re.compile(r"^[+-][^\n]{5000}", re.MULTILINE)
"""Pattern for a line too long to have been written by hand."""
_FOLDED_LINES = 40
_FOLDED_CHARACTERS = 4_000
"""Limits on how much of a generated file is included in prompts: changed lines and characters."""
# Options that keep the user's configuration and environment from affecting a diff.
_OPTIONS = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--find-renames",
            "--no-relative", "-l1000", f"-O{os.devnull}", "--submodule=short", "--ignore-submodules=dirty")  # fmt: skip
_SETTINGS = ("core.quotePath=false", "core.fsmonitor=false", f"core.hooksPath={os.devnull}",
             f"core.attributesFile={os.devnull}", "diff.suppressBlankEmpty=false")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diff:
    """Changes in a git repository to review or debate: `review(sources=Diff("main...HEAD"))`.

    Each changed file becomes a separate source. A file that cannot be read, such as a picture, is listed along with the
    reason.
    """

    commits: str = "HEAD"
    """Revisions to compare.

    - "main...HEAD" or "main..HEAD": changes on the branch since it left main.
    - "main": the same changes, plus uncommitted changes.
    - "HEAD": uncommitted changes, including new files.
    """
    folder: Path | str = "."
    """Path of any folder in the repository."""
    exclude: Sequence[str] = ()
    """Globs for files that need no review, such as "*.lock". Matching files are omitted, and a gate can pass even
    though they were not reviewed.
    """


class _Change(NamedTuple):
    """A changed file, as listed by git."""

    path: str
    old_path: str
    modes: tuple[str, str]
    blobs: tuple[str, str]
    status: str


def read_diff(diff: Diff) -> list[Source]:
    """Return each changed file's diff as a source; an unreadable file's `left_out` states why.

    Lock files and other generated files come last and are folded: a long diff is cut after its first lines, and
    `unread` states how many were cut. Secrets are masked. Git runs no programs configured in the repository.

    Raises `BadFile` if the commits cannot be compared, if nothing changed, or if no change is readable. In the last two
    cases, the error's `no_changes` is set.
    """
    git = _Git(diff.commits, Path(diff.folder))
    with tempfile.TemporaryDirectory(prefix="flowdebate-diff-") as temporary:
        compared = git.compared()
        if len(compared) == 1:
            git.list_new_files(Path(temporary))
        changes = list(git.changes(compared))
        if not changes:
            raise BadFile(git.name, "has no changes", no_changes="none")
        ids = [identifier[:12] for identifier in compared]
        commits = f"{ids[0]}..{ids[1]}" if len(ids) > 1 else f"{ids[0]} and what is not committed"
        sources = [
            _source_of(change, patch, diff=diff, git=git, temporary=Path(temporary)).model_copy(
                update={"commits": commits}
            )
            for change, patch in zip(changes, git.patches(compared), strict=True)
        ]
    sources.sort(key=comes_last)
    if all(source.excluded for source in sources):
        raise BadFile(git.name, "has no changes outside excluded files", no_changes="none")
    if all(source.left_out is not None for source in sources):
        reasons = ", ".join(f"{source.name} {source.left_out}" for source in sources[:3])
        raise BadFile(git.name, f"has no readable changes: {reasons}", no_changes="unread")
    return sources


def _source_of(change: _Change, patch: bytes, *, diff: Diff, git: _Git, temporary: Path) -> Source:
    name = os.fsencode(change.path).decode(errors="replace")
    if matches_glob(name, diff.exclude):
        return Source.of_excluded(name)
    if _LINK in change.modes:
        return Source(name=name, left_out=IS_LINK)
    if _SUBMODULE in change.modes:
        return Source(name=name, left_out=IS_SUBMODULE)
    if holds_secrets(name):
        return Source(name=name, left_out=HOLDS_SECRETS)
    if _is_binary(patch):
        contents = [git.content(change, side) for side in (0, 1)]
        old, new = (None if content is None else as_text(content) for content in contents)
        if old is None or new is None:
            return Source(name=name, left_out=TOO_LARGE if None in contents else IS_BINARY)
        head = patch.partition(b"\nBinary files ")[0]
        names = f"\n--- a/{change.old_path}\n+++ b/{name}\n".encode(errors="replace")
        patch = head + names + git.diff_of(old, new, temporary)
    return source_of_patch(name, patch)


def source_of_patch(name: str, patch: bytes) -> Source:
    """Create a source from one file's diff, with secrets masked; a generated file is folded."""
    text, masked = mask_secrets("\n".join(map(_decoded, patch.split(b"\n"))))
    unread = None
    if matches_glob(name, _GENERATED) or _MINIFIED.search(text):
        text, unread = _fold(text)
    return Source.of(name, text, patch).model_copy(update={"masked": masked, "unread": unread})


def holds_secrets(name: str) -> bool:
    """Return whether a file's name suggests secrets; source code files are judged by their content instead."""
    return is_secret(Path(name)) and not _CODE.search(name)


def comes_last(source: Source) -> bool:
    """Return whether a changed file must come after all others because it is generated or was folded."""
    return matches_glob(source.name, _GENERATED) or source.unread is not None


def _fold(text: str) -> tuple[str, str | None]:
    """Cut a diff after its first changed lines; return the shortened diff, and a note on how many lines were cut."""
    lines = text.split("\n")
    begin = next((index for index, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    changed = [index for index, line in enumerate(lines) if index > begin and line[:1] in ("+", "-")]
    end = changed[_FOLDED_LINES] if len(changed) > _FOLDED_LINES else len(lines)
    room, kept_lines = _FOLDED_CHARACTERS, lines[:begin]
    for line in lines[begin:end]:
        room -= len(line) + 1
        if room < 0:
            break
        kept_lines.append(line)
    if len(kept_lines) == len(lines):
        return text, None
    cut = sum(index >= len(kept_lines) for index in changed)
    if cut == 0:
        return text, None
    # like "\ No newline at end of file", this line does not belong to the file
    return "\n".join([*kept_lines, f"\\ {counted(cut, 'more changed line')}, not shown", ""]), (
        f"{cut:,} of {counted(len(changed), 'changed line')}, folded"
    )


def _is_binary(patch: bytes) -> bool:
    """Return whether git omits all of a file's lines, because the file is binary or because of a git attribute."""
    return b"\n@@ " not in patch and b"\nBinary files " in patch


def _decoded(line: bytes) -> str:
    """Decode a line as UTF-8 or, failing that, as Windows-1252, which some older editors use."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace")


def as_text(content: bytes) -> str | None:
    """Decode a file that git considers binary; return None if its content really is binary."""
    marks = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
    encoding = marks.get(content[:2]) or marks.get(content[:3])
    text = "\n".join(map(_decoded, content.split(b"\n"))) if encoding is None else content.decode(encoding, "replace")
    return None if len(_CONTROL.findall(text)) > max(1, _MAX_CONTROL_SHARE * len(text)) else text


def diff_of_texts(old: str, new: str, temporary: Path) -> bytes:
    """Return the hunks of the diff between two strings; `temporary` is an empty folder outside any repository."""
    return _Git("of two texts", temporary, is_repository=False).diff_of(old, new, temporary)


class _Git:
    """Git repository from which changes are read."""

    def __init__(self, commits: str, folder: Path, *, is_repository: bool = True) -> None:
        self.name = f"diff {commits}"
        self._commits = commits
        # prevent git from fetching over any protocol, and ignore an index named in the environment
        self._environment = {
            key: value for key, value in os.environ.items() if key not in ("GIT_DIFF_OPTS", "GIT_EXTERNAL_DIFF")
        } | {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        self._settings: list[str] = [part for setting in _SETTINGS for part in ("-c", setting)]
        self._top = folder
        if not is_repository:
            return
        # git names files relative to the top of the repository, whatever the current folder
        self._top = folder / self._run("rev-parse", "--show-cdup").decode().strip()
        filters = self._run(
            "config", "--name-only", "-z", "--get-regexp", r"^filter\..*\.(clean|smudge|process)$", codes=(0, 1)
        )
        for key in filters.decode(errors="replace").split("\0")[:-1]:
            self._settings += ["-c", f"{key}=", "-c", f"{key.rpartition('.')[0]}.required=false"]

    def compared(self) -> list[str]:
        """Return the ids of the two commits to compare, or one id if a commit is compared with the working tree."""
        if not self._commits.strip() or "\0" in self._commits:
            raise BadFile(self.name, "does not name any commits")
        base, dots, head = self._commits.partition("..")
        ids = [self._commit(base or "HEAD")]
        if dots:
            ids.append(self._commit(head.removeprefix(".") or "HEAD"))
        tip = ids[1] if dots else self._id_of("HEAD")
        if ids[0] == self._empty_tree() or tip is None:
            return ids
        merge_base = self._run("merge-base", ids[0], tip, codes=(0, 1)).decode().strip()
        if not merge_base and self._is_shallow():
            raise self._shallow()
        return [merge_base or ids[0], *ids[1:]]

    def _commit(self, revision: str) -> str:
        """Return a commit's id; for an empty repository, or a root commit's parent, return the empty tree's id."""
        identifier = self._id_of(revision)
        if identifier is not None:
            return identifier
        if self._is_shallow():
            raise self._shallow()
        child = re.sub(r"(\^|~1?)$", "", revision)
        first = (
            child != revision
            and (identifier := self._id_of(child)) is not None
            and self._id_of(f"{identifier}^") is None
        )
        if first or (revision == "HEAD" and self._id_of("HEAD") is None):
            return self._empty_tree()
        # if this fails, git's error explains why the commit is missing
        self._run("rev-parse", "--verify", "--end-of-options", revision)
        raise BadFile(self.name, f"cannot be read: there is no commit {revision}")

    def _id_of(self, revision: str) -> str | None:
        arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return self._run(*arguments, codes=(0, 1, 128)).decode().strip() or None

    def _empty_tree(self) -> str:
        return self._run("hash-object", "-t", "tree", "--stdin").decode().strip()

    def _is_shallow(self) -> bool:
        return self._run("rev-parse", "--is-shallow-repository").strip() == b"true"

    def _shallow(self) -> BadFile:
        return BadFile(
            self.name,
            "cannot be read: this clone is shallow and lacks the commits. Fetch them with `git fetch --unshallow`; in "
            "GitHub Actions, pass `fetch-depth: 0` to actions/checkout",
        )

    def list_new_files(self, temporary: Path) -> None:
        """Include untracked files in git's comparison by using a temporary index."""
        paths = self._run("ls-files", "--others", "--exclude-standard", "-z")
        # a trailing slash marks a nested repository
        new = b"".join(b"%s\0" % path for path in paths.split(b"\0")[:-1] if not path.endswith(b"/"))
        if not new:
            return
        index = self._top / self._run("rev-parse", "--git-path", "index").decode().strip()
        copy = temporary / "index"
        if index.exists():
            copy.write_bytes(index.read_bytes())
        self._environment["GIT_INDEX_FILE"] = str(copy.absolute())
        self._run("add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul", text=new, literal=True)

    def changes(self, compared: Sequence[str]) -> Iterator[_Change]:
        """Yield all changed files, in the order reported by git."""
        fields = self._run("diff", *_OPTIONS, "--raw", "--no-abbrev", "-z", *compared, "--")
        values = iter(os.fsdecode(fields).split("\0")[:-1])
        for value in values:
            old_mode, new_mode, old_blob, new_blob, status = value.removeprefix(":").split(" ")
            if status == "U":
                raise BadFile(self.name, "cannot be read: a merge has unresolved conflicts")
            path = old_path = next(values)
            if status[0] == "R":
                path = next(values)
            yield _Change(path, old_path, (old_mode, new_mode), (old_blob, new_blob), status)

    def patches(self, compared: Sequence[str]) -> Iterator[bytes]:
        """Yield the diff of each changed file, in the order reported by git."""
        patch = self._run("diff", *_OPTIONS, _CONTEXT, *compared, "--")
        parts: dict[bytes, bytes] = {}
        for part in re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)[1:]:
            # if a file has become a link, its diff has two parts that start with the same line
            head = part.partition(b"\n")[0]
            parts[head] = parts.get(head, b"") + part
        yield from parts.values()

    def content(self, change: _Change, side: int) -> bytes | None:
        """Return a file's content before (0) or after (1) a change.

        Returns b"" if the file is missing, and None if it is too large.
        """
        limit = MAX_FILE_MEGABYTES * MEGABYTE
        if change.modes[side] == "000000":
            return b""
        blob = change.blobs[side]
        if blob.strip("0"):
            size = int(self._run("cat-file", "-s", blob))
            return self._run("cat-file", "blob", blob) if size <= limit else None
        with (self._top / change.path).open("rb") as file:
            content = file.read(limit + 1)
        return content if len(content) <= limit else None

    def diff_of(self, old: str, new: str, temporary: Path) -> bytes:
        """Return the hunks of the diff between two strings."""
        paths = [temporary / "old", temporary / "new"]
        for path, text in zip(paths, (old, new), strict=True):
            path.write_text(text, "utf-8", newline="")
        patch = self._run("diff", "--no-index", "--text", *_OPTIONS, _CONTEXT, "--", *map(str, paths), codes=(0, 1))
        return patch[max(patch.find(b"@@ "), 0) :]

    def _run(self, *arguments: str, text: bytes = b"", codes: tuple[int, ...] = (0,), literal: bool = False) -> bytes:
        """Run git and return its output; raise BadFile with git's error message if the command fails."""
        command = ["git", *self._settings, *(["--literal-pathspecs"] if literal else []), *arguments]
        try:
            process = subprocess.run(  # noqa: S603 - no shell, and revisions come after --end-of-options
                command,
                cwd=self._top,
                input=text,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                env=self._environment,
            )
        except FileNotFoundError:
            raise BadFile(self.name, "cannot be read: git is not installed") from None
        except subprocess.TimeoutExpired:
            raise BadFile(self.name, f"cannot be read: git took more than {_SECONDS} s") from None
        if process.returncode not in codes:
            messages = process.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
            if "not a git repository" in messages[0].lower():  # outside a repository, git compares two files instead
                messages = [f"{self._top.resolve()} is not in a git repository"]
            raise BadFile(self.name, f"cannot be read: {messages[0]}")
        return process.stdout
