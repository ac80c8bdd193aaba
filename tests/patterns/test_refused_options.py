"""Invalid options for all patterns.

Each is rejected up front by an error that names the pattern, the field and the valid values.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from flowdebate import Debater, FailurePolicy, FlowDebateWarning, Persona, StandIn, Visibility, create_debate_transcript
from flowdebate._text import number_problem
from flowdebate.errors import ConfigurationError, ConflictingOptions
from flowdebate.patterns.consensus.schemas import ConsensusInput
from flowdebate.patterns.council.schemas import CouncilInput
from flowdebate.patterns.critique.schemas import CritiqueInput
from flowdebate.patterns.debate.schemas import DebateInput
from flowdebate.patterns.deliberation import create_deliberation_transcript
from flowdebate.patterns.deliberation.schemas import DeliberationInput
from flowdebate.patterns.handoff.schemas import HandoffInput
from flowdebate.patterns.review import ReviewInput
from flowdebate.patterns.round_robin.schemas import RoundRobinInput
from flowdebate.resources.resource import StateResource
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.ids import case_id

from .every import PATTERNS, WITH_ROUNDS
from .test_mistakes import FACTORIES, build
from .test_prompt_options import give_answer

ROSTER = {"consensus": "agents", "council": "members", "critique": "critics", "review": "reviewers"}
"""The option that takes the speakers, for patterns that do not call it `debaters`."""
ALONE = ("consensus", "critique", "review")
"""Patterns that work with a single speaker."""
TOO_FEW = {pattern: "must not be empty" if pattern in ALONE else "must have at least 2 entries" for pattern in PATTERNS}
WHAT = {"debate": "Debater", **{pattern: "Persona" for pattern in PATTERNS if pattern != "debate"}}


def roster_of(pattern: str) -> str:
    """Return the name of the option that takes the speakers."""
    return ROSTER.get(pattern, "debaters")


def speaker(pattern: str, name: Any, **fields: Any) -> dict[str, Any]:
    """Create a speaker as a dict, with a stance if the pattern is a debate."""
    return {"name": name, **({"stance": f"{name}'s"} if pattern == "debate" else {}), **fields}


def rejection_of(pattern: str, **options: Any) -> ConfigurationError:
    """Return the error raised for a pattern with invalid options, after checking its location and message."""
    with pytest.raises(ConfigurationError) as caught:
        build(pattern, **options)
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.location == (pattern if error.field == "name" else f"{pattern} 'rent'")
    assert str(error).startswith(f"{error.location}: `{error.field}` {error.problem}")
    if error.given is not None:
        assert f"(got {error.given})" in str(error)
    return error


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", ["", " ", None, 3])
def test_pattern_names_are_required(pattern: str, name: Any) -> None:
    problem = "is required" if name is None else "must be text" if name == 3 else "must not be blank"
    assert rejection_of(pattern, name=name).problem == problem


@pytest.mark.parametrize("pattern", PATTERNS)
def test_rosters_need_enough_speakers(pattern: str) -> None:
    """Text, a mapping and an empty list are never valid, and most patterns also reject a single speaker."""
    field = roster_of(pattern)
    no_lists: tuple[Any, ...] = ("ab", {"a": "for"}, 3)
    for value in no_lists:
        error = rejection_of(pattern, **{field: value})
        assert (error.field, error.problem) == (field, f"must be a list of {WHAT[pattern]} objects or dicts")
    for few in [[], *([] if pattern in ALONE else [[speaker(pattern, "ann")]])]:
        error = rejection_of(pattern, **{field: few})
        assert (error.field, error.problem) == (field, TOO_FEW[pattern])


SPEAKERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an empty name": ({"name": ""}, ".name", "must not be blank"),
    "a blank name": ({"name": " \n"}, ".name", "must not be blank"),
    "a name that is no string": ({"name": 7}, ".name", "must be text"),
    "a role that is no string": ({"name": "a", "role": 7}, ".role", "must be text"),
    "a block that is none": ({"name": "a", "block": "b"}, ".block", "a block or a function"),
    "an unknown key": ({"name": "a", "rôle": "y"}, "", "a dict with the keys name"),
    "no dict": ({}, "", "a dict with the keys name"),
    **{
        f"the same name {how}": ({"name": name}, ".name", "by more than case or invisible characters")
        for how, name in {
            "in capitals": "ANNA",
            "in full width": "\uff41\uff4e\uff4e\uff41",
            "with a zero-width space": "an\u200bna",
            "with white space": " anna ",
        }.items()
    },
    "the same name": ({"name": "anna"}, ".name", "must differ from the name of"),
}
"""Invalid speakers that follow a valid one called anna.

