"""The terminal page, and the events shown on it."""

from __future__ import annotations

import io
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowdebate.chassis.state import RoleFailed, TurnFinished, TurnStarted
from flowdebate.cli.terminal.page import Page, render
from flowdebate.patterns import PATTERNS
from flowdebate.patterns.debate.document import DebateDocument
from flowdebate.patterns.debate.page import DebateLive
from flowdebate.runs.events import BlockAnswered, CallRetried, TextDelta, ToolCalled
from flowdebate.ui.document import speakers_of
from flowdebate.ui.plan import make_plan
from flowdebate.ui.text import printable

from .test_render import DOCUMENT, HOSTILE

TERMINAL = {"TERM": "xterm", "COLUMNS": "80"}
ESCAPES = re.compile(r"\x1b\[[\d;]*m|\r\x1b\[2K")


class Screen(io.StringIO):
    """A terminal with 80 columns."""

    def isatty(self) -> bool:
        return True


class View:
    """A live view of a moderated debate between two sides, on a page."""

    def __init__(self, stream: io.StringIO) -> None:
        sides = ["anna=cap rents", "ben=free rents"]
        plan = make_plan(PATTERNS["debate"], {"question": "Q?", "debaters": sides, "moderator": True})
        self.page = Page(stream, speakers_of(plan.speakers), environ=TERMINAL)
        self._live = DebateLive(plan)

    def show(self, event: object) -> None:
        """Show the sections for an event."""
        for section in self._live.sections(event):
            self.page.show(section)


def render_turn(*events: object) -> str:
    """Return the page for one turn by anna with the given `events`."""
    stream = io.StringIO()
    live = View(stream)
    fields = {"block": "a", "round": 1, "agent_name": "anna", "stance": "cap rents"}
    for event in (TurnStarted(**fields), *events, TurnFinished(**fields)):  # type: ignore[arg-type]  # as declared
        live.show(event)
    return stream.getvalue()


@given(HOSTILE)
def test_untrusted_text_cannot_control_the_terminal(text: str) -> None:
    """Apart from the page's own color codes, every character is printable, even in frames, headings and labels."""
    value = {**DOCUMENT, "status": "failed", "error": text, "output": {text: text}}
    value["debaters"] = [{"name": text, "stance": text, "role": text}]
    value["raw"] = {
        **DOCUMENT["raw"],
        "question": text,
        "transcript": [{"round": 1, "agentName": text, "stance": text, "text": text}],
        "verdict": {"verdict": text, "winner": text, "reasoning": text},
        "moderatorDecisions": [{"round": 1, "nextSpeakers": [text], "briefing": text, "newAngle": text}],
    }
    document = DebateDocument.model_validate(value)
    screen = Screen()
    render(document, Page(screen, document.speakers, environ=TERMINAL))
    visible = ESCAPES.sub("", screen.getvalue())
    assert printable(visible) == visible
    assert "─ Round 1 of 2 ─" in visible


@given(st.lists(HOSTILE, max_size=5), HOSTILE)
def test_live_text_is_printable_however_it_is_split(pieces: list[str], tool: str) -> None:
    """However the text and tool results are split into chunks, they cannot control the terminal.

    All of their lines are indented.
    """
    events = [TextDelta(block="a", text=piece) for piece in pieces]
    output = render_turn(ToolCalled(block="a", tool=tool, arguments=tool, result=tool), *events)
    assert printable(output) == output
    first, second, *remaining = output.split("\n")
    assert (first, second) == ("", "anna:")
    assert all(line.startswith("  ") or not line for line in remaining)


def test_text_is_shown_once_with_or_without_streaming() -> None:
    answer = BlockAnswered(block="a", output="Homes first.")
    pieces = [TextDelta(block="a", text="Homes "), TextDelta(block="a", text="first.")]
    assert render_turn(answer) == render_turn(*pieces, answer) == "\nanna:\n  Homes first.\n"


def test_truncated_text_is_marked() -> None:
    cut = BlockAnswered(block="a", output="Homes first.", truncated=True)
    assert render_turn(cut).endswith("\n  (the answer was cut off; it counts up to its last full sentence)\n")


def test_tool_calls_are_shown_briefly() -> None:
    output = render_turn(ToolCalled(block="a", tool="lookup", arguments='{"q": 1}', result="x" * 5000))
    assert "".join(output.split()) == f'anna:Tool:lookup({{"q":1}})={"x" * 200}…(5,000)'  # this holds at any width


@given(st.data())
def test_simultaneous_speakers_are_shown_one_after_another(data: st.DataObject) -> None:
    """The page shows the turns in order, however their chunks are interleaved.

    A skipped turn does not block the next one.
    """
    turns = []
    for name in ("anna", "ben", "cy"):
        fields = {"block": f"debate-{name}", "round": 1, "agent_name": name, "stance": "s"}
        pieces = data.draw(st.lists(st.sampled_from(["Homes ", "first. ", "\n"]), max_size=3))
        ends = [BlockAnswered(block=fields["block"], output="".join(pieces) or "Yes."), TurnFinished(**fields)]  # type: ignore[arg-type]  # as declared
        if data.draw(st.booleans()):
            failed = {"role": "debater", "name": name, "error": "E", "message": "no", "instead": "skipped"}
            ends = [RoleFailed(block=fields["block"], round=1, **failed)]  # type: ignore[arg-type]  # as declared
        deltas = [TextDelta(block=str(fields["block"]), text=piece) for piece in pieces]
        turns.append([TurnStarted(**fields), *deltas, *ends])  # type: ignore[arg-type]  # as declared
    together = [turn.pop(0) for turn in turns]
    apart = [event for first, turn in zip(together, turns, strict=True) for event in (first, *turn)]
    while any(turns):
        together.append(data.draw(st.sampled_from([turn for turn in turns if turn])).pop(0))
    assert render_events(together) == render_events(apart)


def render_events(events: list[Any]) -> str:
    """Return the page for `events`."""
    stream = io.StringIO()
    live = View(stream)
    for event in events:
        live.show(event)
    return stream.getvalue()


def test_answer_that_does_not_count_is_marked() -> None:
    retried = CallRetried(block="a", model="m", attempt=2, error="Copied", message="it copies", wait=0.0)
    events = [
        TextDelta(block="a", text="First.", path="a", at=0.0),
        retried,
        TextDelta(block="a", text="Second.", path="a", at=1.0),
    ]
    lines = [
        line.strip()
        for line in ESCAPES.sub("", render_turn(*events, BlockAnswered(block="a", output="Second."))).split("\n")
    ]
    sentences = ["First.", "(that answer does not count)", "(it copies; asking again)", "Second."]
    assert [line for line in lines if line][-4:] == sentences
    counts = BlockAnswered(block="a", output="First.", first_counts=True)
    lines = [line.strip() for line in ESCAPES.sub("", render_turn(*events, counts)).split("\n")]
    assert [line for line in lines if line][-6:] == [
        *sentences,
        "(that answer is no better than the first one, so the first one counts)",
        "First.",
    ]
