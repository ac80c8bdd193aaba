"""Documents that exhaust memory, never end, or break their parsers: `CORPUS`, by kind and name."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping

__all__ = ("CORPUS", "Make", "cases")

Make = Callable[[], bytes]


# Archives


def pack_files(files: Mapping[str, str | bytes]) -> bytes:
    """Pack files into an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def set_size(data: bytes, name: str, size: int) -> bytes:
    """Change the declared size of an archive entry, in both places."""
    changed = bytearray(data)
    raw = name.encode()
    for signature, at_size, at_name in ((b"PK\x03\x04", 22, 30), (b"PK\x01\x02", 24, 46)):
        start = -1
        while (start := changed.find(signature, start + 1)) >= 0:
            if changed[start + at_name : start + at_name + len(raw)] == raw:
                changed[start + at_size : start + at_size + 4] = struct.pack("<I", size)
    return bytes(changed)


_TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
_RELATIONS = '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "application/vnd.openxmlformats-officedocument"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(body: str, **files: str | bytes) -> bytes:
    """Pack a Word document."""
    return pack_files(
        {
            "[Content_Types].xml": f'{_TYPES}<Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
            f'PartName="/word/document.xml" ContentType="{_MAIN}.wordprocessingml.document.main+xml"/></Types>',
            "_rels/.rels": f'{_RELATIONS}<Relationship Id="a" Type="{_OFFICE}/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<?xml version="1.0"?><w:document {_W}><w:body>{body}</w:body></w:document>',
            **{f"word/{name.replace('__', '/')}": content for name, content in files.items()},
        }
    )


def paragraph(text: str) -> str:
    """Write a paragraph for a Word document."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def xlsx(rows: str, *, after: str = "", before: str = "", strings: str | None = None) -> bytes:
    """Pack a spreadsheet with one sheet."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    sheet = f'<?xml version="1.0"?><worksheet {main}>{before}<sheetData>{rows}</sheetData>{after}</worksheet>'
    files = {
        "[Content_Types].xml": f'{_TYPES}<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
        f'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{_MAIN}.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" '
        f'ContentType="{_MAIN}.spreadsheetml.worksheet+xml"/><Override PartName="/xl/sharedStrings.xml" '
        f'ContentType="{_MAIN}.spreadsheetml.sharedStrings+xml"/></Types>',
        "_rels/.rels": f'{_RELATIONS}<Relationship Id="a" Type="{_OFFICE}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<?xml version="1.0"?><workbook {main} xmlns:r="{_OFFICE}"><sheets>'
        '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{_RELATIONS}<Relationship Id="r1" Type="{_OFFICE}/worksheet" '
        f'Target="worksheets/sheet1.xml"/><Relationship Id="r2" Type="{_OFFICE}/sharedStrings" '
        'Target="sharedStrings.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": sheet,
        "xl/sharedStrings.xml": f'<?xml version="1.0"?><sst {main}>{strings or ""}</sst>',
    }
    return pack_files(files)


def cell(place: str, value: object = 1) -> str:
    """Write a cell that contains a number."""
    return f'<c r="{place}"><v>{value}</v></c>'


def row(number: int, cells: str) -> str:
    """Write a row."""
    return f'<row r="{number}">{cells}</row>'


