"""Provider failures in a handoff: failed turns, the choice of the next speaker, and failed retries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import StandIn
from flowdebate.chassis.state import RoleFailed
from flowdebate.errors import FlowDebateError, ProviderFailed, Refused
from flowdebate.patterns.handoff import HandoffMade
from flowdebate.testing import FunctionModel, ScriptedModel
from flowdebate.testing.cases import Sabotage
from flowdebate.testing.strategies import hostile_replies, termination_predicates
from tests.patterns.debates import events

from .speakers import FORMS, NAMES, PROPOSITION, SPEAKERS, morals, over, turns

if TYPE_CHECKING:
    from flowdebate import HandoffOutput
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

DOWN = ProviderFailed("the endpoint answered 503", status=503)


def losses(result: Any) -> list[tuple[str, int, str]]:
    """Return each failure's name, turn and recovery."""
    return [(loss.name, loss.round, loss.instead) for loss in result.raw.losses]


def test_skipped_turns_are_counted_and_followed_by_a_random_speaker() -> None:
    model = ScriptedModel(over("Yes.", "Con"), DOWN, over("Third.", "Con"))
    result = morals(debaters=SPEAKERS[:2], on_failure="skip").run_sync(PROPOSITION, model=model)
    model.assert_complete()
    assert losses(result) == [("Con", 2, "skipped")]
    assert [entry.round for entry in result.output.transcript] == [1, 3]
    skipped = events(result, HandoffMade)[1]
    assert (skipped.agent_name, skipped.next_agent_name, skipped.chosen_by) == ("Con", "Pro", "random")
    assert skipped.problem == "the turn was lost"
    assert (result.status, result.output.status, result.output.turns) == ("degraded", "degraded", 3)
    assert [task.status for task in result.tasks.list()] == ["completed", "errored", "completed"]


@pytest.mark.parametrize("form", FORMS)
def test_handoffs_end_even_if_all_turns_fail(form: Any) -> None:
    pattern = morals(on_failure="skip", transition=form, max_turns=5)
    result = pattern.run_sync(PROPOSITION, model=ScriptedModel(*[DOWN] * 5))
    assert (result.output.turns, result.output.transcript, result.output.stop_reason) == (5, [], "max_turns")
    assert [instead for *_, instead in losses(result)] == ["skipped"] * 5
    next_names = [event.next_agent_name for event in events(result, HandoffMade)]
    assert [name for name, _, _ in losses(result)] == ["Pro", *next_names[:-1]]


def test_fallback_models_replace_a_speaker_and_are_retried() -> None:
    stand_in = ScriptedModel(over("For Pro.", "Bob"), over("x", "Neutral"), DOWN, name="stand-in")
    model = ScriptedModel(DOWN, DOWN, name="own")
    result = morals(on_failure=StandIn(stand_in), max_turns=2).run_sync(PROPOSITION, model=model)
    assert turns(result.output) == [("Pro", "For Pro.", "Neutral", "retry")]
    assert losses(result) == [("Pro", 1, "stand_in"), ("Neutral", 2, "stand_in"), ("Neutral", 2, "skipped")]
    assert {call.block for call in stand_in.calls} >= {"morals-stand-in-debater-Pro"}
    stand_in.assert_complete()


@pytest.mark.parametrize("on_failure", ["skip", StandIn(ScriptedModel())], ids=["skip", "stand-in"])
def test_failed_retries_keep_the_text(on_failure: Any) -> None:
    model = ScriptedModel(over("Yes.", "Bob"), Refused("not that again"))
    result = morals(on_failure=on_failure, max_turns=1).run_sync(PROPOSITION, model=model)
    ((_, text, name, by),) = turns(result.output)
    assert (text, by) == ("Yes.", "random")
    assert name in NAMES[1:]
    assert losses(result) == [("Pro", 1, "drawn")]
    assert [event.instead for event in events(result, RoleFailed)] == ["drawn"]


def test_fail_policy_keeps_the_text() -> None:
    with pytest.raises(Refused) as caught:
        morals().run_sync(PROPOSITION, model=ScriptedModel(over("Yes.", "Bob"), Refused("no")))
    assert caught.value.run is not None
    assert turns(caught.value.run.raw) == [("Pro", "Yes.", None, None)]


