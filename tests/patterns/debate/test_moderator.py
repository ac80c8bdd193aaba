"""The pipeline with a moderator: its decisions drive the rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateModeratorOutput, Debater, debate
from flowdebate.chassis.state import RoundStarted, TurnStarted
from flowdebate.errors import OutputError, RosterError
from flowdebate.models import Retry, Retrying
from flowdebate.patterns.debate.events import ModeratorDecided
from flowdebate.patterns.debate.moderator import owed_a_turn
from flowdebate.patterns.debate.schemas import DebateContributionEntry
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, VERDICT, asked, by_role, decision, events, moderated, turn_of

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

ANNA, BEN = "rent-debater-anna", "rent-debater-ben"
MODERATOR, JUDGE = "rent-moderator", "rent-judge"


def _rent(**options: Any) -> Any:
    defaults: dict[str, Any] = {"name": "rent", "debaters": SIDES, "max_rounds": 3, "synthesizer": False, **moderated()}
    return debate(**{**defaults, **options})


def _own(*decisions: Any) -> dict[str, Any]:
    """A moderator that is a function: it gives the decision of each round."""

    def moderator(value: object, ctx: Context) -> Any:
        return decisions[ctx.sequencer.state.round - 1]

    return {"moderator": moderator}


def test_the_moderator_opens_every_round_and_its_speakers_have_the_floor() -> None:
    """Each decision drives a real round: both in the order that was decided, then one speaker, then the judge."""
    alone = decision("anna", reason="Ben has nothing to add.")
    model = ScriptedModel(
        decision("ben", "anna"), "B1", "A1", decision("anna", "ben"), "A2", "B2", alone, "A3", VERDICT
    )
    result = _rent().run_sync(QUESTION, model=model)
    assert asked(model) == [MODERATOR, BEN, ANNA, MODERATOR, ANNA, BEN, MODERATOR, ANNA, JUDGE]
    assert [(entry.round, entry.text) for entry in result.output.transcript] == [
        (1, "B1"),
        (1, "A1"),
        (2, "A2"),
        (2, "B2"),
        (3, "A3"),
    ]
    assert [made.reason for made in result.output.moderator_decisions] == [None, None, "Ben has nothing to add."]
    assert result.output.stop_reason == "max_rounds"


def test_the_decision_is_told_between_the_rounds_start_and_its_first_turn() -> None:
    """Events: the round starts, the moderator decides, then turns start."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A1", "B1", VERDICT)
    result = _rent().run_sync(QUESTION, model=model)
    kinds = (RoundStarted, ModeratorDecided, TurnStarted)
    assert [type(event) for event in result.events if isinstance(event, kinds)] == [*kinds, TurnStarted]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_there_is_one_decision_for_each_round(rounds: int) -> None:
    """`moderator_decisions` has one entry per round, stamped with it."""
    output = _rent(max_rounds=rounds).run_sync(QUESTION, model=by_role(decide=lambda _: decision("anna"))).output
    assert [made.round for made in output.moderator_decisions] == list(range(1, rounds + 1))
    assert output.rounds == rounds


def test_without_a_moderator_there_are_no_decisions() -> None:
    """The list is empty, not absent."""
    assert debate(name="rent", debaters=SIDES, synthesizer=False).run_sync(
        QUESTION, model=by_role()
    ).output.moderator_decisions == []  # fmt: skip