def column_letters(number: int) -> str:
    """Return the letters of a column; 1 is the first column."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def epub(chapter: str | bytes, *, times: int = 1) -> bytes:
    """Pack a book whose only chapter is listed this many times."""
    chapters = '<itemref idref="c"/>' * times
    return pack_files(
        {
            "META-INF/container.xml": '<?xml version="1.0"?><container><rootfiles>'
            '<rootfile full-path="content.opf"/></rootfiles></container>',
            "content.opf": '<?xml version="1.0"?><package><manifest><item id="c" href="c.xhtml"/></manifest>'
            f"<spine>{chapters}</spine></package>",
            "c.xhtml": chapter,
        }
    )


def pptx(*, times: int = 1, table: str = "", picture: bytes | None = None) -> bytes:
    """Create a presentation whose only slide is listed this many times."""
    from pptx import Presentation

    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Trams " * 50
    if table:
        slide.shapes.add_table(2, 2, 0, 0, 100, 100).table.cell(0, 0).text = "Cell"
    if picture is not None:
        slide.shapes.add_picture(io.BytesIO(png(8, 8)), 0, 0, 100, 100)
    buffer = io.BytesIO()
    deck.save(buffer)
    with zipfile.ZipFile(buffer) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    listed = files["ppt/presentation.xml"]
    start, end = listed.index(b"<p:sldId "), listed.index(b"</p:sldIdLst>")
    files["ppt/presentation.xml"] = listed[:start] + listed[start:end] * times + listed[end:]
    if table:
        name = "ppt/slides/slide1.xml"
        files[name] = files[name].replace(b"<a:tc>", f"<a:tc {table}>".encode())
    if picture is not None:
        files["ppt/media/image1.png"] = picture
    return pack_files(files)


# PDF


def pdf(*objects: str | bytes) -> bytes:
    """Write a PDF from these objects, the first of which is the catalog; the cross-reference table is omitted."""
    data = b"%PDF-1.7\n"
    for number, content in enumerate(objects, start=1):
        data += f"{number} 0 obj\n".encode() + (content.encode() if isinstance(content, str) else content)
        data += b"\nendobj\n"
    return data + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"


def stream(data: bytes, attributes: str = "") -> bytes:
    """Write a compressed PDF stream."""
    return raw_stream(zlib.compress(data, 9), f"/Filter /FlateDecode {attributes}")


def raw_stream(data: bytes, attributes: str) -> bytes:
    """Write a PDF stream without compressing it."""
    return f"<< /Length {len(data)} {attributes} >>\nstream\n".encode() + data + b"\nendstream"


def one_page(content: bytes, *, resources: str = "", more: tuple[str | bytes, ...] = (), times: int = 1) -> bytes:
    """Write a one-page PDF, with the page listed this many times; further objects are numbered from 6."""
    return pdf(
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {times} /Kids [{'3 0 R ' * times}] >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R "
        f"/Resources << /Font << /F 5 0 R >> {resources} >> >>",
        content,
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *more,
    )


SAID = b"BT /F 12 Tf 50 700 Td (Trams are quiet, and rents rose.) Tj ET\n"
"""Text on a page."""


def nested_forms() -> bytes:
    """Write a PDF in which each form draws ten copies of the next, eight levels deep."""
    forms = []
    for depth in range(8):
        resources = f"/Resources << /XObject << /X {depth + 7} 0 R >> /Font << /F 5 0 R >> >>"
        forms.append(
            stream(
                b"/X Do " * 10 if depth < 7 else SAID * 10,
                f"/Type /XObject /Subtype /Form /BBox [0 0 600 800] {resources}",
            )
        )
    return one_page(stream(b"/X Do " * 10), resources="/XObject << /X 6 0 R >>", more=tuple(forms))


def with_font(font: str, *more: str | bytes, text: bytes = SAID) -> bytes:
    """Write a PDF whose text uses a custom font, which is object 6."""
    return one_page(stream(text), more=(font, *more)).replace(b"/Font << /F 5 0 R >>", b"/Font << /F 6 0 R >>")


def long_letters() -> bytes:
    """Write a PDF whose font maps each letter to 20,000 characters."""
    letters = "0041" * 20_000
    mapped = b"".join(f"<{code:02x}> <{letters}>\n".encode() for code in range(32, 123))
    unicode = b"/CIDInit /ProcSet findresource begin begincmap 91 beginbfchar\n" + mapped + b"endbfchar endcmap end"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 7 0 R >>"
    return with_font(font, stream(unicode), text=SAID * 500)


def image(width: int, height: int, *, filters: str = "/FlateDecode", data: bytes | None = None) -> bytes:
    """Write a PDF with one image of this size."""
    content = zlib.compress(b"\0" * 50_000_000, 9) if data is None else data
    attributes = (
        f"/Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8 /ColorSpace /DeviceRGB"
    )
    drawn = stream(SAID + b"/I Do\n" * 1_000)
    return one_page(
        drawn, resources="/XObject << /I 6 0 R >>", more=(raw_stream(content, f"{attributes} /Filter {filters}"),)
    )


def png(width: int, height: int) -> bytes:
    """Write the header of an image of this size, but hardly any image data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1_000)) + chunk(b"IEND", b"")
    )


