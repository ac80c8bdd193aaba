"""Reading of sources: files and documents as texts, folders, stdin, diffs; no secrets; errors for what is none."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from flowdebate._text import error_text, is_blank
from flowdebate._util.validation import check_library
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.sources.secrets import FOLDERS, SECRET, holds_key, is_secret, mask_secrets
from flowdebate.sources.source import Page, Source, image_type

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_CONVERTERS = {
    ".docx": "Docx",
    ".pptx": "Pptx",
    ".xlsx": "Xlsx",
    ".epub": "Epub",
    ".html": "Html",
    ".htm": "Html",
}
_ZIPPED = (".docx", ".pptx", ".xlsx", ".epub")
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_MOST_UNPACKED = 100_000_000
"""Bytes: a zip bomb has more, a book with its pictures has not."""
# Lines with which a slide and a sheet begin; the text of a cell is behind a bar.
_PARTS = {
    ".pptx": (re.compile(r"^<!-- Slide number: (\d+) -->\n", re.MULTILINE), "slide {}"),
    ".xlsx": (re.compile(r"^## (.+)\n", re.MULTILINE), "sheet {}"),
}


def kind_of(name: str, data: bytes) -> str | None:
    """The suffix of a document; None for what is read as text."""
    suffix = PurePath(name).suffix.lower()
    return ".pdf" if data.startswith(b"%PDF-") else suffix if suffix in (*_CONVERTERS, ".pdf") else None


def read_document(name: str, given: str, data: bytes, kind: str) -> Source:
    """The source of a document; BadFile, with the path as it was `given`, for one that cannot be read."""
    what = f"{kind[1:].upper()} document"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries, about what is odd in a document
            parts = list(_pages_of(data) if kind == ".pdf" else _parts_of(given, data, kind))
    except ImportError:
        raise BadFile(given, f"is a {what}: pip install 'flowdebate[documents]' reads it") from None
    except (BadFile, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a hostile document may make any library raise anything
        encrypted = "password" in str(error).lower()
        why = "is encrypted: save it without its password" if encrypted else f"is no {what} that can be read"
        raise BadFile(given, why if encrypted else f"{why}: {error_text(error)}") from None
    text, pages = "", []
    for page, content in parts:
        if page:
            pages.append(Page(start=len(text), name=page))
        text += f"{content.strip()}\n\n"
    if not text.strip():
        raise BadFile(given, "has no text in it: a scanned document needs OCR first")
    return Source.of(name, text, data, pages=pages)


def _pages_of(data: bytes) -> Iterable[tuple[str, str]]:
    # not markitdown's converter, which keeps no pages, and takes minutes for a book
    from pypdfium2 import PdfDocument

    pdf = PdfDocument(data)
    try:
        for number in range(len(pdf)):
            page = pdf[number]
            text = page.get_textpage().get_text_bounded()
            page.close()
            # U+FFFE stands for the hyphen at the end of a line
            yield f"page {number + 1}", text.replace("\r\n", "\n").replace("\ufffe", "-\n")
    finally:
        pdf.close()


def _parts_of(given: str, data: bytes, kind: str) -> Iterable[tuple[str, str]]:
    if kind in _ZIPPED:
        if data.startswith(_OLD_OFFICE):
            raise BadFile(
                given, "is encrypted, or of a version before 2007: save it as it is today, without a password"
            )
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if any(each.flag_bits & 1 for each in packed.infolist()):
                raise BadFile(given, "is encrypted: save it without its password")
            if sum(each.file_size for each in packed.infolist()) > _MOST_UNPACKED:
                raise BadFile(given, f"unpacks to more than {_MOST_UNPACKED // 1_000_000} MB")
    # the converters themselves: `MarkItDown` loads a model that guesses what a file is
    from markitdown import StreamInfo, converters

    converter = getattr(converters, f"{_CONVERTERS[kind]}Converter")()
    text = converter.convert(io.BytesIO(data), StreamInfo(extension=kind, charset="utf-8")).markdown
    pattern, name = _PARTS.get(kind, (None, ""))
    begins = [] if pattern is None else list(pattern.finditer(text))
    if not begins:
        return [("", text)]
    ends = [*(match.start() for match in begins[1:]), len(text)]
    return [(name.format(match[1].strip()), text[match.end() : end]) for match, end in zip(begins, ends, strict=True)]


MEGABYTE = 1_000_000
MOST_OF_FILE = 20
"""Megabytes of a file: a document of a thousand pages has fewer."""
MOST_OF_TEXT = 2
"""Megabytes of the text of all sources: 500,000 tokens, which are stored with each run."""
MOST_OF_IMAGES = 10
"""Megabytes of all images, each of which goes to the provider with every turn: some take 20 in a request, as base64."""
_MOST_LISTED = 200
"""Files of a folder that are listed as left out."""


def read_sources(given: Sequence[str], *, folder: Path = Path()) -> list[Source]:
    """The sources at paths of files and folders, relative to `folder`: "-" is stdin, and "NAME=FILE" gives a name.

    The files of a folder are read without secrets, links, what its `.gitignore` names and what is no text: those are
    listed with the reason in `left_out`.

    BadFile with the path and the reason for what cannot be used, and for more than 2 MB of text or 10 of images in all.
    """
    found: list[Source] = []
    for each in given:
        name, path = _named(each, folder)
        if each == "-":
            found.append(read_content("stdin", "-", _read_stdin()))
            continue
        if path.is_dir() and not path.is_symlink():
            root = path.resolve()
            if FOLDERS.intersection(root.parts):
                raise BadFile(each, f"{SECRET}, and is never read")
            read = list(_walk(root, each, name or root.name))
            if not any(source.left_out is None for source in read):
                raise BadFile(each, "is a folder without any file that can be read")
            found += read
        else:
            found.append(_read_file(path, each, name or path.name))
        check_size(found, each)
    return found


def check_size(sources: Sequence[Source], given: str) -> None:
    """BadFile for more than can be stored with a run and sent with each turn, after the source `given`."""
    if sum(len(source.text.encode()) for source in sources) > MOST_OF_TEXT * MEGABYTE:
        raise BadFile(
            given, f"makes more than {MOST_OF_TEXT} MB of text: name fewer files, or commits that differ less"
        )
    if sum(source.size for source in sources if source.image is not None) > MOST_OF_IMAGES * MEGABYTE:
        raise BadFile(given, f"makes more than {MOST_OF_IMAGES} MB of images: name fewer, or smaller ones")


def allowed_folders(given: Iterable[str | Path], *, where: str) -> tuple[Path, ...]:
    """The folders `allow_sources`; ConfigurationError for what is none."""
    folders = tuple(Path(each).resolve() for each in given)
    for folder in folders:
        if not folder.is_dir():
            raise ConfigurationError(where, "allow_sources", str(folder), "folders that there are")
    return folders


def outside_of(folders: Sequence[Path], given: Sequence[str]) -> list[str]:
    """Those of the sources `given` that are not below one of `folders`, such as stdin."""
    paths = {each: _named(each, Path())[1] for each in given}
    return [
        each for each, path in paths.items() if each == "-" or not any(_is_within(path, folder) for folder in folders)
    ]


def _named(given: str, folder: Path) -> tuple[str | None, Path]:
    """The name that `given` has for its file, if any, and the file."""
    name, sign, rest = given.partition("=")
    path = folder / given
    if sign and name.strip() and rest and not os.path.lexists(path):
        return name.strip(), folder / rest
    return None, path


def _is_within(path: Path, allowed: Path) -> bool:
    """Whether `path` is below `allowed`, also when all links are followed."""
    return path.resolve().is_relative_to(allowed.resolve())


def _read_stdin() -> bytes:
    if sys.stdin.isatty():
        raise BadFile("-", "is a terminal: pipe a text into this command")
    data = sys.stdin.buffer.read(MOST_OF_FILE * MEGABYTE + 1)
    if len(data) > MOST_OF_FILE * MEGABYTE:
        raise BadFile("-", f"is larger than {MOST_OF_FILE} MB")
    return data


def _read_file(path: Path, given: str, name: str) -> Source:
    """The source of one file; BadFile, with the path as it was `given`, for what is none."""
    try:
        if path.is_symlink() and not _is_within(path, path.parent):
            raise BadFile(given, "is a link out of its folder: name the file itself")
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadFile(given, 'is no file: what a program writes can be piped in, as "-"')
        if is_secret(path) or is_secret(path.resolve()):  # a link beside a secret may have any name
            raise BadFile(given, f"{SECRET}, and is never read")
        with path.open("rb") as file:
            data = file.read(MOST_OF_FILE * MEGABYTE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error_text(error)
        raise BadFile(given, f"cannot be read: {reason}") from None
    if len(data) > MOST_OF_FILE * MEGABYTE:
        raise BadFile(given, f"is larger than {MOST_OF_FILE} MB")
    return read_content(name, given, data)


def read_content(name: str, given: str, data: bytes) -> Source:
    """The source with the content `data`, without secrets; BadFile for what is no text, no document and no image."""
    source = _read_content(name, given, data)
    text, masked = mask_secrets(source.text)
    return source if masked is None else source.model_copy(update={"text": text, "masked": masked})


def _read_content(name: str, given: str, data: bytes) -> Source:
    if holds_key(data):
        raise BadFile(given, f"{SECRET}, and is never read")
    kind = kind_of(name if name != "stdin" else "", data)
    if kind is not None:
        return read_document(name, given, data, kind)
    if (image := image_type(data)) is not None:
        return Source.of_image(name, given, data, image)
    if b"\0" in data:
        raise BadFile(given, "is binary: only texts, documents and images (PNG, JPEG, WebP, GIF) can be sources")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadFile(given, f"line {line}: is not UTF-8") from None
    if is_blank(text):
        raise BadFile(given, "is empty: a source has text in it")
    return Source.of(name, text, data)


def _walk(root: Path, given: str, name: str) -> Iterator[Source]:
    """The sources in the folder `root`, named by their paths below `name`, and what was left out of it."""
    ignoring, listed = list(_specs_above(root)), 0
    for at, folders, files in os.walk(root):
        here = Path(at)
        if (here / ".gitignore").is_file():
            ignoring.append((here, _spec_of(here)))
        specs = [(base, spec) for base, spec in ignoring if here.is_relative_to(base)]
        found = [*sorted(f"{each}/" for each in folders), *sorted(set(files).difference([".gitignore"]))]
        folders[:] = [each for each in sorted(folders) if _why_not(here / each, specs, folder=True) is None]
        for each in found:
            path, shown = here / each, f"{name}/{(here / each).relative_to(root).as_posix()}"
            why = _why_not(path, specs, folder=each.endswith("/"))
            try:
                if why is None and not each.endswith("/"):
                    source = _read_file(path, given, shown)
                    if source.image is None:
                        yield source
                    else:  # most are logos, and each costs as much as a long text in every turn
                        why = "is an image: name it itself to show it"
            except BadFile as error:
                why = error.problem
            listed += why is not None
            if why is not None and listed <= _MOST_LISTED and each != ".git/":
                yield Source(name=shown + "/" * each.endswith("/"), left_out=why)


def _why_not(path: Path, specs: Sequence[tuple[Path, GitIgnoreSpec]], *, folder: bool) -> str | None:
    """Why something in a folder is not read; None if nothing but its content may forbid it."""
    if path.is_symlink():
        return "is a link"
    if path.name in FOLDERS if folder else is_secret(path):
        return SECRET
    ignored = False
    for base, spec in specs:  # the last one that has a rule for it decides
        found = spec.check_file(path.relative_to(base).as_posix() + "/" * folder).include
        ignored = ignored if found is None else found
    return "is in .gitignore" if ignored else None


def _specs_above(root: Path) -> Iterator[tuple[Path, GitIgnoreSpec]]:
    """What the repository around `root` ignores, from its top down to above `root`."""
    above = list(root.parents)
    top = next((index for index, each in enumerate(above) if (each / ".git").exists()), None)
    if top is not None and not (root / ".git").exists():
        for depth in range(top, -1, -1):
            if (above[depth] / ".gitignore").is_file():
                yield above[depth], _spec_of(above[depth])


def _spec_of(folder: Path) -> GitIgnoreSpec:
    """What the `.gitignore` of a folder ignores; ConfigurationError without the library: nothing is read by guess."""
    check_library(f"a folder with {folder / '.gitignore'}", "pathspec", library="pathspec", extra="documents")
    from pathspec import GitIgnoreSpec

    lines = (folder / ".gitignore").read_text("utf-8", errors="replace").splitlines()
    return GitIgnoreSpec.from_lines(lines)
