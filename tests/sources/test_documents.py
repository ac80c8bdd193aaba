"""Documents as sources: pages, slides and sheets, and reasons why a document cannot be read."""

from __future__ import annotations

import codecs
import io
import json
import sys
import zipfile
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.errors import BadFile
from flowdebate.patterns import PATTERNS
from flowdebate.sources.files import read_sources
from flowdebate.sources.quotes import find_passages, look_up
from flowdebate.sources.source import Source
from flowdebate.testing import ScriptedModel
from flowdebate.ui.document import material_notes
from flowdebate.ui.models import sources_lines
from flowdebate.ui.plan import make_plan, stored_plan, with_stored_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

documents = pytest.importorskip("mammoth", reason="the extra flowdebate[documents]")
pytest.importorskip("reportlab")

PAGES = 200
VERDICT = {"reasoning": "It quotes.", "winner": None, "verdict": "Both."}


def line(page: int, number: int) -> str:
    """Return a line of the report that occurs only once."""
    return f"In district {page * 40 + number} rents rose by {page}.{number} per cent within the year."


def make_pdf(pages: int, *, password: str | None = None, text: bool = True) -> bytes:
    """Create a report with this many pages."""
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=None if password is None else StandardEncryption(password))
    for page in range(1, pages + 1):
        for number in range(40):
            if text:
                canvas.drawString(50, 800 - 18 * number, line(page, number))
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def make_docx() -> bytes:
    body = (
        '<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        "<w:body><w:p><w:r><w:t>Trams are quiet.</w:t></w:r></w:p></w:body></w:document>"
    )
    kinds = (
        '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'wordprocessingml.document.main+xml"/></Types>'
    )
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    links = (
        '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="a" Type="{office}" Target="word/document.xml"/></Relationships>'
    )
    return zip_files({"[Content_Types].xml": kinds, "_rels/.rels": links, "word/document.xml": body})


def make_pptx() -> bytes:
    from pptx import Presentation

    show = Presentation()
    for title in ("Costs", "Gains"):
        show.slides.add_slide(show.slide_layouts[5]).shapes.title.text = f"{title} of trams are known."
    buffer = io.BytesIO()
    show.save(buffer)
    return buffer.getvalue()


def make_xlsx() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    for name, cells in (("Costs", ("tram", 3)), ("Gains", ("## Costs", 9))):
        sheet = book.create_sheet(name)
        sheet.append(("what", "million"))
        sheet.append(cells)
    del book["Sheet"]
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def make_epub() -> bytes:
    container = (
        '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="content.opf"/></rootfiles></container>'
    )
    content = (
        '<?xml version="1.0"?><package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata/><manifest>'
        '<item id="c" href="c.xhtml"/></manifest><spine><itemref idref="c"/></spine></package>'
    )
    chapter = "<html><body><p>Trams were common once.</p></body></html>"
    return zip_files({"META-INF/container.xml": container, "content.opf": content, "c.xhtml": chapter})


