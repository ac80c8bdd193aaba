"""Moderator statements before a round, in every front end: next speaker, briefing and angle."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate import Debater, debate
from flowdebate.mcp.reports import render_contributions, split_contributions
from flowdebate.testing import FunctionModel
from flowdebate.ui.document import document_of
from flowdebate.ui.markdown import report
from flowdebate.ui.sections import Fact, Group
from flowdebate.web.notebook import excerpt, live_html
from flowdebate.web.report import document_html

SIDES = [Debater("pro", "cap rents"), Debater("con", "free rents")]


def answer(request: Any) -> Any:
    """Answer as a moderator who gives a briefing, as a debater, or as a judge."""
    if request.output is None:
        return "Homes first."
    if request.block.endswith("judge"):
        return {"reasoning": "It was answered.", "winner": None, "verdict": "Neither."}
    return {"next_speakers": ["pro"], "briefing": "Rents rose.", "new_angle": "Who pays?", "done": True}


@pytest.mark.parametrize("front_end", ["Markdown", "MCP", "HTML", "a notebook"])
def test_every_front_end_shows_the_briefing_and_the_angle(front_end: str) -> None:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, moderator=True, synthesizer=False)
    result = rent.run_sync("Should rents be capped?", model=FunctionModel(answer))
    document = document_of(result.raw.to_wire(), location="test")
    views = {
        "Markdown": lambda: report(document),
        "MCP": lambda: render_contributions(split_contributions(document)),
        "HTML": lambda: document_html(document, result.events),
        "a notebook": lambda: live_html(result),
    }[front_end]()
    assert views is not None
    assert [views.count(text) for text in ("Rents rose.", "Who pays?")] == [1, 1]


def test_excerpt_shortens_briefing_and_angle() -> None:
    """A model can write a briefing or an angle of any length."""
    briefing = Fact(label="Briefing", text="a" * 900)
    (cut,) = excerpt([Group(label="Moderator calls on", text="pro", facts=(briefing,))], longest=50)
    assert isinstance(cut, Group)
    assert [len(fact.text) for fact in cut.facts] == [len(f"{'a' * 49}… (900 characters)")]
