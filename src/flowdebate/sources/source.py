"""Source: text with a name, pages, numbered lines, a size and a hash."""

from __future__ import annotations

import base64
import operator
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self, TypeAlias

from pydantic import Field

from flowdebate._text import clean_text, counted, is_blank
from flowdebate._util.option_types import Count, check_option
from flowdebate._util.wire import WireModel
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.prompts import explain_escapes, frame, tag_text

if TYPE_CHECKING:
    from flowdebate.sources.diff import Diff


class Page(WireModel):
    """A page, slide, sheet or chapter of a document."""

    start: Annotated[int, Field(ge=0)]
    """Offset of the start of the page in the text, in characters."""
    name: str
    """Name of the page as shown to readers, for example "page 12"."""


def is_none(value: object) -> bool:
    """Return whether a field is None and therefore not serialized."""
    return value is None


class SourceInfo(WireModel):
    """Information about a source, as listed in results; the text is not included."""

    name: str
    size: int = 0
    """Size in bytes of the file, or of the text encoded as UTF-8."""
    sha256: str = ""
    """SHA-256 hash of the file, or of the text encoded as UTF-8."""
    characters: int = 0
    """Length of the text in characters; 0 if the file was not read."""
    pages: int | None = Field(default=None, exclude_if=is_none)
    """Number of pages; None (and omitted from JSON) if the text has no pages."""
    media_type: str | None = Field(default=None, exclude_if=is_none)
    """Media type of an image, such as "image/png"; None (and omitted from JSON) for text."""
    masked: str | None = Field(default=None, exclude_if=is_none)
    """Note about secrets masked in the text; None (and omitted from JSON) if there are none."""
    left_out: str | None = Field(default=None, exclude_if=is_none)
    """Reason why a file was not read; None (and omitted from JSON) if it was read."""
    unread: str | None = Field(default=None, exclude_if=is_none)
    """Content skipped when the document was read, such as "2 pictures"; None (and omitted from JSON) if
    there is none.
    """
    excluded: bool = Field(default=False, exclude_if=operator.not_)
    """True if the user excluded the file with a glob; False is omitted from JSON."""
    commits: str | None = Field(default=None, exclude_if=is_none)
    """Commits compared by the diff; None (and omitted from JSON) if the source is not a diff."""


IMAGES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8[79]a",
    "image/webp": b"RIFF....WEBP",
}
"""Patterns for the first bytes of each image format accepted by providers, keyed by media type."""
MAX_IMAGE_MEGABYTES = 3.75
"""Maximum size of an image in megabytes: Anthropic accepts five megabytes of base64, and other providers
accept more.
"""
AN_IMAGE = "(an image, which is shown to you)"
"""Placeholder text for an image in prompts."""


def image_type(data: bytes) -> str | None:
    """Detect the media type of a supported image from its content; return None for other data."""
    return next((kind for kind, start in IMAGES.items() if re.match(start, data, re.DOTALL)), None)


def is_image(url: str) -> bool:
    """Return whether a data URL contains a supported image."""
    begins, _, encoded = url.partition(",")
    if re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64", begins) is None:
        return False
    try:
        return image_type(base64.b64decode(encoded, validate=True)) is not None
    except ValueError:
        return False