Each is listed with the end of the error's field, after the index, and with part of the error's message.
"""


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("case", SPEAKERS)
def test_invalid_speakers_are_rejected_with_their_index(pattern: str, case: str) -> None:
    fields, field, allowed = SPEAKERS[case]
    second: Any = speaker(pattern, **fields) if fields else 3
    error = rejection_of(pattern, **{roster_of(pattern): [speaker(pattern, "anna"), second]})
    assert error.field == f"{roster_of(pattern)}[1]{field}"
    assert allowed in error.problem


@pytest.mark.parametrize("pattern", PATTERNS)
def test_only_debaters_in_a_debate_have_stances(pattern: str) -> None:
    """A debate requires stances, so it rejects a `Persona`.

    Other patterns reject stances, and therefore a `Debater`.
    """
    field, debating = roster_of(pattern), pattern == "debate"
    other = Persona("a") if debating else Debater("a", "for")
    error = rejection_of(pattern, **{field: [other, speaker(pattern, "b")]})
    assert error.field == f"{field}[0]"
    assert error.problem.startswith(f"must be a {WHAT[pattern]}, or a dict with the keys name")
    keys = {} if debating else {"stance": "for"}
    error = rejection_of(pattern, **{field: [{"name": "a", **keys}, speaker(pattern, "b")]})
    assert error.field == f"{field}[0]"
    assert error.problem.startswith(
        "must be a dict with the keys name, stance, and" if debating else "must be a dict with the keys name, and"
    )
    if debating:
        for blank in ("", "\t"):
            error = rejection_of(pattern, debaters=[speaker(pattern, "a"), {"name": "b", "stance": blank}])
            assert (error.field, error.problem) == ("debaters[1].stance", "must not be blank")


@pytest.mark.parametrize("pattern", WITH_ROUNDS)
@pytest.mark.parametrize("rounds", [0, -2, True, 2.0, "2", None], ids=repr)
def test_max_rounds_must_be_a_positive_integer(pattern: str, rounds: Any) -> None:
    """A bool is invalid, although Python treats it as an integer."""
    field = "max_turns" if pattern == "handoff" else "max_rounds"
    error = rejection_of(pattern, **{field: rounds})
    assert (error.field, error.problem) == (field, number_problem(rounds, whole=True, minimum=1))


POLICIES: dict[str, tuple[Any, str, str]] = {
    "a word": ("skip", "failures", "a FailurePolicy"),
    "an unknown way": (FailurePolicy(on_failure="ignore"), "on_failure", '"fail", "skip" or StandIn(model)'),  # type: ignore[arg-type]
    "an unknown stand-in": (FailurePolicy(on_failure=StandIn("nobody/knows")), "on_failure", "model"),
    "a blank stand-in": (FailurePolicy(on_failure=StandIn("")), "on_failure", "provider/model"),
    "no quorum": (FailurePolicy(quorum=0), "quorum", "at least 1"),
    "no time for a turn": (FailurePolicy(turn_timeout=0), "turn_timeout", "must be greater than 0"),
    "time that is text": (FailurePolicy(turn_timeout="90"), "turn_timeout", "must be a number greater than 0"),  # type: ignore[arg-type]
    "time back": (FailurePolicy(round_timeout=-1), "round_timeout", "must be greater than 0"),
    "time that is none": (FailurePolicy(round_timeout=float("nan")), "round_timeout", "must be a finite number"),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("case", POLICIES)
def test_invalid_failure_policies_are_rejected(pattern: str, case: str) -> None:
    policy, field, allowed = POLICIES[case]
    error = rejection_of(pattern, failures=policy)
    assert error.field == field
    assert allowed in error.problem


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("value", ["", " "], ids=repr)
def test_collection_id_must_not_be_blank(pattern: str, value: str) -> None:
    """If no id is given, the id is the name of the pattern."""
    error = rejection_of(pattern, collection_id=value)
    assert (error.field, error.problem) == ("collection_id", "must not be blank")


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if pattern != "consensus"])
def test_transcripts_must_belong_to_the_pattern(pattern: str) -> None:
    """A list is not a transcript, and the transcript of a different pattern has entries of another kind."""
    other: Any = create_deliberation_transcript() if pattern == "debate" else create_debate_transcript()
    invalid: tuple[Any, ...] = ([], 3, other, StateResource(key="notes", initial=dict))
    for value in invalid:
        error = rejection_of(pattern, transcript=value)
        assert error.field == "transcript"
        assert "transcript()" in error.problem


VISIBLE = {
    "debate": ("debater", "judge", "synthesizer"),
    "round_robin": ("debater", "synthesizer"),
    "deliberation": ("debater", "moderator"),
    "handoff": ("debater",),
    "consensus": ("agent",),
    "council": ("member", "chair"),
    "critique": ("critic",),
    "review": ("reviewer",),
}


@pytest.mark.parametrize(("pattern", "role"), [(pattern, role) for pattern, roles in VISIBLE.items() for role in roles])
@pytest.mark.parametrize("value", [{"clients": True}, 3], ids=case_id)
def test_invalid_visibilities_are_rejected(pattern: str, role: str, value: Any) -> None:
    error = rejection_of(pattern, **{f"{role}_visibility": value})
    assert error.field == f"{role}_visibility"
    assert "a Visibility" in error.problem
    build(pattern, **{f"{role}_visibility": Visibility(client=False)})


ABSENT = {
    ("debate", "moderator"): "True (the default), None or False (none), a block, or a function",
    ("debate", "judge"): "None (the default), a block, or a function",
    ("debate", "synthesizer"): "None (the default), False (none), a block, or a function",
    ("round_robin", "referee"): "True (the default), None or False (none), a block, or a function",
    ("deliberation", "moderator"): "None (the default), False (none), a block, or a function",
    ("council", "chair"): "a block, or a function",
    ("critique", "author"): "None (the default), a block, or a function",
    ("critique", "judge"): "None (the default), a block, or a function",
    ("review", "merger"): "None (the default), False (none), a block, or a function",
    ("consensus", "judge"): "True (the default), None or False (none), a block, or a function",
    ("consensus", "tie_break"): "True (the default), None or False (none), a block, or a function",
}
"""Valid values for role options other than blocks.

