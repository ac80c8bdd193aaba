"""Pages at several widths, and the live line with the current workers."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from flowdebate.cli.terminal.page import LivePage, Page, render
from flowdebate.cli.terminal.screen import AskOnScreen, Screen
from flowdebate.errors import FlowDebateError
from flowdebate.models.base import Usage
from flowdebate.patterns import PATTERNS
from flowdebate.runs.events import CallStarted
from flowdebate.testing import FunctionModel
from flowdebate.ui.document import document_of
from flowdebate.ui.models import models_line, prices_of
from flowdebate.ui.plan import make_plan
from flowdebate.ui.sections import Working

from .emulator import render_screen
from .siblings import build_document
from .stage import OnTerminal, Stage
from .test_render import DOCUMENT, HOSTILE
from .test_terminal import SIDES

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

WIDTHS = (60, 80, 120)
LONG = st.sampled_from(["x" * 200, "日本語" * 60, "👩\u200d🔬 " * 40, "flowdebate[audit]", "word " * 90, "a\n\n\nb"])
FOREIGN = st.lists(LONG | HOSTILE, min_size=1, max_size=4).map(" ".join)


class Terminal(io.StringIO):
    """Stream that reports itself as a terminal."""

    def isatty(self) -> bool:
        return True


def make_environment(columns: int, **more: str) -> dict[str, str]:
    """Return an environment with a terminal of the given width."""
    return {"TERM": "xterm", "COLUMNS": str(columns), **more}


@given(
    FOREIGN, st.sampled_from(WIDTHS), st.sampled_from(["debate", "deliberation", "handoff", "round_robin", "consensus"])
)
def test_no_line_of_a_page_is_wider_than_the_terminal(text: str, columns: int, pattern: str) -> None:
    """Pages with arbitrary text fit into 60, 80 and 120 columns, using the character widths that rich reports."""
    value: dict[str, Any] = {**DOCUMENT, "debaters": [{"name": "anna", "stance": text, "role": text}], "output": text}
    value["raw"] = {
        **DOCUMENT["raw"],
        "question": text,
        "transcript": [{"round": 1, "agentName": "anna", "stance": text, "text": text}],
        "verdict": {"verdict": text, "winner": text, "reasoning": text},
    }
    document = document_of(value if pattern == "debate" else build_document(text)[pattern], location="here")
    screen = Terminal()
    render(document, Page(screen, document.speakers, environ=make_environment(columns, NO_COLOR="1")))
    assert max(map(cell_len, screen.getvalue().split("\n"))) <= min(columns, 100)


@pytest.mark.parametrize("columns", WIDTHS)
def test_words_on_a_page_are_never_split(columns: int) -> None:
    """Words in remarks, warnings, findings and bracketed names are kept whole as well."""
    page = Page(screen := Terminal(), [], environ=make_environment(columns, NO_COLOR="1"))
    text = "the extra flowdebate[audit] is needed for the intervals of styles and the findings on each of them"
    page.line(text)
    page.remark(text)
    page.labeled("Left out", text, "")
    assert screen.getvalue().split() == f"{text} ({text}) Left out: {text}".split()
    assert screen.getvalue().count("\n") >= (6 if columns < len(text) else 3)


WORK = Working(
    who="The judge is weighing the arguments",
    since=5.0,
    facts=("turn 3 of 4", "1,200 tokens in, 80 out", "cost 0.0021"),
)


@pytest.mark.parametrize(
    ("columns", "live_line"),
    [
        (120, "The judge is weighing the arguments · 1 min 3 s · turn 3 of 4 · 1,200 tokens in, 80 out · cost 0.0021"),
        (80, "The judge is weighing the arguments · 1 min 3 s · turn 3 of 4"),
        (60, "The judge is weighing the arguments · 1 min 3 s"),
        (40, "The judge is weighing th… · 1 min 3 s"),
    ],
)
def test_live_line_shows_current_workers_and_times(columns: int, live_line: str) -> None:
    """The live line shows as many workers as fit. It disappears after the run, while the text of the debate stays."""
    now = 5.0
    screen = Screen(stream := Terminal(), environ=make_environment(columns), clock=lambda: now)
    with screen.live():
        screen.write("alpha\nbe")
        screen.working(WORK)
        now = 68.9
        screen.tick()
        first, rest, blank, line = render_screen(stream.getvalue()).split("\n")
        assert (first, rest, blank, line[1:].strip()) == ("alpha", "be", "", live_line)
        screen.write("ta\n")
    assert render_screen(stream.getvalue()).rstrip("\n") == "alpha\nbeta"


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_live_line_or_escape_codes_without_colors(env: dict[str, str]) -> None:
    screen = Screen(stream := Terminal(), environ=make_environment(80, **env))
    with screen.live():
        screen.working(WORK)
        screen.write("alpha", "bold")
        screen.tick()
    assert stream.getvalue() == "alpha"


def test_live_line_is_hidden_while_a_human_answers() -> None:
    """The live line returns after the answer, and unfinished text stays on the screen."""
    screen = Screen(stream := Terminal(), environ=make_environment(80), clock=lambda: 6.0)

    async def ask(_: object) -> str:
        stream.write("?")
        assert render_screen(stream.getvalue()).rstrip("\n") == "alpha?"
        screen.tick()
        assert "weighing" not in render_screen(stream.getvalue())
        return "typed"

    asking: Any = AskOnScreen(ask)
    asking.screen = screen
    with screen.live():
        screen.working(WORK)
        screen.write("alpha")
        assert asyncio.run(asking(None)) == "typed"
        screen.tick()
        assert "weighing" in render_screen(stream.getvalue())


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_every_call_of_every_pattern_shows_a_worker(pattern: str) -> None:
    """Workers are shown by name or role, never by block name, along with the time since the call began."""
    info = PATTERNS[pattern]
    plan = make_plan(
        info, {info.subject: "Should we cap rents?", "model": "staged", "base_url": "http://127.0.0.1:9/v1"}
    )
    states: list[tuple[str, Working]] = []

    async def follow() -> None:
        live = info.load_page().live(plan)
        live.clock = lambda: 7.0
        handle = plan.pattern().start(plan.subject, model=FunctionModel(simulate_answer))
        async for event in handle:
            sections = list(live.follow(event))
            if isinstance(event, CallStarted):
                assert isinstance(sections[-1], Working)
                states.append((event.block, sections[-1]))
        with contextlib.suppress(FlowDebateError):
            await handle

    asyncio.run(follow())
    assert states
    for block, work in states:
        assert block not in work.who
        assert " is " in work.who or " are " in work.who
        assert work.since == 7.0


def simulate_answer(request: ModelRequest) -> Any:
    """Return text if no schema is requested; otherwise, return an invalid answer, which ends the run."""
    return "Homes first." if request.output is None else "{}"


def test_quiet_shows_only_the_result() -> None:
    with Stage() as stage, OnTerminal(*stage.options(*SIDES, "--quiet")) as terminal:
        assert terminal.end() == 0
    assert "Verdict" in terminal.screen
    assert "Calls: " in terminal.screen
    assert "Homes first." not in terminal.screen
    assert "Round" not in terminal.screen
    assert "\x1b[?25l" not in terminal.seen


@pytest.mark.parametrize("columns", WIDTHS)
def test_lines_are_complete_at_any_terminal_width(columns: int) -> None:
    with Stage() as stage, OnTerminal(*stage.options(*SIDES, "--price", "1/2"), columns=columns) as terminal:
        assert terminal.end() == 0
    lines = terminal.screen.split("\n")
    assert lines[0].startswith("Model: staged at http://")
    assert max(map(cell_len, lines)) <= min(columns, 100)
    assert "Cost: 0.00008 by given prices" in " ".join(terminal.screen.split())


def test_models_are_listed_with_their_roles() -> None:
    sides = [{"name": "anna", "stance": "a", "model": "openai/gpt-5"}, {"name": "ben", "stance": "b"}]
    options = {"question": "Q?", "model": ["ollama/gemma3", "judge=openai/gpt-5"]}
    plan = make_plan(PATTERNS["debate"], options, file={"debaters": sides})
    description = "ollama/gemma3 (a server on this machine, at http://127.0.0.1:11434/v1)"
    assert models_line(plan) == f"Models: openai/gpt-5 (anna, judge); {description} (ben, synthesizer)"
    replay = make_plan(PATTERNS["debate"], {"question": "Q?", "replay": "answers.jsonl"})
    assert models_line(replay) == "Model: none; answers come from the recording answers.jsonl"


def test_price_applies_to_all_models_or_to_one() -> None:
    usage = Usage(calls=1, prompt_tokens=1_000_000, completion_tokens=1_000_000)
    price: Any = prices_of(["1/2", "big=10/20"])
    assert [price(model, usage) for model in ("small", "big", "local")] == [3.0, 30.0, 0.0]
    priced: Any = prices_of(["big=10/20"])
    assert set(priced) == {"big", "local"}
    assert prices_of([]) is None


def test_output_without_a_terminal_consists_of_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(
        PATTERNS["debate"], {"question": "word " * 60, "model": "staged", "base_url": "http://127.0.0.1:9/v1"}
    )
    page = io.StringIO()
    LivePage(plan, page, head=["Model: staged"])
    first, second, *_ = page.getvalue().split("\n")
    assert (first, second) == ("Model: staged", f"Question: {'word ' * 60}".rstrip())
    monkeypatch.setenv("COLUMNS", "40")
    narrow = io.StringIO()
    LivePage(plan, narrow, head=["Model: staged"])
    assert narrow.getvalue().split("\n")[1] == "Question: word word word word word word"
