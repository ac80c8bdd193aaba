"""Notebook output without a notebook: framed reports, live pages, summaries, and Markdown."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate, handler, human
from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.evaluation import BenefitReport, Evaluation, ReaderAgreement, audit, audit_run
from flowdebate.patterns.debate.judging.ballots import JudgeBallot
from flowdebate.runs.events import CallStarted
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.ui.live import Live
from flowdebate.ui.sections import Entry, Group, Heading, Remark
from flowdebate.web.notebook import document_of_view, excerpt, html_of, live_html, markdown_of
from tests.runs.durable.patterns import PATTERNS, QUESTION, answer_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

pytestmark = pytest.mark.anyio

HOSTILE = '"></iframe><script>alert(1)</script><img src=x onerror=alert(1)>'
SIDES = [Debater("ann", "for"), Debater("bob", "against")]
VERDICT = {"reasoning": "-", "winner": "for", "verdict": "Yes."}


class Page(HTMLParser):
    """Elements of a notebook output, and the page in its frame."""

    def __init__(self, html: str | None) -> None:
        super().__init__()
        assert html is not None
        self.tags: set[str] = set()
        self.page = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        attributes = dict(attrs)
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "iframe":
            assert "sandbox" in attributes
            assert not attributes["sandbox"]
            self.page = attributes["srcdoc"] or ""


async def read_until(events: AsyncIterator[Any], holds: Callable[[Any], object]) -> None:
    """Read events until a condition holds or the run ends."""
    async for event in events:
        if holds(event):
            return


def list_texts_in_progress(live: Live) -> dict[str, str]:
    """Return the texts in progress, keyed by name."""
    return {turn.agent_name: text for turn, text in live.speaking}


def is_call(event: object) -> bool:
    """Return whether an event is a model call."""
    return isinstance(event, CallStarted)


@pytest.mark.parametrize("name", PATTERNS)
async def test_every_pattern_can_be_shown_at_any_time(name: str) -> None:
    calls, pages = count(), []

    async def answer(request: Any) -> Any:
        if (step := next(calls)) < 8 or step % 25 == 0:
            pages.append((handle._repr_html_(), handle._repr_markdown_()))
        return answer_to(request)

    handle = PATTERNS[name]().start(QUESTION, model=FunctionModel(answer), seed=4)
    result = await handle
    assert pages
    for page, text in pages:
        assert "iframe" not in Page(page).tags
        assert text
    for value in (handle, result, document_of_view(result)):
        assert QUESTION in Page(value._repr_html_()).page
        assert QUESTION in str(value._repr_markdown_())


async def test_live_page_shows_text_in_progress() -> None:
    gate = asyncio.Semaphore(0)

    async def answer(request: Any) -> Any:
        if request.on_text is not None:
            request.on_text("Homes come")
        await gate.acquire()
        return VERDICT if request.output_schema else "Homes come first."

    live = Live()
    pattern = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    handle = pattern.start(QUESTION, model=FunctionModel(answer))

    def take(event: object) -> None:
        live.take(event)

    handle.listen(take)
    events = handle.follow()
    await read_until(events, lambda _: list_texts_in_progress(live).get("ann"))
    assert list_texts_in_progress(live) == {"ann": "Homes come"}
    assert "Homes come" in str(live_html(handle, live))
    gate.release()
    await read_until(events, lambda _: list_texts_in_progress(live).get("bob"))
    assert list_texts_in_progress(live) == {"bob": "Homes come"}
    gate.release()
    await read_until(events, lambda _: live.describe_other_roles)
    assert "The judge is weighing the arguments" in str(live_html(handle, live))
    gate.release()
    await handle
    assert list_texts_in_progress(live) == {}
    assert live.describe_other_roles == []


@pytest.mark.parametrize("end", ["Should we move to a monorepo?", "\u0647\u0644 \u0646\u0646\u062a\u0642\u0644\u061f"])
async def test_question_is_shown_in_full(end: str) -> None:
    """Live pages, reports and untrusted notebooks show the question, including all of its background."""
    background = "Forty services share a database. " * 30
    gate = asyncio.Event()

    async def answer(request: Any) -> Any:
        await gate.wait()
        return VERDICT if request.output_schema else "Homes."

    pattern = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    handle = pattern.start(f"{background}{end}", model=FunctionModel(answer))
    await read_until(handle.follow(), lambda event: isinstance(event, CallStarted))
    live = str(live_html(handle))
    gate.set()
    result = await handle
    assert f'<h3 dir="auto" lang="">{background}{end}</h3>' in live
    for text in (str(html_of(result)).partition("<iframe")[0], str(markdown_of(result))):
        assert f"{background}{end}" in text


async def test_failed_run_shows_its_progress() -> None:
    def answer(request: Any) -> str:
        if "bob" in request.block:
            raise ConnectionError(HOSTILE)
        return "Homes come first."

    pattern = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    handle = pattern.start(QUESTION, model=FunctionModel(answer))
    with pytest.raises((FlowDebateError, ConnectionError)):
        await handle
    assert handle.status == "failed"
    page = Page(handle._repr_html_()).page
    assert "Homes come first." in page
    assert "ConnectionError" in page
    assert "<script" not in page
    assert "ConnectionError" in str(handle._repr_markdown_())


async def test_suspended_run_names_the_human_it_waits_for() -> None:
    """The transcript so far is shown both on the page and in Markdown."""
    sides = [Debater("ann", "for"), Debater("bob", "against", block=human(name="olga"))]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    result = await pattern.run(QUESTION, model=ScriptedModel("Homes."), store="memory:")
    assert "Homes." in str(result._repr_html_())
    assert "The run waits for an answer from olga." in str(result._repr_html_())
    assert "waits for an answer from olga" in str(result._repr_markdown_())
    alone = await human(name="olga").run(QUESTION, store="memory:")
    assert "waits for an answer from olga" in str(alone._repr_html_())


async def test_run_without_a_pattern_shows_its_state() -> None:
    go = asyncio.Event()

    async def shout(value: Any, ctx: Any) -> str:
        await go.wait()
        if value == "b":
            raise ValueError(HOSTILE)
        return f"{value}!"

    handle = handler(shout, name="shout").start("a")
    assert handle.run_id in str(handle._repr_html_())
    go.set()
    result = await handle
    assert html_of(result) is None
    assert markdown_of(result) is None
    failed = handler(shout, name="shout").start("b")
    await failed.wait()
    assert "ValueError" in str(failed._repr_html_())
    assert "ValueError" in str(failed._repr_markdown_())
    assert Page(failed._repr_html_()).tags <= {"div", "p", "b", "bdi", "ul", "li"}


@pytest.mark.parametrize(
    "text", [HOSTILE, "</style></div><script>", "# [x](javascript:y)", "\u202e\x1b[2J\x00<b>", "```\n</ul>"]
)
async def test_hostile_text_is_escaped(text: str) -> None:
    """Live and finished pages contain no script or frame from model text. The only frame is sandboxed."""
    gate = asyncio.Semaphore(0)

    async def answer(request: Any) -> Any:
        await gate.acquire()
        return {"reasoning": text, "winner": None, "verdict": text} if request.output_schema else text or "-"

    pattern = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    handle = pattern.start(f"Rent? {text}", model=FunctionModel(answer))
    events = handle.follow()
    await read_until(events, is_call)
    while not handle.done():
        assert Page(handle._repr_html_()).tags <= {"style", "div", "p", "b", "bdi", "span", "h3", "h4", "pre", "code"}
        gate.release()
        await read_until(events, is_call)
    result = await handle
    page = Page(result._repr_html_())
    assert page.tags <= {"div", "p", "b", "bdi", "ul", "li", "iframe"}
    assert "<script" not in page.page
    assert "<img" not in page.page
    assert "<script" not in str(result._repr_markdown_()).replace("\\<", "")


async def test_output_of_a_large_run_stays_small() -> None:
    """Twenty long turns are shortened with a note, but the verdict is kept."""

    def answer(request: Any) -> Any:
        return {**VERDICT, "winner": "side 1"} if request.output_schema else "word " * 5_000

    sides = [Debater(f"speaker {number}", f"side {number}") for number in range(10)]
    pattern = debate(name="rent", debaters=sides, max_rounds=2, synthesizer=False)
    result = await pattern.run(QUESTION, model=FunctionModel(answer))
    html, markdown = str(result._repr_html_()), str(result._repr_markdown_())
    assert len(html) < 1_500_000
    assert len(markdown) < 1_000_000
    for text in (html, markdown):
        assert "contributions not shown here" in text
        assert "Yes." in text


def test_excerpt_omits_the_middle() -> None:
    """The first and the last contributions are kept.

    After the gap, the heading of the next contribution is repeated.
    """
    sections: list[Any] = []
    for number in range(1, 11):
        sections.append(Heading(title=f"Round {number}"))
        sections += [Entry(name=name, about="", text="x" * 500) for name in ("ann", "bob")]
    excerpted = excerpt(sections, maximum=5_000)
    remark = next(place for place, section in enumerate(excerpted) if isinstance(section, Remark))
    entries = sum(isinstance(section, (Entry, Group)) for section in excerpted)
    assert excerpted[remark].text.startswith(f"{20 - entries} contributions")  # type: ignore[union-attr]
    assert excerpted[:2] == sections[:2]
    assert excerpted[-3:] == sections[-3:]
    assert isinstance(excerpted[remark + 1], Heading)
    assert excerpt(sections) == sections
    assert excerpt([]) == []


@pytest.mark.parametrize("broken", ["raw", "events", "status"])
async def test_unprintable_value_causes_no_error(broken: str) -> None:
    class Broken(type(await _result())):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name == broken:
                raise RuntimeError(name)
            return super().__getattribute__(name)

    instance = object.__new__(Broken)
    instance.__dict__.update(vars(await _result()))
    instance._repr_html_()
    instance._repr_markdown_()


async def _result() -> Any:
    pattern = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    return await pattern.run(QUESTION, model=ScriptedModel("Yes.", "No.", VERDICT))


def _ballots(*winners: str) -> list[list[JudgeBallot]]:
    return [[JudgeBallot(order=["<b>for", "against"], winner=winner)] for winner in winners]


METHOD = {"n": 3, "right": 2, "accuracy": 0.67, "low": 0.2, "high": 0.9, "undecided": 0, "calls": 5, "tokens": None}
BENEFIT = {
    "n": 3,
    "attempted": 3,
    "confidence": 0.95,
    "minGain": 0.05,
    "methods": [{"method": "debate", **METHOD}, {"method": "single", **METHOD}],
    "comparisons": [],
    "finding": "too_few",
    "summary": "Too few to say: <b>right</b> in 2 of 3.",
}


async def _reports() -> Sequence[Any]:
    pattern = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    batch = await pattern.batch(["a|b?", HOSTILE], model=FunctionModel(answer_to)).all()
    return (
        audit(_ballots("<b>for", "against", "<b>for")),
        audit_run(await _result()),
        ReaderAgreement.of([("<b>for", ["<b>for", None])]),
        BenefitReport.model_validate(BENEFIT),
        Evaluation(report=BenefitReport.model_validate(BENEFIT), items=[], result=batch),
        batch,
    )


async def test_evaluation_reports_are_tables() -> None:
    for report in await _reports():
        page = Page(report._repr_html_())
        assert page.tags <= {"div", "p", "b", "bdi", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
        markdown = str(report._repr_markdown_())
        assert "<b>" not in markdown.replace("\\<", "")
        widths = {line.replace("\\|", "").count("|") for line in markdown.splitlines() if line.startswith("| ")}
        assert len(widths) <= 1


def test_notebook_code_is_loaded_only_on_demand() -> None:
    """A program that only runs a debate imports no page."""
    script = (
        "import sys, flowdebate\n"
        "from flowdebate import Debater, debate\n"
        "from flowdebate.testing import ScriptedModel\n"
        "sides = [Debater('a', 'x'), Debater('b', 'y')]\n"
        "block = debate(name='rent', debaters=sides, max_rounds=1, synthesizer=False)\n"
        "verdict = {'reasoning': 'r', 'winner': None, 'verdict': 'v'}\n"
        "result = block.run_sync('Q?', model=ScriptedModel('One.', 'Two.', verdict))\n"
        "heavy = ('flowdebate.web', 'flowdebate.service', 'flowdebate.notebook', 'IPython')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])\n"
        "print('<iframe' in result._repr_html_())\n"
        "print('IPython' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, text=True, check=True)  # noqa: S603
    assert done.stdout.split() == ["[]", "True", "False"]


@pytest.mark.skipif(find_spec("anywidget") is not None, reason="anywidget is installed")
async def test_missing_extra_raises_an_error_with_the_install_command() -> None:
    """`HumanTurn` and `show` can be imported without the extra and raise the error only when they are used."""
    from flowdebate.notebook import HumanTurn, show

    handle = debate(name="rent", debaters=SIDES, max_rounds=1).start("Q?", model=FunctionModel(answer_to))
    for use in (HumanTurn, lambda: show(handle)):
        with pytest.raises(ConfigurationError, match=r'pip install "flowdebate\[notebook\]"'):
            use()
    await handle
