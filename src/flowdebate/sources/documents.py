"""Text extraction from documents.

The parsers run in a child process (see `converter.py`), because a malicious document may crash them.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from importlib.util import find_spec
from itertools import groupby, pairwise, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from lxml.etree import _Element as Element
    from openpyxl.cell.read_only import ReadOnlyCell
    from pypdfium2 import PdfDocument, PdfPage, PdfTextPage

_MEGABYTE = 1_000_000
MAX_TEXT_MEGABYTES = 2
"""Maximum size, in megabytes, of a document's text and of all sources together: about 500,000 tokens. The text is
stored with each run.
"""
MAX_PAGES = 5_000
"""Maximum number of pages, slides or sheets in a document."""
_MAX_UNPACKED_MEGABYTES = 100
"""Maximum unpacked size of a document in megabytes: enough for a book with pictures, but too small for a zip bomb."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_ONLY_TEXT = "contains no text: a scanned document needs OCR first"


class _Unreadable(Exception):
    """Exception that states why a document is rejected."""


@dataclass(slots=True)
class Text:
    """Accumulator for a document's text; raises _Unreadable as soon as the text is too long for a source."""

    parts: list[tuple[str, str]] = field(default_factory=list)
    """Pages, slides or sheets, each with its name; an undivided document has a single part named ""."""
    unread: list[str] = field(default_factory=list)
    """Descriptions of omitted content, such as "2 pictures"."""
    hidden: int = 0
    """Number of passages in the document that are hidden from its readers."""
    _room: int = MAX_TEXT_MEGABYTES * _MEGABYTE

    def add(self, text: str, part: str = "") -> None:
        """Add the text of a page, slide or sheet."""
        self.take(len(text.encode(errors="replace")))
        if len(self.parts) >= MAX_PAGES:
            raise _Unreadable(f"has more than {MAX_PAGES:,} parts: split it")
        self.parts.append((part, text))

    def take(self, size: int) -> None:
        """Count `size` bytes of text toward the limit; raise _Unreadable if the limit is exceeded."""
        self._room -= size
        if self._room < 0:
            raise _Unreadable(f"has more than {MAX_TEXT_MEGABYTES} MB of text: split it, or remove parts of it")

    def fits(self, size: int) -> None:
        """Raise _Unreadable if `size` more bytes of text would exceed the limit."""
        if size > self._room:
            self.take(size)

    def leave_out(self, what: str, number: int = 1) -> None:
        """Record omitted content, such as "1 picture"; do nothing if `number` is 0."""
        if number:
            self.unread.append(f"{number:,} {what}{'s' * (number > 1)}")


# PDF


def _read_pdf(data: bytes, text: Text) -> None:
    from pypdfium2 import PdfDocument, raw

    pdf = PdfDocument(data)
    pdf.init_forms()
    if len(pdf) > MAX_PAGES:
        raise _Unreadable(f"has more than {MAX_PAGES:,} pages: split it")
    scanned, across, hidden = [], [], 0
    for number in range(1, len(pdf) + 1):
        page = pdf[number - 1]
        textpage = page.get_textpage()
        text.fits(textpage.count_chars())
        # U+0002 and U+FFFE each stand for an end-of-line hyphen and the line break after it
        content = re.sub("[\x02\ufffe]", "-\n", textpage.get_text_bounded().replace("\r\n", "\n"))
        notes, unseen = _annotations(pdf, page)
        hidden += unseen
        if not content.strip() and next(page.get_objects(max_depth=1), None) is not None:
            scanned.append(number)
        if _reads_across(textpage, page.get_width()):
            across.append(number)
        text.add("\n".join([content, *notes]), f"page {number}")
        textpage.close()
        page.close()
    if scanned and any(content.strip() for _, content in text.parts):
        text.unread.append(f"{_pages(scanned)} without text: a scan needs OCR first")
    if across:
        text.unread.append(f"order of {_pages(across)}: two columns are read as one")
    text.leave_out("hidden field", hidden)
    text.leave_out("attached file", raw.FPDFDoc_GetAttachmentCount(pdf))


_FEW_LINES, _MAX_PIECES = 3, 300