def test_a_done_round_still_runs() -> None:
    """With `done` the round's speakers speak, then the loop ends."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A1", "B1", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1"]
    assert (output.rounds, output.stop_reason) == (1, "moderator_done")
    model.assert_complete()


def test_nobody_may_speak_in_a_done_round() -> None:
    """An empty `next_speakers` with `done` is a round without turns; the judge finds on what there is."""
    model = ScriptedModel(decision("anna", "ben"), "A1", "B1", decision(done=True), VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.round for entry in output.transcript] == [1, 1]
    assert (output.rounds, len(output.moderator_decisions), output.stop_reason) == (2, 2, "moderator_done")


def test_a_model_cannot_end_a_debate_before_all_sides_were_heard() -> None:
    """Whom its decision leaves out speaks all the same, and the decision says so."""
    model = ScriptedModel(decision(done=True), "A1", "B1", VERDICT)
    result = _rent().run_sync(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["A1", "B1"]
    (made,) = result.output.moderator_decisions
    assert (made.next_speakers, made.added, made.done) == (["anna", "ben"], ["anna", "ben"], True)
    assert (result.status, result.output.stop_reason) == ("complete", "moderator_done")


def test_without_next_speakers_all_debaters_speak() -> None:
    """The full roster is the default: left out or null, it is everybody in declared order."""
    null = {**decision(), "nextSpeakers": None}
    model = ScriptedModel({"briefing": "Facts."}, "A1", "B1", null, "A2", "B2", VERDICT)
    output = _rent(max_rounds=2).run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1", "A2", "B2"]
    assert all(not made.added and not made.fallback for made in output.moderator_decisions)


@pytest.mark.parametrize("reason", [None, "", " "])
def test_a_side_is_not_left_out_without_a_reason(reason: str | None) -> None:
    """In round 2 the model names one speaker and says nothing of the other, who speaks as well."""
    model = ScriptedModel(
        decision("anna", "ben"), "A1", "B1", decision("anna", done=True, reason=reason), "A2", "B2", VERDICT
    )
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1", "A2", "B2"]
    assert output.moderator_decisions[1].added == ["ben"]


def test_a_reason_does_not_silence_a_side_that_has_not_spoken_since_the_other_did() -> None:
    """Ben answered Anna: a round for Ben alone would leave her without a reply."""
    alone = decision("ben", done=True, reason="Anna has said enough.")
    model = ScriptedModel(decision("anna", "ben"), "A1", "B1", alone, "B2", "A2", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1", "B2", "A2"]
    assert output.moderator_decisions[1].added == ["anna"]


def test_where_nobody_is_left_out_there_is_no_reason_for_it() -> None:
    """A small model writes one anyway; the page would say that somebody was left out."""
    model = ScriptedModel(decision("ben", "anna", done=True, reason="It is the first round."), "B", "A", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert output.moderator_decisions[0].reason is None


@given(st.data())
def test_no_side_is_ever_left_behind(data: st.DataObject) -> None:
    """Whatever was decided: a side that is silent was heard after all those that speak, or nobody speaks."""
    stances = dict(data.draw(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz")), min_size=1)))
    spoken = data.draw(st.lists(st.tuples(st.sampled_from(list(stances)), st.sampled_from([None, "empty", "cut_off"]))))
    entries = [
        DebateContributionEntry(round=1, agent_name=name, stance=stances[name], text="-", flag=flag)
        for name, flag in spoken
    ]
    chosen, reason = data.draw(st.lists(st.sampled_from(list(stances)))), data.draw(st.sampled_from([None, "So."]))
    said = DebateModeratorOutput(next_speakers=chosen, done=True, reason=reason)
    added = owed_a_turn(said, stances=stances, entries=entries)
    heard = {entry.stance: place for place, entry in enumerate(entries) if entry.flag != "empty"}
    speaking = {stances[name] for name in [*chosen, *added]}
    silent = set(stances.values()) - speaking
    assert not {stances[name] for name in chosen} & {stances[name] for name in added}
    assert silent <= heard.keys()
    assert reason is not None or not silent or not chosen
    assert all(heard[one] > heard.get(stances[name], -1) for one in silent for name in chosen)


def test_a_team_is_heard_by_one_of_its_debaters() -> None:
    """A stance that two debaters share needs no turn of both; who has not spoken for longest is added."""
    stances = {"a": "x", "b": "x", "c": "y"}
    said = [DebateContributionEntry(round=1, agent_name=name, stance=stances[name], text="-") for name in "abc"]
    for speakers, expected in ((["c"], ["a"]), (["a", "c"], []), (["b", "c"], [])):
        decided = DebateModeratorOutput(next_speakers=speakers)
        assert owed_a_turn(decided, stances=stances, entries=said) == expected


@pytest.mark.parametrize("given_to", ["debate", "maker"])
def test_the_moderator_knows_who_defends_what_and_how_many_rounds_there_are(given_to: str) -> None:
    """From round 1 on, and without being told twice."""
    options = {"moderator": True, "transcript": None} if given_to == "debate" else {}
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    _rent(**options).run_sync(QUESTION, model=model)
    assert "- anna, defending: for\n- ben, defending: against\n" in model.calls[0].prompt
    assert "round 1 of at most 3" in turn_of(model.calls[0])


@pytest.mark.parametrize("key", ["next_speakers", "nextSpeakers"])
def test_nobody_without_done_does_not_validate(key: str) -> None:
    """Of a model it is replaced by the declared order, of a function it is an OutputError that says what is wrong."""
    result = _rent().run_sync(QUESTION, model=by_role(decide=lambda _: decision()))
    assert all(made.fallback for made in result.raw.moderator_decisions)
    assert all("may be empty only with done=true" in loss.error for loss in result.raw.losses)
    assert len(result.raw.losses) == result.raw.rounds
    with pytest.raises(OutputError, match=r"'rent-moderator' must return .* may be empty only with done=true"):
        _rent(**_own({key: [], "done": False})).run_sync(QUESTION, model=by_role())


def test_an_instance_that_was_never_validated_is_validated() -> None:
    """`model_construct` does not get around the check."""
    made = DebateModeratorOutput.model_construct(next_speakers=[], briefing=None, new_angle=None, done=False)
    with pytest.raises(OutputError, match="may be empty only with done=true"):
        _rent(**_own(made)).run_sync(QUESTION, model=by_role())


def test_the_same_speaker_twice_has_two_turns() -> None:
    """Duplicates are a turn each, and the second sees the first."""
    model = ScriptedModel(decision("anna", "anna", "ben", done=True), "A1", "A2", "B", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "A2", "B"]
    assert "[for] A1" in turn_of(model.calls[2])


def test_a_model_that_gives_one_side_all_turns_does_not_keep_the_other_from_being_heard() -> None:
    """Whoever is added has a turn besides those that a moderator may give."""
    model = ScriptedModel(decision(*["anna"] * 8, done=True), *(f"A{number}" for number in range(8)), "B", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.agent_name for entry in output.transcript] == ["anna"] * 8 + ["ben"]


def test_a_stranger_is_an_error_that_names_it_and_lists_the_roster_as_declared() -> None:
    """A name that is not on the roster: RosterError, with the names available in declared order; nobody speaks."""
    sides = [Debater("zoe", "for"), Debater("adam", "against")]
    rent = debate(name="rent", debaters=sides, **_own(decision("adam", "carl")))
    model = ScriptedModel()
    with pytest.raises(RosterError) as caught:
        rent.run_sync(QUESTION, model=model)
    assert (caught.value.name, caught.value.available) == ("carl", ("zoe", "adam"))
    assert caught.value.block == "rent-moderator"
    assert "'carl' is not a debater; available: 'zoe', 'adam'" in str(caught.value)
    model.assert_complete()


def test_a_model_that_names_a_stranger_is_told_so_and_then_replaced_by_the_declared_order() -> None:
    """It is asked again with the reason; what it cannot get right is flagged, and nobody is made up."""
    sides = [Debater("zoe", "for"), Debater("adam", "against")]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, **_with_roster(["zoe", "adam"]))
    model = ScriptedModel(decision("adam", "carl"), decision("adam", "dora"), "Z", "A", VERDICT)
    result = rent.run_sync(QUESTION, model=Retrying(model, Retry(attempts=2)))
    model.assert_complete()
    assert "'carl' is not a debater; available: 'zoe', 'adam'" in model.calls[1].prompt
    assert [(entry.agent_name, entry.text) for entry in result.output.transcript] == [("zoe", "Z"), ("adam", "A")]
    assert result.output.moderator_decisions[0].fallback
    assert (result.status, result.output.status) == ("degraded", "degraded")
    (loss,) = result.output.losses
    assert (loss.role, loss.name, loss.round, loss.instead) == ("moderator", "rent-moderator", 1, "declared_order")
    assert "'dora' is not a debater" in loss.error


def test_a_model_that_is_told_what_is_wrong_may_get_it_right() -> None:
    """A repaired decision counts as any other: nothing is lost."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, **_with_roster(["anna", "ben"]))
    model = ScriptedModel(decision(), decision("ben", "anna"), "B", "A", VERDICT)
    result = rent.run_sync(QUESTION, model=Retrying(model))
    assert [entry.agent_name for entry in result.output.transcript] == ["ben", "anna"]
    assert (result.status, result.output.losses) == ("complete", [])


