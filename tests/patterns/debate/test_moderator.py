"""Moderated debates, whose rounds follow the moderator's decisions."""

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
from flowdebate.patterns.debate.moderator import find_omitted_speakers
from flowdebate.patterns.debate.schemas import DebateContributionEntry
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, VERDICT, blocks_asked, by_role, decision, events, moderated, turn_of

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

ANNA, BEN = "rent-debater-anna", "rent-debater-ben"
MODERATOR, JUDGE = "rent-moderator", "rent-judge"


def _rent(**options: Any) -> Any:
    defaults: dict[str, Any] = {"name": "rent", "debaters": SIDES, "max_rounds": 3, "synthesizer": False, **moderated()}
    return debate(**{**defaults, **options})


def _scripted_moderator(*decisions: Any) -> dict[str, Any]:
    """Create a moderator function that returns one of the given decisions per round."""

    def moderator(value: object, ctx: Context) -> Any:
        return decisions[ctx.sequencer.state.round - 1]

    return {"moderator": moderator}


def test_moderator_opens_every_round_and_chooses_the_speakers() -> None:
    alone = decision("anna", reason="Ben has nothing to add.")
    model = ScriptedModel(
        decision("ben", "anna"), "B1", "A1", decision("anna", "ben"), "A2", "B2", alone, "A3", VERDICT
    )
    result = _rent().run_sync(QUESTION, model=model)
    assert blocks_asked(model) == [MODERATOR, BEN, ANNA, MODERATOR, ANNA, BEN, MODERATOR, ANNA, JUDGE]
    assert [(entry.round, entry.text) for entry in result.output.transcript] == [
        (1, "B1"),
        (1, "A1"),
        (2, "A2"),
        (2, "B2"),
        (3, "A3"),
    ]
    assert [choice.reason for choice in result.output.moderator_decisions] == [None, None, "Ben has nothing to add."]
    assert result.output.stop_reason == "max_rounds"


def test_decisions_are_emitted_before_the_first_turn() -> None:
    model = ScriptedModel(decision("anna", "ben", done=True), "A1", "B1", VERDICT)
    result = _rent().run_sync(QUESTION, model=model)
    kinds = (RoundStarted, ModeratorDecided, TurnStarted)
    assert [type(event) for event in result.events if isinstance(event, kinds)] == [*kinds, TurnStarted]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_each_round_has_one_decision(rounds: int) -> None:
    output = _rent(max_rounds=rounds).run_sync(QUESTION, model=by_role(decide=lambda _: decision("anna"))).output
    assert [entry.round for entry in output.moderator_decisions] == list(range(1, rounds + 1))
    assert output.rounds == rounds


def test_debates_without_a_moderator_have_no_decisions() -> None:
    assert debate(name="rent", debaters=SIDES, synthesizer=False).run_sync(
        QUESTION, model=by_role()
    ).output.moderator_decisions == []  # fmt: skip


