"""Hostile documents: every attack of the corpus as the text, the name, a page and a passage of a source."""

from __future__ import annotations

import pytest

from flowdebate.chassis.material import SOURCES, render_passages, render_sources
from flowdebate.sources.quotes import Passage
from flowdebate.sources.source import Page, Source
from flowdebate.testing.attacks import ATTACKS, Attack

OWN = SOURCES.splitlines()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_no_document_begins_a_line_of_a_prompt(attack: Attack) -> None:
    """Neither by its text nor by its name: each line is the prompt's own, a tag, or goes on behind a bar."""
    text = attack.written()
    source = Source.of(f"a{text}", f"Homes.{text}", pages=[Page(start=0, name=f"page{text}")])
    shown = render_sources((source,))
    passage = Passage(source=source.name, start=0, end=len(source.text), page=f"page{text}")
    for rendered in (shown, render_passages([passage], [source]), render_sources((source,), whole=False)):
        lines = rendered.split("\n")
        theirs = [
            line for line in lines if line not in OWN and not line.startswith(("Passages from the sources", "  | "))
        ]
        assert len(theirs) == 1
        assert theirs[0].startswith("[a")
        assert len(rendered.splitlines()) == len(lines)
        assert not any(token in rendered for token in ("<|im_end|>", "<|im_start|>", "[INST]", "</s>"))