def _reads_across(textpage: PdfTextPage, width: float) -> bool:
    """Return whether a page's extracted text runs across two columns, as happens with files from some programs."""
    pieces = [textpage.get_rect(index) for index in range(min(textpage.count_rects(), _MAX_PIECES))]
    broken = 0
    for (left, bottom, right, top), (next_left, next_bottom, next_right, _) in pairwise(pieces):
        is_long = min(right - left, next_right - next_left) > width / 5  # longer than most table cells
        broken += is_long and right < next_left and abs(bottom - next_bottom) < top - bottom
    return broken >= _FEW_LINES


def _pages(numbers: Sequence[int]) -> str:
    return f"page{'s' * (len(numbers) > 1)} {_ranges(numbers)}"


def _annotations(pdf: PdfDocument, page: PdfPage) -> tuple[list[str], int]:
    """Return a page's form values and comments, one per line, along with the number of hidden ones."""
    from pypdfium2 import raw

    lines: list[str] = []
    hidden = 0
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        unseen = raw.FPDFAnnot_GetFlags(annotation) & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW)
        line = ""
        if kind == raw.FPDF_ANNOT_WIDGET and pdf.formenv is not None:
            name = _utf16(lambda *buffer: raw.FPDFAnnot_GetFormFieldName(pdf.formenv, annotation, *buffer))  # noqa: B023 - called at once
            value = _utf16(lambda *buffer: raw.FPDFAnnot_GetFormFieldValue(pdf.formenv, annotation, *buffer))  # noqa: B023
            line = f"{name}: {value}" if value.strip() else ""
        elif kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET):
            value = _utf16(lambda *buffer: raw.FPDFAnnot_GetStringValue(annotation, b"Contents", *buffer))  # noqa: B023
            line = f"Comment: {value}" if value.strip() else ""
        raw.FPDFPage_CloseAnnot(annotation)
        if line and unseen:
            hidden += 1
        elif line:
            lines.append(line)
    return lines, hidden


def _utf16(call: Callable[..., int]) -> str:
    """Return the text written by a pdfium function, which reports the required size if called without a buffer."""
    from ctypes import create_string_buffer, sizeof

    from pypdfium2 import raw

    size = call(None, 0)
    buffer = create_string_buffer(size)
    call(raw.FPDF_WCHAR.from_buffer(buffer) if size >= sizeof(raw.FPDF_WCHAR) else None, size)
    return buffer.raw.decode("utf-16-le", errors="replace").rstrip("\0")


