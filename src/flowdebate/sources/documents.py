"""Documents as texts: PDF by pages; Word, PowerPoint, Excel, EPUB and HTML as Markdown, by slides and sheets."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import PurePath

from flowdebate._text import error_text
from flowdebate.errors import BadFile
from flowdebate.sources.source import Page, Source

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