def test_speakers_still_take_turns_in_a_round_marked_done() -> None:
    """The debate ends only after the speakers named in the moderator's decision have spoken."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A1", "B1", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1"]
    assert (output.rounds, output.stop_reason) == (1, "moderator_done")
    model.assert_complete()


def test_rounds_marked_done_may_have_no_speakers() -> None:
    model = ScriptedModel(decision("anna", "ben"), "A1", "B1", decision(done=True), VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.round for entry in output.transcript] == [1, 1]
    assert (output.rounds, len(output.moderator_decisions), output.stop_reason) == (2, 2, "moderator_done")


def test_model_cannot_end_a_debate_before_all_sides_have_spoken() -> None:
    """A debater left out of the decision speaks anyway, and the decision records who was added."""
    model = ScriptedModel(decision(done=True), "A1", "B1", VERDICT)
    result = _rent().run_sync(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["A1", "B1"]
    (choice,) = result.output.moderator_decisions
    assert (choice.next_speakers, choice.added, choice.done) == (["anna", "ben"], ["anna", "ben"], True)
    assert (result.status, result.output.stop_reason) == ("complete", "moderator_done")


def test_all_debaters_speak_if_the_decision_names_none() -> None:
    """If the list is missing or null, all debaters speak in the declared order."""
    null = {**decision(), "nextSpeakers": None}
    model = ScriptedModel({"briefing": "Facts."}, "A1", "B1", null, "A2", "B2", VERDICT)
    output = _rent(max_rounds=2).run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1", "A2", "B2"]
    assert all(not choice.added and not choice.fallback for choice in output.moderator_decisions)


@pytest.mark.parametrize("reason", [None, "", " "])
def test_omitting_a_side_requires_a_reason(reason: str | None) -> None:
    """In round 2, the model names one speaker and gives no reason, so the other debater speaks as well."""
    model = ScriptedModel(
        decision("anna", "ben"), "A1", "B1", decision("anna", done=True, reason=reason), "A2", "B2", VERDICT
    )
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1", "A2", "B2"]
    assert output.moderator_decisions[1].added == ["ben"]


def test_reason_does_not_silence_a_side_that_still_has_to_reply() -> None:
    """Ben has answered Anna, so a round in which only Ben speaks would deny her a reply."""
    alone = decision("ben", done=True, reason="Anna has said enough.")
    model = ScriptedModel(decision("anna", "ben"), "A1", "B1", alone, "B2", "A2", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "B1", "B2", "A2"]
    assert output.moderator_decisions[1].added == ["anna"]


def test_reasons_without_an_omitted_side_are_dropped() -> None:
    """A small model may give a reason even if it omits nobody, and the page would then report an omission."""
    model = ScriptedModel(decision("ben", "anna", done=True, reason="It is the first round."), "B", "A", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert output.moderator_decisions[0].reason is None


@given(st.data())
def test_every_side_gets_a_turn_to_reply(data: st.DataObject) -> None:
    """A side may be left out of a round only if it has already replied to everyone who speaks in the round."""
    stances = dict(data.draw(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz")), min_size=1)))
    spoken = data.draw(st.lists(st.tuples(st.sampled_from(list(stances)), st.sampled_from([None, "empty", "cut_off"]))))
    entries = [
        DebateContributionEntry(round=1, agent_name=name, stance=stances[name], text="-", flag=flag)
        for name, flag in spoken
    ]
    next_speakers, reason = (
        data.draw(st.lists(st.sampled_from(list(stances)))),
        data.draw(st.sampled_from([None, "So."])),
    )
    moderator_output = DebateModeratorOutput(next_speakers=next_speakers, done=True, reason=reason)
    added = find_omitted_speakers(moderator_output, stances=stances, entries=entries)
    last_turns = {entry.stance: place for place, entry in enumerate(entries) if entry.flag != "empty"}
    speaking = {stances[name] for name in [*next_speakers, *added]}
    silent = set(stances.values()) - speaking
    assert not {stances[name] for name in next_speakers} & {stances[name] for name in added}
    assert silent <= last_turns.keys()
    assert reason is not None or not silent or not next_speakers
    assert all(last_turns[one] > last_turns.get(stances[name], -1) for one in silent for name in next_speakers)


def test_one_debater_speaks_for_a_shared_stance() -> None:
    """Of two debaters with the same stance, only the one who has waited longest is added."""
    stances = {"a": "x", "b": "x", "c": "y"}
    entries = [DebateContributionEntry(round=1, agent_name=name, stance=stances[name], text="-") for name in "abc"]
    for speakers, expected in ((["c"], ["a"]), (["a", "c"], []), (["b", "c"], [])):
        decided = DebateModeratorOutput(next_speakers=speakers)
        assert find_omitted_speakers(decided, stances=stances, entries=entries) == expected


@pytest.mark.parametrize("given_to", ["debate", "maker"])
def test_moderator_prompts_contain_stances_and_round_count(given_to: str) -> None:
    options = {"moderator": True, "transcript": None} if given_to == "debate" else {}
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    _rent(**options).run_sync(QUESTION, model=model)
    assert "- anna, defending: for\n- ben, defending: against\n" in model.calls[0].prompt
    assert "round 1 of at most 3" in turn_of(model.calls[0])


@pytest.mark.parametrize("key", ["next_speakers", "nextSpeakers"])
def test_empty_speaker_lists_require_done(key: str) -> None:
    """If a model returns an empty list without `done`, the declared order is used.

    If a function returns one, an `OutputError` is raised.
    """
    result = _rent().run_sync(QUESTION, model=by_role(decide=lambda _: decision()))
    assert all(entry.fallback for entry in result.raw.moderator_decisions)
    assert all("may be empty only with done=true" in loss.error for loss in result.raw.losses)
    assert len(result.raw.losses) == result.raw.rounds
    with pytest.raises(OutputError, match=r"'rent-moderator' must return .* may be empty only with done=true"):
        _rent(**_scripted_moderator({key: [], "done": False})).run_sync(QUESTION, model=by_role())


def test_decisions_made_with_model_construct_are_validated() -> None:
    invalid = DebateModeratorOutput.model_construct(next_speakers=[], briefing=None, new_angle=None, done=False)
    with pytest.raises(OutputError, match="may be empty only with done=true"):
        _rent(**_scripted_moderator(invalid)).run_sync(QUESTION, model=by_role())


def test_repeated_speakers_take_several_turns() -> None:
    model = ScriptedModel(decision("anna", "anna", "ben", done=True), "A1", "A2", "B", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.text for entry in output.transcript] == ["A1", "A2", "B"]
    assert "[for] A1" in turn_of(model.calls[2])


def test_side_speaks_even_if_the_other_side_is_given_all_turns() -> None:
    """An added speaker gets a turn even if the moderator has already assigned the maximum number of turns."""
    model = ScriptedModel(decision(*["anna"] * 8, done=True), *(f"A{number}" for number in range(8)), "B", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.agent_name for entry in output.transcript] == ["anna"] * 8 + ["ben"]


def test_unknown_speakers_raise_an_error_listing_the_roster() -> None:
    sides = [Debater("zoe", "for"), Debater("adam", "against")]
    rent = debate(name="rent", debaters=sides, **_scripted_moderator(decision("adam", "carl")))
    model = ScriptedModel()
    with pytest.raises(RosterError) as caught:
        rent.run_sync(QUESTION, model=model)
    assert (caught.value.name, caught.value.available) == ("carl", ("zoe", "adam"))
    assert caught.value.block == "rent-moderator"
    assert "carl is not a debater; available: zoe, adam" in str(caught.value)
    model.assert_complete()


def test_repeated_unknown_speakers_fall_back_to_all_debaters() -> None:
    """The model is first asked again and told why.

    If its second answer is invalid too, the declared order is used, and the decision is flagged.
    """
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


def test_models_can_repair_their_decision() -> None:
    """A repaired decision counts like any other decision and is not recorded as a loss."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, **_with_roster(["anna", "ben"]))
    model = ScriptedModel(decision(), decision("ben", "anna"), "B", "A", VERDICT)
    result = rent.run_sync(QUESTION, model=Retrying(model))
    assert [entry.agent_name for entry in result.output.transcript] == ["ben", "anna"]
    assert (result.status, result.output.losses) == ("complete", [])