@pytest.mark.parametrize("field", ["briefing", "newAngle"])
def test_a_model_s_words_for_a_round_have_a_length(field: str) -> None:
    """They stand in each prompt of the round: a hundred thousand characters of them are no decision."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, **_with_roster(["anna", "ben"]))
    endless = {**decision("ben"), field: "x" * 100_000}
    result = rent.run_sync(QUESTION, model=ScriptedModel(endless, "A", "B", VERDICT))
    assert result.output.moderator_decisions[0].fallback
    assert "100,000 characters" in result.output.losses[0].error


def _with_roster(names: list[str]) -> dict[str, Any]:
    from flowdebate import create_debate_transcript, create_moderator

    transcript = create_debate_transcript()
    return {
        "moderator": create_moderator(name="rent", roster_names=names, transcript=transcript),
        "transcript": transcript,
    }


def test_the_schema_of_the_default_moderator_holds_the_roster_as_an_enum() -> None:
    """A model that can be held to a schema cannot name a stranger."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    _rent().run_sync(QUESTION, model=model)
    schema = model.calls[0].output_schema
    assert schema is not None
    assert schema["properties"]["nextSpeakers"]["items"]["enum"] == ["anna", "ben"]
    assert list(schema["properties"]) == ["reason", "nextSpeakers", "briefing", "newAngle", "done"]


