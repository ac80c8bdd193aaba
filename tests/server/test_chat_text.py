"""Text of runs for chat clients: readable, the same whether live or stored, and safe against impersonation."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from markdown_it import MarkdownIt

from flowdebate import Limits, debate, generator, human, round_robin
from flowdebate.chassis.roster import Debater, Persona
from flowdebate.chassis.state import RoundStarted
from flowdebate.runs.events import CallRetried, TextDelta
from flowdebate.server.protocols.chat_text import ChatText, answer_of
from flowdebate.service import channel
from flowdebate.service.channel import Update
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.server.runs import Followed, Play, any_play, carry_out, debate_plays, follow_run

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDES = [Debater("pro", "cap rents"), Debater("con", "free rents")]
VERDICT = {"reasoning": "It was answered.", "winner": "cap rents", "verdict": "Cap them."}


@pytest.fixture(autouse=True, scope="module")
def unbuffered() -> Iterator[None]:
    """Send text to readers immediately."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "_PACE", 0)
        yield


def whole_text(run: Followed) -> str:
    """Return the whole text of a run."""
    chat = ChatText()
    return "".join(map(chat.translate, run.updates)) + chat.finish(run.details)


def text_blocks(run: Followed) -> list[str]:
    """Return the blocks of the run's text, without trailing whitespace from models.

    Text is shown as it arrives, so the whitespace is only known to be trailing once it has been shown.
    """
    return sorted(_BLANK.sub("", block) for block in whole_text(run).split("\n\n"))


_BLANK = re.compile(r"(\\(x0[bc]|x1[c-f]|x85|u2028|u2029|r)|[>\s])+$")


def follow_single_run(block: Any, model: Any, **play: Any) -> Followed:
    """Carry out a play and return its only run."""
    (run,) = carry_out(Play(block=block, model=model, **play))
    return run


def test_debate_is_formatted_as_markdown() -> None:
    model = ScriptedModel("Homes first.\nFor all.", "Supply first.", VERDICT, "Cap them, *then* build.")
    assert whole_text(follow_single_run(debate(name="rent", debaters=SIDES, max_rounds=1), model)) == (
        "## Round 1 of 1\n\n"
        "**pro**: cap rents\n\n> Homes first.\n> For all.\n\n"
        "**con**: free rents\n\n> Supply first.\n\n"
        "## Verdict\n\n- **Winner**: pro (cap rents)\n\n"
        "**Verdict**\n\n> Cap them.\n\n**Reasoning**\n\n> It was answered.\n\n"
        "## Summary\n\nCap them, *then* build."
    )


@given(any_play())
def test_live_and_stored_text_are_identical(play: Play) -> None:
    """Text streamed live must equal text read from the journal, except for the order of simultaneous speakers."""

    async def both_texts() -> list[Followed]:
        async with Service({"it": play.block}, store="memory:", model=play.model) as first:
            run = await first.begin("it", play.question, seed=play.seed)
            live = await follow_run(first, run.run_id)
            async with Service({"it": play.block}, store=first.store, model=play.model) as second:
                return [live, await follow_run(second, run.run_id)]

    live, stored = asyncio.run(both_texts())
    assume(live.details.status in ("complete", "degraded", "no_verdict"))
    # text that was already sent cannot be withdrawn after a retry or refusal
    assume("\n(that does not count: " not in whole_text(live))
    assert text_blocks(live) == text_blocks(stored)


@given(debate_plays(hostile=False))
def test_text_cannot_impersonate_another_speaker(play: Play) -> None:
    """Arguments appear only as quotations, and only the debate itself adds headings and speakers."""
    run = follow_single_run(play.block, play.model, question=play.question, seed=play.seed)
    text, _, _ = whole_text(run).partition("## Summary\n")
    tokens = MarkdownIt().parse(text)  # level 0 is text outside quotes
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open" and token.level == 0]
    rounds = [event for update in run.updates if isinstance(event := update.event, RoundStarted)]
    assert [title for title in headings if title.startswith("Round")] == [
        f"Round {event.round} of {event.max_rounds}" for event in rounds
    ]
    assert set(headings) <= {"Verdict", "Summary", *(title for title in headings if title.startswith("Round"))}
    assert not any(token.type in ("html_block", "fence", "code_block") for token in tokens if token.level == 0)


