"""What a panel does when a provider fails for good, a role is late, or the run is cut short."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import Limits, Persona, StandIn
from flowdebate.errors import (
    ConnectionLost,
    FlowDebateError,
    ModelError,
    ModelTimeout,
    ProviderFailed,
    QuorumLost,
    RateLimited,
    Refused,
)
from flowdebate.patterns.events import RoleFailed
from flowdebate.runs.events import ModelCalled
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import events

from .panels import PANEL, QUESTION, REPORT, bridge, by_role, refereed, said

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

DOWN = ProviderFailed("the endpoint answered 503", status=503)
FAULTS: list[ModelError] = [DOWN, ConnectionLost("gone"), RateLimited("slow down"), Refused("no"), ModelTimeout(1)]


def losses(result: Any) -> list[tuple[str, str, int, str]]:
    """What was lost: role, name, round, instead."""
    return [(loss.role, loss.name, loss.round, loss.instead) for loss in result.raw.losses]


def test_a_lost_turn_fails_the_panel_unless_it_is_told_otherwise() -> None:
    """The error as it is; what was said before can be read from it."""
    with pytest.raises(ProviderFailed) as caught:
        bridge().run_sync(QUESTION, model=ScriptedModel("A1", DOWN))
    assert caught.value.run is not None
    raw = caught.value.run.raw
    assert (raw.status, raw.stop_reason, said(raw)) == ("failed", None, [(1, "ada", "A1")])


def test_a_skipped_turn_leaves_no_trace_but_its_loss() -> None:
    """The task is errored, the loss says who, when and why, and the deliverable is made of the rest."""
    model = ScriptedModel("A1", "B1", DOWN, "B2", "The answer.")
    result = bridge(on_failure="skip", quorum=1, synthesizer=None).run_sync(QUESTION, model=model)
    assert said(result.raw) == [(1, "ada", "A1"), (1, "ben", "B1"), (2, "ben", "B2")]
    assert losses(result) == [("debater", "ada", 2, "skipped")]
    assert (result.output, result.status, result.raw.status) == ("The answer.", "degraded", "degraded")
    assert [task.status for task in result.tasks.list()] == ["completed", "completed", "errored", "completed"]
    assert [event.name for event in events(result, RoleFailed)] == ["ada"]


def test_a_stand_in_speaks_for_a_panelist_whose_model_failed() -> None:
    """With its prompt, under its name; if it fails as well, the turn is left out."""
    stand_in = ScriptedModel("S1", DOWN, name="stand-in")
    model = ScriptedModel(DOWN, "B1", DOWN, "B2")
    result = bridge(on_failure=StandIn(stand_in), quorum=1).run_sync(QUESTION, model=model)
    assert said(result.raw) == [(1, "ada", "S1"), (1, "ben", "B1"), (2, "ben", "B2")]
    assert [instead for *_, instead in losses(result)] == ["stand_in", "stand_in", "skipped"]
    assert "You count what it costs." in stand_in.calls[0].prompt
    stand_in.assert_complete()


def test_fewer_voices_than_the_quorum_end_the_panel_before_its_referee() -> None:
    """Voices are names; a round that is not worth an audit gets none."""
    model = ScriptedModel("A1", DOWN)
    with pytest.raises(QuorumLost, match="in round 1 only 'ada' could be heard, the quorum is 2"):
        bridge(on_failure="skip", **refereed()).run_sync(QUESTION, model=model)
    model.assert_complete()


@pytest.mark.parametrize("on_failure", ["skip", StandIn(ScriptedModel())], ids=["skip", "stand-in"])
def test_a_lost_audit_leaves_its_round_without_one(on_failure: Any) -> None:
    """The next one is tried again; by default the run raises."""
    model = ScriptedModel("A1", "B1", DOWN, "A2", "B2", REPORT)
    result = bridge(on_failure=on_failure, **refereed()).run_sync(QUESTION, model=model)
    assert [audit.round for audit in result.output.audits] == [2]
    assert losses(result) == [("referee", "bridge-referee", 1, "no_report")]
    assert (len(result.output.transcript), result.status) == (4, "degraded")
    with pytest.raises(ProviderFailed):
        bridge(**refereed()).run_sync(QUESTION, model=ScriptedModel("A1", "B1", DOWN))


def test_a_lost_synthesizer_leaves_the_panel_without_an_output() -> None:
    """All that was said is in the raw output; nothing is held to the schema."""
    for options in ({"synthesizer": None}, {"synthesizer": _down, "output_schema": dict[str, int]}):
        model = ScriptedModel("A", "B", *([DOWN] if options["synthesizer"] is None else []))
        result = bridge(on_failure="skip", max_rounds=1, **options).run_sync(QUESTION, model=model)
        assert (result.output, result.status, result.raw.status) == (None, "degraded", "degraded")
        assert losses(result) == [("synthesizer", "bridge-synthesizer", 1, "no_output")]
        assert len(result.raw.transcript) == 2


def _down(_: object) -> None:
    raise DOWN


@pytest.mark.parametrize("role", ["panelist", "referee", "synthesizer"])
def test_failures_of_the_application_are_never_gone_over(role: str) -> None:
    """An exception of its own code reaches the caller as it is."""

    def broken(_: object) -> str:
        raise KeyError("a bug")

    options: dict[str, Any] = {role: broken}
    if role == "panelist":
        options = {"debaters": [Persona("ada", block=broken), PANEL[1]]}
    with pytest.raises(KeyError, match="a bug"):
        bridge(on_failure="skip", quorum=1, **options).run_sync(QUESTION, model=by_role())


async def test_a_role_has_a_deadline_over_all_that_it_does() -> None:
    """Panelist, referee and synthesizer: what is late is lost."""

    async def hang(_: object) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    late = bridge(
        debaters=[PANEL[0], Persona("ben", block=hang)],
        referee=hang,
        synthesizer=hang,
        max_rounds=1,
        on_failure="skip",
        quorum=1,
        turn_timeout=0.05,
    )
    result = await late.run(QUESTION, model=by_role())
    assert losses(result) == [
        ("debater", "ben", 1, "skipped"),
        ("referee", "bridge-referee", 1, "no_report"),
        ("synthesizer", "bridge-synthesizer", 1, "no_output"),
    ]
    with pytest.raises(ModelTimeout) as caught:
        await bridge(referee=hang, max_rounds=1, turn_timeout=0.05).run(QUESTION, model=by_role())
    assert caught.value.block == "bridge-referee"


async def test_a_rounds_deadline_is_that_of_its_turns() -> None:
    """The turn in progress and those after it are lost; the audit is not, and the next round has its own time."""

    async def hang_once(_: object, ctx: Context) -> str:
        if ctx.sequencer.state.round == 1:
            await asyncio.Event().wait()
        return "said"

    panelists = [PANEL[0], Persona("ben", block=hang_once), Persona("cal")]
    result = await bridge(
        debaters=panelists,
        on_failure="skip",
        quorum=1,
        round_timeout=0.5,
        **refereed(names=("ada", "ben", "cal")),
    ).run(QUESTION, model=by_role())
    assert [(name, number) for _, name, number, _ in losses(result)] == [("ben", 1), ("cal", 1)]
    assert [audit.round for audit in result.output.audits] == [1, 2]
    assert [(number, name) for number, name, _ in said(result.output)] == [
        (1, "ada"),
        (2, "ada"),
        (2, "ben"),
        (2, "cal"),
    ]


CALLS = ["bridge-panelist-ada", "bridge-panelist-ben", "bridge-referee"] * 2


@pytest.mark.parametrize("number", range(7))
async def test_a_cancelled_panel_keeps_what_was_said(number: int) -> None:
    """Cancelled at any call: the transcript has the turns before it, the audits those of rounds that were audited."""
    asked_for = asyncio.Event()
    blocks: list[str] = []

    async def answer(request: ModelRequest) -> Any:
        if len(blocks) == number:
            asked_for.set()
            await asyncio.Event().wait()
        blocks.append(request.block)
        return REPORT if request.block.endswith("-referee") else "said"

    handle = bridge(synthesizer=None, **refereed()).start(QUESTION, model=FunctionModel(answer))
    await asked_for.wait()
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert blocks == CALLS[:number]
    turns = [block for block in blocks if "-panelist-" in block]
    assert (handle.status, len(handle.raw.transcript)) == ("interrupted", len(turns))
    assert len(handle.raw.audits) == blocks.count("bridge-referee")
    # Behind the last round the panel's raw output is whole: only the deliverable is missing.
    assert handle.raw.status == ("complete" if number == len(CALLS) else "interrupted")
    cut = number < len(CALLS) and "-panelist-" in CALLS[number]
    assert [task.status for task in handle.tasks.list()] == ["completed"] * len(turns) + ["cancelled"] * cut
    assert events(handle, ModelCalled)[-1].error is not None


def test_a_limit_of_the_run_leaves_what_was_said() -> None:
    """The run's status is "limit", and there is no output."""
    result = bridge(synthesizer=None).run_sync(QUESTION, model=by_role(), limits=Limits(calls=3))
    assert (result.status, result.output, result.raw.status) == ("limit", None, "limit")
    assert len(result.raw.transcript) == 3


