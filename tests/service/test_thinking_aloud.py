"""Debates whose model server streams the model's thinking: which text is shown and stored."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import OpenAIModel
from flowdebate.cli.terminal.page import Page
from flowdebate.mcp.progress import Progress
from flowdebate.patterns import PATTERNS
from flowdebate.patterns.debate.page import DebateLive
from flowdebate.runs.events import ModelCalled, TextWithdrawn
from flowdebate.server.protocols.chat_text import ChatText
from flowdebate.service import Service
from flowdebate.ui.document import speakers_of
from flowdebate.ui.plan import make_plan
from flowdebate.web.run.live import LivePage
from tests.cli.stage import PATIENCE, Stage, start_on_pipes

if TYPE_CHECKING:
    from flowdebate.service.channel import Update
    from flowdebate.service.state import RunDetails

pytestmark = pytest.mark.anyio

SIDES = [{"name": "ann", "stance": "cap rents"}, {"name": "ben", "stance": "free rents"}]
THOUGHT = "My secret plan"
ANNOUNCED = ("<thi", "nk>\n", THOUGHT, " is {this}.\n", "</think>", "\n\n", "Homes ", "first.")
UNANNOUNCED = (THOUGHT, " is this.\n", "</think>\n", "\n", "Build ", "more.", "<|im_", "end|>")
HARMONY = (
    *("<|channel|>", "analysis", "<|message|>", THOUGHT, "<|end|>", "<|start|>assistant"),
    *("<|channel|>", "final", "<|message|>", "Homes ", "first.", "<|return|>"),
)


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """Debate as seen by its followers."""

    updates: list[Update]
    details: RunDetails
    stored: str
    """All messages sent to the model server, as JSON."""

    @property
    def texts(self) -> list[str]:
        """Return the text of each turn in the document."""
        document: Any = self.details.document
        return [entry.text for entry in document.raw.transcript]

    @property
    def chat(self) -> str:
        """Return the stream from the OpenAI endpoint."""
        chat = ChatText()
        return "".join(map(chat.translate, self.updates)) + chat.finish(self.details)

    @property
    def terminal(self) -> str:
        """Return what a terminal would show."""
        plan = make_plan(PATTERNS["debate"], {"question": "Q?", "debaters": ["ann=cap rents", "ben=free rents"]})
        stream = io.StringIO()
        page, live = Page(stream, speakers_of(plan.speakers)), DebateLive(plan)
        for update in self.updates:
            for section in live.follow(update.event) if update.event is not None else ():
                page.show(section)
        page.end_text()
        return stream.getvalue()

    @property
    def page(self) -> list[str]:
        """Return all messages sent to a page, and the growing texts in them."""
        page = LivePage(None)
        pieces: list[str] = []
        for update in self.updates:
            if update.event is not None:
                page.take(update.event, update.start if update.kind == "text" else None)
                pieces.append(page.news())
                if update.kind == "text":
                    pieces.append(page.text(update.event.path))
        return list(filter(None, pieces))

    @property
    def progress(self) -> list[str]:
        """Return the progress messages of an MCP client."""
        progress = Progress(None)
        return [progress.message for update in self.updates if update.kind == "event" and progress.follow(update.event)]


async def play(*turns: tuple[str, ...], times: int = 1, hold: tuple[int, int] | None = None) -> list[ObservedRun]:
    """Run debates whose turns arrive in these pieces. A turn on hold continues once some text has been read."""
    runs = []
    with Stage(turns=turns, hold=hold) as stage:
        model = OpenAIModel("staged", base_url=stage.base_url, api_key="sk-none")
        async with Service(store="memory:", model=model) as service:
            for _ in range(times):
                options = {"max_rounds": 1, "debaters": SIDES, "synthesizer": False}
                run_id = (await service.begin("debate", "Cap rents?", options=options)).run_id
                updates: list[Update] = []
                async for update in service.follow(run_id):
                    updates.append(update)
                    if update.kind == "text":
                        stage.let_go()
                details = await service.run(run_id)
                prompts = json.dumps([message["content"] for body in stage.bodies for message in body["messages"]])
                runs.append(ObservedRun(updates=updates, details=details, stored=prompts))
    return runs


@pytest.mark.parametrize("turn", [ANNOUNCED, HARMONY])
async def test_announced_thinking_is_never_shown(turn: tuple[str, ...]) -> None:
    """The thinking is hidden from readers, the opponent and the judge; only the contribution is streamed."""
    (view,) = await play(turn, ("Build ", "more."))
    assert view.texts == ["Homes first.", "Build more."]
    texts = [view.chat, view.terminal, *view.page, *view.progress, view.stored]
    assert not [text for text in texts if THOUGHT in text or "think>" in text or "<|" in text]
    assert "> Homes first.\n" in view.chat
    assert "Homes first." in view.terminal
    pieces = [update.event.text for update in view.updates if update.kind == "text"]
    assert pieces[0].startswith("Homes")


async def test_unannounced_thinking_is_withdrawn_once_and_then_withheld() -> None:
    """Unannounced thinking cannot be recognized at first, so every front end marks the text already shown as void."""
    first, second = await play(UNANNOUNCED, times=2)
    for view in (first, second):
        assert view.texts == ["Build more.", "Build more."]
        assert THOUGHT not in view.stored
    withdrawn = [update for update in first.updates if isinstance(update.event, TextWithdrawn)]
    assert [update.mark for update in withdrawn] == [None]
    assert "> Build more.\n" in first.chat
    assert "Build more." in first.terminal
    assert not [text for text in [*first.page[-2:], *first.progress] if THOUGHT in text]
    assert not [text for text in (second.chat, second.terminal, *second.page) if THOUGHT in text]
    assert not [update for update in second.updates if isinstance(update.event, TextWithdrawn)]


async def test_thinking_is_marked_as_void() -> None:
    (view,) = await play(UNANNOUNCED, hold=(0, 2))
    remark = "(that does not count: the model was only thinking)"
    assert f"> {THOUGHT} is this.\n> \n\n{remark}\n\n**ann**: cap rents\n\n> Build more.\n" in view.chat
    assert re.search(rf"{THOUGHT} is this\.\s+{re.escape(remark)}\s+Build more\.", view.terminal)
    assert any(THOUGHT in piece for piece in view.page)
    assert not any(THOUGHT in piece for piece in view.page[-3:])
    assert view.texts == ["Build more.", "Build more."]


async def test_thinking_is_counted_with_its_call() -> None:
    """The server in this test does not report reasoning tokens, so they are estimated."""
    (view,) = await play(ANNOUNCED)
    calls = [update.event for update in view.updates if isinstance(update.event, ModelCalled)]
    assert all("thought_aloud" in call.flags for call in calls[:2])
    assert all(call.usage.reasoning_tokens for call in calls[:2])


def test_command_shows_only_the_spoken_text() -> None:
    """The output is piped to another program, which must not receive the model's thinking."""
    with Stage(turns=(ANNOUNCED, HARMONY)) as stage:
        options = ["--debater", "ann=cap rents", "--debater", "ben=free rents", "--max-rounds", "1"]
        with start_on_pipes(*stage.options(*options, "--no-synthesizer")) as process:
            out, problems = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, problems
    assert out.count(b"Homes first.") == 2
    assert THOUGHT.encode() not in out + problems