The judge of a debate may also be the name of a schedule.
"""


@pytest.mark.parametrize(("pattern", "role"), ABSENT)
@pytest.mark.parametrize("value", [0, "gpt"])
def test_roles_accept_a_block_a_function_or_a_flag(pattern: str, role: str, value: Any) -> None:
    """An invalid value raises an error whose message explains what the flags `None`, `False` and `True` mean."""
    error = rejection_of(pattern, **{role: value})
    assert error.field == role
    assert ABSENT[pattern, role] in error.problem or (role == "judge" and "a schedule" in error.problem)


@pytest.mark.parametrize(("pattern", "role"), [("debate", "judge"), ("council", "chair"), ("critique", "judge")])
def test_deciding_role_is_required(pattern: str, role: str) -> None:
    """Without a deciding role, a pattern cannot reach a decision, so `False` is invalid."""
    error = rejection_of(pattern, **{role: False})
    assert error.field == role
    assert ABSENT[pattern, role] in error.problem


@pytest.mark.parametrize("pattern", ["debate", "round_robin", "council"])
def test_output_schema_must_be_valid(pattern: str) -> None:
    assert "a pydantic model" in rejection_of(pattern, output_schema=3).problem
    assert "valid JSON Schema" in rejection_of(pattern, output_schema={"type": "strange"}).problem


@pytest.mark.parametrize("pattern", ["debate", "round_robin"])
def test_output_schema_needs_a_synthesizer(pattern: str) -> None:
    """Only a synthesizer's output is validated against the schema."""
    with pytest.raises(ConflictingOptions) as caught:
        build(pattern, synthesizer=False, output_schema=dict[str, int])
    assert (caught.value.location, caught.value.options) == (f"{pattern} 'rent'", ("output_schema", "synthesizer"))
    assert "`output_schema` cannot be combined with `synthesizer` switched off" in str(caught.value)


SUBJECTS: dict[str, tuple[str, type[Any]]] = {
    "debate": ("question", DebateInput),
    "round_robin": ("question", RoundRobinInput),
    "deliberation": ("topic", DeliberationInput),
    "handoff": ("proposition", HandoffInput),
    "consensus": ("task", ConsensusInput),
    "council": ("question", CouncilInput),
    "critique": ("question", CritiqueInput),
    "review": ("question", ReviewInput),
}
"""Each pattern's subject and input type."""


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("value", [None, 3, {"q": "?"}, {"field": 3}, ["?"]], ids=case_id)
def test_inputs_without_a_subject_are_rejected(pattern: str, value: Any) -> None:
    (subject, _), model = SUBJECTS[pattern], ScriptedModel()
    if value == {"field": 3}:
        value = {subject: 3}
    with pytest.raises(ConfigurationError, match=rf"{pattern} 'rent': `input` must be an? {subject}"):
        build(pattern).run_sync(value, model=model)
    assert model.calls == []


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("way", ["text", "a dict", "the input"])
def test_subject_can_be_given_in_three_forms(pattern: str, way: str) -> None:
    field, kind = SUBJECTS[pattern]
    value: Any = {"text": "Rents?", "a dict": {field: "Rents?"}, "the input": kind(**{field: "Rents?"})}[way]
    create, _ = FACTORIES[pattern]
    people = [speaker(pattern, "ann"), speaker(pattern, "bea")]
    result = create(name="rent", **{roster_of(pattern): people}).run_sync(
        value, model=FunctionModel(give_answer), seed=1
    )
    assert result.raw.subject == "Rents?"


def warnings_of(pattern: str, **options: Any) -> list[warnings.WarningMessage]:
    """Return the warnings emitted by a factory."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(pattern, **options)
    return caught


@pytest.mark.parametrize("pattern", ["debate", "round_robin"])
def test_more_than_four_rounds_cause_a_warning(pattern: str) -> None:
    """Each call to the factory issues one warning, in the project's warning category."""
    for _ in range(2):
        (warning,) = warnings_of(pattern, max_rounds=5)
        assert warning.category is FlowDebateWarning
        assert warning.filename.endswith("test_mistakes.py")  # this is where `build` calls the factory
        assert "max_rounds=5: debaters tend to agree" in str(warning.message)
        assert "use max_rounds <= 4" in str(warning.message)
    assert warnings_of(pattern, max_rounds=4) == []
