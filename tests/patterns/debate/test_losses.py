"""What a debate does when a provider fails for good: fail, go on without the answer, or let another model argue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import Debater, StandIn, debate
from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionLost,
    ContentFiltered,
    EmptyResponse,
    FlowDebateError,
    ModelError,
    ModelTimeout,
    ProviderFailed,
    QuorumLost,
    RateLimited,
    Refused,
)
from flowdebate.patterns.events import RoleFailed, TurnFinished
from flowdebate.runs.events import BlockAnswered
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, VERDICT, asked, by_role, decision, events, moderated, script
from tests.patterns.policies import with_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

DOWN = ProviderFailed("the endpoint answered 503", status=503)
LOSSES: list[ModelError] = [
    DOWN,
    ConnectionLost("the connection broke"),
    RateLimited("slow down"),
    Refused("I would rather not"),
    ContentFiltered("filtered"),
    EmptyResponse("nothing came"),
    ModelTimeout(1),
]


def rent(**options: Any) -> Any:
    """Two sides, two rounds, skipped turns."""
    defaults: dict[str, Any] = {"name": "rent", "debaters": SIDES, "synthesizer": False, "on_failure": "skip"}
    return debate(**with_policy({**defaults, **options}))


def losses(result: Any) -> list[tuple[str, str, int, str]]:
    """What was lost: role, name, round, instead."""
    return [(loss.role, loss.name, loss.round, loss.instead) for loss in result.raw.losses]


@pytest.mark.parametrize("error", LOSSES, ids=lambda error: type(error).__name__)
def test_a_lost_turn_fails_the_debate_unless_it_is_told_otherwise(error: ModelError) -> None:
    """The error as it is; what was argued before can be read from it."""
    with pytest.raises(type(error)) as caught:
        rent(on_failure="fail").run_sync(QUESTION, model=script("A1", error))  # type: ignore[arg-type]  # a reply
    assert caught.value.run is not None
    raw = caught.value.run.raw
    assert (raw.status, raw.verdict, raw.stop_reason) == ("failed", None, None)
    assert [entry.text for entry in raw.transcript] == ["A1"]


@pytest.mark.parametrize("error", LOSSES, ids=lambda error: type(error).__name__)
def test_a_skipped_turn_leaves_no_trace_but_its_loss(error: ModelError) -> None:
    """Nothing stands in the transcript, the task is errored, the loss says who, when and why."""
    model = ScriptedModel("A1", "B1", error, "B2", VERDICT)
    result = rent(quorum=1).run_sync(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["A1", "B1", "B2"]
    assert [task.status for task in result.tasks.list()] == ["completed", "completed", "errored", "completed"]
    assert losses(result) == [("debater", "anna", 2, "skipped")]
    assert type(error).__name__ in result.output.losses[0].error
    assert (result.status, result.output.status) == ("degraded", "degraded")
    assert [event.name for event in events(result, RoleFailed)] == ["anna"]
    assert len(events(result, TurnFinished)) == 3
    assert result.output.verdict.winner == "for"
    model.assert_complete()


def test_fewer_voices_than_the_quorum_end_the_debate() -> None:
    """One side alone is no debate: QuorumLost says who was heard, and the rest can be read from it."""
    with pytest.raises(QuorumLost, match="in round 2 only 'against' could be heard, the quorum is 2") as caught:
        rent().run_sync(QUESTION, model=ScriptedModel("A1", "B1", DOWN, "B2"))
    assert caught.value.heard == ("against",)
    assert caught.value.run is not None
    assert [entry.text for entry in caught.value.run.raw.transcript] == ["A1", "B1", "B2"]
    assert caught.value.run.status == "failed"


def test_the_quorum_counts_stances_and_not_more_than_were_to_speak() -> None:
    """A moderator's round with one speaker needs that one; two debaters of one stance are one voice."""
    alone = rent(max_rounds=1, moderator=lambda _: decision("ben"))
    with pytest.raises(QuorumLost, match="only nobody could be heard"):
        alone.run_sync(QUESTION, model=ScriptedModel(DOWN))
    two = [Debater("a", "for"), Debater("b", "for"), Debater("c", "against")]
    with pytest.raises(QuorumLost):
        rent(debaters=two, max_rounds=1).run_sync(QUESTION, model=ScriptedModel("A", "B", DOWN))
    result = rent(debaters=two, max_rounds=1).run_sync(QUESTION, model=ScriptedModel("A", DOWN, "C", VERDICT))
    assert result.status == "degraded"