class Source(WireModel):
    """Text to quote in arguments, or an image for models that can read images.

    >>> Source.of("report", "Rents rose.").info.characters
    11
    """

    name: str
    """Name of the source in prompts and quotes."""
    text: str = ""
    image: str | None = Field(default=None, exclude_if=is_none, pattern=r"^data:image/(png|jpeg|gif|webp);base64,")
    """Image as a data URL; None (and omitted from JSON) for text."""
    pages: tuple[Page, ...] = ()
    """The pages, each with its start, in order; empty for text without pages."""
    size: int = 0
    sha256: str = ""
    masked: str | None = Field(default=None, exclude_if=is_none)
    """Note about secrets masked in the text; None (and omitted from JSON) if there are none."""
    left_out: str | None = None
    """Reason why the file, found in a folder or a diff, was not read; None if it was read."""
    unread: str | None = Field(default=None, exclude_if=is_none)
    """Content skipped when the document was read, such as "2 pictures"; None (and omitted from JSON) if
    there is none.
    """
    excluded: bool = Field(default=False, exclude_if=operator.not_)
    """True if the user excluded the file with a glob; False is omitted from JSON."""
    commits: str | None = Field(default=None, exclude_if=is_none)
    """Commits compared by the diff; None (and omitted from JSON) if the source is not a diff."""

    @classmethod
    def of(
        cls, name: str, text: str, data: bytes | None = None, *, pages: Sequence[Page] = (), unread: str = ""
    ) -> Self:
        """Create a source from `text`; `data` is the content of its file, or None if the text is not from a file."""
        data = text.encode(errors="replace") if data is None else data
        hashed = sha256(data).hexdigest()
        fields = {"size": len(data), "sha256": hashed, "unread": unread or None}
        return cls(name=name, text=clean_text(text), pages=tuple(pages), **fields)

    @classmethod
    def of_image(cls, name: str, path: str, data: bytes, kind: str) -> Self:
        """Create a source from an image.

        Raises BadFile, with the image's `path`, if the image is too large for models.
        """
        if len(data) > MAX_IMAGE_MEGABYTES * 1_000_000:
            raise BadFile(path, f"is larger than {MAX_IMAGE_MEGABYTES} MB, the most that providers accept for an image")
        image = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        return cls(name=name, image=image, size=len(data), sha256=sha256(data).hexdigest())

    @classmethod
    def of_excluded(cls, name: str) -> Self:
        """Create the source representing an excluded file."""
        return cls(name=name, left_out="is excluded", excluded=True)

    @property
    def info(self) -> SourceInfo:
        """Summary of the source as shown in results."""
        return SourceInfo(
            name=self.name,
            size=self.size,
            sha256=self.sha256,
            characters=len(self.text),
            pages=len(self.pages) or None,
            media_type=None if self.image is None else self.image[5:].partition(";")[0],
            masked=self.masked,
            left_out=self.left_out,
            unread=self.unread,
            excluded=self.excluded,
            commits=self.commits,
        )

    def page_at(self, place: int) -> str | None:
        """Return the name of the page containing the character at `place`; None if the source has no pages."""
        index = bisect_right(self.pages, place, key=lambda page: page.start)
        return self.pages[index - 1].name if index else None

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the text of each page, along with the names of the source and the page."""
        if not self.pages:
            yield self.name, self.text if self.image is None else AN_IMAGE
        ends = [*[page.start for page in self.pages[1:]], len(self.text)]
        for page, end in zip(self.pages, ends, strict=False):
            if text := self.text[page.start : end].rstrip().lstrip("\r\n"):
                yield f"{self.name}, {page.name}", text


MAX_NAME_LENGTH = 200
"""Maximum length of a source's name in characters."""
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def name_problem(name: str) -> str | None:
    r"""Describe the problem with the name of a source; return None if the name is valid.

    >>> name_problem("report"), name_problem("x" * 201), name_problem("a\nb")
    (None, 'has more than 200 characters', 'has line breaks or other control characters')
    """
    if is_blank(name):
        return "is blank"
    if len(name) > MAX_NAME_LENGTH:
        return f"has more than {MAX_NAME_LENGTH} characters"
    return "has line breaks or other control characters" if _CONTROLS.search(name) else None


def omissions(sources: Sequence[Source | SourceInfo]) -> list[str]:
    """List the omitted files, with reasons, and the content omitted from documents.

    >>> omissions([Source(name="a.png", left_out="is a link"), Source.of("b.docx", "Text.", unread="2 pictures")])
    ['a.png (is a link)', 'in b.docx: 2 pictures']
    """
    files = [f"{source.name} ({source.left_out})" for source in sources if source.left_out is not None]
    return [*files, *(f"in {source.name}: {source.unread}" for source in sources if source.unread is not None)]


def matches_glob(name: str, globs: Sequence[str]) -> bool:
    """Return whether a glob matches a file's path or the last component of the path."""
    return any(fnmatchcase(name, glob) or fnmatchcase(name.rpartition("/")[2], glob) for glob in globs)


_SHORT = 4_000
"""Maximum total length, in characters, of sources shown in full above a question in a terminal (about two screens)."""


def listed(sources: Sequence[Source]) -> str:
    """List sources as plain text: short ones in full, long ones only by name and length.

    >>> print(listed([Source.of("report", "Rents rose."), Source.of("book", "x" * 5_000)]))
    Sources:
    [report] Rents rose.
    [book] (5,000 characters: too long to be shown here)
    """
    lines, room = ["Sources:"], _SHORT
    texts: list[str] = []
    for source in sources:
        pages = f"{counted(len(source.pages), 'page')}, " if source.pages else ""
        text = f"({pages}{len(source.text):,} characters: too long to be shown here)"
        if source.image is not None:
            text = f"(an image, {source.size:,} bytes)"
        elif len(source.text) <= room:
            text, room = source.text, room - len(source.text)
            texts.append(text)
        lines.append(f"[{tag_text(source.name)}] {frame(text)}")
    return "\n".join([*lines, *filter(None, [explain_escapes(*texts)])])


