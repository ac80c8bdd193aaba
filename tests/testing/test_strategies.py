"""Strategies draw valid values, cover all kinds of them, and shrink to readable ones."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from flowdebate import (
    DebateModeratorOutput,
    Debater,
    DebateTranscriptState,
    DebateVerdict,
    create_debate_transcript,
    create_judge,
    debate,
)
from flowdebate._text import clean_text
from flowdebate.chassis.roster import check_roster
from flowdebate.chassis.state import RoundStarted
from flowdebate.errors import ModelError
from flowdebate.models.thinking import separate_thinking
from flowdebate.patterns.debate.formats import FORMATS, names_of
from flowdebate.patterns.debate.phases import check_phases
from flowdebate.testing import FunctionModel
from flowdebate.testing.cases import Returns, Sabotage, StopWhen
from flowdebate.testing.strategies import (
    arguments,
    debaters,
    debates,
    hostile_replies,
    hostile_values,
    moderator_decisions,
    names,
    questions,
    stances,
    termination_predicates,
    transcripts,
    verdicts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from flowdebate import DebateRawOutput
    from flowdebate.testing.cases import DebateCase

SIDES = (Debater("anna", "for"), Debater("ben", "against"))
QUICK = settings(database=None)


def smallest(strategy: SearchStrategy[Any], condition: Callable[[Any], bool] = lambda _: True) -> Any:
    """Return the simplest value of `strategy` that satisfies `condition`; raise an error if there is none."""
    # skip the explain phase, whose output is unused
    quick = settings(max_examples=3000, database=None, phases=[Phase.generate, Phase.shrink])
    return find(strategy, condition, settings=quick)


def drawn(strategy: SearchStrategy[Any], condition: Callable[[Any], bool] = lambda _: True) -> Any:
    """Return a drawn value that satisfies `condition`, or raise an error."""
    # draw values independently: the default backend draws three quarters of them as variations of earlier ones
    quick = settings(max_examples=3000, database=None, phases=[Phase.generate], backend="hypothesis-urandom")
    return find(strategy, condition, settings=quick)


@pytest.mark.parametrize("strategy", [questions(), names(), stances(), arguments()], ids=["q", "n", "s", "a"])
@given(data=st.data())
def test_texts_are_valid_non_blank_unicode(strategy: SearchStrategy[str], data: st.DataObject) -> None:
    text = data.draw(strategy)
    assert text.strip()
    assert text.encode()
    assert clean_text(text) == text


def test_texts_shrink_to_plain_words() -> None:
    assert [smallest(strategy()) for strategy in (questions, names, stances, arguments)] == ["Why?", "a", "for", "Yes."]


@pytest.mark.parametrize("needle", ["[", "\n", "Round 2:", "{{"])
def test_arguments_try_to_forge_the_transcript(needle: str) -> None:
    assert needle in drawn(arguments(), lambda text: needle in text)


@given(st.data())
def test_rosters_are_valid(data: st.DataObject) -> None:
    min_size = data.draw(st.integers(2, 3))
    max_size = data.draw(st.integers(min_size, 5))
    roster = data.draw(debaters(min_size=min_size, max_size=max_size))
    assert min_size <= len(roster) <= max_size
    assert len({side.name for side in check_roster(roster, location="test")}) == len(roster)
    assert debate(name="x", debaters=roster).name == "x"


@pytest.mark.parametrize(("as_dicts", "kinds"), [(True, {dict}), (False, {Debater}), (None, {dict, Debater})])
def test_rosters_have_the_requested_kind(as_dicts: bool | None, kinds: set[type]) -> None:  # noqa: FBT001
    roster = drawn(debaters(as_dicts=as_dicts), lambda sides: {type(side) for side in sides} == kinds)
    assert {type(side) for side in roster} == kinds


def test_rosters_shrink_to_two_sides() -> None:
    assert smallest(debaters(as_dicts=False)) == [Debater("a", "for"), Debater("advocate", "against")]


def test_stances_can_come_from_a_custom_strategy() -> None:
    assert {side.stance for side in smallest(debaters(as_dicts=False, stance=st.sampled_from("xy")))} == {"x", "y"}


@QUICK
@given(transcripts(), transcripts(SIDES, max_rounds=2, max_turns=3))
def test_transcripts_are_consistent(any_: DebateTranscriptState, fixed: DebateTranscriptState) -> None:
    for transcript in (any_, fixed):
        rounds = [entry.round for entry in transcript.entries]
        assert rounds == sorted(rounds)
        stance_of = {entry.agent_name: entry.stance for entry in transcript.entries}
        assert all(stance_of[entry.agent_name] == entry.stance for entry in transcript.entries)
        assert DebateTranscriptState.model_validate_json(transcript.model_dump_json()) == transcript
    assert {(entry.agent_name, entry.stance) for entry in fixed.entries} <= {("anna", "for"), ("ben", "against")}
    assert all(entry.round <= 2 for entry in fixed.entries)
    assert all([e.round for e in fixed.entries].count(number) <= 3 for number in (1, 2))


def test_transcripts_can_be_empty_or_long() -> None:
    assert smallest(transcripts(SIDES)).entries == []
    assert len(drawn(transcripts(SIDES), lambda state: len(state.entries) > 4).entries) > 4


@QUICK
@given(moderator_decisions(SIDES))
def test_valid_decisions_validate_and_name_only_debaters(decision: Any) -> None:
    """A decision that names no speakers must end the debate."""
    output = DebateModeratorOutput.model_validate(decision)
    assert set(output.next_speakers) <= {"anna", "ben"}
    assert output.next_speakers or output.done


@pytest.mark.parametrize("roster", [["x", "y"], [{"name": "x", "stance": "s"}], [Debater("x", "s")]], ids=repr)
def test_rosters_can_be_names_dicts_or_debaters(roster: Any) -> None:
    """Decisions can be drawn even when only the names are known."""
    speaking = drawn(moderator_decisions(roster), lambda decision: bool(decision.get("next_speakers")))
    assert set(speaking["next_speakers"]) <= {"x", "y"}


def _is_valid_decision(value: object) -> bool:
    try:
        output = DebateModeratorOutput.model_validate(value)
    except (ValidationError, Sabotage):
        return False
    return set(output.next_speakers) <= {"anna", "ben"}


MISCHIEF: dict[str, Callable[[Any], bool]] = {
    "a stranger": lambda value: (
        isinstance(value, dict) and set(value.get("nextSpeakers") or ()) - {"anna", "ben"} != set()
    ),
    "nobody": lambda value: isinstance(value, dict) and value.get("next_speakers") == [] and value.get("done") is False,
    "no speakers": lambda value: isinstance(value, dict) and set(value) == {"briefing", "new_angle", "done"},
    "a key too many": lambda value: isinstance(value, dict) and "mood" in value,
    "no decision": lambda value: value is None,
    "no str": lambda value: isinstance(value, dict) and isinstance(value.get("briefing"), int),
    "never validated": lambda value: isinstance(value, DebateModeratorOutput),
}


def test_hostile_decisions_come_in_many_kinds() -> None:
    missing = set(MISCHIEF)

    def all_seen(value: Any) -> bool:
        for kind in list(missing):
            with suppress(TypeError):
                if MISCHIEF[kind](value) and not _is_valid_decision(value):
                    missing.remove(kind)
        return not missing

    drawn(moderator_decisions(SIDES, valid=False), all_seen)
    assert not missing


def test_decisions_can_be_valid_or_hostile() -> None:
    decisions = moderator_decisions(SIDES, valid=None)
    assert _is_valid_decision(drawn(decisions, _is_valid_decision))
    assert not _is_valid_decision(drawn(decisions, lambda value: not _is_valid_decision(value)))


@QUICK
@given(verdicts(["for", "against"]))
def test_valid_verdicts_validate_and_name_only_stances(verdict: Any) -> None:
    assert DebateVerdict.model_validate(verdict).winner in {"for", "against", None}


def test_hostile_verdicts_have_unknown_names() -> None:
    smallest_verdict = smallest(
        verdicts(["for"], valid=False), lambda v: isinstance(v, dict) and v.get("winner") == "a"
    )
    assert smallest_verdict == {"verdict": "Yes.", "winner": "a", "reasoning": "Yes."}


@given(termination_predicates())
def test_predicates_have_a_readable_repr(predicate: StopWhen) -> None:
    assert eval(repr(predicate), {"StopWhen": StopWhen}) == predicate  # noqa: S307 - it is our own


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("measure", ["round", "entries", "calls"])
def test_predicates_cover_every_kind(measure: str, wait: bool) -> None:  # noqa: FBT001
    example = smallest(
        termination_predicates(), lambda predicate: predicate.measure == measure and predicate.wait is wait
    )
    assert example.at_least == 0
    assert smallest(termination_predicates(hostile=True), lambda predicate: predicate.measure == "raises")


def test_hostile_values_include_exceptions() -> None:
    """Exceptions among the values are raised by the block or model instead of being returned."""
    for strategy in (hostile_values(), hostile_replies()):
        assert isinstance(drawn(strategy, lambda value: isinstance(value, Exception)), (Sabotage, ModelError))


@given(debates())
def test_user_property_tests_can_run_a_drawn_debate(case: DebateCase) -> None:
    result = case.run_sync()
    assert result.raw.rounds <= case.max_rounds


@pytest.mark.slow
def test_debates_shrink_to_one_round_with_two_debaters() -> None:
    case = smallest(debates())
    assert case.roster == (Debater("a", "for"), Debater("advocate", "against"))
    assert (case.max_rounds, case.question, case.seed) == (1, "Why?", 0)
    assert [case.options.get(role) for role in ("moderator", "judge", "terminate_when")] == [None, None, None]


OPEN: dict[str, Callable[[DebateCase], bool]] = {
    "a moderator": lambda case: "moderator" in case.options,
    "a moderator of its own": lambda case: isinstance(case.options.get("moderator"), Returns),
    "a judge of its own": lambda case: isinstance(case.options["judge"], Returns),
    "a synthesizer": lambda case: case.options["synthesizer"] is None,
    "a synthesizer of its own": lambda case: isinstance(case.options["synthesizer"], Returns),
    "a predicate": lambda case: case.options["terminate_when"] is not None,
    "a debater of its own": lambda case: any(debater.block is not None for debater in case.roster),
    "three rounds": lambda case: case.max_rounds == 3,
    "phases": lambda case: "phases" in case.options,
    "a cross-examination of some": lambda case: any(
        phase.asks and 0 < len(phase.speakers) < len(case.roster) for phase in case.options.get("phases", ())
    ),
    "four debaters": lambda case: len(case.roster) == 4,
}


@pytest.mark.parametrize("part", list(OPEN))
def test_every_part_of_a_debate_varies(part: str) -> None:
    assert OPEN[part](drawn(debates(), OPEN[part]))


@given(debates(debaters=SIDES, max_rounds=2, moderated=False, terminate_when=None))
def test_fixed_options_are_preserved(case: DebateCase) -> None:
    raw = case.run_sync().raw
    assert (raw.rounds, raw.moderator_decisions) == (2, [])
    assert {entry.agent_name for entry in raw.transcript} == {"anna", "ben"}


@given(st.sampled_from(names_of("debate")).flatmap(lambda name: debates(format=name, debaters=SIDES, moderated=False)))
def test_formats_run_with_custom_blocks(case: DebateCase) -> None:
    raw = case.run_sync().raw
    phases = check_phases(FORMATS[case.options["format"]].phases, location="test", members=2)
    assert 1 <= raw.rounds <= case.max_rounds == sum(phase.rounds for phase in phases)
    assert len(raw.audience) == len(FORMATS[case.options["format"]].audience)
    assert all(vote.after in case.stances for vote in raw.audience)


class Deal(BaseModel):
    """A deliverable."""

    price: int


@given(debates(output_schema=Deal, moderated=True))
def test_deliverables_are_drawn_from_the_schema(case: DebateCase) -> None:
    assert isinstance(case.run_sync().output, Deal)


def test_deliverables_can_be_supplied() -> None:
    """The strategy draws no values for a JSON Schema, so the application has to supply them."""
    schema = {"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"]}
    assert drawn(debates(output_schema=schema, deliverables=st.just({"n": 7}))).run_sync().output == {"n": 7}


@given(debates(judge=Returns({"verdict": "v", "winner": None, "reasoning": "r"}), up_to_rounds=1))
def test_custom_judges_can_be_tested(case: DebateCase) -> None:
    assert case.run_sync().raw.verdict.winner is None


def test_cases_can_be_run_twice() -> None:
    case = drawn(debates(), lambda case: case.max_rounds == 2 and len(set(case.answers.arguments)) == 2)
    first, second = case.run_sync(), case.run_sync()
    assert first.raw == second.raw
    assert first.run_id != second.run_id


def test_cases_run_in_an_event_loop_too() -> None:
    """Async tests use `await case.run()` instead of `run_sync`."""
    case = drawn(debates())
    assert asyncio.run(case.run(session={"user": 1})).session.state == {"user": 1}


def test_answers_fit_the_schema_of_each_block() -> None:
    """The model looks at the schema, so a judge gets a verdict whatever its name is."""
    case = drawn(debates(debaters=SIDES, moderated=False, transcript=create_debate_transcript()))
    judge = create_judge(name="elsewhere", stances=["for", "against"], transcript=case.options["transcript"])
    result = debate(**{**case.options, "judge": judge}).run_sync("?", model=case.model())
    raw: DebateRawOutput = result.raw
    assert raw.found.model_copy(update={"judging": None}) == DebateVerdict.model_validate(case.answers.verdict)


@given(debates(judge="swap", debaters=SIDES, up_to_rounds=1, synthesizer=False))
def test_scoring_judges_return_the_drawn_winner(case: DebateCase) -> None:
    verdict = case.run_sync().raw.verdict
    assert isinstance(case.answers.verdict, dict)
    assert verdict.winner == case.answers.verdict["winner"]
    assert len(verdict.judging.ballots) == 2
    assert not verdict.judging.flipped


def test_hostile_debates_can_fail_in_each_way() -> None:
    def outcome(case: Any) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return f"{len([e for e in case.run_sync().events if isinstance(e, RoundStarted)])} rounds"
            except Exception as error:  # noqa: BLE001 - which one is the question
                return type(error).__name__

    expected = {"Sabotage", "SchemaViolation", "OutputError", "1 rounds"}
    outcomes: set[str] = set()

    def all_seen(case: Any) -> bool:
        outcomes.add(outcome(case))
        return expected <= outcomes

    assert drawn(debates(hostile=True), all_seen)


def test_repr_of_a_drawn_function_is_its_constructor_call() -> None:
    sides = [Debater("anna", "for", block=Returns("one", {"text": "two"}, wait=True)), SIDES[1]]
    assert repr(sides[0].block) == "Returns('one', {'text': 'two'}, wait=True)"
    verdict = {"verdict": "v", "winner": None, "reasoning": "r"}
    rent = debate(name="x", debaters=sides, max_rounds=3, synthesizer=False, judge=Returns(verdict))
    raw = rent.run_sync("?", model=FunctionModel(lambda _: "said")).raw
    assert [entry.text for entry in raw.transcript if entry.agent_name == "anna"] == ["one", "two", "one"]
    failing = debate(name="x", debaters=SIDES, judge=Returns(Sabotage("no")))
    with pytest.raises(Sabotage, match="no"):
        failing.run_sync("?", model=FunctionModel(lambda _: "said"))


@given(text=arguments())
def test_arguments_are_not_empty_after_removing_control_tokens(text: str) -> None:
    """An answer consisting only of "<|eot|>" would be empty once that token has been removed."""
    assert separate_thinking(text).text.strip()