def test_a_stand_in_argues_what_a_debater_s_model_lost() -> None:
    """For the same stance, under the same task; its own failure leaves the turn out."""
    stand_in = ScriptedModel("S1", DOWN, name="stand-in")
    model = ScriptedModel(DOWN, "B1", DOWN, "B2", VERDICT)
    result = rent(on_failure=StandIn(stand_in), quorum=1).run_sync(QUESTION, model=model)
    assert [(entry.agent_name, entry.stance, entry.text) for entry in result.output.transcript] == [
        ("anna", "for", "S1"),
        ("ben", "against", "B1"),
        ("ben", "against", "B2"),
    ]
    assert losses(result) == [
        ("debater", "anna", 1, "stand_in"),
        ("debater", "anna", 2, "stand_in"),
        ("debater", "anna", 2, "skipped"),
    ]
    assert [task.status for task in result.tasks.list()] == ["completed", "completed", "errored", "completed"]
    assert "[for]" not in str(stand_in.calls[0].messages[0]["content"])
    assert "for" in stand_in.calls[0].prompt
    stand_in.assert_complete()


@pytest.mark.parametrize("on_failure", ["skip", StandIn(ScriptedModel())], ids=["skip", "stand-in"])
def test_failures_of_the_application_are_never_gone_over(on_failure: Any) -> None:
    """An exception of its own code, and a key that is wrong, reach the caller as they are."""

    def broken(_: object) -> str:
        raise KeyError("a bug")

    sides = [Debater("anna", "for", block=broken), Debater("ben", "against")]
    with pytest.raises(KeyError, match="a bug"):
        rent(debaters=sides, on_failure=on_failure).run_sync(QUESTION, model=script())
    with pytest.raises(AuthenticationFailed):
        rent(on_failure=on_failure).run_sync(QUESTION, model=ScriptedModel(AuthenticationFailed("no", status=401)))
    with pytest.raises(KeyError):
        rent(judge=broken, on_failure=on_failure).run_sync(QUESTION, model=script("A1", "B1", "A2", "B2"))


@pytest.mark.parametrize("synthesizer", [None, False], ids=["with a synthesizer", "without"])
def test_a_lost_judge_leaves_the_debate_without_a_verdict(synthesizer: Any) -> None:
    """None is found, nothing is synthesized of it, and all that was argued is there."""
    model = ScriptedModel("A1", "B1", "A2", "B2", Refused("I cannot judge"))
    result = rent(synthesizer=synthesizer).run_sync(QUESTION, model=model)
    assert (result.status, result.raw.status, result.raw.verdict) == ("no_verdict", "no_verdict", None)
    assert result.output is (result.raw if synthesizer is False else None)
    assert len(result.raw.transcript) == 4
    assert losses(result) == [("judge", "rent-judge", 2, "no_verdict")]
    assert result.raw.stop_reason == "max_rounds"
    model.assert_complete()


def test_a_lost_judge_does_not_reach_an_output_schema() -> None:
    """There is nothing to validate."""
    own: Callable[[Any], Any] = lambda raw: {"n": 1}  # noqa: E731
    pattern = rent(synthesizer=own, output_schema={"type": "object", "required": ["n"]})
    assert pattern.run_sync(QUESTION, model=ScriptedModel("A1", "B1", "A2", "B2", DOWN)).output is None
    assert pattern.run_sync(QUESTION, model=script("A1", "B1", "A2", "B2")).output == {"n": 1}


def test_a_lost_synthesizer_leaves_the_verdict() -> None:
    """The raw output has it; there is no output."""
    result = rent(synthesizer=None).run_sync(QUESTION, model=script("A1", "B1", "A2", "B2", after=(DOWN,)))
    assert (result.status, result.output) == ("degraded", None)
    assert result.raw.verdict.winner == "for"
    assert result.raw.status == "degraded"
    assert losses(result) == [("synthesizer", "rent-synthesizer", 2, "no_output")]