SourcesLike: TypeAlias = "Mapping[str, str | Source] | Sequence[str | Path | Source | Diff] | Diff"
"""Sources for a pattern: text keyed by name, a diff, or a list of sources, diffs, and paths to files and folders ("-"
for stdin, "NAME=FILE" to set a name).
"""


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources with a limit on the space they take up in prompts: `debate(sources=Sources(["docs"], tokens=8_000))`."""

    items: SourcesLike
    """Text keyed by name, a list of paths to files and folders, or a `Diff`."""
    tokens: int | None = field(default=None, kw_only=True)
    """Maximum number of tokens that the sources may take up in a prompt.

    If the sources are longer, each turn gets the passages that best match the question and the latest arguments. None
    means a quarter of the model's context window, or 32,000 if the window's size is unknown.
    """

    def __post_init__(self) -> None:
        check_option(Count, "tokens", self.tokens, location=type(self).__name__)


def check_sources(value: object, *, location: str) -> tuple[Source, ...]:
    """Convert `value` to sources and read their files; None means no sources.

    Raises ConfigurationError if a source is invalid, and BadFile if a file is unusable.
    """
    from flowdebate.sources.diff import Diff, read_diff
    from flowdebate.sources.files import make_source, read_sources

    kinds = "must be a dict that maps names to non-blank text, a list of paths and sources, or a Diff"
    if value is None:
        return ()
    if isinstance(value, Diff):
        value = [value]
    if not isinstance(value, (Mapping, Sequence)) or isinstance(value, (str, bytes)):
        raise ConfigurationError(location, "sources", value, kinds)
    items = value.items() if isinstance(value, Mapping) else [(None, entry) for entry in value]
    sources: list[Source] = []
    for index, (name, entry) in enumerate(items):
        field = f"sources[{index}]" if name is None else f"sources.{name}"
        if isinstance(entry, Source):
            sources.append(entry if name is None else entry.model_copy(update={"name": name}))
        elif name is None and isinstance(entry, Diff):
            sources += read_diff(entry)
        elif name is None and isinstance(entry, (str, Path)):
            sources += read_sources([str(entry)])
        elif isinstance(entry, str) and not is_blank(entry) and isinstance(name, str) and name_problem(name) is None:
            sources.append(make_source(name, entry))
        else:
            problem = name_problem(name) if isinstance(name, str) and not is_blank(name) else None
            raise ConfigurationError(location, field, entry, f"has a name that {problem}" if problem else kinds)
    names = Counter(source.name for source in sources)
    if twice := next((name for name, number in names.items() if number > 1), None):
        raise ConfigurationError(
            location, "sources", twice, "must be sources with different names; NAME=FILE sets a name"
        )
    return tuple(sources)


_DIFF = re.compile(r"\A(?:diff |--- |Index: |commit |From )")
_HUNK = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+(?P<start>\d+)(?:,(?P<new>\d+))? @@")


class Line(NamedTuple):
    """A line of a source."""

    file: str
    """Name of the source; in a diff, the name of the changed file."""
    number: int | None
    """Line number in the current version of the file; None for a removed line or a line outside the hunks of a diff."""
    start: int
    """Offset of the start of the line in the source's text, in characters."""
    text: str
    """Text of the line, without its line break and, in a diff, without its leading sign."""
    sign: str = ""
    """Sign at the start of a line in a diff: "+", "-" or a space; empty for any other line."""


@lru_cache(maxsize=512)  # cached, because a run looks up many quotes in its sources
def number_lines(source: Source) -> tuple[Line, ...]:
    r"""Split a source into lines, each with its file name and line number.

    >>> diff = "--- a/x.py\n+++ b/x.py\n@@ -7,2 +7,2 @@\n def f():\n-    return 1\n+    return 2\n"
    >>> from flowdebate.sources.source import Source
    >>> [(line.file, line.number, line.text) for line in number_lines(Source.of("diff", diff))][3:]
    [('x.py', 7, 'def f():'), ('x.py', None, '    return 1'), ('x.py', 8, '    return 2')]
    """
    # not splitlines(), because editors and git treat only line feeds as line breaks
    texts = source.text.split("\n")
    if texts[-1] == "":
        texts.pop()
    is_diff = _DIFF.match(source.text) and re.search(f"^{_HUNK.pattern}", source.text, re.MULTILINE)
    lines: list[Line] = []
    start, file, number, old, new = 0, source.name, 0, 0, 0
    for index, text in enumerate(texts, start=1):
        line_number, content, sign = None if is_diff else index, text.rstrip("\r"), ""
        if is_diff and (old > 0 or new > 0) and text[:1] != "\\":
            sign, content = content[:1], content[1:]
            old -= text[:1] != "+"
            if text[:1] != "-":
                line_number, number, new = number, number + 1, new - 1
        elif is_diff and (hunk := _HUNK.match(text)):
            number, old, new = int(hunk["start"]), int(hunk["old"] or 1), int(hunk["new"] or 1)
        elif is_diff and text.startswith(("--- ", "+++ ")) and (path := content[4:].split("\t")[0]) != "/dev/null":
            # git quotes and escapes names containing quotes, backslashes or control characters; the source has the
            # plain name
            file = source.name if path.startswith('"') else re.sub(r"^[abciw]/", "", path)
        lines.append(Line(file, line_number, start, content, sign))
        start += len(text) + 1
    return tuple(lines)


def numbered(source: Source, start: int = 0, end: int | None = None) -> str:
    r"""Number the lines of a source between two offsets (by default, all lines).

    >>> from flowdebate.sources.source import Source
    >>> print(numbered(Source.of("x", "one\ntwo")))
        1 one
        2 two
    """
    end = len(source.text) if end is None else end
    lines = number_lines(source)
    ends = [line.start - 1 for line in lines[1:]] + [len(source.text.removesuffix("\n"))] * bool(lines)
    # slice the source's text, to keep a diff's signs
    return "\n".join(
        f"{line.number or '':>5} {source.text[line.start : stop]}"
        for line, stop in zip(lines, ends, strict=True)
        if line.start < end and stop + 1 > start
    )
