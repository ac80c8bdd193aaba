"""Failure policies for consensus debates: fail, skip, a fallback model, a proposal quorum, and time limits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebaterOptions, FailurePolicy, Persona, StandIn
from flowdebate.chassis.state import TurnFinished, TurnStarted
from flowdebate.errors import AuthenticationFailed, CircuitOpen, ConnectionLost
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.patterns.consensus import CONSENSUS_FAILURES
from flowdebate.patterns.consensus.events import wire_events
from flowdebate.patterns.consensus.prompts import ConsensusTemplate
from flowdebate.patterns.consensus.schemas import ConsensusOutput
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.debates import events

from .debates import NAMES, TASK, THREE, Call, World, answer_of, call_of, check_emitted, model, plan

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

PHASES = ("proposal", "critique", "revision", "vote")


def failing_model(*phases: str, agent: str = "bob") -> FunctionModel:
    """Create a model that fails in calls by `agent` during `phases`."""
    return model(lambda call: ConnectionLost("gone") if call.agent == agent and call.phase in phases else None)


def fallback_policy(calls: list[Call], *, fails: bool = False) -> FailurePolicy:
    """Create a policy whose fallback model checks that it is called as a fallback and records its calls."""

    def answer(request: ModelRequest) -> Any:
        assert request.block.startswith("plan-stand-in-")
        call = call_of(replace(request, block=request.block.replace("-stand-in", "", 1)))
        calls.append(call)
        if fails:
            raise ConnectionLost("gone, too")
        return answer_of(call)

    return FailurePolicy(on_failure=StandIn(FunctionModel(answer)), quorum=1)


def test_open_circuits_end_the_run_under_the_fail_policy() -> None:
    breakers = Breakers(failures=1)
    breakers.record_failure("bob")
    with pytest.raises(CircuitOpen):
        plan(breakers=breakers, failures=FailurePolicy(on_failure="fail")).run_sync(TASK, model=model())


@pytest.mark.parametrize("phase", PHASES)
def test_fallback_model_answers_for_a_failed_agent(phase: str) -> None:
    substitute_calls: list[Call] = []
    result = plan(max_rounds=1, topology="round-robin", failures=fallback_policy(substitute_calls)).run_sync(
        TASK, model=failing_model(phase)
    )
    check_emitted(result)
    raw: ConsensusOutput = result.output
    assert [(call.phase, call.agent) for call in substitute_calls] == [(phase, "bob")]
    assert [(failure.name, failure.phase, failure.instead) for failure in raw.losses] == [("bob", phase, "stand_in")]
    assert [proposal.agent for proposal in raw.proposals] == list(THREE)
    assert len(raw.rounds[0].critiques) == len(raw.rounds[0].revisions) == len(raw.ballots) == 3
    assert raw.status == "degraded"
    assert [failure["instead"] for failure in raw.to_wire()["losses"]] == ["stand_in"]
    assert ConsensusOutput.model_validate(raw.to_wire()) == raw
    assert len(events(result, TurnStarted)) == len(events(result, TurnFinished)) == 12


@pytest.mark.anyio
async def test_resumed_runs_repeat_neither_agent_nor_fallback_calls() -> None:
    store, substitute_calls = MemoryStore(), list[Call]()
    debate = plan(max_rounds=1, topology="round-robin", failures=fallback_policy(substitute_calls))

    def broken(call: Call) -> Any:
        if call.phase == "vote":
            return AuthenticationFailed("no such key")
        return ConnectionLost("gone") if call == Call("proposal", "bob") else None

    with pytest.raises(AuthenticationFailed):
        await debate.run(TASK, model=model(broken), store=store, run_id="it")
    calls: list[Call] = []
    result = await debate.resume("it", model=model(calls=calls), store=store)
    assert [(call.phase, call.agent) for call in substitute_calls] == [("proposal", "bob")]
    assert {call.phase for call in calls} == {"vote"}
    assert [(failure.name, failure.instead) for failure in result.output.losses] == [("bob", "stand_in")]


def test_fallback_model_answers_while_the_circuit_is_open() -> None:
    breakers = Breakers(failures=1)
    breakers.record_failure("bob")
    substitute_calls: list[Call] = []
    calls: list[Call] = []
    debate = plan(max_rounds=1, breakers=breakers, failures=fallback_policy(substitute_calls))
    result = debate.run_sync(TASK, model=model(calls=calls))
    check_emitted(result)
    assert all(call.agent != "bob" for call in calls)
    assert {call.phase for call in substitute_calls} == {
        "proposal",
        "revision",
        "vote",
    }  # an agent with an open circuit is not chosen as a critic
    assert {failure.error_type for failure in result.output.losses} == {"CircuitOpen"}
    assert {turn.block for turn in events(result, TurnStarted) if turn.agent_name == "bob"} == {
        "plan-stand-in-propose-bob",
        "plan-stand-in-revise-bob",
        "plan-stand-in-vote-bob",
    }
    assert breakers.state("bob") == "open"


@given(seed=st.integers(0, 999), failing=st.sampled_from((0.2, 0.5, 0.8)))
def test_working_fallback_model_fills_every_gap(seed: int, failing: float) -> None:
    debate = plan(NAMES[:3], max_rounds=2, convergence=None, failures=fallback_policy([]))
    result = debate.run_sync(TASK, model=World(seed, failing=failing).model(), seed=seed)
    check_emitted(result)
    raw: ConsensusOutput = result.output
    assert len(raw.proposals) == len(raw.ballots) == 3
    assert all(len(one.critiques) == len(one.edges) for one in raw.rounds)
    assert raw.tally is not None
    spoiled = [failure for failure in raw.losses if failure.instead == "not_counted"]
    assert len(spoiled) == raw.tally.spoiled
    assert all(failure.instead == "stand_in" for failure in raw.losses if failure not in spoiled)
    failures = [event["failure"] for event in wire_events(result.events) if event["kind"] == "agent_failure"]
    assert [failure["instead"] for failure in failures].count("stand_in") == len(raw.losses) - len(spoiled)


@pytest.mark.parametrize("phase", PHASES)
def test_each_round_has_its_own_time_limit(phase: str) -> None:
    async def hang(call: Call) -> None:
        if call.phase == phase and call.agent == "bob":
            await asyncio.Event().wait()

    policy = FailurePolicy(on_failure="skip", round_timeout=0.3)
    result = plan(max_rounds=1, topology="round-robin", failures=policy).run_sync(TASK, model=model(hang))
    check_emitted(result)
    timed_out = [(failure.name, failure.phase, failure.error_type) for failure in result.output.losses]
    assert ("bob", phase, "ModelTimeout") in timed_out
    assert result.output.winner == "ann"


def test_default_policy_skips_failed_agents() -> None:
    assert FailurePolicy(on_failure="skip", quorum=1, turn_timeout=90.0) == CONSENSUS_FAILURES


def test_agent_options_apply_to_default_blocks_and_fallback_model() -> None:
    """Instructions and templates for one agent must not appear in the prompts of any other agent."""
    template = ConsensusTemplate(propose="Propose in one word.")
    options = DebaterOptions(instructions="Be brief.", template=template)
    agents = [Persona("ann"), Persona("bob", options=options), Persona("cy")]
    calls: list[Call] = []
    substitute_calls: list[Call] = []
    debate = plan(agents=agents, max_rounds=1, failures=fallback_policy(substitute_calls))
    debate.run_sync(TASK, model=model(_lose_vote, calls=calls))
    assert {call.agent for call in calls if "Be brief." in call.prompt} == {"bob"}
    assert all("Be brief." in call.prompt for call in [*substitute_calls, *calls] if call.agent == "bob")
    assert ["Propose in one word." in call.prompt for call in calls if call.phase == "proposal"] == [False, True, False]


def _lose_vote(call: Call) -> Any:
    return ConnectionLost("gone") if call == Call("vote", "bob") else None
