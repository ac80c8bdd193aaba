"""What a moderator says before a round is on every front end: whom it calls on, its briefing and its angle."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate import Debater, debate
from flowdebate.mcp.reports import render_said, said_in
from flowdebate.service.documents.document import document_of
from flowdebate.service.documents.markdown import report
from flowdebate.service.documents.sections import Group
from flowdebate.testing import FunctionModel
from flowdebate.web.excerpt import excerpt
from flowdebate.web.notebook import live_html
from flowdebate.web.report import document_html

SIDES = [Debater("pro", "cap rents"), Debater("con", "free rents")]


def answer(request: Any) -> Any:
    """A moderator that briefs, debaters, and a judge."""
    if request.output is None:
        return "Homes first."
    if request.block.endswith("judge"):
        return {"reasoning": "It was answered.", "winner": None, "verdict": "Neither."}
    return {"next_speakers": ["pro"], "briefing": "Rents rose.", "new_angle": "Who pays?", "done": True}


@pytest.mark.parametrize("front_end", ["Markdown", "MCP", "HTML", "a notebook"])
def test_every_front_end_has_the_briefing_and_the_angle(front_end: str) -> None:
    """Each once."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, moderator=True, synthesizer=False)
    result = rent.run_sync("Should rents be capped?", model=FunctionModel(answer))
    document = document_of(result.raw.to_wire(), where="test")
    shown = {
        "Markdown": lambda: report(document),
        "MCP": lambda: render_said(said_in(document)),
        "HTML": lambda: document_html(document, result.events),
        "a notebook": lambda: live_html(result),
    }[front_end]()
    assert shown is not None
    assert [shown.count(text) for text in ("Rents rose.", "Who pays?")] == [1, 1]


def test_an_excerpt_cuts_them_as_all_texts() -> None:
    """Models write as much as they like."""
    (cut,) = excerpt([Group(label="Moderator calls on", text="pro", briefing="a" * 900, angle="b" * 900)], longest=50)
    assert isinstance(cut, Group)
    assert all(text.endswith("… (900 characters)") and len(text) < 80 for text in (cut.briefing, cut.angle))