def test_simultaneous_speakers_are_shown_one_after_another() -> None:
    """One speaker's text is streamed, while the others' texts are shown in full once it is complete.

    Texts appear in the order in which their speakers began.
    """
    second_spoke = asyncio.Event()

    async def answer(request: Any) -> str:
        if request.block.endswith("pro"):
            request.on_text("Homes ")
            await second_spoke.wait()
            request.on_text("first.")
            return "Homes first."
        request.on_text("Supply first.")
        second_spoke.set()
        return "Supply first."

    class Writing(FunctionModel):
        async def request(self, request: Any, /) -> Any:
            from flowdebate.models.base import ModelResponse

            return ModelResponse(text=await answer(request))

    block = debate(
        name="rent",
        debaters=SIDES,
        max_rounds=1,
        turn_order="simultaneous",
        judge=lambda _: VERDICT,
        synthesizer=False,
    )
    text = whole_text(follow_single_run(block, Writing(lambda _: "")))
    assert "**pro**: cap rents\n\n> Homes first.\n\n**con**: free rents\n\n> Supply first.\n\n" in text


def test_void_text_is_marked_as_void() -> None:
    """Text cannot be withdrawn once it has been displayed, so the reader is told that it no longer counts."""
    run = follow_single_run(
        round_robin(name="panel", debaters=[Persona("Ann"), Persona("Ben")], max_rounds=1, synthesizer=False),
        ScriptedModel("Yes.", "No."),
    )
    at = next(index for index, update in enumerate(run.updates) if getattr(update.event, "kind", "") == "model_called")
    path = run.updates[at].event.path
    retried = CallRetried(block="Ann", model="m", attempt=2, error="E", message="it *broke*", wait=0, path=path)
    text = Update("text", TextDelta(block="Ann", text="They", path=path))
    spoiled = Followed(
        updates=[*run.updates[:at], text, Update("event", retried), *run.updates[at:]], details=run.details
    )
    assert "**Ann**\n\n> They\n\n(that does not count: it \\*broke\\*)\n\n**Ann**\n\n> Yes.\n\n" in whole_text(spoiled)


def test_text_cannot_control_the_terminal() -> None:
    """Control characters are escaped, even if they are split across chunks."""
    run = follow_single_run(generator(name="poet"), ScriptedModel("x"))
    assert "\x1b" not in whole_text(run)
    block = debate(name="rent", debaters=SIDES, max_rounds=1, judge=lambda _: VERDICT, synthesizer=False)
    text = whole_text(follow_single_run(block, ScriptedModel("Homes \x1b[2Jfirst.\rGone", "Supply.")))
    assert "> Homes \\x1b[2Jfirst.\\rGone\n" in text


def test_text_of_a_waiting_or_incomplete_run_gives_the_reason() -> None:
    waits = debate(
        name="rent", debaters=[SIDES[0], Debater("con", "free rents", block=human(name="ann"))], synthesizer=False
    )
    run = follow_single_run(waits, ScriptedModel("Homes first."))
    assert f"(Run {run.details.run_id} goes on once this is answered.)" in whole_text(run)
    cut = follow_single_run(debate(name="rent", debaters=SIDES), ScriptedModel("Homes first."), limits=Limits(calls=1))
    assert whole_text(cut).endswith(
        "(The run ended early: LimitReached: the run has reached its limit: calls=1 (1 used))"
    )


@pytest.mark.parametrize(
    ("block", "replies", "answer"),
    [
        (debate(name="rent", debaters=SIDES, max_rounds=1), ["a", "b", VERDICT, "Cap."], "Cap."),
        (debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False), ["a", "b", VERDICT], "Cap them."),
    ],
    ids=["the output", "the verdict"],
)
def test_answer_is_the_result_of_the_run(block: Any, replies: list[Any], answer: str) -> None:
    """The answer is the synthesizer's output if there is a synthesizer, and the pattern's output otherwise."""
    assert answer_of(follow_single_run(block, ScriptedModel(*replies)).details) == answer