def _ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers, combining consecutive numbers into ranges.

    >>> _ranges([2, 3, 4, 7])
    '2-4, 7'
    """
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


# Archive formats: Office, EPUB


def _unpack(data: bytes) -> zipfile.ZipFile:
    """Open a zip archive; raise _Unreadable if it is encrypted or too large, whatever sizes it declares."""
    if data.startswith(_OLD_OFFICE):
        raise _Unreadable(
            "is encrypted, or in a format from before 2007: save it in the current format, without a password"
        )
    packed = zipfile.ZipFile(io.BytesIO(data))
    if any(entry.flag_bits & 1 for entry in packed.infolist()):
        raise _Unreadable("is encrypted: save it without a password")
    room = _MAX_UNPACKED_MEGABYTES * _MEGABYTE
    for entry in packed.infolist():
        if entry.file_size > room:  # the declared size; the loop below subtracts the actual one
            raise _Unreadable(f"unpacks to more than {_MAX_UNPACKED_MEGABYTES} MB")
        with packed.open(entry) as stream:
            while block := stream.read(1 << 16):
                room -= len(block)
    return packed


def _xml(packed: zipfile.ZipFile, name: str) -> Element:
    from lxml.etree import XMLParser, fromstring

    return fromstring(packed.read(name), XMLParser(resolve_entities=False, no_network=True))


def _pictures(packed: zipfile.ZipFile, folder: str) -> int:
    return sum(name.startswith(f"{folder}/media/") for name in packed.namelist())


_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def _read_docx(data: bytes, text: Text) -> None:
    import mammoth
    from lxml.etree import tostring

    packed = _unpack(data)
    names = packed.namelist()
    changed: dict[str, bytes] = {}
    hidden = formulas = 0
    styles = _hidden_styles(_xml(packed, "word/styles.xml")) if "word/styles.xml" in names else frozenset[str]()
    for name in names:
        if re.fullmatch(r"word/(document|footnotes|endnotes)\d*\.xml", name):
            tree = _xml(packed, name)
            dropped, flattened = _drop_hidden(tree, styles), _flatten_formulas(tree)
            if dropped or flattened:
                changed[name] = tostring(tree, encoding="UTF-8", xml_declaration=True)
            hidden, formulas = hidden + dropped, formulas + flattened
    if changed:
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as target:
            for name in names:
                target.writestr(name, changed.get(name) or packed.read(name))
        data = copy.getvalue()
    no_image = mammoth.images.img_element(lambda _: {})
    body = _markdown(_soup(mammoth.convert_to_html(io.BytesIO(data), convert_image=no_image).value), text)
    pieces = [*_margins(packed, "header"), body, *_margins(packed, "footer"), *_comments(packed)]
    text.add("\n\n".join(pieces))
    text.hidden += hidden
    if formulas:
        text.unread.append(f"layout of {formulas:,} formula{'s' * (formulas > 1)}")
    text.leave_out("picture", _pictures(packed, "word"))


def _is_on(properties: Element, name: str) -> bool:
    """Return whether the properties of a text run or style turn a setting on."""
    switch = properties.find(f"{_W}{name}")
    return switch is not None and switch.get(f"{_W}val", "1") not in ("0", "false", "off")


def _hidden_styles(tree: Element) -> frozenset[str]:
    """Return the names of the styles that hide text, either directly or through a base style."""
    based: dict[str, str] = {}
    hidden: set[str] = set()
    for style in tree.iter(f"{_W}style"):
        name, parent, run = style.get(f"{_W}styleId", ""), style.find(f"{_W}basedOn"), style.find(f"{_W}rPr")
        if run is not None and run.find(f"{_W}vanish") is not None:
            if _is_on(run, "vanish"):
                hidden.add(name)
        elif parent is not None:
            based[name] = parent.get(f"{_W}val", "")
    for name in based:
        seen = [name]
        while based.get(seen[-1], seen[-1]) not in seen:
            seen.append(based[seen[-1]])
        if seen[-1] in hidden:
            hidden.add(name)
    return frozenset(hidden)


def _drop_hidden(tree: Element, styles: frozenset[str]) -> int:
    """Remove hidden text from a document, and return the number of hidden passages."""
    number, before = 0, False
    for run in list(tree.iter(f"{_W}r")):
        properties, paragraph = run.find(f"{_W}rPr"), next(run.iterancestors(f"{_W}p"), None)
        references = [] if properties is None else properties.findall(f"{_W}rStyle")
        references += [] if paragraph is None else paragraph.findall(f"{_W}pPr/{_W}pStyle")
        unseen = any(style.get(f"{_W}val") in styles for style in references)
        if properties is not None and properties.find(f"{_W}vanish") is not None:
            unseen = _is_on(properties, "vanish")
        words = "".join(run.itertext(f"{_W}t"))
        if unseen and (parent := run.getparent()) is not None:
            parent.remove(run)
            number += bool(words.strip()) and not before
        before = unseen if words.strip() else before
    return number


def _flatten_formulas(tree: Element) -> int:
    """Replace each formula with its characters, dropping the layout, and return the number of formulas."""
    from lxml.etree import SubElement

    formulas = [element for element in tree.iter(f"{_M}oMath") if element.getparent() is not None]
    for formula in formulas:
        letters = "".join(formula.itertext(f"{_M}t"))
        for child in list(formula):
            formula.remove(child)
        formula.tag = f"{_W}r"
        SubElement(formula, f"{_W}t").text = letters
    return len(formulas)


def _paragraphs(tree: Element) -> Iterator[str]:
    for paragraph in tree.iter(f"{_W}p"):
        if words := "".join(paragraph.itertext(f"{_W}t")).strip():
            yield words


def _margins(packed: zipfile.ZipFile, kind: str) -> list[str]:
    """Return the distinct headers or footers of a document, depending on `kind`."""
    paragraphs: dict[str, None] = {}
    for name in sorted(packed.namelist()):
        if re.fullmatch(rf"word/{kind}\d*\.xml", name):
            tree = _xml(packed, name)
            _drop_hidden(tree, frozenset())
            paragraphs |= dict.fromkeys(_paragraphs(tree))
    return [f"{kind.capitalize()}: {paragraph}" for paragraph in paragraphs]


def _comments(packed: zipfile.ZipFile) -> Iterator[str]:
    if "word/comments.xml" in packed.namelist():
        for comment in _xml(packed, "word/comments.xml").iter(f"{_W}comment"):
            author = comment.get(f"{_W}author", "").strip()
            yield f"Comment{author and f' of {author}'}: {' '.join(_paragraphs(comment))}"


def _read_pptx(data: bytes, text: Text) -> None:
    from pptx import Presentation

    packed = _unpack(data)
    hidden, empty = [], []
    for number, slide in enumerate(Presentation(io.BytesIO(data)).slides, start=1):
        if slide.element.get("show") == "0":
            hidden.append(number)
            continue
        text.hidden += _drop_hidden_shapes(slide.element)
        title = slide.shapes.title
        lines = [line for shape in _in_order(slide.shapes) for line in _lines_of_shape(shape, title)]
        frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if frame is not None and frame.text.strip():
            lines += ["", "### Notes:", frame.text]
        content = "\n".join(lines).replace("\v", "\n")
        if not content.strip():
            empty.append(number)
        text.add(content, f"slide {number}")
    for numbers, why in ((hidden, "hidden"), (empty, "without text")):
        if numbers:
            text.unread.append(f"slide{'s' * (len(numbers) > 1)} {_ranges(numbers)} {why}")
    comments = sum(bool(re.match(r"ppt/comments/.*\.xml$", name)) for name in packed.namelist())
    text.unread += ["comments"] if comments else []
    text.leave_out("picture", _pictures(packed, "ppt"))
    text.leave_out("diagram", sum(bool(re.match(r"ppt/diagrams/data\d*\.xml$", name)) for name in packed.namelist()))


def _drop_hidden_shapes(slide: Element) -> int:
    """Remove hidden shapes from a slide, and return how many of them contained text."""
    hidden = 0
    for properties in list(slide.iter("{*}cNvPr")):
        shape = properties.getparent().getparent()
        if properties.get("hidden") in ("1", "true") and shape.getparent() is not None:
            hidden += any(words.strip() for words in shape.itertext())
            shape.getparent().remove(shape)
    return hidden


def _in_order(shapes: Iterable[object]) -> list[object]:
    """Sort shapes from top to bottom and, within a row, from left to right."""
    return sorted(shapes, key=lambda shape: (getattr(shape, "top", None) or 0, getattr(shape, "left", None) or 0))


def _lines_of_shape(shape: object, title: object) -> Iterator[str]:
    from pptx.shapes.autoshape import Shape
    from pptx.shapes.graphfrm import GraphicFrame
    from pptx.shapes.group import GroupShape
    from pptx.shapes.picture import Picture

    if isinstance(shape, GroupShape):
        for part in _in_order(shape.shapes):
            yield from _lines_of_shape(part, title)
    elif isinstance(shape, GraphicFrame) and shape.has_table:
        yield from _table([cell.text for cell in row.cells] for row in shape.table.rows)
    elif isinstance(shape, GraphicFrame) and shape.has_chart:
        chart = shape.chart
        if chart.has_title and chart.chart_title.has_text_frame:
            yield chart.chart_title.text_frame.text
        labels = [str(label) for label in chart.plots[0].categories]
        yield from _table([["", *labels], *([series.name, *map(_value, series.values)] for series in chart.series)])
    elif isinstance(shape, Picture):
        description = shape._element._nvXxPr.cNvPr.get("descr", "")  # noqa: SLF001 - python-pptx has no name for it
        yield from [f"[picture: {description}]"] if description.strip() else []
    elif isinstance(shape, Shape) and shape.has_text_frame and shape.text_frame.text.strip():
        yield f"{'# ' if title is not None and shape == title else ''}{shape.text_frame.text}"


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Format the rows of a table as Markdown, with each cell on a single line."""
    for number, row in enumerate(rows):
        yield f"| {' | '.join(' '.join(cell.split()) for cell in row)} |"
        if number == 0:
            yield "|" + " --- |" * len(row)