def zip_files(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return buffer.getvalue()


def read(folder: Path, name: str, data: bytes) -> Any:
    (folder / name).write_bytes(data)
    (source,) = read_sources([name], folder=folder)
    return source


def test_quotes_from_a_long_report_are_located_by_page(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(make_pdf(PAGES))
    sides = [Debater("ann", "cap rents"), Debater("bob", "free rents")]
    rent = debate(
        name="rent", debaters=sides, max_rounds=1, synthesizer=False, sources=[tmp_path / "report.pdf"], mirror=False
    )
    quotation = f"“{line(137, 5)} {line(137, 6)}”"
    model = ScriptedModel(f"It says {quotation}.", "It says “rents fell in all districts”.", VERDICT)
    result = rent.run_sync("Should rents be capped?", model=model, seed=1)
    assert result.raw.quotes is not None
    (quote,), (missing,) = result.raw.quotes
    assert (quote.status, quote.source, quote.page) == ("verified", "report.pdf", "page 137")
    assert (missing.status, missing.page) == ("unverified", None)
    assert '(quotes: 1 verified in "report.pdf, page 137")' in model.calls[-1].prompt
    assert result.raw.sources is not None
    (listed,) = result.raw.sources
    assert listed.pages == PAGES
    assert listed.size == (tmp_path / "report.pdf").stat().st_size


@pytest.mark.parametrize(
    ("name", "make", "parts"),
    [
        ("a.docx", make_docx, {"a.docx": "Trams are quiet."}),
        ("a.pptx", make_pptx, {"a.pptx, slide 1": "Costs of trams", "a.pptx, slide 2": "Gains of trams"}),
        ("a.xlsx", make_xlsx, {"a.xlsx, sheet Costs": "| tram | 3 |", "a.xlsx, sheet Gains": "| ## Costs | 9 |"}),
        ("a.epub", make_epub, {"a.epub": "Trams were common once."}),
        ("a.html", lambda: b"<p>Trams <b>run</b>.</p><script>canary()</script>", {"a.html": "Trams **run**."}),
        ("noname", lambda: make_pdf(2), {"noname, page 1": line(1, 3), "noname, page 2": line(2, 39)}),
    ],
)
def test_documents_are_split_into_named_parts(
    tmp_path: Path, name: str, make: Callable[[], bytes], parts: dict[str, str]
) -> None:
    texts = dict(read(tmp_path, name, make()).parts())
    assert texts.keys() == parts.keys()
    assert all(text in texts[part] for part, text in parts.items())
    assert "canary" not in str(texts)


BOMB = {"word/document.xml": "0" * 100_000_001}


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("a.pdf", lambda: make_pdf(1, password="p"), "is encrypted"),  # noqa: S106 - of a test
        ("a.pdf", lambda: make_pdf(1, text=False), "contains no text: a scanned document"),
        ("a.pdf", lambda: b"%PDF-1.7 broken", "is not a readable PDF document"),
        ("a.pdf", lambda: b"plain text", "is not a readable PDF document"),
        ("a.docx", lambda: b"\xd0\xcf\x11\xe0 old", "is encrypted, or in a format from before 2007"),
        ("a.docx", lambda: b"no zip", "is not a readable DOCX document"),
        ("a.docx", lambda: make_docx()[:-40], "is not a readable DOCX document"),
        ("a.docx", lambda: zip_files(BOMB), "unpacks to more than 100 MB"),
        ("a.xlsx", lambda: zip_files({"x": "y"}), "is not a readable XLSX document"),
    ],
)
def test_unreadable_documents_are_reported_with_the_reason(
    tmp_path: Path, name: str, make: Callable[[], bytes], why: str
) -> None:
    with pytest.raises(BadFile, match=f"^{name}: {why}"):
        read(tmp_path, name, make())