def html(body: str) -> bytes:
    """Write an HTML page."""
    return f"<html><body>{body}</body></html>".encode()


_BLANK = b" " * 300_000_000
_LONG = b"A" * 400_000_000
_WIDE_CELL = '<w:tc><w:tcPr><w:gridSpan w:val="100000000"/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>'
_WHOLE_SHEET = '<mergeCell ref="A1:XFD1048576"/>'
_BROAD = "<< /Type /Font /Subtype /TrueType /BaseFont /A /FirstChar 0 /LastChar 9999999 /Widths [{}] >>"


CORPUS: dict[str, dict[str, Make]] = {
    "pages": {
        "listed-20000-times.pdf": lambda: one_page(stream(SAID), times=20_000),
        "long-pages.pdf": lambda: one_page(stream(SAID * 2_000), times=4_900),
        "empty-pages.pdf": lambda: one_page(stream(b"0 0 m 9 9 l S\n" * 40_000), times=4_900),
        "slides.pptx": lambda: pptx(times=30_000),
        "chapters.epub": lambda: epub(html("<p>Trams.</p>" * 500), times=100_000),
        "tree-in-itself.pdf": lambda: pdf(
            "<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Count 1000000000 /Kids [{'2 0 R ' * 1_000}] >>"
        ),
    },
    "cells": {
        "far-corner.xlsx": lambda: xlsx(row(1, cell("A1")) + row(30_000, cell("XFD30000"))),
        "last-row.xlsx": lambda: xlsx(row(1, cell("A1")) + row(1_048_576, cell("XFD1048576"))),
        "diagonal.xlsx": lambda: xlsx(
            "".join(row(number, cell(f"{column_letters(number)}{number}")) for number in range(1, 16_385))
        ),
        "wide-rows.xlsx": lambda: xlsx("".join(row(number, cell(f"XFD{number}")) for number in range(1, 60_000))),
        "a-million-rows.xlsx": lambda: xlsx(
            "".join(row(number, f'<c r="A{number}"/>') for number in range(1, 1_000_000))
        ),
        "half-a-million.html": lambda: html(f"<table>{('<tr>' + '<td>x</td>' * 10) * 50_000}</table>"),
    },
    "spans": {
        "columns.html": lambda: html(f"<table><tr>{'<td colspan=1000000>x</td>' * 3_000}</tr></table>"),
        "rows.html": lambda: html(f"<table>{'<tr><td rowspan=1000000 colspan=99999>x</td></tr>' * 3_000}</table>"),
        "columns.docx": lambda: docx(f"<w:tbl><w:tr>{_WIDE_CELL}</w:tr></w:tbl>" * 1_000),
        "all.xlsx": lambda: xlsx(row(1, cell("A1")), after=f"<mergeCells>{_WHOLE_SHEET * 1_000}</mergeCells>"),
        "columns.pptx": lambda: pptx(table='gridSpan="100000000" rowSpan="100000000"'),
    },
    "nesting": {
        "paragraphs.docx": lambda: docx("<w:p><w:r>" * 100_000 + "</w:r></w:p>" * 100_000),
        "many-paragraphs.docx": lambda: docx(paragraph("x") * 300_000),
        "divisions.html": lambda: html("<div>" * 200_000 + "x"),
        "links.html": lambda: html('<a href="http://a.b">x' * 300_000),
        "lists.ipynb": lambda: b'{"cells": ' + b"[" * 3_000_000 + b"]" * 3_000_000 + b"}",
        "rows.xlsx": lambda: xlsx("<row>" * 200_000 + "</row>" * 200_000),
        "forms.pdf": nested_forms,
        "arrays.pdf": lambda: one_page(stream(b"[" * 5_000_000)),
    },
    "compression": {
        "part.docx": lambda: docx(paragraph("x"), media__a=_BLANK),
        "page.pdf": lambda: one_page(stream(b"(x) Tj 0 0 m " * 35_000_000)),
        "twice.pdf": lambda: one_page(
            raw_stream(zlib.compress(zlib.compress(_BLANK, 9), 9), "/Filter [/FlateDecode /FlateDecode]")
        ),
        "strings.xlsx": lambda: xlsx(row(1, cell("A1")), strings=f"<si><t>{'x' * 95_000_000}</t></si>"),
        "styles.docx": lambda: docx(paragraph("x"), **{"styles.xml": f"<a>{'<b/>' * 20_000_000}</a>"}),
        "chapter.epub": lambda: epub(b"<p>" * 30_000_000),
    },
    "lying sizes": {
        "document.docx": lambda: set_size(docx(paragraph("x"), media__a=_LONG), "word/media/a", 10),
        "sheet.xlsx": lambda: set_size(xlsx(" " * 300_000_000), "xl/worksheets/sheet1.xml", 100),
        "chapter.epub": lambda: set_size(epub(_LONG), "c.xhtml", 100),
        "too-long.docx": lambda: set_size(docx(paragraph("x")), "word/document.xml", 90_000_000),
        "many.epub": lambda: pack_files({f"{number}": b"" for number in range(100_000)}),
    },
    "fonts": {
        "letters.pdf": long_letters,
        "widths.pdf": lambda: with_font(_BROAD.format("500 " * 2_000_000)),
        "program.pdf": lambda: with_font(
            "<< /Type /Font /Subtype /TrueType /BaseFont /A /FirstChar 32 /LastChar 33 /Widths [500 500] "
            "/FontDescriptor 7 0 R >>",
            "<< /Type /FontDescriptor /FontName /A /Flags 32 /FontFile2 8 0 R >>",
            stream(b"\0\1\0\0\0\xff" + b"glyf" * 90_000_000),
        ),
        "glyphs-of-itself.pdf": lambda: with_font(
            "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 1 1] /FontMatrix [1 0 0 1 0 0] /FirstChar 97 /LastChar 97 "
            "/Widths [1] /Encoding << /Differences [97 /a] >> /CharProcs << /a 7 0 R >> "
            "/Resources << /Font << /F 6 0 R >> >> >>",
            stream(b"1 0 d0 BT /F 1 Tf (aaaaaaaaaa) Tj ET"),
            text=b"BT /F 1 Tf (aaaaaaaaaa) Tj ET " * 10_000,
        ),
        "embedded.docx": lambda: docx(paragraph("x"), **{"fonts/a.odttf": b"\0" * 99_000_000}),
    },
    "images": {
        "large.pdf": lambda: image(100_000, 100_000),
        "broken.pdf": lambda: image(
            65_535, 65_535, filters="/JPXDecode", data=b"\0\0\0\x0cjP  \r\n\x87\n" + b"\xff" * 9_000
        ),
        "twice.pdf": lambda: image(
            60_000, 60_000, filters="[/FlateDecode /FlateDecode]", data=zlib.compress(zlib.compress(_BLANK, 9), 9)
        ),
        "large.pptx": lambda: pptx(picture=png(60_000, 60_000)),
        "in-the-page.html": lambda: html(f'<img alt="x" src="data:image/png;base64,{"A" * 9_000_000}">'),
        "many.docx": lambda: docx(paragraph("x"), **{f"media__{number}": b"" for number in range(60_000)}),
    },
}
"""Hostile documents by fault, each small enough to be sent."""


def cases() -> list[tuple[str, str, Make]]:
    """Return each document with its kind and name."""
    return [(kind, name, make) for kind, documents in CORPUS.items() for name, make in documents.items()]