@settings(max_examples=50, deadline=None)
@given(
    faults=st.lists(st.sampled_from([None, *FAULTS]), min_size=10, max_size=10),
    quorum=st.integers(1, 2),
    rounds=st.integers(1, 3),
)
def test_whatever_providers_lose_nothing_is_made_up(faults: list[ModelError | None], quorum: int, rounds: int) -> None:
    """What was answered is there, in order; every failed call is a loss, or ends the panel."""
    made: list[tuple[str, ModelError | None]] = []

    def reply(request: ModelRequest) -> Any:
        fault = faults[len(made)] if len(made) < len(faults) else None
        made.append((request.block, fault))
        if fault is not None:
            raise fault
        return REPORT if request.block.endswith("-referee") else f"said {len(made)}"

    pattern = bridge(max_rounds=rounds, quorum=quorum, on_failure="skip", synthesizer=None, **refereed())
    run: Any
    try:
        run = pattern.run_sync(QUESTION, model=FunctionModel(reply))
    except QuorumLost as error:
        run = error.run
    answered = [(number, block) for number, (block, fault) in enumerate(made, 1) if fault is None]
    turns = [f"said {number}" for number, block in answered if "-panelist-" in block]
    assert [entry.text for entry in run.raw.transcript] == turns
    assert len(run.raw.audits) == sum(block.endswith("-referee") for _, block in answered)
    assert len(run.raw.losses) == sum(fault is not None for _, fault in made)
    assert run.status == ("failed" if run.raw.stop_reason is None else "degraded" if run.raw.losses else "complete")


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_block_in_any_role_ends_in_time(data: st.DataObject) -> None:
    """Whatever functions return or raise in all roles: at most the cap's rounds, and an end that is told."""
    from flowdebate.patterns.events import RoundStarted
    from flowdebate.runs.events import RunFinished
    from flowdebate.testing.hostile import Returns, Sabotage
    from flowdebate.testing.strategies import hostile_values, termination_predicates

    def role() -> Returns:
        return Returns(*data.draw(st.lists(hostile_values(), min_size=1, max_size=3)), wait=data.draw(st.booleans()))

    rounds = data.draw(st.integers(1, 3))
    pattern = bridge(
        debaters=[Persona("ada", block=role()), Persona("ben", block=role())],
        referee=role() if data.draw(st.booleans()) else None,
        synthesizer=role() if data.draw(st.booleans()) else False,
        max_rounds=rounds,
        terminate_when=data.draw(st.none() | termination_predicates(hostile=True)),
        on_failure=data.draw(st.sampled_from(["fail", "skip"])),
        quorum=1,
    )
    run = asyncio.run(_ended(pattern, (FlowDebateError, Sabotage)))
    assert len(events(run, RoundStarted)) <= rounds
    assert isinstance(run.events[-1], RunFinished)
    assert run.tasks.count("completed") == len(run.transcript.entries)


async def _ended(pattern: Any, errors: tuple[type[Exception], ...]) -> Any:
    """The run, over; with the warnings of values that are no text left out."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        handle = pattern.start(QUESTION, model=ScriptedModel())
        try:
            await handle
        except errors:
            assert handle.status == "failed"
    return handle