# Spreadsheets

_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"


@dataclass(slots=True)
class _Sheet:
    """Hidden rows and columns of a sheet, and whether the sheet contains formulas.

    openpyxl does not provide this information when it reads row by row.
    """

    rows: set[int] = field(default_factory=set)
    """Numbers of the hidden rows."""
    columns: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of the first and last column of each group of hidden columns."""
    has_formulas: bool = False

    def hides(self, cell: ReadOnlyCell) -> bool:
        """Return whether a cell is in a hidden row or column."""
        return cell.row in self.rows or any(first <= cell.column <= last for first, last in self.columns)


def _read_xlsx(data: bytes, text: Text) -> None:
    from openpyxl import load_workbook

    packed = _unpack(data)
    paths = _paths_of_sheets(packed)
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    hidden_sheets, hidden_cells, unknown = [], 0, 0
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            hidden_sheets.append(sheet.title)
            continue
        layout = _look_at_sheet(packed, paths[sheet.title]) if sheet.title in paths else _Sheet()
        formulas: Iterable[Sequence[ReadOnlyCell]] = repeat(())
        if layout.has_formulas:
            entered = load_workbook(io.BytesIO(data), read_only=True)[sheet.title]
            entered.reset_dimensions()
            formulas = entered.iter_rows()
        sheet.reset_dimensions()  # the dimensions stated in the file may be wrong
        rows: list[dict[int, str]] = []
        for cells, row_formulas in zip(sheet.iter_rows(), formulas, strict=False):
            row, hidden = _read_row(cells, row_formulas, layout, text)
            hidden_cells += hidden
            unknown += sum(cells[column].value is None for column in row)
            if row:
                rows.append(row)
        columns = sorted({column for row in rows for column in row})
        # the table's vertical bars count as text too, and must be counted before the table is built
        text.take(3 * len(rows) * len(columns))
        table = _table([row.get(column, "") for column in columns] for row in rows)
        text.parts.append((f"sheet {sheet.title}", "\n".join(table)))
    if hidden_sheets:
        text.unread.append(f"hidden sheet{'s' * (len(hidden_sheets) > 1)} {', '.join(hidden_sheets)}")
    text.leave_out("hidden cell", hidden_cells)
    if unknown:
        text.unread.append(
            f"results of {unknown:,} formula{'s' * (unknown > 1)}: open and save the file to compute them"
        )
    names = packed.namelist()
    text.unread += ["comments"] if any(re.match(r"xl/(comments|threadedComments/)", name) for name in names) else []
    text.leave_out("chart", sum(bool(re.match(r"xl/charts/chart\d*\.xml$", name)) for name in names))
    text.leave_out("picture", _pictures(packed, "xl"))


def _read_row(
    cells: Sequence[ReadOnlyCell], formulas: Sequence[ReadOnlyCell], layout: _Sheet, text: Text
) -> tuple[dict[int, str], int]:
    """Return the visible, non-blank cells of a row, keyed by column, and the number of hidden cells.

    If a cell's result has not been computed, its formula from `formulas` is shown instead.
    """
    row: dict[int, str] = {}
    hidden = 0
    for column, cell in enumerate(cells):
        if cell.value is None and (column >= len(formulas) or formulas[column].value is None):
            continue
        content = str(formulas[column].value) if cell.value is None else _cell(cell)
        if layout.hides(cell):
            hidden += bool(content.strip())
        elif content.strip():
            row[column] = content
            text.take(len(content.encode(errors="replace")))
    return row, hidden


def _paths_of_sheets(packed: zipfile.ZipFile) -> dict[str, str]:
    """Return each sheet's path in the archive, keyed by sheet title."""
    links = _xml(packed, "xl/_rels/workbook.xml.rels")
    targets = {link.get("Id"): posixpath.normpath(posixpath.join("/xl", link.get("Target", ""))) for link in links}
    sheets = _xml(packed, "xl/workbook.xml").iter(f"{_S}sheet")
    paths = {sheet.get("name", ""): targets.get(sheet.get(f"{_R}id"), "").lstrip("/") for sheet in sheets}
    return {title: path for title, path in paths.items() if path in packed.namelist()}


