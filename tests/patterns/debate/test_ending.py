"""When and why a debate ends."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import FailurePolicy, Session, debate
from flowdebate.chassis.state import RoundsEnded
from flowdebate.errors import ModelError, ReadOnly
from flowdebate.patterns.debate.factory import stop_reason
from flowdebate.patterns.debate.schemas import DebateModeratorDecision, DebateState
from tests.patterns.debates import QUESTION, SIDES, by_role, decision, events, moderated, script

if TYPE_CHECKING:
    from flowdebate.runs.context import Context


def _rent(**options: Any) -> Any:
    return debate(name="rent", debaters=SIDES, synthesizer=False, **options)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_debates_end_after_max_rounds(rounds: int) -> None:
    result = _rent(max_rounds=rounds).run_sync(QUESTION, model=by_role())
    assert (result.output.rounds, result.output.stop_reason) == (rounds, "max_rounds")
    assert [(event.rounds, event.reason) for event in events(result, RoundsEnded)] == [(rounds, "max_rounds")]


@pytest.mark.parametrize(
    ("round_", "moderator_done", "expected"),
    [
        (3, True, "max_rounds"),
        (2, True, "moderator_done"),
        (2, False, None),
        (4, False, "max_rounds"),
    ],
)
def test_first_applicable_stop_reason_is_reported(round_: int, moderator_done: bool, expected: str | None) -> None:  # noqa: FBT001
    decided = DebateModeratorDecision(round=round_, next_speakers=["a"], done=moderator_done)
    assert stop_reason(DebateState(round=round_, moderator_decisions=[decided]), max_rounds=3) == expected


def test_predicate_is_called_after_each_round_except_the_last() -> None:
    """When the last round is over, the debate ends anyway, so the predicate is not called again."""
    rounds: list[tuple[int, int]] = []

    def watch(ctx: Context) -> bool:
        rounds.append((ctx.sequencer.state.round, len(ctx.resources.transcript.state.entries)))
        return False

    output = _rent(max_rounds=3, terminate_when=watch).run_sync(QUESTION, model=by_role()).output
    assert rounds == [(1, 2), (2, 4)]
    assert output.stop_reason == "max_rounds"


def test_true_predicate_ends_the_debate_after_the_round() -> None:
    rent = _rent(max_rounds=4, terminate_when=lambda ctx: ctx.sequencer.state.round == 2)
    result = rent.run_sync(QUESTION, model=by_role())
    assert (result.output.rounds, result.output.stop_reason) == (2, "predicate")
    assert len(result.output.transcript) == 4
    assert [event.reason for event in events(result, RoundsEnded)] == ["predicate"]


def test_predicates_may_be_async() -> None:
    async def stop(ctx: Context) -> bool:
        return bool(ctx.sequencer.state.round == 1)

    assert _rent(max_rounds=4, terminate_when=stop).run_sync(QUESTION, model=by_role()).output.rounds == 1


def test_predicate_sees_session_state_set_by_blocks() -> None:
    """A block uses up a budget in `ctx.session.state`, and the predicate then ends the debate."""

    def stop(ctx: Context) -> bool:
        ctx.session.state["budget"] -= 1
        return bool(ctx.session.state["budget"] == 0)

    state = {"budget": 2}
    assert (
        _rent(max_rounds=4, terminate_when=stop).run_sync(QUESTION, session=state, model=by_role()).output.rounds == 2
    )
    assert state == {"budget": 0}


def test_predicate_sees_session_objects() -> None:
    rent = _rent(max_rounds=4, terminate_when=lambda ctx: ctx.session.state["stop"])
    assert rent.run_sync(QUESTION, session=Session(state={"stop": True}), model=by_role()).output.rounds == 1


def test_predicate_sees_the_usage() -> None:
    rent = _rent(max_rounds=4, terminate_when=lambda ctx: ctx.usage.calls >= 4)
    result = rent.run_sync(QUESTION, model=by_role())
    assert result.output.rounds == 2
    assert result.usage.calls == 5


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
def test_exceptions_in_a_predicate_are_raised(wait: bool) -> None:  # noqa: FBT001
    model = script("A", "B")
    failure = LookupError("no such budget")

    def stop(ctx: Context) -> bool:
        raise failure

    async def stop_later(ctx: Context) -> bool:
        raise failure

    with pytest.raises(LookupError) as caught:
        _rent(max_rounds=3, terminate_when=stop_later if wait else stop).run_sync(QUESTION, model=model)
    assert caught.value is failure
    assert len(model.calls) == 2


def test_moderator_takes_precedence_over_the_predicate() -> None:
    """If the moderator has ended the debate, the predicate is not called."""

    def never_asked(ctx: Context) -> bool:
        raise AssertionError

    model = by_role(decide=lambda _: decision("anna", done=True))
    rent = _rent(max_rounds=3, terminate_when=never_asked, **moderated())
    assert rent.run_sync(QUESTION, model=model).output.stop_reason == "moderator_done"


def test_predicate_ends_a_moderated_debate() -> None:
    model = by_role(decide=lambda _: decision("anna"))
    rent = _rent(max_rounds=4, terminate_when=lambda ctx: ctx.sequencer.state.round == 3, **moderated())
    output = rent.run_sync(QUESTION, model=model).output
    assert (output.rounds, output.stop_reason, len(output.moderator_decisions)) == (3, "predicate", 3)


def test_blocks_cannot_prolong_a_debate() -> None:
    """Even if a block tries to reset the round on each of its turns, it gets only `max_rounds` turns."""
    turns: list[int] = []

    def meddle(value: object, ctx: Context) -> str:
        turns.append(ctx.sequencer.state.round)
        with suppress(ReadOnly):
            ctx.sequencer.update(round=0)
        return "once more"

    sides: list[Any] = [{"name": "anna", "stance": "for", "block": meddle}, SIDES[1]]
    debate(name="rent", debaters=sides, max_rounds=3, synthesizer=False).run_sync(QUESTION, model=by_role())
    assert turns == [1, 2, 3]


def test_failing_judges_are_not_called_again() -> None:
    model = script("A", "B", verdict="nonsense")
    assert _rent(max_rounds=1).run_sync(QUESTION, model=model).status == "no_verdict"
    assert len(model.calls) == 3
    with pytest.raises(ModelError):
        _rent(max_rounds=1, failures=FailurePolicy(on_failure="fail")).run_sync(QUESTION, model=model)
