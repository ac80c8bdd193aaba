"""Agent circuits: which calls count as failures, and when circuits open and close."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Limits
from flowdebate.errors import AuthenticationFailed, ConnectionLost
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.runs.events import CircuitChanged
from tests.ids import case_id
from tests.patterns.debates import events

from .debates import NAMES, TASK, THREE, Call, check_emitted, model, plan, within

FIVE = NAMES[:5]
CALLS = 1 + 2 + 1 + 1
"""Number of calls per agent if three agents critique each other for one round: proposal, critiques, revision, vote."""


@dataclass
class Clock:
    """A clock that only moves when a test sets it."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def failing_model(*phases: str, agent: str = "bob") -> Any:
    """Create a model that fails in calls by `agent` during `phases`."""

    def answer(call: Call) -> Any:
        return ConnectionLost("gone") if call.agent == agent and call.phase in phases else None

    return model(answer)


def test_three_consecutive_failures_open_the_circuit() -> None:
    """An agent whose circuit is open is no longer called, and each skipped call is recorded as a failure."""
    calls: list[Call] = []

    async def answer(call: Call) -> Any:
        await asyncio.sleep(0)  # let all four calls start before the first one fails
        return ConnectionLost("gone") if call.agent == "bob" and call.phase == "critique" else None

    result = plan(FIVE, max_rounds=1).run_sync(TASK, model=model(answer, calls=calls))
    check_emitted(result)
    assert [call.phase for call in calls if call.agent == "bob"] == ["proposal", *["critique"] * 4]
    assert [(f.phase, f.error_type) for f in result.output.losses] == [
        *[("critique", "ConnectionLost")] * 4,
        ("revision", "CircuitOpen"),
        ("vote", "CircuitOpen"),
    ]
    (changed,) = events(result, CircuitChanged)
    assert (changed.model, changed.before, changed.after) == ("bob", "closed", "open")
    final = {proposal.agent: proposal.round for proposal in result.output.final_proposals}
    assert final == {**dict.fromkeys(FIVE, 1), "bob": 0}


def test_success_between_failures_keeps_the_circuit_closed() -> None:
    """In each round, two critiques and a vote fail, but the revision between them succeeds."""
    result = plan(max_rounds=3, convergence=None).run_sync(TASK, model=failing_model("critique", "vote"))
    assert [failure.error_type for failure in result.output.losses] == ["ConnectionLost"] * 7
    assert events(result, CircuitChanged) == []


@pytest.mark.parametrize("phases", [("proposal", "critique", "vote"), ("critique", "revision", "vote")])
@pytest.mark.parametrize("more", [0, 1])
def test_each_call_is_counted_once(phases: tuple[str, ...], more: int) -> None:
    """Counting a call twice would open the circuit too early."""
    calls = {"proposal": 1, "critique": 2, "revision": 1, "vote": 1}
    failures = sum(calls[phase] for phase in phases)
    breakers = Breakers(failures=failures + more)
    plan(max_rounds=1, breakers=breakers).run_sync(TASK, model=failing_model(*phases))
    assert breakers.state("bob") == ("closed" if more else "open")
    assert {breakers.state(name) for name in ("ann", "cy")} == {"closed"}


def test_shared_circuits_persist_across_runs() -> None:
    breakers = Breakers()
    shared, separate = plan(FIVE, max_rounds=1, breakers=breakers), plan(FIVE, max_rounds=1)
    for debate in (shared, separate):
        debate.run_sync(TASK, model=failing_model("critique"))
    assert shared.run_sync(TASK, model=model()).output.losses[0].error_type == "CircuitOpen"
    assert separate.run_sync(TASK, model=model()).output.losses == []


def test_agent_recovers_after_the_cooldown() -> None:
    """The test advances the clock, so that the circuit becomes half-open without a real wait."""
    clock = Clock()
    breakers = Breakers(clock=clock)
    debate = plan(FIVE, topology="round-robin", max_rounds=1, breakers=breakers)
    for _ in range(3):
        breakers.record_failure("bob")
    clock.now = 59.9
    early = debate.run_sync(TASK, model=model())
    assert {failure.error_type for failure in early.output.losses} == {"CircuitOpen"}
    assert "0.1 s" in early.output.losses[0].error
    clock.now = 60.0
    result = debate.run_sync(TASK, model=model())
    assert result.output.losses == []
    assert [(event.before, event.after) for event in events(result, CircuitChanged)] == [
        ("open", "half_open"),
        ("half_open", "closed"),
    ]
    assert breakers.state("bob") == "closed"