def _look_at_sheet(packed: zipfile.ZipFile, path: str) -> _Sheet:
    from lxml.etree import iterparse

    layout = _Sheet()
    with packed.open(path) as stream:
        tags = (f"{_S}row", f"{_S}col", f"{_S}f", f"{_S}c")
        for _, element in iterparse(stream, tag=tags, resolve_entities=False, no_network=True):
            if element.tag == f"{_S}f":
                layout.has_formulas = True
                continue
            if element.get("hidden") in ("1", "true"):
                if element.tag == f"{_S}row" and element.get("r", "").isdecimal():
                    layout.rows.add(int(element.get("r", "")))
                elif element.tag == f"{_S}col":
                    layout.columns.append((int(element.get("min", "0")), int(element.get("max", "0"))))
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    return layout


def _cell(cell: ReadOnlyCell) -> str:
    """Format a cell's value as the sheet displays it, for example as a percentage or with leading zeros."""
    value, form = cell.value, cell.number_format or "General"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if re.fullmatch(r"0(\.0+)?%", form):
            return f"{_value(round(value * 100, 10))}%"
        if re.fullmatch(r"0{2,}", form) and float(value).is_integer():
            return f"{int(value):0{len(form)}d}"
    return _value(value)


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < _ALL_DIGITS:
        return str(int(value))
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


