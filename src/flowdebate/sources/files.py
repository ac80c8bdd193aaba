"""Functions for reading text files, documents, folders, stdin and diffs as sources.

Key files and other secret files are never read.
"""

from __future__ import annotations

import base64
import codecs
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from flowdebate._text import clean_text, error_text, is_blank
from flowdebate._util.validation import check_library
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.sources.converter import shared_converter
from flowdebate.sources.documents import KINDS, MAX_TEXT_MEGABYTES, OTHERS
from flowdebate.sources.secrets import FOLDERS, SECRET, holds_key, is_secret, mask_secrets
from flowdebate.sources.source import Page, Source, image_type, name_problem

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # checked before UTF-16, because both begin with the same bytes
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DATA_URL = re.compile(r"data:[\w.+/-]*(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)


def make_source(name: str, text: str) -> Source:
    """Create a source from `text`; a data URL is decoded as a file.

    Raises BadFile if the file is unreadable. The text of stored runs is never decoded again.
    """
    begins = _DATA_URL.match(text)
    if begins is None:
        return Source.of(name, text)
    try:
        data = base64.b64decode(text[begins.end() :], validate=True)
    except ValueError:
        raise BadFile(name, "is not a valid data URL: its base64 cannot be decoded") from None
    return read_content(name, name, data)


def is_file(text: str) -> bool:
    """Return whether `text` is a data URL; decoding one may take a long time."""
    return _DATA_URL.match(text) is not None


def _read_document(name: str, path: str, data: bytes, kind: str) -> Source:
    if not KINDS[kind].is_installed:
        raise BadFile(path, f"is a {kind[1:].upper()} document; to read it: pip install 'flowdebate[documents]'")
    document = shared_converter().convert(path, data, kind)
    texts: list[str] = []
    pages: list[Page] = []
    length = 0
    for part, content in document.parts:
        if part:
            pages.append(Page(start=length, name=part))
        texts.append(f"{clean_text(content.strip())}\n\n")
        length += len(texts[-1])
    return Source.of(name, "".join(texts), data, pages=pages, unread="; ".join(document.unread))


MEGABYTE = 1_000_000
MAX_FILE_MEGABYTES = 20
"""Maximum file size in megabytes; even a document of a thousand pages is smaller."""
MAX_IMAGES_MEGABYTES = 10
"""Maximum total size of images in megabytes. Images are sent with every turn, and some providers accept only 20 MB of
base64.
"""
_MAX_LISTED = 200
"""Maximum number of omitted files to list for each folder."""


def read_sources(entries: Sequence[str], *, folder: Path = Path()) -> list[Source]:
    """Read files and folders at paths relative to `folder`. "-" is stdin, and "NAME=FILE" sets a name.

    Secrets, links, ignored files (`.gitignore`) and binary files in a folder are not read; up to 200 per folder are
    returned as sources without text whose `left_out` states the reason.

    Raises BadFile, stating the path and the reason, if a file cannot be used, or if the total exceeds 2 MB of text or
    10 MB of images.
    """
    sources: list[Source] = []
    room = _Room()
    for entry in entries:
        name, path = _named(entry, folder)
        if entry == "-":
            read = [read_content("stdin", "-", _read_stdin())]
        elif path.is_dir() and not path.is_symlink():
            root = path.resolve()
            if FOLDERS.intersection(root.parts):
                raise BadFile(entry, f"{SECRET}, so it is never read")
            read = list(_walk(root, entry, name or root.name))
            if not any(source.left_out is None for source in read):
                raise BadFile(entry, "is a folder without readable files")
        else:
            read = [_read_file(path, entry, name or path.name)]
        room.take(read, entry)
        sources += read
    return sources


def read_texts(texts: Mapping[str, str]) -> list[Source]:
    """Read sources keyed by name; each is either text or a file encoded as a data URL.

    Raises BadFile if a file is unreadable, or if the total exceeds 2 MB of text or 10 MB of images.
    """
    sources: list[Source] = []
    room = _Room()
    for name, text in texts.items():
        source = make_source(name, text)
        room.take([source], name)
        sources.append(source)
    return sources


class _Room:
    """Space left for a run's sources, which are stored with the run and sent with each turn."""

    def __init__(self) -> None:
        self._text, self._images = MAX_TEXT_MEGABYTES * MEGABYTE, MAX_IMAGES_MEGABYTES * MEGABYTE

    def take(self, sources: Sequence[Source], path: str) -> None:
        """Subtract the size of `sources` from the space left; raise BadFile, naming their `path`, if it is exceeded."""
        self._text -= sum(len(source.text.encode()) for source in sources)
        self._images -= sum(source.size for source in sources if source.image is not None)
        if self._text < 0:
            fewer = "use fewer files, or commits with fewer changes"
            raise BadFile(path, f"has more than {MAX_TEXT_MEGABYTES} MB of text: {fewer}")
        if self._images < 0:
            raise BadFile(path, f"has more than {MAX_IMAGES_MEGABYTES} MB of images: use fewer or smaller ones")


def check_size(sources: Sequence[Source], path: str) -> None:
    """Raise BadFile, naming the `path` of the last source, if the total size of `sources` exceeds the limits."""
    _Room().take(sources, path)


def allowed_folders(paths: Iterable[str | Path], *, location: str) -> tuple[Path, ...]:
    """Convert `allow_sources` to folders; raise ConfigurationError for a path that is not a folder."""
    folders = tuple(Path(path).resolve() for path in paths)
    for folder in folders:
        if not folder.is_dir():
            raise ConfigurationError(location, "allow_sources", str(folder), "must be existing folders")
    return folders


def outside_of(folders: Sequence[Path], entries: Sequence[str]) -> list[str]:
    """Return the `entries` that lie outside all `folders`; stdin always counts as outside."""
    paths = {entry: _named(entry, Path())[1] for entry in entries}
    return [
        entry
        for entry, path in paths.items()
        if entry == "-" or not any(_is_within(path, folder) for folder in folders)
    ]


def _named(entry: str, folder: Path) -> tuple[str | None, Path]:
    """Split "NAME=FILE" into a name and a file path; for a plain path, the name is None."""
    name, sign, rest = entry.partition("=")
    path = folder / entry
    if sign and name.strip() and rest and not os.path.lexists(path):
        if (problem := name_problem(name.strip())) is not None:
            raise BadFile(entry, f"has a name that {problem}")
        return name.strip(), folder / rest
    return None, path


def _is_within(path: Path, allowed: Path) -> bool:
    """Return whether `path` is inside `allowed` after all links are resolved."""
    try:
        return path.resolve().is_relative_to(allowed.resolve())
    except (OSError, ValueError):  # circular links, or a NUL in the path
        return False


def _read_stdin() -> bytes:
    if sys.stdin.isatty():
        raise BadFile("-", "is a terminal: pipe text into this command")
    data = sys.stdin.buffer.read(MAX_FILE_MEGABYTES * MEGABYTE + 1)
    if len(data) > MAX_FILE_MEGABYTES * MEGABYTE:
        raise BadFile("-", f"is larger than {MAX_FILE_MEGABYTES} MB")
    return data


def _read_file(path: Path, entry: str, name: str) -> Source:
    """Read a file; raise BadFile, naming the user's `entry`, if the file cannot be used as a source."""
    try:
        if path.is_symlink() and not _is_within(path, path.parent):
            raise BadFile(entry, "is a symlink to a file outside its folder: pass the file itself")
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadFile(entry, 'is not a file; to use the output of a program, pipe it in and pass "-"')
        # also check the target, because a link to a secret may have any name
        if is_secret(path) or is_secret(path.resolve()):
            raise BadFile(entry, f"{SECRET}, so it is never read")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_MEGABYTES * MEGABYTE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error_text(error)
        raise BadFile(entry, f"cannot be read: {reason}") from None
    if len(data) > MAX_FILE_MEGABYTES * MEGABYTE:
        raise BadFile(entry, f"is larger than {MAX_FILE_MEGABYTES} MB")
    return read_content(name, entry, data)


def read_content(name: str, path: str, data: bytes) -> Source:
    """Create a source from `data`, with secrets masked; raise BadFile unless it is text, a document or an image."""
    source = _read_content(name, path, data)
    text, masked = mask_secrets(source.text)
    return source if masked is None else source.model_copy(update={"text": text, "masked": masked})


def _read_content(name: str, path: str, data: bytes) -> Source:
    if holds_key(data):
        raise BadFile(path, f"{SECRET}, so it is never read")
    suffix = "" if name == "stdin" else PurePath(name).suffix.lower()
    kind = ".pdf" if data.startswith(b"%PDF-") else suffix
    if kind in KINDS:
        return _read_document(name, path, data, kind)
    if (image := image_type(data)) is not None:
        return Source.of_image(name, path, data, image)
    encoding = next((encoding for bom, encoding in _BOMS if data.startswith(bom)), "utf-8")
    if encoding == "utf-8" and (b"\0" in data or data.startswith(b"{\\rtf")):
        raise BadFile(path, _binary_reason(suffix, data))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadFile(path, f"line {line}: not valid {encoding[:6].upper().rstrip('-')}") from None
    if is_blank(text):
        raise BadFile(path, "is empty: a source must contain text")
    return Source.of(name, text, data)


def _binary_reason(suffix: str, data: bytes) -> str:
    """Explain why a binary file is rejected, and advise the user what to do instead."""
    if data.startswith(b"{\\rtf"):
        suffix = ".rtf"
    if suffix in OTHERS:
        return f"has the unsupported type {suffix}: save it as {OTHERS[suffix]}"
    if data.startswith(b"PK\x03\x04"):
        return "is an archive: unpack it, or, if it is a document, rename it to end in .docx, .xlsx, .pptx or .epub"
    if data.count(b"\0") * 100 < len(data):  # few NULs: more likely a truncated log than a program
        number = data.partition(b"\0")[0].count(b"\n") + 1
        return f"line {number}: contains a NUL byte, so the file is not text"
    return "is binary: only text, documents and images (PNG, JPEG, WebP, GIF) can be sources"


def _walk(root: Path, entry: str, name: str) -> Iterator[Source]:
    """Yield the sources and omitted files in the folder `root`, each named `name` plus its path below `root`."""
    ignoring, listed = list(_specs_above(root)), 0
    for directory, folders, files in os.walk(root):
        folder = Path(directory)
        if (folder / ".gitignore").is_file():
            ignoring.append((folder, _spec_of(folder)))
        specs = [(base, spec) for base, spec in ignoring if folder.is_relative_to(base)]
        children = [*sorted(f"{child}/" for child in folders), *sorted(set(files).difference([".gitignore"]))]
        folders[:] = [child for child in sorted(folders) if _skip_reason(folder / child, specs, folder=True) is None]
        for child in children:
            path, label = folder / child, f"{name}/{(folder / child).relative_to(root).as_posix()}"
            why = _skip_reason(path, specs, folder=child.endswith("/"))
            try:
                if why is None and not child.endswith("/"):
                    source = _read_file(path, entry, label)
                    if source.image is None:
                        yield source
                    # images in folders are mostly logos, and each one costs as much as a long document in every turn
                    else:
                        why = "is an image: pass the image itself to include it"
            except BadFile as error:
                why = error.problem
            listed += why is not None
            if why is not None and listed <= _MAX_LISTED and child != ".git/":
                yield Source(name=label + "/" * child.endswith("/"), left_out=why)


def _skip_reason(path: Path, specs: Sequence[tuple[Path, GitIgnoreSpec]], *, folder: bool) -> str | None:
    """Return the reason for skipping a path in a folder, or None if its content has to be checked."""
    if path.is_symlink():
        return "is a link"
    if path.name in FOLDERS if folder else is_secret(path):
        return SECRET
    ignored = False
    for base, spec in specs:  # the last matching rule wins
        included = spec.check_file(path.relative_to(base).as_posix() + "/" * folder).include
        ignored = ignored if included is None else included
    return "is in .gitignore" if ignored else None


def _specs_above(root: Path) -> Iterator[tuple[Path, GitIgnoreSpec]]:
    """Yield the ignore rules of the repository containing `root`, from its top folder down to the parent of `root`."""
    above = list(root.parents)
    top = next((index for index, parent in enumerate(above) if (parent / ".git").exists()), None)
    if top is not None and not (root / ".git").exists():
        for depth in range(top, -1, -1):
            if (above[depth] / ".gitignore").is_file():
                yield above[depth], _spec_of(above[depth])


def _spec_of(folder: Path) -> GitIgnoreSpec:
    """Parse a folder's `.gitignore`; raise ConfigurationError if the required library is missing."""
    check_library(f"a folder with {folder / '.gitignore'}", "pathspec", library="pathspec", extra="documents")
    from pathspec import GitIgnoreSpec

    lines = (folder / ".gitignore").read_text("utf-8", errors="replace").splitlines()
    return GitIgnoreSpec.from_lines(lines)
