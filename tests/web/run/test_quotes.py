"""Quotes on pages: each stands where it was said, with what the sources say to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.patterns.debate.quotes import verify_quotes
from flowdebate.service.documents.sections import Entry, Quoted
from flowdebate.service.service import Service
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from flowdebate.web.report import report_html, verify_report
from flowdebate.web.run.sheet import citations_in, passages_of
from flowdebate.web.templates import paragraphs

TEXTS = st.lists(st.sampled_from([*"ab .\n\r>", "“", "”", '"', "«", "»", "rents rose by ", "\u2028"])).map("".join)
PLACES = st.tuples(st.integers(-1, 60), st.integers(-1, 60), st.sampled_from([None, "report"]))
SAID = "They write: “Rents rose by 15 per cent.” And: “Rents fell\nby a half”, as nobody says."


@given(text=TEXTS, places=st.lists(PLACES, max_size=5), found=st.booleans())
def test_cutting_a_text_at_its_quotes_loses_nothing(text: str, places: list[Any], found: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever a journal says about their places; what is marked are the words of the quotes, each once."""
    looked_up = [(quote.start, quote.end, quote.source) for quote in verify_quotes(text, {"report": "rents rose by a"})]
    quotes = tuple(
        Quoted(start=start, end=end, source=source) for start, end, source in (looked_up if found else places)
    )
    citations = citations_in(Entry(name="ann", about="", text=text, quotes=quotes), None, after=2)
    lines = passages_of(text, citations)
    assert ["".join(passage.text for passage in line) for line in lines] == paragraphs(text)
    assert [each.number for each in citations] == list(range(3, 3 + len(citations)))
    passages = [passage for line in lines for passage in line]
    for each in citations:
        marked = "".join(passage.text for passage in passages if passage.citation is each)
        assert "".join(marked.split()) == "".join(text[each.start : each.end].split())


@pytest.mark.anyio
async def test_quotes_are_marked_and_listed() -> None:
    """With a number that leads to the source, or to the word that none has it; a short one stays as it is."""

    def answer(request: Any) -> Any:
        if request.output_schema is not None:
            return {"reasoning": "Ann quotes.", "winner": None, "verdict": "Wait."}
        return SAID if "ann" in request.block else "“Yes”, I say."

    options = {
        "debaters": [{"name": "ann", "stance": "cap rents"}, {"name": "bob", "stance": "build homes"}],
        "rounds": 1,
        "sources": {"report.txt": "In May, rents rose by 15 per cent."},
    }
    async with Service(store=MemoryStore(), model=FunctionModel(answer)) as service:
        await service.begin("debate", "What about rents?", options=options, run_id="r")
        await service.wait("r")
        html = await report_html(*await service.evidence("r"))
    assert (await verify_report(html)).outcome == "verified"
    for shown in (
        '<q>“Rents rose by 15 per cent.”</q><a class="ref" href="#quote-1" aria-label="Quote 1, found">1</a> And: ',
        '<q class="unfound">“Rents fell</q></p>\n<p><q class="unfound">by a half”</q><a class="ref" href="#quote-2" ',
        "<p>“Yes”, I say.</p>",
        '<td class="num">report.txt</td>',
        '<td class="num"><b>not found</b></td>',
    ):
        assert shown in html