_ALL_DIGITS = 1e15
"""Limit below which integers are stored exactly in spreadsheets."""


# HTML, books and notebooks


def _soup(data: bytes | str) -> BeautifulSoup:
    from bs4 import BeautifulSoup

    # decode as UTF-8 unless the page declares another encoding or is not valid UTF-8
    return BeautifulSoup(data, "html.parser", from_encoding="utf-8" if isinstance(data, bytes) else None)


def _markdown(soup: BeautifulSoup, text: Text) -> str:
    """Convert the visible text of a web page to Markdown."""
    from markdownify import ATX, MarkdownConverter

    text.hidden += _drop_unseen(soup)
    _fill_in(soup)
    for element in soup("img"):
        description = str(element.get("alt", "")).strip()
        element.replace_with(f"[picture: {description}]" if description else "")
    for element in soup("a", href=re.compile(r"^(?!https?:|mailto:)", re.IGNORECASE)):
        element.unwrap()
    converter = MarkdownConverter(heading_style=ATX, escape_asterisks=False, escape_underscores=False)
    markdown: str = converter.convert_soup(soup.body or soup)
    return re.sub(r"\n{3,}", "\n\n", markdown).strip()


def _drop_unseen(soup: BeautifulSoup) -> int:
    """Remove invisible elements from a web page, and return the number that contained text."""
    for element in soup(["script", "style", "template"]):
        element.decompose()
    hidden = 0
    for element in soup(_is_unseen):
        if not element.decomposed:  # skip elements already removed along with a parent
            hidden += bool(element.get_text().strip())
            element.decompose()
    return hidden


def _fill_in(soup: BeautifulSoup) -> None:
    """Replace each form field of a web page with its value."""
    for element in soup("input"):
        value = str(element.get("value", ""))
        if element.get("type") in ("checkbox", "radio"):
            value = "[x] " if element.has_attr("checked") else "[ ] "
        element.replace_with(value)
    for element in soup("select"):
        labels = [str(option.find(string=True) or "").strip() for option in element("option", selected=True)]
        if labels:
            element.replace_with(", ".join(labels))


_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def _is_unseen(element: object) -> bool:
    attributes = getattr(element, "attrs", {})
    return "hidden" in attributes or _UNSEEN.search(str(attributes.get("style", ""))) is not None


