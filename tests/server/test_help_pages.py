"""The documentation on the server, in which all links and references must resolve."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from flowdebate._util.documentation import ADDRESS, ONE_MODEL, cite, headings_of, read_page, slug
from flowdebate.patterns import PATTERNS
from flowdebate.web.manual import cited, manual_page

if TYPE_CHECKING:
    from tests.server.stage import Stage

ROOT = Path(__file__).parents[2]
PAGES = sorted(page.stem for page in (ROOT / "docs").glob("*.md"))
BARE = re.compile(r"docs/[\w-]+\.md")


def test_help_pages_are_served_and_their_links_resolve(stage: Stage) -> None:
    front = stage.http.get("/help", follow_redirects=True)
    assert front.status_code == 200
    anchors = {
        name: set(re.findall(r' id="([^"]+)"', str(manual.html))) for name in PAGES if (manual := manual_page(name))
    }
    assert list(anchors) == PAGES
    for name in PAGES:
        manual = manual_page(name)
        assert manual is not None
        assert "invisible-code-block" not in manual.html
        for address in re.findall(r'href="([^"]+)"', str(manual.html)):
            target = urlsplit(urljoin(f"/help/{name}", address))
            if not target.netloc:
                page = target.path.removeprefix("/help/")
                assert page in anchors, (name, address)
                assert not target.fragment or target.fragment in anchors[page], (name, address)
    html = stage.http.get("/help/models").text
    assert 'id="one-model-everywhere"' in html
    assert "<h1" in html
    assert (
        "The page of a run: its question" not in front.text
    )  # the package contains neither pictures nor their descriptions
    assert "Hold your first debate" in " ".join(front.text.split())
    for nothing in ("nothing", "..%2Fpyproject", "Models", "models.md"):
        assert stage.http.get(f"/help/{nothing}").status_code == 404


def test_reference_is_a_link_on_pages_and_a_title_elsewhere(stage: Stage) -> None:
    run_id = stage.finished()
    page = stage.http.get(f"/runs/{run_id}").text
    assert f'<a href="/help/{ONE_MODEL}">“One model everywhere”</a>' in page
    report = stage.get(f"/runs/{run_id}/report.html").text
    assert "help/" not in report.partition("<main")[2]
    assert "“One model everywhere” on the page “Models” of the documentation" in report


def test_references_are_urls_if_a_public_address_is_set() -> None:
    address = "https://docs.example/"
    assert cite("models#effort", address=address) == "https://docs.example/models/#effort"
    assert cite("cli", address=address) == "https://docs.example/cli/"
    assert cite("cli", address=ADDRESS) == cite("cli")


def test_every_referenced_section_exists() -> None:
    for place in (ONE_MODEL, *(info.load_page().docs for info in PATTERNS.values())):
        page, _, section = place.partition("#")
        text = read_page(page)
        assert text is not None, place
        assert not section or section in map(slug, headings_of(text)), place
    assert cited("<b>", "help/") == "&lt;b&gt;"


def test_no_displayed_text_refers_to_a_documentation_file() -> None:
    """Installed packages do not contain documentation files.

    Comments and docstrings may name them, since they address readers of the source.
    """
    for file in (ROOT / "src").rglob("*"):
        if file.suffix in (".html", ".js"):
            assert not BARE.search(file.read_text("utf-8")), file
        if file.suffix == ".py" and BARE.search(file.read_text("utf-8")):
            with file.open("rb") as source:
                previous = tokenize.NEWLINE
                for token in tokenize.tokenize(source.readline):
                    statement = previous in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
                    if token.type == tokenize.STRING and not statement:
                        assert not BARE.search(token.string), (file, token.start)
                    if token.type not in (tokenize.NL, tokenize.COMMENT):
                        previous = token.type
