"""Events and output fields that consensus debates share with all other patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from flowdebate.chassis.output import Entry, PatternOutput
from flowdebate.chassis.state import ProviderFailure, RoleFailed, RoundsEnded, RoundStarted, TurnFinished, TurnStarted
from flowdebate.errors import NoProposals, ProviderFailed
from flowdebate.patterns.consensus.agents import create_conclusive_judge
from flowdebate.patterns.consensus.events import wire_events
from flowdebate.patterns.consensus.schemas import ConsensusOutput
from flowdebate.runs.events import ModelCalled
from tests.patterns.debates import events

from .debates import NAMES, TASK, Call, World, answer_of, check_emitted, model, plan, within

if TYPE_CHECKING:
    from flowdebate.runs.context import Context


def run_debate(world: World, **options: Any) -> Any:
    """Run a debate in `world`, and return the run even if it ended without proposals."""
    try:
        return plan(world.names, **options).run_sync(TASK, model=world.model(), seed=world.seed)
    except NoProposals as error:
        return error.run


@given(size=st.integers(1, 4), seed=st.integers(0, 999), failing=st.sampled_from((0.0, 0.2, 0.5)))
def test_each_agent_call_is_a_turn(size: int, seed: int, failing: float) -> None:
    world = World(seed, NAMES[:size], failing)
    run = run_debate(world, max_rounds=2)
    check_emitted(run)
    calls = {(call.phase, call.agent, call.target) for call in world.prompts}
    answered = {(call.phase, call.agent, call.target) for call in world.answers}
    started = events(run, TurnStarted)
    assert {(turn.phase, turn.agent_name, turn.target) for turn in started} == calls
    assert len(started) == len(world.prompts)
    finished = events(run, TurnFinished)
    assert {(turn.phase, turn.agent_name, turn.target) for turn in finished} == answered
    assert len(finished) == len(world.answers)
    failures = [
        event for event in events(run, RoleFailed) if event.error != "CircuitOpen" and event.instead == "skipped"
    ]
    assert len(failures) == len(started) - len(finished)


@given(seed=st.integers(0, 999), failing=st.sampled_from((0.0, 0.2)), rounds=st.integers(1, 3))
def test_rounds_start_and_end_as_they_do_in_other_patterns(seed: int, failing: float, rounds: int) -> None:
    run = run_debate(World(seed, failing=failing), max_rounds=rounds)
    raw: ConsensusOutput = run.raw
    assert [event.round for event in events(run, RoundStarted)] == [one.round for one in raw.rounds]
    assert {event.max_rounds for event in events(run, RoundStarted)} <= {rounds}
    ended = [(event.rounds, event.reason) for event in events(run, RoundsEnded)]
    assert ended == ([(len(raw.rounds), raw.stop_reason)] if raw.rounds else [])
    assert raw.stop_reason == ("max_rounds" if raw.early_end is None else raw.early_end.source) or not raw.rounds


def test_all_event_paths_are_under_the_debate_path() -> None:
    def answer(call: Call) -> Any:
        return ProviderFailed("down") if call == Call("vote", "cy") else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer))
    kinds = (RoundStarted, RoundsEnded, TurnStarted, TurnFinished, RoleFailed)
    debate_events = [event for event in result.events if isinstance(event, kinds)]
    assert {type(event) for event in debate_events} == set(kinds)
    assert all(event.path.startswith("plan/") for event in debate_events)
    assert {event["path"] for event in wire_events(result.events)} == {"plan"}


def test_nested_debates_keep_their_events_separate() -> None:
    async def inner(request: Any, ctx: Context) -> Any:
        if request.kind == "vote":
            return "cy"
        return (await team(request.task, ctx.child("team", f"{ctx.path}/team"))).answer

    team = plan(NAMES[:2], max_rounds=1, name="plan")
    outer = plan(agents=[{"name": "cy", "block": inner}], max_rounds=1, name="outer")
    result = outer.run_sync(TASK, model=model())
    wire = list(wire_events(result.events))
    debates = {event["path"] for event in wire if event["kind"] == "debate_start"}
    assert len(debates) == 2
    for path in debates:
        debate_events = [event for event in wire if event["path"] == path]
        assert [event["sequence"] for event in debate_events] == list(range(1, len(debate_events) + 1))
        assert [debate_events[0]["kind"], debate_events[-1]["kind"]] == ["debate_start", "debate_end"]


def test_output_has_the_fields_common_to_all_patterns() -> None:
    def answer(call: Call) -> Any:
        fails = call == Call("critique", "ann", 1, "bob") or call.phase == "judge"
        return ProviderFailed("down") if fails else None

    judge = create_conclusive_judge(name="plan")
    result = plan(NAMES[:2], max_rounds=2, convergence=None, judge=judge, failures=within(5)).run_sync(
        TASK, model=model(answer), seed=7
    )
    raw = result.raw
    assert isinstance(raw, PatternOutput)
    assert (raw.subject, raw.status, raw.seed, raw.stop_reason) == (TASK, "degraded", 7, "max_rounds")
    assert raw.answer == "ann has idea number 2, quite another one."
    assert raw.entries[:3] == [
        Entry(round=0, speaker="ann", text="ann has a first idea."),
        Entry(round=0, speaker="bob", text="bob has a first idea."),
        Entry(round=1, speaker="bob", text=_text_of("bob", "ann")),
    ]
    assert all(isinstance(loss, ProviderFailure) for loss in raw.losses)
    assert [(loss.round, loss.role, loss.name, loss.instead) for loss in raw.losses] == [
        (1, "debater", "ann", "skipped"),
        (1, "judge", "plan-judge", "no_report"),
    ]


def _text_of(critic: str, target: str) -> str:
    critique = answer_of(Call("critique", critic, 1, target))
    return "\n".join((critique["reasoning"], *critique["issues"], *critique["suggestions"]))


def test_agent_losses_have_a_phase_and_precede_judge_losses() -> None:
    """The wire format has to preserve the order of losses, so that parsing it returns an equal output."""

    def answer(call: Call) -> Any:
        return ProviderFailed("down") if call in (Call("vote", "bob"), Call("judge", round=1)) else None

    judge = create_conclusive_judge(name="plan")
    raw = plan(max_rounds=2, convergence=None, judge=judge).run_sync(TASK, model=model(answer)).output
    wire = raw.to_wire()
    assert wire["losses"] == snapshot(
        [
            {
                "round": 2,
                "role": "debater",
                "name": "bob",
                "stance": None,
                "error": "ProviderFailed: down (block 'plan-vote-bob', model 'function')",
                "instead": "skipped",
                "phase": "vote",
            },
            {
                "round": 1,
                "role": "judge",
                "name": "plan-judge",
                "stance": None,
                "error": "ProviderFailed: down (block 'plan-judge', model 'function')",
                "instead": "no_report",
            },
        ]
    )
    assert [loss.error_type for loss in raw.losses] == ["ProviderFailed", "ProviderFailed"]
    assert ConsensusOutput.model_validate(wire) == raw


def test_failures_are_recorded_in_the_state_as_they_are_in_other_patterns() -> None:
    failures: list[list[tuple[str, str]]] = []

    def stop(ctx: Context) -> bool:
        failures.append([(loss.role, loss.name) for loss in ctx.sequencer.state.losses])
        return False

    def answer(call: Call) -> Any:
        return ProviderFailed("down") if call.phase == "revision" and call.agent == "bob" else None

    plan(max_rounds=2, convergence=None, terminate_when=stop).run_sync(TASK, model=model(answer))
    assert failures == [[("debater", "bob")]]


@pytest.mark.parametrize(("stops", "reason"), [(False, "max_rounds"), (True, "predicate")])
def test_each_turn_is_one_model_call(stops: object, reason: str) -> None:
    result = plan(max_rounds=2, convergence=None, terminate_when=lambda _: stops).run_sync(TASK, model=model())
    assert result.raw.stop_reason == reason
    blocks = [event.block for event in events(result, TurnStarted)]
    assert sorted(blocks) == sorted(call.block for call in events(result, ModelCalled))
