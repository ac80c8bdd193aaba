"""The pipeline with a moderator: its decisions drive the rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import DebateModeratorOutput, Debater, debate
from flowdebate.errors import OutputError, RosterError
from flowdebate.models import Retry, Retrying
from flowdebate.patterns.debate.schemas import ModeratorDecided
from flowdebate.patterns.events import RoundStarted, TurnStarted
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
    """Each decision drives a real round: one speaker, then both in the order that was decided, then the judge."""
    model = ScriptedModel(decision("ben"), "B1", decision("ben", "anna"), "B2", "A2", decision("anna"), "A3", VERDICT)
    result = _rent().run_sync(QUESTION, model=model)
    assert asked(model) == [MODERATOR, BEN, MODERATOR, BEN, ANNA, MODERATOR, ANNA, JUDGE]
    assert [(entry.round, entry.text) for entry in result.output.transcript] == [
        (1, "B1"),
        (2, "B2"),
        (2, "A2"),
        (3, "A3"),
    ]
    assert result.output.stop_reason == "max_rounds"


def test_the_decision_is_told_between_the_rounds_start_and_its_first_turn() -> None:
    """Events: the round starts, the moderator decides, then turns start."""
    model = ScriptedModel(decision("anna", done=True), "A1", VERDICT)
    result = _rent().run_sync(QUESTION, model=model)
    kinds = (RoundStarted, ModeratorDecided, TurnStarted)
    assert [type(event) for event in result.events if isinstance(event, kinds)] == list(kinds)


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
    model = ScriptedModel(decision("anna"), "A1", decision(done=True), VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [entry.round for entry in output.transcript] == [1]
    assert (output.rounds, len(output.moderator_decisions), output.stop_reason) == (2, 2, "moderator_done")


def test_a_debate_may_have_no_argument_at_all() -> None:
    """A moderator that ends at once leaves the judge an empty transcript."""
    model = ScriptedModel(decision(done=True), VERDICT)
    assert _rent().run_sync(QUESTION, model=model).output.transcript == []
    assert "(empty)" in model.calls[-1].prompt


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
    model = ScriptedModel(decision("anna", "anna", done=True), "A1", "A2", VERDICT)
    output = _rent().run_sync(QUESTION, model=model).output
    assert [(entry.agent_name, entry.text) for entry in output.transcript] == [("anna", "A1"), ("anna", "A2")]
    assert "[for] A1" in turn_of(model.calls[2])


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
    model = ScriptedModel(decision(), decision("ben"), "B", VERDICT)
    result = rent.run_sync(QUESTION, model=Retrying(model))
    assert [entry.agent_name for entry in result.output.transcript] == ["ben"]
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
    model = ScriptedModel(decision(done=True), VERDICT)
    _rent().run_sync(QUESTION, model=model)
    schema = model.calls[0].output_schema
    assert schema is not None
    assert schema["properties"]["nextSpeakers"]["items"]["enum"] == ["anna", "ben"]


def test_debaters_see_this_rounds_briefing_and_angle_and_no_earlier_ones() -> None:
    """Both reach every prompt of the round that they were decided for, and no prompt of another."""
    model = ScriptedModel(
        decision("anna", "ben", briefing="Rents rose by 9 %.", newAngle="Who pays?"),
        "A1",
        "B1",
        decision("anna", newAngle="What of repairs?"),
        "A2",
        decision("ben"),
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
    model = ScriptedModel(decision("anna", done=True, **words), "A1", VERDICT)
    _rent().run_sync(QUESTION, model=model)
    prompt = turn_of(model.calls[1])
    assert [word for word in ("FACTS", "FOCUS") if word in prompt] == list(words.values())


def test_the_moderator_sees_names_and_its_own_decisions() -> None:
    """Its prompt holds the whole ordered transcript with names, and what it decided in earlier rounds."""
    model = ScriptedModel(
        decision("ben", newAngle="Who pays?"),
        "B1",
        decision("anna", "ben"),
        "A2",
        "B2",
        decision("anna"),
        "A3",
        VERDICT,
    )
    _rent().run_sync(QUESTION, model=model)
    third = turn_of(model.calls[5])
    assert "Round 1:\n[ben, against] B1\nRound 2:\n[anna, for] A2\n[ben, against] B2" in third
    assert "Who pays?" in third


def test_the_first_round_is_asked_for_the_roster_and_a_briefing() -> None:
    """Before there is a transcript, the default prompt asks for the full roster, or a balanced part, and a briefing."""
    model = ScriptedModel(decision(done=True), VERDICT)
    _rent().run_sync(QUESTION, model=model)
    prompt = model.calls[0].prompt
    for word in ("anna", "ben", QUESTION, "briefing"):
        assert word in prompt
    assert "tool" not in turn_of(model.calls[0])


def test_the_first_round_is_asked_for_research_where_there_are_tools() -> None:
    """With tools, the prompt asks to use them and to put what is found into the briefing."""

    def search(query: str) -> str:
        """Search the web."""
        return query

    model = ScriptedModel(decision(done=True), VERDICT)
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
