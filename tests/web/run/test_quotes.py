"""Quotes on pages, each in its position and with the matching source."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.patterns.debate.transcript import verify_quotes
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from flowdebate.ui.sections import Entry, Quoted
from flowdebate.ui.text import printable
from flowdebate.web.report import report_html, verify_report
from flowdebate.web.run.sheet import Turn, citations_in

TEXTS = st.lists(st.sampled_from([*"ab .\n\r>", "“", "”", '"', "«", "»", "rents rose by ", "\u2028"])).map("".join)
PLACES = st.tuples(st.integers(-1, 60), st.integers(-1, 60), st.sampled_from([None, "report"]))
SAID = "They write: “Rents rose by 15 per cent.” And: “Rents fell\nby a half”, as nobody says."


@given(text=TEXTS, places=st.lists(PLACES, max_size=5), is_exact=st.booleans())
def test_splitting_text_at_its_quotes_loses_nothing(text: str, places: list[Any], is_exact: bool) -> None:  # noqa: FBT001 - drawn
    """The positions of quotes in a journal may be arbitrary, but the words of each quote are marked exactly once."""
    looked_up = [(quote.start, quote.end, quote.source) for quote in verify_quotes(text, {"report": "rents rose by a"})]
    quotes = tuple(
        Quoted(start=start, end=end, source=source) for start, end, source in (looked_up if is_exact else places)
    )
    citations = citations_in(Entry(name="ann", about="", text=text, quotes=quotes), None, after=2)
    assert [citation.number for citation in citations] == list(range(3, 3 + len(citations)))
    turn = Turn(number=1, entry=Entry(name="ann", about="", text=text, quotes=quotes), party=None, call=None)
    page = Page(replace(turn, citations=citations).html)
    assert strip_spaces(page.read) == strip_spaces(printable("\n".join(text.splitlines())))
    for citation in citations:
        assert strip_spaces(page.quotes.get(citation.number, "")) == strip_spaces(text[citation.start : citation.end])


class Page(HTMLParser):
    """Text of an HTML fragment, and the words of its quotes by number."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.read, self.quotes, self._open, self._quote = "", dict[int, str](), "", ""
        self.feed(str(html))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "a":
            self.quotes[int(data)], self._quote = self._quote, ""
            return
        self.read += data
        self._quote += data if self._open == "q" else ""


def strip_spaces(text: str) -> str:
    """Return the letters and digits in the text."""
    return re.sub(r"[\W_]", "", text)


@pytest.mark.anyio
async def test_quotes_are_marked_and_listed() -> None:
    def answer(request: Any) -> Any:
        if request.output_schema is not None:
            return {"reasoning": "Ann quotes.", "winner": None, "verdict": "Wait."}
        return SAID if "ann" in request.block else "“Yes”, I say."

    options = {
        "debaters": [{"name": "ann", "stance": "cap rents"}, {"name": "bob", "stance": "build homes"}],
        "max_rounds": 1,
        "sources": {"report.txt": "In May, rents rose by 15 per cent."},
    }
    async with Service(store=MemoryStore(), model=FunctionModel(answer)) as service:
        await service.begin("debate", "What about rents?", options=options, run_id="r")
        await service.wait("r")
        html = await report_html(*await service.evidence("r"))
    assert (await verify_report(html)).outcome == "verified"
    for rendering in (
        '<q>“Rents rose by 15 per cent.”</q><a class="ref" href="#quote-1" aria-label="Quote 1, found">1</a> And: ',
        '<q class="unfound">“Rents fell</q><br><q class="unfound">by a half”</q><a class="ref" href="#quote-2" ',
        "<p>“Yes”, I say.</p>",
        '<td class="num">report.txt</td>',
        '<td class="num"><b>not found</b></td>',
    ):
        assert rendering in html
