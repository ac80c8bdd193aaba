"""Results in notebooks: the report, in a frame that keeps it to itself."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from flowdebate import Debater, debate, handler
from flowdebate.testing import FunctionModel
from flowdebate.web.notebook import document_of_result, frame_of
from tests.runs.durable.patterns import PATTERNS, QUESTION, answer_to

pytestmark = pytest.mark.anyio


class Frame(HTMLParser):
    """What a notebook gets: the elements, and the page inside."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.page = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        assert found["sandbox"] is None
        self.page = found["srcdoc"] or ""


@pytest.mark.parametrize("name", PATTERNS)
async def test_every_pattern_s_result_is_shown(name: str) -> None:
    """With its question, without a store; its document is shown alike."""
    result = await PATTERNS[name]().run(QUESTION, model=FunctionModel(answer_to), seed=4)
    frame = Frame(frame_of(result) or "")
    assert frame.tags == ["iframe"]
    assert QUESTION in frame.page
    assert QUESTION in Frame(frame_of(document_of_result(result)) or "").page


async def test_hostile_text_stays_in_the_frame() -> None:
    """Whatever a model says: one element, in a sandbox."""
    said = '"></iframe><script>alert(1)</script>'

    def answer(request: Any) -> Any:
        return {"reasoning": said, "winner": None, "verdict": said} if request.output_schema else said

    sides = [Debater("ann", "for"), Debater("bob", "against")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1)
    frame = Frame(frame_of(await pattern.run(said, model=FunctionModel(answer))) or "")
    assert frame.tags == ["iframe"]
    assert "<script" not in frame.page


async def test_what_is_no_pattern_s_result_has_its_repr() -> None:
    """A notebook then shows that."""

    async def shout(value: Any, ctx: Any) -> str:
        return f"{value}!"

    result = await handler(shout, name="shout").run("a")
    assert frame_of(result) is None


def test_nothing_of_it_is_loaded_before_a_notebook_asks() -> None:
    """A program that runs a debate imports no page."""
    script = (
        "import sys, flowdebate\n"
        "from flowdebate import Debater, debate\n"
        "from flowdebate.testing import ScriptedModel\n"
        "sides = [Debater('a', 'x'), Debater('b', 'y')]\n"
        "block = debate(name='rent', debaters=sides, max_rounds=1, synthesizer=False)\n"
        "verdict = {'reasoning': 'r', 'winner': None, 'verdict': 'v'}\n"
        "result = block.run_sync('Q?', model=ScriptedModel('One.', 'Two.', verdict))\n"
        "print([name for name in sys.modules if name.startswith(('flowdebate.web', 'flowdebate.service'))])\n"
        "print(result._repr_html_()[:7])\n"
        "from flowdebate.web.notebook import document_of_result\n"
        "print(document_of_result(result)._repr_html_()[:7])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.split() == ["[]", "<iframe", "<iframe"]
