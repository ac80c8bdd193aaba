"""Rounds of a deliberation: personas speak concurrently, do not see each other, and are recorded in declared order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Persona
from flowdebate.chassis.state import RoundStarted, TurnFinished, TurnStarted
from flowdebate.patterns.deliberation import create_deliberation_transcript
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import blocks_asked, events

from .deliberations import PERSONAS, SETTLED, TOPIC, by_role, deal, entries_of, report

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


def test_rounds_call_each_persona_and_the_moderator_once() -> None:
    model = ScriptedModel("A1", "B1", report(), "A2", "B2", SETTLED)
    result = deal().run_sync(TOPIC, model=model)
    model.assert_complete()
    assert blocks_asked(model) == ["deal-debater-bull", "deal-debater-bear", "deal-moderator"] * 2
    assert entries_of(result.output) == [(1, "bull", "A1"), (1, "bear", "B1"), (2, "bull", "A2"), (2, "bear", "B2")]
    assert [entry.role for entry in result.output.history[:2]] == ["investor", "risk analyst"]
    assert result.output.rounds == 2
    assert result.usage.calls == 6


async def test_personas_in_a_round_are_called_concurrently() -> None:
    """All ten personas are called before the first one answers, and the moderator waits for the last of them."""
    count = 10
    under_way: list[str] = []
    all_are = asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-moderator"):
            assert len(under_way) == count
            return SETTLED
        under_way.append(request.block)
        if len(under_way) == count:
            all_are.set()
        await all_are.wait()
        return "said"

    personas = [Persona(f"p{number}") for number in range(count)]
    result = await deal(debaters=personas).run(TOPIC, model=FunctionModel(answer))
    assert [entry.name for entry in result.output.history] == [persona.name for persona in personas]


@given(st.permutations(["ann", "bea", "cid"]))
def test_entries_keep_the_declared_order(order: list[str]) -> None:
    async def run() -> tuple[Any, list[str]]:
        answered_events = {name: asyncio.Event() for name in order}
        prompts: list[str] = []

        async def answer(request: ModelRequest) -> Any:
            if request.block.endswith("-moderator"):
                prompts.append(str(request.messages[-1]["content"]))
                return SETTLED
            name = request.block.removeprefix("deal-debater-")
            place = order.index(name)
            if place:
                await answered_events[order[place - 1]].wait()
            answered_events[name].set()
            return f"I am {name}"

        personas = [Persona(name) for name in ("ann", "bea", "cid")]
        result = await deal(debaters=personas).run(TOPIC, model=FunctionModel(answer))
        finished = [event.agent_name for event in events(result, TurnFinished)]
        assert finished == order
        return result.output, prompts

    output, (prompt,) = asyncio.run(run())
    assert [entry.name for entry in output.history] == ["ann", "bea", "cid"]
    assert "[ann] I am ann\n[bea] I am bea\n[cid] I am cid" in prompt


async def test_personas_do_not_see_entries_from_the_same_round() -> None:
    """Entries from the current round are hidden even from a slow custom block that reads the transcript."""
    spoke = asyncio.Event()
    transcripts: list[list[str]] = []
    transcript = create_deliberation_transcript()

    async def late(topic: object, ctx: Context) -> str:
        await spoke.wait()
        transcripts.append([entry.text for entry in ctx.resources.transcript.state.entries])
        return "late"

    async def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-moderator"):
            spoke.clear()
            return report()
        assert "said by" not in str(request.messages) or "Round 1" in str(request.messages)
        spoke.set()
        return "said by bull"

    personas = [Persona("owl", block=late), PERSONAS[0]]
    pattern = deal(debaters=personas, max_rounds=2, transcript=transcript)
    await pattern.run(TOPIC, model=FunctionModel(answer))
    assert transcripts == [[], ["late", "said by bull"]]


async def test_state_contains_the_answers_of_the_current_round() -> None:
    states: list[dict[str, str]] = []

    def close(topic: object, ctx: Context) -> dict[str, Any]:
        states.append(ctx.sequencer.state.spoken)
        return report()

    first = asyncio.Event()

    async def quick(topic: object) -> str:
        first.set()
        return "quick"

    async def slow(topic: object, ctx: Context) -> str:
        await first.wait()
        states.append(ctx.sequencer.state.spoken)
        return "slow"

    personas = [Persona("owl", block=quick), Persona("fox", block=slow)]
    await deal(debaters=personas, moderator=close, max_rounds=1).run(TOPIC)
    assert states == [{"owl": "quick"}, {}]


def test_rounds_and_turns_are_emitted_in_order() -> None:
    result = deal(max_rounds=2).run_sync(TOPIC, model=by_role(reports=report()))
    kinds = (RoundStarted, TurnStarted, TurnFinished)
    emitted = [
        (event.kind, event.round)
        for event in result.events
        if isinstance(event, kinds) or getattr(event, "kind", "") in {"moderator_reported", "rounds_ended"}
        if hasattr(event, "round")
    ]
    turns = ["turn_started", "turn_finished"] * 2
    assert emitted == [(kind, number) for number in (1, 2) for kind in ["round_started", *turns, "moderator_reported"]]
    assert {event.stance for event in events(result, TurnStarted)} == {None}


def test_persona_outputs_are_converted_to_text() -> None:
    personas = [Persona("owl", block=lambda _: {"text": "hoot"}), Persona("fox", block=lambda _: 7)]
    with pytest.warns(UserWarning, match="'fox' returned a int"):
        output = deal(debaters=personas).run_sync(TOPIC, model=ScriptedModel(SETTLED)).output
    assert [entry.text for entry in output.history] == ["hoot", "7"]
