"""Each attack in the corpus, placed in a source's name, text, pages or passages, in a diff, or in a compared text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate._util.control_tokens import CONTROL_TOKENS
from flowdebate.chassis.material import SOURCES, render_passages, render_sources
from flowdebate.evaluation import compare
from flowdebate.prompts import explain_escapes
from flowdebate.sources.quotes import Passage
from flowdebate.sources.source import Page, Source
from flowdebate.testing import FunctionModel
from flowdebate.testing.attacks import ATTACKS, Attack

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

OWN = SOURCES.splitlines()
each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)


def check_frame(rendered: str, *texts: str) -> None:
    """Check that only one line begins with the source's tag and all other lines of the source are framed."""
    lines = rendered.split("\n")
    frame = [*OWN, *filter(None, [explain_escapes(*texts)])]
    text_lines = [
        line for line in lines if line not in frame and not line.startswith(("Passages from the sources", "  | "))
    ]
    assert len(text_lines) == 1
    assert text_lines[0].startswith("[a")
    assert sum(line.startswith("(The texts above") for line in lines) == bool(explain_escapes(*texts))
    assert len(rendered.splitlines()) == len(lines)
    assert not any(token in rendered for token in CONTROL_TOKENS)


def test_corpus_includes_attacks_through_material() -> None:
    assert sum(attack.place == "material" for attack in ATTACKS) >= 20


@each_attack
def test_text_from_documents_never_begins_a_prompt_line(attack: Attack) -> None:
    text = attack.written()
    source = Source.of(f"a{text}", f"Homes.{text}", pages=[Page(start=0, name=f"page{text}")])
    passage = Passage(source=source.name, start=0, end=len(source.text), page=f"page{text}")
    check_frame(render_sources((source,)), *(part for _, part in source.parts()))
    check_frame(render_passages([passage], [source]), source.text)
    check_frame(render_sources((source,), complete=False))


@each_attack
def test_text_from_files_and_diffs_never_begins_a_line_in_a_review(attack: Attack) -> None:
    text = attack.written()
    added = "\n".join(f"+{line}" for line in text.split("\n"))
    diff = f"--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,{added.count(chr(10)) + 1} @@\n-x = 1\n{added}\n"
    for content in (f"x = 1{text}\ny = 2\n", diff):
        source = Source.of("a.py", content)
        check_frame(render_sources((source,), numbers=True), source.text)


@each_attack
def test_compared_texts_cannot_add_a_line_to_the_judge_prompt(attack: Attack) -> None:
    attacked, harmless = (unframed_lines(f"Homes.{text}") for text in (attack.written(), ""))
    assert [line for line in attacked if not line.startswith("(The texts above have ⟦U+")] == harmless
    assert len(attacked) - len(harmless) in (0, 1)


def unframed_lines(text: str) -> list[str]:
    """Return the lines of a judge's prompt that lie outside frames, without the text after labels."""
    prompts: list[str] = []

    def judge(request: ModelRequest) -> Any:
        prompts.append(str(request.messages[-1]["content"]))
        return {"reasoning": "Equal.", "scores": {"A": 50, "B": 50}, "verdict": "Neither."}

    texts = {"one": text, "two": "Parks."}
    asyncio.run(compare("Which?", texts, judges=[FunctionModel(judge)], orders="single", seed=1, store=False))
    [prompt] = prompts
    assert not any(token in prompt for token in CONTROL_TOKENS)
    lines = [line for line in prompt.splitlines() if not line.startswith("  | ")]
    assert sum(line.startswith("[") for line in lines) == 2
    return [line[:3] if line.startswith("[") else line for line in lines]
