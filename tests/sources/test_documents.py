"""Documents as sources: pages, slides and sheets, and why one cannot be read."""

from __future__ import annotations

import io
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.errors import BadFile
from flowdebate.sources.files import read_sources
from flowdebate.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

documents = pytest.importorskip("markitdown", reason="the extra flowdebate[documents]")
pytest.importorskip("reportlab")

PAGES = 200
VERDICT = {"reasoning": "It quotes.", "winner": None, "verdict": "Both."}


def line(page: int, number: int) -> str:
    """A line of the report, which no other has."""
    return f"In district {page * 40 + number} rents rose by {page}.{number} per cent within the year."


def make_pdf(pages: int, *, password: str | None = None, text: bool = True) -> bytes:
    """A report of so many pages."""
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    made = io.BytesIO()
    canvas = Canvas(made, encrypt=None if password is None else StandardEncryption(password))
    for page in range(1, pages + 1):
        for number in range(40):
            if text:
                canvas.drawString(50, 800 - 18 * number, line(page, number))
        canvas.showPage()
    canvas.save()
    return made.getvalue()


def make_docx() -> bytes:
    """A Word document of a heading and a paragraph."""
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
    return zipped({"[Content_Types].xml": kinds, "_rels/.rels": links, "word/document.xml": body})


def make_pptx() -> bytes:
    """Two slides."""
    from pptx import Presentation

    show = Presentation()
    for title in ("Costs", "Gains"):
        show.slides.add_slide(show.slide_layouts[5]).shapes.title.text = f"{title} of trams are known."
    made = io.BytesIO()
    show.save(made)
    return made.getvalue()


def make_xlsx() -> bytes:
    """Two sheets."""
    from openpyxl import Workbook

    book = Workbook()
    for name, cells in (("Costs", ("tram", 3)), ("Gains", ("## Costs", 9))):
        sheet = book.create_sheet(name)
        sheet.append(("what", "million"))
        sheet.append(cells)
    del book["Sheet"]
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def make_epub() -> bytes:
    """A book of one chapter."""
    container = (
        '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="content.opf"/></rootfiles></container>'
    )
    content = (
        '<?xml version="1.0"?><package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata/><manifest>'
        '<item id="c" href="c.xhtml"/></manifest><spine><itemref idref="c"/></spine></package>'
    )
    chapter = "<html><body><p>Trams were common once.</p></body></html>"
    return zipped({"META-INF/container.xml": container, "content.opf": content, "c.xhtml": chapter})


def zipped(files: dict[str, str]) -> bytes:
    """A zip file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return made.getvalue()


def read(folder: Path, name: str, data: bytes) -> Any:
    """The source of a file with this content."""
    (folder / name).write_bytes(data)
    (found,) = read_sources([name], folder=folder)
    return found


def test_a_debate_over_a_report_of_200_pages_says_on_which_page_a_quote_stands(tmp_path: Path) -> None:
    """Judge, result and reader are told the page; a quote across two lines is found, and an invented one is not."""
    (tmp_path / "report.pdf").write_bytes(make_pdf(PAGES))
    sides = [Debater("ann", "cap rents"), Debater("bob", "free rents")]
    rent = debate(
        name="rent", debaters=sides, max_rounds=1, synthesizer=False, sources=[tmp_path / "report.pdf"], mirror=False
    )
    known = f"“{line(137, 5)} {line(137, 6)}”"
    model = ScriptedModel(f"It says {known}.", "It says “rents fell in all districts”.", VERDICT)
    result = rent.run_sync("Should rents be capped?", model=model, seed=1)
    (found,), (missing,) = result.raw.quotes
    assert (found.status, found.source, found.page) == ("verified", "report.pdf", "page 137")
    assert (missing.status, missing.page) == ("unverified", None)
    assert '(quotes: 1 verified in "report.pdf, page 137")' in model.calls[-1].prompt
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
def test_documents_are_read_by_their_parts(
    tmp_path: Path, name: str, make: Callable[[], bytes], parts: dict[str, str]
) -> None:
    """Each slide, sheet and page has its name; what is no text of a page is left out."""
    found = dict(read(tmp_path, name, make()).parts())
    assert found.keys() == parts.keys()
    assert all(text in found[part] for part, text in parts.items())
    assert "canary" not in str(found)


BOMB = {"word/document.xml": "0" * 100_000_001}


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("a.pdf", lambda: make_pdf(1, password="p"), "is encrypted"),  # noqa: S106 - of a test
        ("a.pdf", lambda: make_pdf(1, text=False), "has no text in it: a scanned document"),
        ("a.pdf", lambda: b"%PDF-1.7 broken", "is no PDF document that can be read"),
        ("a.pdf", lambda: b"plain text", "is no PDF document that can be read"),
        ("a.docx", lambda: b"\xd0\xcf\x11\xe0 old", "is encrypted, or of a version before 2007"),
        ("a.docx", lambda: b"no zip", "is no DOCX document that can be read"),
        ("a.docx", lambda: make_docx()[:-40], "is no DOCX document that can be read"),
        ("a.docx", lambda: zipped(BOMB), "unpacks to more than 100 MB"),
        ("a.xlsx", lambda: zipped({"x": "y"}), "is no XLSX document that can be read"),
    ],
)
def test_a_document_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, name: str, make: Callable[[], bytes], why: str
) -> None:
    """Before anything is asked."""
    with pytest.raises(BadFile, match=f"^{name}: {why}"):
        read(tmp_path, name, make())


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder, such a file is left out with that reason."""
    for module in ("markitdown", "pypdfium2"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Text.")
    for name in ("a.pdf", "a.docx"):
        with pytest.raises(BadFile, match=r"pip install 'flowdebate\[documents\]'"):
            read(tmp_path / "docs", name, make_pdf(1) if name == "a.pdf" else make_docx())
    found = read_sources(["docs"], folder=tmp_path)
    assert [each.name for each in found if each.left_out is None] == ["docs/a.txt"]
    assert all("flowdebate[documents]" in each.left_out for each in found if each.left_out is not None)