def test_debaters_see_this_rounds_briefing_and_angle_and_no_earlier_ones() -> None:
    """Both reach every prompt of the round that they were decided for, and no prompt of another."""
    model = ScriptedModel(
        decision("anna", "ben", briefing="Rents rose by 9 %.", newAngle="Who pays?"),
        "A1",
        "B1",
        decision("anna", newAngle="What of repairs?", reason="Ben has answered."),
        "A2",
        decision("ben", reason="Anna has answered."),
        "B3",
        VERDICT,
    )
    _rent().run_sync(QUESTION, model=model)
    _, anna1, ben1, _, anna2, _, ben3, _ = (turn_of(call) for call in model.calls)
    for prompt in (anna1, ben1):
        assert "Rents rose by 9 %." in prompt
        assert "Who pays?" in prompt
    assert "What of repairs?" in anna2
    for old in ("Rents rose", "Who pays?"):
        assert old not in anna2
        assert old not in ben3
    assert "What of repairs?" not in ben3


@pytest.mark.parametrize("words", [{"briefing": "FACTS"}, {"newAngle": "FOCUS"}, {}], ids=str)
def test_briefing_and_angle_are_independent(words: dict[str, str]) -> None:
    """Either may be there without the other, or neither."""
    model = ScriptedModel(decision("anna", "ben", done=True, **words), "A1", "B1", VERDICT)
    _rent().run_sync(QUESTION, model=model)
    prompt = turn_of(model.calls[1])
    assert [word for word in ("FACTS", "FOCUS") if word in prompt] == list(words.values())