@pytest.mark.parametrize("again", [False, True], ids=["the turn", "asked again"])
async def test_turns_and_retries_have_separate_timeouts(again: bool) -> None:  # noqa: FBT001
    never = asyncio.Event()
    calls: list[int] = []

    async def answer(_: ModelRequest) -> Any:
        calls.append(1)
        if len(calls) > again:
            await never.wait()
        return over("In time.", "Bob")

    pattern = morals(on_failure="skip", turn_timeout=0.05, max_turns=1)
    result = await pattern.run(PROPOSITION, model=FunctionModel(answer))
    assert [text for _, text, _, _ in turns(result.output)] == (["In time."] if again else [])
    assert losses(result) == [("Pro", 1, "drawn" if again else "skipped")]


@pytest.mark.parametrize("calls", range(1, 7))
@pytest.mark.parametrize("form", FORMS)
async def test_cancelled_handoffs_keep_their_turns(form: Any, calls: int) -> None:
    reached = asyncio.Event()
    count = 0

    async def answer(request: ModelRequest) -> Any:
        nonlocal count
        count += 1
        if count == calls:
            reached.set()
            await asyncio.Event().wait()
        if form == "text" and count % 2:
            return "Without a marker."
        return over("Bad.", "Bob", form) if count % 2 else over("Good.", "Con", form)

    handle = morals(transition=form, max_turns=9).start(PROPOSITION, model=FunctionModel(answer))
    await reached.wait()
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert handle.raw is not None
    assert (handle.status, handle.raw.status) == ("interrupted", "interrupted")
    assert handle.raw is not None
    entries = handle.raw.transcript
    assert len(entries) == calls // 2
    undecided = [entry for entry in entries if entry.next_agent_name is None]
    assert undecided == (entries[-1:] if calls % 2 == 0 else [])
    assert handle.transcript.entries == entries


REPLIES = (
    st.builds(lambda to: over("Words.", to), st.sampled_from([*NAMES, "Bob", "", None]))
    | st.builds(lambda to: over("Words.", to, "text"), st.sampled_from([*NAMES, "Bob", ""]))
    | st.builds(lambda to: over("Words.", to, "tool"), st.sampled_from([*NAMES, "Bob", "", 5]))
    | hostile_replies()
)


def run_to_end(pattern: Sequencer[Any, Any], model: FunctionModel, *, may_fail: bool) -> HandoffOutput | None:
    """Run a handoff, check it and return its output, or None if the application itself failed."""
    try:
        result = pattern.run_sync(PROPOSITION, model=model)
    except FlowDebateError as failure:
        error = failure
    except Sabotage:
        return None
    else:
        output: HandoffOutput = result.output
        check_turns(output, events(result, HandoffMade))
        return output
    assert may_fail
    assert error.run is not None
    raw: HandoffOutput = error.run.raw
    return raw


def check_turns(output: HandoffOutput, handovers: list[HandoffMade]) -> None:
    """Check that the previously chosen speaker takes each turn and hands over to a different one."""
    assert output.stop_reason in {"max_turns", "predicate"}
    assert [event.round for event in handovers] == list(range(1, output.turns + 1))
    assert [event.agent_name for event in handovers] == ["Pro", *(event.next_agent_name for event in handovers[:-1])]
    assert all(event.next_agent_name != event.agent_name for event in handovers)
    assert all(entry.next_agent_name in NAMES for entry in output.transcript)


@given(
    st.lists(REPLIES, min_size=1, max_size=4),
    st.sampled_from(FORMS),
    st.sampled_from(["retry", "random", "error"]),
    st.sampled_from(["fail", "skip"]),
    st.integers(1, 4),
    st.none() | termination_predicates(),
)
def test_handoffs_end_whatever_the_models_answer(
    replies: list[Any], form: Any, policy: Any, on_failure: Any, max_turns: int, stop: Any
) -> None:
    """A turn makes at most two calls, and a speaker chosen at random is never the one who has just spoken."""
    calls: list[int] = []

    def answer(_: ModelRequest) -> Any:
        calls.append(1)
        reply = replies[len(calls) % len(replies)]
        if isinstance(reply, BaseException):
            raise reply
        return reply

    pattern = morals(
        transition=form, on_invalid=policy, on_failure=on_failure, max_turns=max_turns, terminate_when=stop
    )
    raw = run_to_end(pattern, FunctionModel(answer), may_fail=on_failure == "fail" or policy == "error")
    if raw is None:
        return
    assert raw.turns <= max_turns
    rounds_of_tools = 9  # some of these answers call tools repeatedly
    assert len(calls) <= 2 * max_turns * rounds_of_tools
