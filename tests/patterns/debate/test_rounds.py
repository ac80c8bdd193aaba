"""Debates without a moderator: the order of calls, and what debaters see of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate import (
    DebateContributionEntry,
    DebateInput,
    Debater,
    DebateTranscriptState,
    Session,
    create_debate_transcript,
    debate,
)
from flowdebate.chassis.state import RoundsEnded, RoundStarted, TurnFinished, TurnStarted
from flowdebate.patterns.debate.events import VerdictReached
from flowdebate.runs.events import ModelCalled
from tests.patterns.debates import QUESTION, SIDES, VERDICT, blocks_asked, events, script, system_of, turn_of

if TYPE_CHECKING:
    from flowdebate.runs.context import Context


def test_debaters_speak_before_the_judge_and_the_synthesizer() -> None:
    model = script("A1", "B1", "A2", "B2", after=("Cap rents.",))
    result = debate(name="rent", debaters=SIDES).run_sync(QUESTION, model=model)
    turns = ["rent-debater-anna", "rent-debater-ben"]
    assert blocks_asked(model) == [*turns, *turns, "rent-judge", "rent-synthesizer"]
    assert result.output == "Cap rents."
    assert result.usage.calls == 6
    model.assert_complete()


def test_events_follow_the_order_of_the_pipeline() -> None:
    kinds = (RoundStarted, TurnStarted, ModelCalled, TurnFinished, RoundsEnded, VerdictReached)
    result = debate(name="rent", debaters=SIDES, max_rounds=1).run_sync(QUESTION, model=script("A", "B", after=("C",)))
    names = [type(event).__name__ for event in result.events if isinstance(event, kinds)]
    turn = ["TurnStarted", "ModelCalled", "TurnFinished"]
    assert names == ["RoundStarted", *turn, *turn, "RoundsEnded", "ModelCalled", "VerdictReached", "ModelCalled"]
    (stop,) = events(result, RoundsEnded)
    assert (stop.rounds, stop.reason) == (1, "max_rounds")


def test_max_rounds_is_two_by_default() -> None:
    result = debate(name="rent", debaters=SIDES, synthesizer=False).run_sync(QUESTION, model=script(*"ABCD"))
    assert [event.round for event in events(result, RoundStarted)] == [1, 2]


def test_later_speakers_see_earlier_arguments_in_the_same_round() -> None:
    """Debaters take turns one after another, so each transcript ends with the preceding argument."""
    model = script("Homes first.", "Build more.", "Not in time.", "Ever more.")
    debate(name="rent", debaters=SIDES, synthesizer=False).run_sync(QUESTION, model=model)
    first, second, third, fourth, _ = map(turn_of, model.calls)
    assert "Homes first." not in first
    assert "[for] Homes first." in second
    assert "[against] Build more." in third
    assert "[for] Not in time." in fourth
    assert fourth.index("Homes first.") < fourth.index("Build more.") < fourth.index("Not in time.")


def test_debaters_see_stances_but_never_names() -> None:
    """The transcript is tagged with stances so that debaters respond to arguments rather than to people."""
    model = script("A1", "B1", "A2", "B2")
    debate(name="rent", debaters=SIDES, synthesizer=False).run_sync(QUESTION, model=model)
    for call in model.calls[:4]:
        assert "anna" not in call.prompt
        assert "ben" not in call.prompt.replace("been", "")
    assert "[for] A1\n[against] B1" in model.calls[2].prompt


def test_system_message_is_the_same_for_all_debaters() -> None:
    """Text that varies by debater or round comes after the transcript so that servers can reuse the prefix."""
    model = script("A1", "B1", "A2", "B2")
    debate(name="rent", debaters=SIDES, synthesizer=False).run_sync(QUESTION, model=model)
    assert len({system_of(call) for call in model.calls[:4]}) == 1
    assert QUESTION in system_of(model.calls[0])


def test_debater_prompts_contain_stance_role_and_round() -> None:
    sides = [Debater("anna", "cap rents", role="a tenant of thirty years"), Debater("ben", "free rents")]
    model = script("A1", "B1", "A2", "B2", verdict={**VERDICT, "winner": None})
    debate(name="rent", debaters=sides, synthesizer=False).run_sync(QUESTION, model=model)
    third = turn_of(model.calls[2])
    assert "cap rents" in third
    assert "a tenant of thirty years" in third
    assert "2" in third.split("Round 1:")[1].split("B1")[1]
    assert "a tenant of thirty years" not in turn_of(model.calls[3])


def test_debater_prompts_forbid_concession() -> None:
    model = script("A", "B")
    debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False).run_sync(QUESTION, model=model)
    assert "Defend your position throughout, without conceding it" in model.calls[1].prompt


@pytest.mark.parametrize("value", [QUESTION, {"question": QUESTION}, DebateInput(question=QUESTION)], ids=repr)
def test_questions_can_be_given_in_three_forms(value: object) -> None:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    assert rent.run_sync(value, model=script("A", "B")).output.question == QUESTION


def test_sequencer_state_contains_the_question_and_the_round() -> None:
    states: list[tuple[str, int, int]] = []

    def watch(value: DebateInput, ctx: Context) -> str:
        state = ctx.sequencer.state
        states.append((state.question, state.round, len(state.moderator_decisions)))
        return value.question

    sides = [Debater("anna", "for", block=watch), SIDES[1]]
    debate(name="rent", debaters=sides, synthesizer=False).run_sync(QUESTION, model=script("B1", "B2"))
    assert states == [(QUESTION, 1, 0), (QUESTION, 2, 0)]


def test_transcript_is_cleared_when_a_debate_starts() -> None:
    """Arguments left in the session by an earlier run must not appear in the next debate."""
    old = DebateTranscriptState(entries=[DebateContributionEntry(round=9, agent_name="x", stance="y", text="old")])
    session = Session(resources={"transcript": old})
    transcript = create_debate_transcript()
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, transcript=transcript)
    output = rent.run_sync(QUESTION, session=session, model=script("A", "B")).output
    assert [entry.text for entry in output.transcript] == ["A", "B"]
    assert session.resources["transcript"].entries == output.transcript


def test_debates_can_have_three_sides() -> None:
    sides = [*SIDES, Debater("carl", "later")]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    output = rent.run_sync(QUESTION, model=script("A", "B", "C", verdict={**VERDICT, "winner": "later"})).raw
    assert [entry.stance for entry in output.transcript] == ["for", "against", "later"]
    assert output.verdict is not None
    assert output.verdict.winner == "later"
