"""What becomes of a deliberation whose providers fail, that is late, is cancelled, or hits a limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import Limits, Persona, StandIn
from flowdebate.errors import FlowDebateError, LimitReached, ModelTimeout, ProviderFailed, QuorumLost
from flowdebate.patterns.events import RoleFailed
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import events

from .deliberations import PERSONAS, SETTLED, TOPIC, by_role, deal, lost, report, said

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

DOWN = ProviderFailed("the endpoint answered 503", status=503)


def test_a_lost_turn_fails_it_unless_it_is_told_otherwise() -> None:
    """The error as it is; all that was said until then can be read from it, the unfinished round too."""
    model = ScriptedModel("A1", "B1", report(), "A2", DOWN)
    with pytest.raises(ProviderFailed) as caught:
        deal().run_sync(TOPIC, model=model)
    assert caught.value.run is not None
    raw = caught.value.run.raw
    assert said(raw) == [(1, "bull", "A1"), (1, "bear", "B1"), (2, "bull", "A2")]
    assert (raw.status, raw.stop_reason, raw.rounds) == ("failed", None, 2)
    assert (raw.is_settled, raw.final_decision, raw.summaries) == (False, None, ["They differ."])
    assert [entry.round for entry in caught.value.run.transcript.entries] == [1, 1]


def test_a_skipped_persona_is_absent_from_the_round() -> None:
    """The others are recorded, the moderator reports, the loss says who and when."""
    model = ScriptedModel(DOWN, "B1", report(), "A2", "B2", SETTLED)
    result = deal(on_failure="skip", quorum=1).run_sync(TOPIC, model=model)
    assert said(result.output) == [(1, "bear", "B1"), (2, "bull", "A2"), (2, "bear", "B2")]
    assert lost(result) == [(1, "debater", "bull", "skipped")]
    assert (result.status, result.output.status) == ("degraded", "degraded")
    assert [event.name for event in events(result, RoleFailed)] == ["bull"]
    assert result.output.is_settled
    model.assert_complete()


def test_fewer_voices_than_the_quorum_end_it_before_the_moderator_is_asked() -> None:
    """Voices are names; what was said can be read from the error."""
    model = ScriptedModel("A1", DOWN)
    with pytest.raises(QuorumLost, match="in round 1 only 'bull' could be heard, the quorum is 2") as caught:
        deal(on_failure="skip").run_sync(TOPIC, model=model)
    model.assert_complete()
    assert caught.value.run is not None
    assert said(caught.value.run.raw) == [(1, "bull", "A1")]
    three = [*PERSONAS, Persona("owl")]
    model = ScriptedModel("A1", DOWN, "C1", SETTLED)
    assert deal(debaters=three, on_failure="skip").run_sync(TOPIC, model=model).output.is_settled


def test_a_stand_in_speaks_for_a_persona_whose_model_is_lost() -> None:
    """As the same persona; its own failure leaves the turn out."""
    stand_in = ScriptedModel("S1", DOWN, name="stand-in")
    model = ScriptedModel(DOWN, "B1", report(), DOWN, "B2", SETTLED)
    result = deal(on_failure=StandIn(stand_in), quorum=1).run_sync(TOPIC, model=model)
    assert said(result.output) == [(1, "bull", "S1"), (1, "bear", "B1"), (2, "bear", "B2")]
    assert lost(result) == [
        (1, "debater", "bull", "stand_in"),
        (2, "debater", "bull", "stand_in"),
        (2, "debater", "bull", "skipped"),
    ]
    assert stand_in.calls[0].block == "deal-stand-in-debater-bull"
    assert "You see growth" in stand_in.calls[0].prompt


def test_a_lost_report_settles_nothing() -> None:
    """The round is closed without one, and the next is held."""
    model = ScriptedModel("A1", "B1", report(decision="Wait."), "A2", "B2", DOWN)
    result = deal(max_rounds=2, on_failure="skip").run_sync(TOPIC, model=model)
    output = result.output
    assert lost(result) == [(2, "moderator", "deal-moderator", "no_report")]
    assert (output.summaries, output.reports[1]) == (["They differ.", ""], None)
    assert (output.is_settled, output.stop_reason, output.status) == (False, "max_rounds", "degraded")
    assert output.final_decision == "Wait."
    assert "no_report" in [event.instead for event in events(result, RoleFailed)]
    model.assert_complete()
    with pytest.raises(ProviderFailed):
        deal().run_sync(TOPIC, model=ScriptedModel("A1", "B1", DOWN))


def test_all_reports_may_be_lost() -> None:
    """Nothing is decided, and nothing is made up."""
    output = deal(max_rounds=1, on_failure="skip").run_sync(TOPIC, model=ScriptedModel("A1", "B1", DOWN)).output
    assert (output.final_decision, output.is_settled, output.reports) == (None, False, [None])


@pytest.mark.parametrize("on_failure", ["skip", StandIn(ScriptedModel())], ids=["skip", "stand-in"])
@pytest.mark.parametrize("role", ["debater", "moderator"])
def test_failures_of_the_application_are_never_gone_over(role: str, on_failure: Any) -> None:
    """An exception of its own code reaches the caller as it is."""

    def broken(_: object) -> str:
        raise KeyError("a bug")

    taken: dict[str, Any] = {"moderator": broken}
    if role == "debater":
        taken = {"debaters": [Persona("owl", block=broken), PERSONAS[0]]}
    with pytest.raises(KeyError, match="a bug"):
        deal(on_failure=on_failure, **taken).run_sync(TOPIC, model=by_role())


async def test_a_failure_ends_the_turns_beside_it() -> None:
    """Their tasks are cancelled; what was said before is kept."""
    spoke, waits = asyncio.Event(), asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-owl"):
            try:
                waits.set()
                await asyncio.Event().wait()
            finally:
                spoke.set()
        if request.block.endswith("-bear"):
            await waits.wait()
            raise DOWN
        return "said"

    handle = deal(debaters=[Persona("owl"), *PERSONAS]).start(TOPIC, model=FunctionModel(answer))
    with pytest.raises(ProviderFailed):
        await handle
    assert spoke.is_set()
    assert said(handle.raw) == [(1, "bull", "said")]
    assert {task.assignee: task.status for task in handle.tasks.list()} == {
        "owl": "cancelled",
        "bull": "completed",
        "bear": "errored",
    }


async def test_a_late_turn_is_lost_alone() -> None:
    """Whatever a block hangs in; the others are heard, and the report has its own time."""
    gone = asyncio.Event()

    async def hang(_: object) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return "never"

    personas = [Persona("owl", block=hang), *PERSONAS]
    for limits in ({"turn_timeout": 0.05}, {"round_timeout": 0.05}):
        gone.clear()
        late = deal(debaters=personas, on_failure="skip", **limits)
        result = await late.run(TOPIC, model=by_role())
        assert gone.is_set()
        assert lost(result) == [(1, "debater", "owl", "skipped")]
        assert [name for _, name, _ in said(result.output)] == ["bull", "bear"]
        assert result.output.is_settled
    with pytest.raises(ModelTimeout) as caught:
        await deal(debaters=personas, turn_timeout=0.05).run(TOPIC, model=by_role())
    assert caught.value.block == "deal-debater-owl"


async def test_a_late_report_is_lost() -> None:
    """The moderator has the time of a role."""

    async def hang(_: object) -> str:
        await asyncio.Event().wait()
        return "never"

    late = deal(moderator=hang, max_rounds=1, on_failure="skip", turn_timeout=0.05)
    result = await late.run(TOPIC, model=by_role())
    assert lost(result) == [(1, "moderator", "deal-moderator", "no_report")]


@pytest.mark.parametrize("calls", range(1, 6))
def test_a_limit_ends_it_with_what_there_is(calls: int) -> None:
    """No output, and in the raw output all that was said, the unfinished round too."""
    model = by_role(reports=report(decision="Wait."))
    result = deal(max_rounds=2).run_sync(TOPIC, model=model, limits=Limits(calls=calls))
    raw = result.raw
    assert (result.status, raw.status, result.output) == ("limit", "limit", None)
    assert len(raw.history) == {1: 1, 2: 2, 3: 2, 4: 3, 5: 4}[calls]
    assert raw.final_decision == ("Wait." if calls >= 3 else None)
    assert raw.rounds == (1 if calls < 3 else 2)
    assert len(raw.summaries) == (0 if calls < 3 else 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 8), st.permutations(range(3)))
def test_cancelled_at_any_moment_it_keeps_what_was_said(stop_at: int, order: list[int]) -> None:
    """Whoever has answered until then stands in the raw output, in declared order; tasks are all ended."""
    names = ["ann", "bea", "cid"]

    async def run() -> None:
        answered: list[tuple[int, str]] = []
        stopped = asyncio.Event()
        rounds = [0]
        after = [asyncio.Event() for _ in range(16)]
        after[0].set()

        async def answer(request: ModelRequest) -> Any:
            if request.block.endswith("-moderator"):
                if len(answered) >= stop_at:
                    stopped.set()
                    await asyncio.Event().wait()
                rounds[0] += 1
                return report()
            name = request.block.removeprefix("deal-debater-")
            place = order.index(names.index(name)) + 3 * rounds[0]
            await after[min(place, stop_at)].wait()
            if len(answered) >= stop_at:
                stopped.set()
                await asyncio.Event().wait()
            answered.append((rounds[0] + 1, name))
            after[len(answered)].set()
            return f"{name} in round {rounds[0] + 1}"

        pattern = deal(debaters=[Persona(name) for name in names], max_rounds=4)
        handle = pattern.start(TOPIC, model=FunctionModel(answer))
        await stopped.wait()
        await asyncio.sleep(0)
        handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        raw = handle.raw
        assert (handle.status, raw.status, raw.stop_reason) == ("interrupted", "interrupted", None)
        told = [(number, name) for number, name, _ in said(raw)]
        assert sorted(told) == sorted(answered)
        assert told == sorted(told, key=lambda item: (item[0], names.index(item[1])))
        assert all(text == f"{name} in round {number}" for number, name, text in said(raw))
        assert all(task.finished for task in handle.tasks.list())
        assert handle.tasks.count("completed") == len(answered)

    asyncio.run(run())


FAULTS = st.lists(st.sampled_from([None, None, DOWN]), min_size=9, max_size=9)


@settings(max_examples=50, deadline=None)
@given(FAULTS, st.integers(1, 2), st.integers(1, 3))
def test_whatever_providers_lose_nothing_is_made_up(faults: list[Any], quorum: int, rounds: int) -> None:
    """The history is exactly what was answered; every failed call is a loss."""
    made: list[tuple[str, Any]] = []

    def answer(request: ModelRequest) -> Any:
        fault = faults[len(made)] if len(made) < len(faults) else None
        made.append((request.block, fault))
        if fault is not None:
            raise fault
        return report() if request.block.endswith("-moderator") else f"said {len(made)}"

    run: Any
    try:
        run = deal(max_rounds=rounds, quorum=quorum, on_failure="skip").run_sync(TOPIC, model=FunctionModel(answer))
    except FlowDebateError as error:
        assert isinstance(error, QuorumLost)  # noqa: PT017 - either way the same is checked below
        run = error.run
    spoken = [f"said {n}" for n, (block, fault) in enumerate(made, 1) if fault is None and "moderator" not in block]
    assert [text for _, _, text in said(run.raw)] == spoken
    assert len(run.raw.losses) == sum(fault is not None for _, fault in made)
    reported = [fault is None for block, fault in made if "moderator" in block]
    assert [one is not None for one in run.raw.reports] == reported
    assert run.raw.status == ("failed" if run.status == "failed" else "degraded" if run.raw.losses else "complete")


def test_a_limit_that_is_somebody_elses_is_an_error() -> None:
    """What an application's own block raises as a limit does not pass for the run's."""

    def own(_: object) -> str:
        raise LimitReached("calls", limit=1, used=1)

    with pytest.raises(LimitReached):
        deal(debaters=[Persona("owl", block=own), PERSONAS[0]], on_failure="skip").run_sync(TOPIC, model=by_role())