@pytest.mark.parametrize("field", ["briefing", "newAngle"])
def test_briefings_and_angles_have_a_maximum_length(field: str) -> None:
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


def test_default_moderator_schema_lists_the_roster_as_an_enum() -> None:
    """A model constrained by the schema cannot name an unknown speaker."""
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    _rent().run_sync(QUESTION, model=model)
    schema = model.calls[0].output_schema
    assert schema is not None
    assert schema["properties"]["nextSpeakers"]["items"]["enum"] == ["anna", "ben"]
    assert list(schema["properties"]) == ["reason", "nextSpeakers", "briefing", "newAngle", "done"]


def test_debaters_see_only_the_briefing_and_angle_for_the_round() -> None:
    model = ScriptedModel(
        decision("anna", "ben", briefing="Rents rose by 9%.", newAngle="Who pays?"),
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
        assert "Rents rose by 9%." in prompt
        assert "Who pays?" in prompt
    assert "What of repairs?" in anna2
    for old in ("Rents rose", "Who pays?"):
        assert old not in anna2
        assert old not in ben3
    assert "What of repairs?" not in ben3


@pytest.mark.parametrize("words", [{"briefing": "FACTS"}, {"newAngle": "FOCUS"}, {}], ids=str)
def test_briefing_and_angle_are_independent(words: dict[str, str]) -> None:
    model = ScriptedModel(decision("anna", "ben", done=True, **words), "A1", "B1", VERDICT)
    _rent().run_sync(QUESTION, model=model)
    prompt = turn_of(model.calls[1])
    assert [word for word in ("FACTS", "FOCUS") if word in prompt] == list(words.values())


def test_moderators_see_names_and_their_own_decisions() -> None:
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


def test_first_prompt_asks_for_all_speakers_and_a_briefing() -> None:
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    _rent().run_sync(QUESTION, model=model)
    prompt = model.calls[0].prompt
    for word in ("anna", "ben", QUESTION, "Call on all the debaters, and use the briefing"):
        assert word in prompt
    assert "tool" not in turn_of(model.calls[0])


def test_first_prompt_with_tools_asks_for_research() -> None:
    """The moderator is asked to use its tools and to include the findings in its briefing."""

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
def test_custom_moderators_can_return_the_model_or_a_dict(answer: object) -> None:
    """Keys may be in snake case or camel case, and missing fields get their defaults."""
    output = _rent(**_scripted_moderator(answer)).run_sync(QUESTION, model=by_role()).output
    (choice,) = output.moderator_decisions
    assert (choice.round, choice.next_speakers, choice.briefing, choice.new_angle, choice.done) == (
        1,
        ["ben"],
        None,
        "X",
        True,
    )
    assert [entry.agent_name for entry in output.transcript] == ["ben"]


def test_moderators_can_decide_based_on_the_transcript() -> None:
    def decide(request: ModelRequest) -> dict[str, Any]:
        prompt = str(request.messages[-1]["content"])
        return decision("anna", done="said by rent-debater-anna" in prompt)

    model: FunctionModel = by_role(decide=decide)
    assert _rent().run_sync(QUESTION, model=model).output.rounds == 2


def test_decisions_are_emitted_as_events() -> None:
    result = _rent(max_rounds=2).run_sync(QUESTION, model=by_role(decide=lambda _: decision("anna")))
    decision_events = events(result, ModeratorDecided)
    assert [(event.block, event.decision.round) for event in decision_events] == [
        ("rent-moderator", 1),
        ("rent-moderator", 2),
    ]
    assert [event.decision for event in decision_events] == result.output.moderator_decisions


def test_current_decision_is_none_while_the_moderator_decides() -> None:
    """While deciding, the moderator can still read the decisions from earlier rounds."""
    decisions: list[tuple[int, object]] = []

    def moderator(value: object, ctx: Context) -> Any:
        state = ctx.sequencer.state
        decisions.append((len(state.moderator_decisions), state.decision))
        return decision("anna")

    _rent(max_rounds=2, moderator=moderator).run_sync(QUESTION, model=by_role())
    assert decisions == [(0, None), (1, None)]
