"""Every way in which a debate can end, with the resulting stages, events and output."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from flowdebate import Limits
from flowdebate.chassis.state import RoundStarted
from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge
from flowdebate.patterns.consensus.events import (
    AgentMessage,
    ConsensusDecided,
    CritiqueMade,
    DebateEnded,
    DebateStarted,
    VoteCast,
    wire_events,
)
from flowdebate.patterns.consensus.schemas import ConsensusOutput, ConsensusStage, StageReached
from tests.patterns.debates import events

from .debates import (
    FOLLOWS,
    NAMES,
    TASK,
    THREE,
    Call,
    World,
    answer_of,
    check_emitted,
    consensus_events,
    in_order_of_stages,
    model,
    plan,
    stages,
)

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.runs.result import RunHandle, RunView

FOUR = NAMES[:4]
TWO_ROUNDS = {"topology": "round-robin", "max_rounds": 2, "convergence": None}
CALLS = 4 + 2 * (4 + 4) + 4
"""Number of calls that four agents with one critic each make in two rounds."""


def count_answers(raw: ConsensusOutput) -> int:
    """Count the answers recorded by a debate."""
    rounds = sum(len(one.critiques) + len(one.revisions) for one in raw.rounds)
    return len(raw.proposals) + rounds + len(raw.ballots)


# The complete debate


def test_stages_occur_in_the_documented_order() -> None:
    result = plan(max_rounds=2, convergence=None).run_sync(TASK, model=model())
    check_emitted(result)
    assert stages(result) == snapshot(
        [
            "START",
            "INITIALIZING",
            "CONTEXT_READY",
            "GENERATING_PROPOSALS",
            "PROPOSALS_COMPLETE",
            "ROUND_1_CRITIQUE",
            "ROUND_1_REVISION",
            "CONVERGENCE_CHECK",
            "ROUND_2_CRITIQUE",
            "ROUND_2_REVISION",
            "CONVERGENCE_CHECK",
            "ROUNDS_COMPLETE",
            "VOTING",
            "VOTE_AGGREGATION",
            "CONSENSUS_REACHED",
        ]
    )
    assert [reached.label for reached in result.output.stages] == stages(result)


def test_no_consensus_is_the_last_stage_if_there_is_no_agreement() -> None:
    def answer(call: Call) -> Any:
        return {**answer_of(call), "choice": call.agent} if call.phase == "vote" else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer))
    check_emitted(result)
    assert stages(result)[-2:] == ["VOTE_AGGREGATION", "NO_CONSENSUS"]


def test_debates_emit_seven_kinds_of_events_besides_stages() -> None:
    def answer(call: Call) -> Any:
        return ProviderFailed("down") if call == Call("vote", "cy") else None

    result = plan(max_rounds=1).run_sync(TASK, model=model(answer))
    check_emitted(result)
    kinds = [event["kind"] for event in wire_events(result.events)]
    assert [kind for kind in kinds if kind != "stage"] == [
        "debate_start",
        *["agent_message"] * 3,
        "round_start",
        *["critique"] * 6,
        *["agent_message"] * 3,
        "vote",
        "vote",
        "agent_failure",
        "consensus",
        "debate_end",
    ]
    (start,) = events(result, DebateStarted)
    assert (start.task, start.agents) == (TASK, THREE)
    assert [(event.agent, event.phase, event.round) for event in events(result, AgentMessage)] == [
        *((name, "proposal", 0) for name in THREE),
        *((name, "revision", 1) for name in THREE),
    ]
    assert [(event.round, event.max_rounds) for event in events(result, RoundStarted)] == [(1, 1)]
    assert [event.critique for event in events(result, CritiqueMade)] == result.output.rounds[0].critiques
    assert [event.ballot for event in events(result, VoteCast)] == result.output.ballots
    (decided,) = events(result, ConsensusDecided)
    assert (decided.outcome, decided.winner, decided.strength) == ("consensus", "ann", "moderate")
    assert decided.tally == result.output.tally
    (end,) = events(result, DebateEnded)
    assert (end.outcome, end.rounds, end.error) == ("consensus", 1, None)


@given(st.lists(st.sampled_from(ConsensusStage), max_size=12))
def test_only_stage_sequences_in_the_table_are_valid(stages_: list[ConsensusStage]) -> None:
    reached: list[StageReached] = []
    number = 0
    legal = True
    before: ConsensusStage | None = None
    for stage in stages_:
        number += stage is ConsensusStage.ROUND_N_CRITIQUE
        of_round = stage.value.startswith("ROUND_N") or stage is ConsensusStage.CONVERGENCE_CHECK
        reached.append(StageReached(stage=stage, round=number if of_round else None))
        legal = legal and (stage is ConsensusStage.START if before is None else stage in FOLLOWS[before])
        before = stage
    assert in_order_of_stages(reached) is legal


def test_wrong_round_numbers_make_a_stage_sequence_invalid() -> None:
    """Rounds are numbered from 1, and only stages inside a round have a round number."""
    walk = [ConsensusStage.START, ConsensusStage.INITIALIZING]
    assert in_order_of_stages([StageReached(stage=stage) for stage in walk])
    assert not in_order_of_stages([StageReached(stage=stage, round=1) for stage in walk])
    path = [*list(ConsensusStage)[:6]]
    labeled = [StageReached(stage=stage, round=2 if stage.value.startswith("ROUND_N") else None) for stage in path]
    assert not in_order_of_stages(labeled)


# Interrupted debates


def full_debate(**options: Any) -> Any:
    """Build a debate between four agents with judges, two rounds and a tie rule."""
    judges = {
        "judge": create_conclusive_judge(name="plan"),
        "tie_break": create_tie_judge(name="plan", choices=FOUR),
    }
    return plan(FOUR, **{**TWO_ROUNDS, **judges, **options})


class Gate:
    """A model that blocks at call number `at`, or raises `error` at that call."""

    def __init__(self, at: int, *, order: int | None = None, error: Exception | None = None) -> None:
        self.at = at
        self.answered = 0
        self.asked = 0
        self.reached = asyncio.Event()
        self._error = error
        self._world = World(2, FOUR, order=order)

    async def _act(self, request: Any) -> Any:
        number, self.asked = self.asked, self.asked + 1
        if number >= self.at:
            self.reached.set()
            if self._error is not None:
                raise self._error
            await asyncio.Event().wait()
        answer = await self._world._answer(request)
        if "-judge" not in request.block:
            self.answered += 1
        return answer

    def model(self) -> Any:
        """Return the gate as a model."""
        from flowdebate.testing import FunctionModel

        return FunctionModel(self._act)


def check_partial_output(run: RunView, status: str, answered: int) -> None:
    """Check that the output contains exactly the answered calls."""
    check_emitted(run)
    raw = run.raw
    assert isinstance(raw, ConsensusOutput)
    assert run.status == raw.status == status
    assert count_answers(raw) == answered
    assert (raw.outcome, raw.answer, raw.winner, raw.tally, raw.analytics, raw.feedback) == (None,) * 6
    assert raw.model_validate_json(raw.model_dump_json()) == raw


moments = st.integers(0, CALLS + 2)
orders = st.none() | st.integers(0, 99)


@given(at=moments, order=orders)
def test_cancelled_debates_keep_their_answers(at: int, order: int | None) -> None:
    """When a debate is cancelled, no answer may be lost and no task may remain open in the audit trail."""

    async def cancelled() -> tuple[RunHandle[Any], Gate]:
        gate = Gate(at, order=order)
        handle: RunHandle[Any] = full_debate().start(TASK, model=gate.model(), seed=1)
        waiting = asyncio.create_task(gate.reached.wait())
        await asyncio.wait([waiting, asyncio.ensure_future(handle)], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if handle.done():  # the run ended before it reached the gate
            return handle, gate
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        return handle, gate

    handle, gate = asyncio.run(cancelled())
    if handle.status == "complete":
        assert gate.asked <= at
        return
    check_partial_output(handle, "interrupted", gate.answered)
    assert consensus_events(handle)[-1].error == "CancelledError"
    assert {task.status for task in handle.tasks.list()} <= {"completed", "cancelled"}
    assert handle.tasks.count("completed") == gate.answered


@given(at=moments, order=orders)
def test_debates_that_time_out_keep_their_answers(at: int, order: int | None) -> None:
    gate = Gate(at, order=order)
    result = full_debate(timeout=0.03).run_sync(TASK, model=gate.model(), seed=1)
    if result.status == "complete":
        assert gate.asked <= at
        return
    check_partial_output(result, "limit", gate.answered)
    assert result.output == result.raw
    early = result.output.early_end
    assert early is not None
    assert early.source == "timeout" or early.source in ("agents", "judge")
    if early.source == "timeout":
        assert early.reason == "the debate may take 0.03 s"
        assert early.round == len(result.output.rounds)
    assert {task.status for task in result.tasks.list()} <= {"completed", "cancelled"}


@given(at=moments, order=orders)
def test_debates_ended_by_an_application_error_keep_their_answers(at: int, order: int | None) -> None:
    failure = LookupError("a mistake")
    gate = Gate(at, order=order, error=failure)

    async def run_debate() -> RunHandle[Any]:
        handle: RunHandle[Any] = full_debate().start(TASK, model=gate.model(), seed=1)
        with contextlib.suppress(LookupError):
            await handle
        return handle

    handle = asyncio.run(run_debate())
    if handle.status == "complete":
        assert gate.asked <= at
        return
    check_partial_output(handle, "failed", gate.answered)
    assert consensus_events(handle)[-1].error == "LookupError: a mistake"


@pytest.mark.parametrize("at", [0, 2, 5, 9, 14, CALLS - 1])
def test_debates_ended_by_the_run_time_limit_keep_their_answers(at: int) -> None:
    gate = Gate(at)
    result = plan(FOUR, **TWO_ROUNDS).run_sync(TASK, model=gate.model(), seed=1, limits=Limits(seconds=0.05))
    check_partial_output(result, "limit", gate.answered)
    assert result.output is None


def test_debates_cancelled_before_their_start_emit_nothing() -> None:
    """An end event without a start event would confuse listeners."""

    async def cancelled() -> RunHandle[Any]:
        handle: RunHandle[Any] = plan().start(TASK, model=model())
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        return handle

    handle = asyncio.run(cancelled())
    assert consensus_events(handle) == []
    assert (handle.status, handle.raw) == ("interrupted", None)


@pytest.mark.parametrize("value", [None, 7, {"topic": "x"}, {"task": 3}, ["x"]])
def test_invalid_tasks_are_rejected_before_any_event(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="a task") as caught:
        plan().run_sync(value, model=model())
    assert consensus_events(caught.value.run) == []


def test_unreached_timeouts_change_nothing() -> None:
    output = plan(max_rounds=1, timeout=60).run_sync(TASK, model=model()).output
    assert (output.status, output.early_end) == ("complete", None)


def test_timeouts_during_judging_keep_all_rounds() -> None:
    async def late(ctx: Context) -> bool:
        await asyncio.Event().wait()
        raise AssertionError

    result = plan(max_rounds=2, convergence=None, terminate_when=late, timeout=0.3).run_sync(TASK, model=model())
    check_partial_output(result, "limit", 3 + 6 + 3)
    assert result.output.rounds[0].convergence is not None


def test_timeouts_do_not_hide_application_errors() -> None:
    """A `TimeoutError` raised by a block must not be mistaken for the debate's own timeout."""

    def broken(request: Any) -> str:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        plan(agents=[{"name": "ann", "block": broken}], timeout=60).run_sync(TASK, model=model())