def test_failed_trial_reopens_the_circuit() -> None:
    clock = Clock()
    breakers = Breakers(clock=clock)
    for _ in range(3):
        breakers.record_failure("bob")
    clock.now = 60.0
    result = plan(FIVE, max_rounds=1, breakers=breakers).run_sync(TASK, model=failing_model("proposal"))
    assert [failure.error_type for failure in result.output.losses] == ["ConnectionLost", "CircuitOpen"]
    assert breakers.state("bob") == "open"
    clock.now = 119.9
    assert breakers.state("bob") == "open"
    clock.now = 120.0
    assert breakers.state("bob") == "half_open"


def test_half_open_circuit_allows_two_concurrent_trials() -> None:
    clock = Clock()
    breakers = Breakers(clock=clock)
    calls: list[Call] = []

    async def yielding(call: Call) -> None:
        await asyncio.sleep(0)

    def open_circuit(ctx: Any) -> bool:
        for _ in range(3):
            breakers.record_failure("bob")
        clock.now += 60.0
        return False

    debate = plan(FIVE, max_rounds=2, convergence=None, breakers=breakers, terminate_when=open_circuit)
    result = debate.run_sync(TASK, model=model(yielding, calls=calls))
    assert len([call for call in calls if call.agent == "bob" and call.round == 2]) == 2 + 1
    assert [(f.phase, f.error_type) for f in result.output.losses] == [("critique", "CircuitOpen")] * 2
    assert breakers.state("bob") == "closed"


@given(at=st.integers(0, 3 * CALLS - 1))
def test_cancellation_does_not_count_as_a_failure(at: int) -> None:
    """A cancelled trial call must be released; otherwise, the circuit could never close again."""
    clock = Clock(100.0)
    breakers = Breakers(failures=1, successes=1, clock=clock)

    async def cancelled() -> Any:
        reached, calls = asyncio.Event(), []

        async def hang(call: Call) -> None:
            calls.append(call)
            if len(calls) > at:
                reached.set()
                await asyncio.Event().wait()

        handle = plan(max_rounds=1, convergence=None, breakers=breakers).start(TASK, model=model(hang))
        await reached.wait()
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        return handle

    handle = asyncio.run(cancelled())
    check_emitted(handle)
    assert handle.raw.losses == []
    assert [breakers.state(name) for name in THREE] == ["closed"] * 3
    for name in THREE:
        breakers.record_failure(name)
    clock.now += 60.0
    asyncio.run(cancelled())  # cancel the trial calls this time
    assert breakers.available(THREE) == list(THREE)


@pytest.mark.parametrize("error", [AuthenticationFailed("no such key"), ValueError("a mistake")], ids=case_id)
def test_application_errors_do_not_count_as_agent_failures(error: Exception) -> None:
    """A wrong API key or an exception in application code does not mean that the agent's model is unavailable."""
    breakers = Breakers(failures=1)

    def answer(call: Call) -> Any:
        return error if call.phase == "critique" else None

    with pytest.raises(type(error)):
        plan(max_rounds=1, breakers=breakers).run_sync(TASK, model=model(answer))
    assert [breakers.state(name) for name in THREE] == ["closed"] * 3


def test_run_limits_do_not_count_as_agent_failures() -> None:
    """A run limit prevents the call from being made, so it says nothing about the agent's model."""
    breakers = Breakers(failures=1)
    result = plan(breakers=breakers, max_rounds=1).run_sync(TASK, model=model(), limits=Limits(calls=14))
    assert result.status == "limit"
    assert result.raw.losses == []
    assert [breakers.state(name) for name in THREE] == ["closed"] * 3


def test_timeouts_count_as_agent_failures() -> None:
    breakers = Breakers(failures=1)

    async def hang(call: Call) -> None:
        if call.agent == "bob" and call.phase == "vote":
            await asyncio.Event().wait()

    plan(max_rounds=1, breakers=breakers, failures=within(0.05)).run_sync(TASK, model=model(hang))
    assert [breakers.state(name) for name in THREE] == ["closed", "open", "closed"]