def test_the_moderator_sees_names_and_its_own_decisions() -> None:
    """Its prompt holds the whole ordered transcript with names, and what it decided in earlier rounds."""
    model = ScriptedModel(
        decision("ben", "anna", newAngle="Who pays?"),
        "B1",
        "A1",
        decision("ben", reason="Anna was clear."),
        "B2",
        decision("anna", "ben"),
        "A3",
        "B3",
        VERDICT,
    )
    _rent().run_sync(QUESTION, model=model)
    third = turn_of(model.calls[5])
    assert "Round 1:\n[ben, against] B1\n[anna, for] A1\nRound 2:\n[ben, against] B2" in third
    assert "Who pays?" in third
    assert "round 2, reason for leaving a debater out: Anna was clear." in third


def test_the_first_round_is_asked_for_the_roster_and_a_briefing() -> None:
    """Before there is a transcript, the default prompt asks for the full roster and a briefing."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    _rent().run_sync(QUESTION, model=model)
    prompt = model.calls[0].prompt
    for word in ("anna", "ben", QUESTION, "Call on all the debaters, and use the briefing"):
        assert word in prompt
    assert "tool" not in turn_of(model.calls[0])


def test_the_first_round_is_asked_for_research_where_there_are_tools() -> None:
    """With tools, the prompt asks to use them and to put what is found into the briefing."""

    def search(query: str) -> str:
        """Search the web."""
        return query

    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    _rent(**moderated(tools=[search])).run_sync(QUESTION, model=model)
    assert "tool" in model.calls[0].prompt
    assert model.calls[0].tools == ["search"]


@pytest.mark.parametrize(
    "answer",
    [
        {"next_speakers": ["ben"], "briefing": None, "new_angle": "X", "done": True},
        {"nextSpeakers": ["ben"], "newAngle": "X", "done": True},
        DebateModeratorOutput(next_speakers=["ben"], new_angle="X", done=True),
    ],
    ids=["snake", "camel", "model"],
)
def test_a_moderator_of_ones_own_returns_the_model_or_a_dict_in_either_key_style(answer: object) -> None:
    """All three are the same decision, and what is left out has its default."""
    output = _rent(**_own(answer)).run_sync(QUESTION, model=by_role()).output
    (made,) = output.moderator_decisions
    assert (made.round, made.next_speakers, made.briefing, made.new_angle, made.done) == (1, ["ben"], None, "X", True)
    assert [entry.agent_name for entry in output.transcript] == ["ben"]


def test_a_moderator_may_decide_by_the_transcript() -> None:
    """A default moderator's model is asked anew each round, with what was argued meanwhile."""

    def decide(request: ModelRequest) -> dict[str, Any]:
        prompt = str(request.messages[-1]["content"])
        return decision("anna", done="said by rent-debater-anna" in prompt)

    model: FunctionModel = by_role(decide=decide)
    assert _rent().run_sync(QUESTION, model=model).output.rounds == 2


def test_decisions_are_told_as_events() -> None:
    """Each decision is an event with the block's name."""
    result = _rent(max_rounds=2).run_sync(QUESTION, model=by_role(decide=lambda _: decision("anna")))
    told = events(result, ModeratorDecided)
    assert [(event.block, event.decision.round) for event in told] == [("rent-moderator", 1), ("rent-moderator", 2)]
    assert [event.decision for event in told] == result.output.moderator_decisions


def test_an_earlier_rounds_decision_is_not_the_present_one() -> None:
    """While the moderator decides, the round has no decision yet; the earlier ones are all there."""
    seen: list[tuple[int, object]] = []

    def moderator(value: object, ctx: Context) -> Any:
        state = ctx.sequencer.state
        seen.append((len(state.moderator_decisions), state.decision))
        return decision("anna")

    _rent(max_rounds=2, moderator=moderator).run_sync(QUESTION, model=by_role())
    assert seen == [(0, None), (1, None)]