def _read_html(data: bytes, text: Text) -> None:
    text.add(_markdown(_soup(data), text))


def _read_epub(data: bytes, text: Text) -> None:
    packed = _unpack(data)
    names = frozenset(packed.namelist())
    root = next(_xml(packed, "META-INF/container.xml").iter("{*}rootfile")).get("full-path", "")
    tree, folder = _xml(packed, root), posixpath.dirname(root)
    items = {item.get("id"): item.get("href", "") for item in tree.iter("{*}item")}
    metadata = [
        f"{name.capitalize()}: {element.text}" for name in ("title", "creator") for element in tree.iter(f"{{*}}{name}")
    ]
    chapters: list[str] = ["\n".join(metadata)] if metadata else []
    missing = 0
    for link in tree.iter("{*}itemref"):
        href = items.get(link.get("idref"), "")
        paths = [posixpath.normpath(posixpath.join(folder, path)) for path in (unquote(href), href)]
        path = next((path for path in paths if path in names), None)
        missing += path is None
        if path is not None:
            chapters.append(_markdown(_soup(packed.read(path)), text))
            text.fits(sum(map(len, chapters)))
    text.add("\n\n".join(chapters))
    text.leave_out("missing chapter", missing)
    text.leave_out("picture", sum(bool(re.search(r"\.(png|jpe?g|gif|svg|webp)$", name)) for name in names))


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def _read_notebook(data: bytes, text: Text) -> None:
    notebook = json.loads(data)
    outputs: dict[str, int] = {}
    for number, cell in enumerate(notebook["cells"], start=1):
        lines = [_joined(cell.get("source", ""))]
        for output in cell.get("outputs", ()):
            content = output.get("data", {})
            result = output.get("text") or content.get("text/plain") or output.get("traceback")
            if result:
                between = "\n" if "traceback" in output else ""
                lines.append(f"Output:\n{_ESCAPES.sub('', _joined(result, between))}")
            for kind in content:
                if not result or not kind.startswith("text/"):
                    outputs[kind] = outputs.get(kind, 0) + 1
        pictures = sum(len(formats) for formats in cell.get("attachments", {}).values())
        outputs["image/"] = outputs.get("image/", 0) + pictures
        text.add("\n\n".join(line for line in lines if line.strip()), f"cell {number}")
    text.leave_out("picture", sum(number for kind, number in outputs.items() if kind.startswith("image/")))
    for kind, number in outputs.items():
        if not kind.startswith("image/"):
            text.leave_out(f"{kind} output", number)


def _joined(lines: str | list[str], between: str = "") -> str:
    return lines if isinstance(lines, str) else between.join(lines)