def office(name: str, **parts: str) -> bytes:
    """Pack a Word document with an additional part for each of `parts`; "document" is the body."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    space += ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    files = {f"word/{part}.xml": f"<w:{part} {space}>{text}</w:{part}>" for part, text in parts.items()}
    files["word/document.xml"] = f"<w:document {space}><w:body>{name}</w:body></w:document>"
    with zipfile.ZipFile(io.BytesIO(make_docx())) as packed:
        return zip_files({**{entry: packed.read(entry).decode() for entry in packed.namelist()}, **files})


def run_of(text: str, properties: str = "") -> str:
    """Write a run of text in a Word document."""
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def test_hyphenated_words_are_found(tmp_path: Path) -> None:
    """The text keeps the hyphen at the end of a line, but quotes without the hyphen are still found."""
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(50, 700, "The deduction of expenses under para-")
    canvas.drawString(50, 686, "graphs one and two is permitted.")
    canvas.save()
    source = read(tmp_path, "a.pdf", buffer.getvalue())
    assert "under para-\ngraphs one" in source.text
    (quote,) = look_up("It says “under paragraphs one and two”.", (source,))
    assert quote.status == "verified"
    passages = find_passages((source, Source.of("b", "Trams. " * 90)), ["Which paragraphs?"], 90)
    assert [passage.source for passage in passages] == ["a.pdf"]


def test_scanned_pdf_pages_are_reported_by_number(tmp_path: Path) -> None:
    """A blank page must not be mistaken for a scan."""
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    for page in range(1, 7):
        if page in (1, 5):
            canvas.drawString(50, 700, f"Page {page} has a text.")
        elif page != 6:
            canvas.rect(50, 50, 300, 300, fill=1)
        canvas.showPage()
    canvas.save()
    source = read(tmp_path, "a.pdf", buffer.getvalue())
    assert source.unread == "pages 2-4 without text: a scan needs OCR first"
    assert source.info.unread == source.unread


@pytest.mark.parametrize(
    ("by_column", "unread"), [(False, "order of page 1: two columns are read as one"), (True, None)]
)
def test_possibly_mixed_up_columns_are_reported(tmp_path: Path, by_column: bool, unread: str | None) -> None:  # noqa: FBT001
    """Some programs write the lines of a page straight across its columns."""
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    lines = [(x, line) for line in range(6) for x in (50, 320)]
    for x, line in sorted(lines) if by_column else lines:
        canvas.drawString(x, 700 - 14 * line, f"In district {line} the rents rose by {x} per cent.")
    canvas.save()
    assert read(tmp_path, "a.pdf", buffer.getvalue()).unread == unread


def test_entries_in_forms_are_read(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(50, 700, "Amount that is applied for:")
    canvas.acroForm.textfield(name="amount", value="12,000 euros", x=50, y=650, width=200, height=20)
    canvas.save()
    assert "amount: 12,000 euros" in read(tmp_path, "a.pdf", buffer.getvalue()).text


VISIBLE, STYLED = '<w:vanish w:val="0"/>', '<w:rStyle w:val="B"/>'


@pytest.mark.parametrize(
    ("body", "parts", "text", "unread"),
    [
        (f"<w:p>{run_of('Seen. ')}{run_of('Not seen.', '<w:vanish/>')}</w:p>", {}, "Seen.", "1 hidden passage"),
        (f"<w:p>{run_of('Shown.', VISIBLE)}</w:p>", {}, "Shown.", None),
        (
            f"<w:p>{run_of('Seen.')}{run_of('Not seen.', STYLED)}</w:p>",
            {
                "styles": '<w:style w:type="character" w:styleId="A"><w:rPr><w:vanish/></w:rPr></w:style>'
                '<w:style w:type="character" w:styleId="B"><w:basedOn w:val="A"/></w:style>'
            },
            "Seen.",
            "1 hidden passage",
        ),
        (
            f"<w:p>{run_of('The price is fixed.')}</w:p>",
            {
                "header1": f"<w:p>{run_of('Draft, not binding')}</w:p>",
                "footer1": f"<w:p>{run_of('Confidential')}</w:p>",
                "comments": f'<w:comment w:id="0" w:author="Legal"><w:p>{run_of("We do not agree.")}</w:p></w:comment>',
            },
            "Header: Draft, not binding The price is fixed. Footer: Confidential Comment of Legal: We do not agree.",
            None,
        ),
        (
            f"<w:p>{run_of('So ')}<m:oMath><m:r><m:t>a+b</m:t></m:r></m:oMath>{run_of(' holds.')}</w:p>",
            {},
            "So a+b holds.",
            "layout of 1 formula",
        ),
    ],
    ids=["hidden", "shown", "style", "margins", "formula"],
)
def test_nothing_in_word_documents_is_lost_silently(
    tmp_path: Path, body: str, parts: dict[str, str], text: str, unread: str | None
) -> None:
    """Invisible content is left out, and the report says so."""
    source = read(tmp_path, "a.docx", office(body, **parts))
    assert " ".join(source.text.split()) == text
    assert source.unread == unread


def sheet(rows: Sequence[Sequence[Any]], **formats: str) -> Any:
    """Create a workbook with these rows; `formats` are number formats by cell."""
    from openpyxl import Workbook

    book = Workbook()
    for row in rows:
        book.active.append(row)
    for place, form in formats.items():
        book.active[place].number_format = form
    return book


def save_book(book: Any) -> bytes:
    """Save a workbook and return the bytes of the file."""
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_spreadsheet_values_are_preserved(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Progress"],
        [],
        ["Task", None, "Units", "Code", "Id", "Share", "Done", "Due", "Ratio"],
        ["Design\nand more", None, 12, "00123", 45, 0.15, True, date(2026, 1, 5), 0.5],
        ["Tests", None, None, None, None, None, None, None, 1.0],
    ]
    book = sheet(rows, E4="00000", F4="0%", I5="0.00")
    lines = read(tmp_path, "a.xlsx", save_book(book)).text.strip().splitlines()
    assert lines == [
        "| Progress |  |  |  |  |  |  |  |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| Task | Units | Code | Id | Share | Done | Due | Ratio |",
        "| Design and more | 12 | 00123 | 00045 | 15% | TRUE | 2026-01-05 | 0.5 |",
        "| Tests |  |  |  |  |  |  | 1 |",
    ]


def test_hidden_spreadsheet_parts_are_omitted_and_listed(tmp_path: Path) -> None:
    """Hidden sheets, rows and columns are left out.

    Workbooks with macros are read like any other.
    """
    book = sheet([["a", "b"], ["c", "d"], ["e", "f"]])
    book.active.row_dimensions[2].hidden = True
    book.active.column_dimensions["B"].hidden = True
    book.create_sheet("Salaries").append(["Ann", 90_000])
    book["Salaries"].sheet_state = "hidden"
    source = read(tmp_path, "a.xlsm", save_book(book))
    assert source.text.strip().splitlines() == ["| a |", "| --- |", "| e |"]
    assert source.unread == "hidden sheet Salaries; 4 hidden cells"


def test_formulas_without_a_cached_result_are_shown_as_text(tmp_path: Path) -> None:
    source = read(tmp_path, "a.xlsx", save_book(sheet([["a", "b", "sum"], [2, 3, "=A2+B2"]])))
    assert "| 2 | 3 | =A2+B2 |" in source.text
    assert source.unread == "results of 1 formula: open and save the file to compute them"


def test_hidden_slides_are_omitted_and_empty_slides_are_listed(tmp_path: Path) -> None:
    from pptx import Presentation

    show = Presentation()
    for title in ("Costs", "Salaries", ""):
        show.slides.add_slide(show.slide_layouts[5]).shapes.title.text = title
    first, second, _ = show.slides
    second.element.set("show", "0")
    first.shapes.add_table(1, 2, 0, 0, 9, 9).table.cell(0, 1).text = "12"
    first.notes_slide.notes_text_frame.text = "Say it slowly."
    offer = first.shapes.add_textbox(0, 0, 9, 9)
    offer.text_frame.text = "Our lowest offer"
    offer.element.nvSpPr.cNvPr.set("hidden", "1")
    buffer = io.BytesIO()
    show.save(buffer)
    source = read(tmp_path, "a.pptx", buffer.getvalue())
    assert all(text in source.text for text in ("# Costs", "|  | 12 |", "Say it slowly."))
    assert "Salaries" not in source.text
    assert "lowest" not in source.text
    assert source.unread == "slide 2 hidden; slide 3 without text; 1 hidden passage"


def test_notebooks_are_read_as_cells_and_outputs(tmp_path: Path) -> None:
    """Images are left out, because their base64 data would be of no use to a reader."""
    picture = {"output_type": "display_data", "data": {"image/png": "AAAA" * 9_000, "text/plain": ["<Figure>"]}}
    table = {"output_type": "display_data", "data": {"text/html": "<table></table>"}}
    error = {"output_type": "error", "traceback": ["\x1b[31mValueError\x1b[0m: no"]}
    cells = [
        {"cell_type": "code", "source": ["df.plot()"], "outputs": [picture, table, error]},
        {"cell_type": "markdown", "source": "It is worse."},
    ]
    source = read(tmp_path, "a.ipynb", json.dumps({"cells": cells}).encode())
    assert dict(source.parts()) == {
        "a.ipynb, cell 1": "df.plot()\n\nOutput:\n<Figure>\n\nOutput:\nValueError: no",
        "a.ipynb, cell 2": "It is worse.",
    }
    assert source.unread == "1 picture; 1 text/html output"


def test_hidden_page_text_is_reported(tmp_path: Path) -> None:
    """Hidden passages are left out and reported. The selected option of a form field is visible, so it is read."""
    page = (
        '<p>Seen.</p><p style="display: none">Not seen.</p><div hidden>Nor this.</div>'
        '<input value="12"><input type="checkbox" checked>Yes <select><option>A<option selected>B</select>'
        '<a href="javascript:canary()">A link</a><img alt="A chart" src="data:image/png;base64,AAAA">'
    )
    source = read(tmp_path, "a.html", page.encode())
    assert source.text.split() == ["Seen.", "12[x]", "Yes", "BA", "link[picture:", "A", "chart]"]
    assert source.unread == "2 hidden passages"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-be"])
def test_byte_order_marks_determine_the_encoding(tmp_path: Path, encoding: str) -> None:
    """Notepad and PowerShell put a byte order mark at the beginning of files."""
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    assert read(tmp_path, "a.txt", mark + "The price rosé.\n".encode(encoding)).text == "The price rosé.\n"


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.doc", b"\xd0\xcf\x11\xe0\0", "has the unsupported type .doc: save it as .docx"),
        ("a.ods", b"PK\x03\x04\0", "has the unsupported type .ods: save it as .xlsx"),
        ("letter", b"{\\rtf1 Dear all", "has the unsupported type .rtf: save it as .docx"),
        (
            "report",
            b"PK\x03\x04\0",
            "is an archive: unpack it, or, if it is a document, rename it to end in .docx",
        ),
        ("a.log", b"one\n" * 300 + b"tw\0o\n", "line 301: contains a NUL byte, so the file is not text"),
        ("a.txt", codecs.BOM_UTF16_LE + b"a", "line 1: not valid UTF-16"),
        ("a.bin", b"\x7fELF\0\0\0", "is binary: only text, documents and images"),
    ],
)
def test_unread_files_are_reported_with_the_actual_reason(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    with pytest.raises(BadFile, match=f"^{name}: {why}"):
        read(tmp_path, name, data)


def test_unread_parts_are_listed_among_the_omissions(tmp_path: Path) -> None:
    """The unread parts are reported before any model is called and again in the notes of the result."""
    (tmp_path / "a.docx").write_bytes(office(f"<w:p>{run_of('Seen.')}{run_of('Not seen.', '<w:vanish/>')}</w:p>"))
    options = {"question": "Sign?", "sources": [str(tmp_path / "a.docx")], "model": "openai/gpt-5"}
    plan = make_plan(PATTERNS["debate"], options)
    assert sources_lines(plan)[1] == "Left out: in a.docx: 1 hidden passage"
    resumed = make_plan(PATTERNS["debate"], {}, file=with_stored_sources(stored_plan(plan)["options"]))
    assert resumed.sources == plan.sources
    sides = [Debater("ann", "sign"), Debater("bob", "wait")]
    sign = debate(name="sign", debaters=sides, max_rounds=1, synthesizer=False, sources=plan.sources, mirror=False)
    result = sign.run_sync("Sign?", model=ScriptedModel("It is seen.", "It is not.", VERDICT), seed=1)
    assert "Left out: in a.docx: 1 hidden passage" in material_notes(result.raw)


def test_errors_name_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that needs a missing extra is left out of a folder's sources, and the reason names the extra."""
    for module in ("mammoth", "pypdfium2"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Text.")
    for name in ("a.pdf", "a.docx"):
        with pytest.raises(BadFile, match=r"pip install 'flowdebate\[documents\]'"):
            read(tmp_path / "docs", name, make_pdf(1) if name == "a.pdf" else make_docx())
    sources = read_sources(["docs"], folder=tmp_path)
    assert [source.name for source in sources if source.left_out is None] == ["docs/a.txt"]
    assert all("flowdebate[documents]" in source.left_out for source in sources if source.left_out is not None)
