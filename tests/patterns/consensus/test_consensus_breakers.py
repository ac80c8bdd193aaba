"""Agents' circuits: one record for each call, three failures in a row, and what is no failure."""

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
from tests.ids import shown
from tests.patterns.debates import events

from .debates import NAMES, TASK, THREE, Call, check_emitted, model, plan, within

FIVE = NAMES[:5]
CALLS = 1 + 2 + 1 + 1
"""Of each agent in a debate of three and one round, all to all: proposal, critiques, revision, vote."""


@dataclass
class Clock:
    """A clock that shows the same time until it is set."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def lost(*phases: str, agent: str = "bob") -> Any:
    """A model whose calls by `agent` in `phases` fail."""

    def answer(call: Call) -> Any:
        return ConnectionLost("gone") if call.agent == agent and call.phase in phases else None

    return model(answer)


def test_three_failures_in_a_row_open_the_circuit() -> None:
    """From then on the agent is not asked: it neither revises nor votes, and each of that is a failure."""
    calls: list[Call] = []

    async def answer(call: Call) -> Any:
        await asyncio.sleep(0)  # so that all four are under way when the first of them fails
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


def test_a_success_between_failures_keeps_the_circuit_closed() -> None:
    """They are no longer in a row: two critiques and a vote of each round fail, the revision does not."""
    result = plan(max_rounds=3, convergence=None).run_sync(TASK, model=lost("critique", "vote"))
    assert [failure.error_type for failure in result.output.losses] == ["ConnectionLost"] * 7
    assert events(result, CircuitChanged) == []


@pytest.mark.parametrize("phases", [("proposal", "critique", "vote"), ("critique", "revision", "vote")])
@pytest.mark.parametrize("more", [0, 1])
def test_each_call_is_counted_once(phases: tuple[str, ...], more: int) -> None:
    """As many failures as there were open the circuit, and no fewer."""
    made = {"proposal": 1, "critique": 2, "revision": 1, "vote": 1}
    failures = sum(made[phase] for phase in phases)
    breakers = Breakers(failures=failures + more)
    plan(max_rounds=1, breakers=breakers).run_sync(TASK, model=lost(*phases))
    assert breakers.state("bob") == ("closed" if more else "open")
    assert {breakers.state(name) for name in ("ann", "cy")} == {"closed"}


def test_circuits_last_from_run_to_run_where_they_are_shared() -> None:
    """Without sharing, each run begins with closed ones."""
    breakers = Breakers()
    shared, own = plan(FIVE, max_rounds=1, breakers=breakers), plan(FIVE, max_rounds=1)
    for debate in (shared, own):
        debate.run_sync(TASK, model=lost("critique"))
    assert shared.run_sync(TASK, model=model()).output.losses[0].error_type == "CircuitOpen"
    assert own.run_sync(TASK, model=model()).output.losses == []


def test_after_the_cooldown_an_agent_is_tried_and_taken_back() -> None:
    """With a clock of the test's own: open, half open, and closed after two calls that succeed."""
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


def test_a_trial_that_fails_opens_the_circuit_anew() -> None:
    """For another cooldown."""
    clock = Clock()
    breakers = Breakers(clock=clock)
    for _ in range(3):
        breakers.record_failure("bob")
    clock.now = 60.0
    result = plan(FIVE, max_rounds=1, breakers=breakers).run_sync(TASK, model=lost("proposal"))
    assert [failure.error_type for failure in result.output.losses] == ["ConnectionLost", "CircuitOpen"]
    assert breakers.state("bob") == "open"
    clock.now = 119.9
    assert breakers.state("bob") == "open"
    clock.now = 120.0
    assert breakers.state("bob") == "half_open"


def test_a_half_open_circuit_lets_two_trials_through_at_a_time() -> None:
    """Of four critiques at once two are made; then it is closed."""
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
def test_cancellation_is_no_failure(at: int) -> None:
    """Wherever a debate is cancelled, no circuit has counted it, and none is left with a trial under way."""
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
    asyncio.run(cancelled())  # of trials
    assert breakers.available(THREE) == list(THREE)


@pytest.mark.parametrize("error", [AuthenticationFailed("no such key"), ValueError("a mistake")], ids=shown)
def test_a_mistake_of_the_application_is_no_failure_of_the_agent(error: Exception) -> None:
    """A wrong key says nothing about the model, and an exception of its own code neither."""
    breakers = Breakers(failures=1)

    def answer(call: Call) -> Any:
        return error if call.phase == "critique" else None

    with pytest.raises(type(error)):
        plan(max_rounds=1, breakers=breakers).run_sync(TASK, model=model(answer))
    assert [breakers.state(name) for name in THREE] == ["closed"] * 3


def test_a_limit_of_the_run_is_no_failure_of_the_agent() -> None:
    """Nobody was asked."""
    breakers = Breakers(failures=1)
    result = plan(breakers=breakers, max_rounds=1).run_sync(TASK, model=model(), limits=Limits(calls=14))
    assert result.status == "limit"
    assert result.raw.losses == []
    assert [breakers.state(name) for name in THREE] == ["closed"] * 3


def test_an_agent_that_hangs_is_counted() -> None:
    """What `turn_timeout` ends is a failure of the agent."""
    breakers = Breakers(failures=1)

    async def hang(call: Call) -> None:
        if call.agent == "bob" and call.phase == "vote":
            await asyncio.Event().wait()

    plan(max_rounds=1, breakers=breakers, failures=within(0.05)).run_sync(TASK, model=model(hang))
    assert [breakers.state(name) for name in THREE] == ["closed", "open", "closed"]