# Document kinds


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document."""

    read: Callable[[bytes, Text], None]
    libraries: tuple[str, ...] = ()
    """Modules required to read documents of this kind; install them with the `flowdebate[documents]` extra."""

    @property
    def is_installed(self) -> bool:
        """Return whether all modules required for this kind are installed."""
        return all(map(_is_installed, self.libraries))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # raised if sys.modules maps the module to None, which blocks its import
        return False


_HTML = Kind(_read_html, ("bs4", "markdownify"))
_DOCX = Kind(_read_docx, ("lxml", "mammoth", "bs4", "markdownify"))
_PPTX = Kind(_read_pptx, ("pptx",))
_XLSX = Kind(_read_xlsx, ("lxml", "openpyxl"))
KINDS = {
    ".pdf": Kind(_read_pdf, ("pypdfium2",)),
    **dict.fromkeys((".docx", ".docm"), _DOCX),
    **dict.fromkeys((".pptx", ".pptm"), _PPTX),
    **dict.fromkeys((".xlsx", ".xlsm"), _XLSX),
    **dict.fromkeys((".html", ".htm"), _HTML),
    ".epub": Kind(_read_epub, ("lxml", "bs4", "markdownify")),
    ".ipynb": Kind(_read_notebook),
}
"""Supported document kinds, keyed by file suffix."""
OTHERS = {
    **dict.fromkeys((".doc", ".dot", ".odt", ".rtf", ".pages", ".wpd"), ".docx"),
    **dict.fromkeys((".xls", ".xlt", ".xlsb", ".ods", ".numbers"), ".xlsx"),
    **dict.fromkeys((".ppt", ".pps", ".odp"), ".pptx"),
    **dict.fromkeys((".mobi", ".azw3"), ".epub"),
}
"""Suffixes of unsupported document kinds, each mapped to the supported suffix suggested instead."""


def read_document(data: bytes, kind: str) -> Text:
    """Read a document of one of the `KINDS`; raise _Unreadable if the document contains no text."""
    text = Text()
    what = f"{kind[1:].upper()} document"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries warn about oddities in documents
            KINDS[kind].read(data, text)
    except (MemoryError, _Unreadable):
        raise
    except RecursionError:
        raise _Unreadable(f"is not a readable {what}: it is nested too deeply") from None
    except Exception as error:  # noqa: BLE001 - a hostile document may make any library raise anything
        if "password" in str(error).lower():
            raise _Unreadable("is encrypted: save it without a password") from None
        why = re.sub(r"\s+", " ", str(error))[:200] or type(error).__name__
        raise _Unreadable(f"is not a readable {what}: {why}") from None
    text.leave_out("hidden passage", text.hidden)
    if not any(content.strip() for _, content in text.parts):
        raise _Unreadable(_ONLY_TEXT if kind == ".pdf" else "contains no text")
    return text


# Child process


def serve(memory: int, seconds: float) -> None:
    """Read documents from stdin, one after another, until the parent process exits.

    Each request consists of a line of JSON followed by the bytes of the document; each answer is a line of JSON.
    `memory` is this process's memory limit in megabytes. The process exits if a document takes much longer than
    `seconds` or takes up too much memory, or after the process has been idle for a long time.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep the libraries' output from mixing with the answers
    _limit_memory(memory)
    with suppress(AttributeError, OSError):
        os.nice(10)  # low priority, so that servers on this machine come first
    while True:
        _end_in(_IDLE)
        if not (head := requests.readline()):
            return
        request = json.loads(head)
        data = requests.read(request["size"])
        _end_in(seconds + _GRACE)
        _end_with_parent(requests, on=True)
        try:
            text = read_document(data, request["kind"])
            answer: dict[str, object] = {"parts": text.parts, "unread": text.unread}
        except _Unreadable as error:
            answer = {"problem": str(error)}
        except MemoryError:
            answer = {"isFull": True}
        del data
        line = json.dumps(answer).encode()
        _end_with_parent(requests, on=False)
        answers.write(line + b"\n")
        answers.flush()
        if "isFull" in answer or resident_memory(os.getpid()) > memory * _MEGABYTE // 2:
            return  # this process has used too much memory; the next document is read in a fresh process


_IDLE, _GRACE = 60.0, 10.0
"""Time in seconds after which an idle child process exits, and time by which a busy child process may exceed a
document's time limit before it exits. By then, its parent has normally killed it.
"""


def _limit_memory(megabytes: int) -> None:
    """Limit this process's memory if the system supports it (Linux counts only writable memory)."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        room = megabytes * _MEGABYTE * 9 // 10  # the rest is reserved for the libraries' code
        resource.setrlimit(resource.RLIMIT_DATA, (room, room))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process, in bytes; return 0 if the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _end_in(seconds: float) -> None:
    """Terminate this process after the given number of seconds, even if the interpreter is blocked."""
    import faulthandler

    faulthandler.dump_traceback_later(seconds, exit=True, file=2)


def _end_with_parent(requests: IO[bytes], *, on: bool) -> None:
    """Enable or disable a signal that terminates this process when its parent exits and stdin is closed."""
    with suppress(ImportError, AttributeError, OSError):
        import fcntl
        import select

        flags = fcntl.fcntl(requests, fcntl.F_GETFL)
        if on:
            fcntl.fcntl(requests, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(requests, fcntl.F_SETFL, flags | os.O_ASYNC if on else flags & ~os.O_ASYNC)
        if on and select.select([requests], [], [], 0)[0]:
            os._exit(1)  # the parent is already gone