def test_a_lost_moderator_leaves_all_to_speak_in_declared_order() -> None:
    """For that round; the next one it may open again."""
    model = ScriptedModel(DOWN, "A1", "B1", decision("ben", "anna"), "B2", "A2", VERDICT)
    result = rent(**moderated()).run_sync(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["A1", "B1", "B2", "A2"]
    assert [made.fallback for made in result.output.moderator_decisions] == [True, False]
    assert losses(result) == [("moderator", "rent-moderator", 1, "declared_order")]
    with pytest.raises(ProviderFailed):
        rent(on_failure="fail", **moderated()).run_sync(QUESTION, model=ScriptedModel(DOWN))


async def test_a_turn_has_a_deadline_over_all_that_it_does() -> None:
    """Whatever a block hangs in; what is late is lost, and the debate goes on."""
    gone = asyncio.Event()

    async def hang(_: object) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return "never"

    sides = [Debater("anna", "for"), Debater("ben", "against", block=hang)]
    late = rent(debaters=sides, max_rounds=1, quorum=1, turn_timeout=0.05)
    result = await late.run(QUESTION, model=script("A1"))
    assert gone.is_set()
    assert losses(result) == [("debater", "ben", 1, "skipped")]
    assert "no answer within 0.05 s" in result.output.losses[0].error
    with pytest.raises(ModelTimeout) as caught:
        await rent(debaters=sides, max_rounds=1, turn_timeout=0.05, on_failure="fail").run(QUESTION, model=script("A1"))
    assert caught.value.block == "rent-debater-ben"


async def test_a_round_has_a_deadline_over_all_its_turns() -> None:
    """The turn in progress and those after it are lost; the judge has its own time, and so has the next round."""

    async def hang_once(_: object, ctx: Context) -> str:
        if ctx.sequencer.state.round == 1:
            await asyncio.Event().wait()
        return "said"

    sides = [SIDES[0], Debater("ben", "against", block=hang_once), Debater("carl", "neither")]
    result = await rent(debaters=sides, quorum=1, round_timeout=0.5).run(QUESTION, model=by_role())
    assert [(name, number) for _, name, number, _ in losses(result)] == [("ben", 1), ("carl", 1)]
    assert [(entry.agent_name, entry.round) for entry in result.output.transcript] == [
        ("anna", 1),
        ("anna", 2),
        ("ben", 2),
        ("carl", 2),
    ]


async def test_a_cancelled_debate_keeps_what_was_argued() -> None:
    """The handle says that it was interrupted, and has the raw output so far."""
    asked_for = asyncio.Event()

    async def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-ben"):
            asked_for.set()
            await asyncio.Event().wait()
        return "said"

    handle = rent().start(QUESTION, model=FunctionModel(answer))
    await asked_for.wait()
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert (handle.status, handle.raw.status) == ("interrupted", "interrupted")
    assert [entry.agent_name for entry in handle.raw.transcript] == ["anna"]
    assert [task.status for task in handle.tasks.list()] == ["completed", "cancelled"]


def test_an_inner_debate_s_loss_is_told_by_the_outer_run() -> None:
    """The run is degraded; the outer debate's own raw output has no loss."""
    inner = rent(name="inner", max_rounds=1, quorum=1, synthesizer=lambda raw: raw.verdict.verdict)
    outer = rent(debaters=[Debater("anna", "for", block=inner), SIDES[1]], max_rounds=1)
    model = ScriptedModel("IA", DOWN, VERDICT, "B", VERDICT)
    result = outer.run_sync(QUESTION, model=model)
    assert result.status == "degraded"
    assert result.output.losses == []
    assert [event.name for event in events(result, RoleFailed)] == ["ben"]


CALLS = st.lists(st.sampled_from([None, *LOSSES]), min_size=8, max_size=8)


@settings(max_examples=50, deadline=None)
@given(CALLS, st.integers(1, 2), st.integers(1, 3))
def test_whatever_providers_lose_nothing_is_made_up(faults: list[ModelError | None], quorum: int, rounds: int) -> None:
    """The transcript is exactly what was answered, in order; every failed call is a loss, or ends the debate."""
    made: list[tuple[str, ModelError | None]] = []

    def reply(request: ModelRequest) -> Any:
        fault = faults[len(made)] if len(made) < len(faults) else None
        made.append((request.block, fault))
        if fault is not None:
            raise fault
        return VERDICT if request.block.endswith("-judge") else f"said {len(made)}"

    try:
        handle = rent(max_rounds=rounds, quorum=quorum).run_sync(QUESTION, model=FunctionModel(reply))
    except FlowDebateError as error:
        assert isinstance(error, QuorumLost)  # noqa: PT017 - either way the same is checked below
        handle = error.run
    raw = handle.raw
    said = [
        f"said {number}" for number, (block, fault) in enumerate(made, 1) if fault is None and "-judge" not in block
    ]
    assert [entry.text for entry in raw.transcript] == said
    assert len(raw.losses) == sum(fault is not None for _, fault in made)
    judged = [fault for block, fault in made if block.endswith("-judge")]
    assert (raw.verdict is not None) == (judged == [None])
    if handle.status == "failed":
        assert not judged
        assert len({entry.stance for entry in raw.transcript if entry.round == raw.rounds}) < quorum
    else:
        expected = "no_verdict" if judged != [None] else "degraded" if raw.losses else "complete"
        assert handle.status == raw.status == expected
    assert len(events(handle, BlockAnswered)) == sum(fault is None for _, fault in made)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"on_failure": "ignore"}, "on_failure"),
        ({"on_failure": StandIn("nobody/knows")}, "on_failure"),
        ({"on_failure": None}, "on_failure"),
        ({"quorum": 0}, "quorum"),
        ({"quorum": True}, "quorum"),
        ({"turn_timeout": 0}, "turn_timeout"),
        ({"round_timeout": float("nan")}, "round_timeout"),
        ({"round_timeout": "1"}, "round_timeout"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(options: dict[str, Any], field: str) -> None:
    """With the field, what was given and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        rent(**options)
    assert caught.value.field == field


def test_the_judge_of_a_debate_that_goes_on_is_asked_once() -> None:
    """Guards around the roles change nothing where nothing is lost."""
    model = script("A1", "B1", "A2", "B2")
    plain = script("A1", "B1", "A2", "B2")
    result, same = (
        rent().run_sync(QUESTION, model=model, seed=1),
        rent(on_failure="fail").run_sync(QUESTION, model=plain, seed=1),
    )
    assert result.raw == same.raw
    assert asked(model) == asked(plain)
    assert (result.status, same.status) == ("complete", "complete")
