"""What `debate()` refuses, and what it warns of."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import pytest

from flowdebate import Debater, FlowDebateWarning, create_debate_transcript, create_moderator, debate
from flowdebate.errors import ConfigurationError
from flowdebate.resources.resource import StateResource
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, script


@dataclass(frozen=True)
class Case:
    """Options that cannot be, and what the error says of them."""

    id: str
    options: dict[str, Any]
    named: str
    """The field that the message names."""
    got: str
    allowed: str
    where: str = "debate 'rent'"


def _other_roster() -> Any:
    return create_moderator(name="rent", roster_names=["anna", "carl"], transcript=create_debate_transcript())


REJECTED = [
    Case("one debater", {"debaters": [SIDES[0]]}, "debaters", "Debater(name='anna'", "at least two debaters"),
    Case("no debaters", {"debaters": []}, "debaters", "[]", "at least two debaters"),
    Case("debaters that are no list", {"debaters": "ab"}, "debaters", "'ab'", "a list of Debater or dicts"),
    Case("a mapping of debaters", {"debaters": {"a": "for"}}, "debaters", "{'a': 'for'}", "a list"),
    Case("a debater that is none", {"debaters": [SIDES[0], 3]}, "debaters[1]", "3", "a Debater, or a dict"),
    Case("a dict without a stance", {"debaters": [SIDES[0], {"name": "b"}]}, "debaters[1]", "{'name': 'b'}", "stance"),
    Case(
        "a dict with an unknown key",
        {"debaters": [SIDES[0], {"name": "b", "stance": "x", "rôle": "y"}]},
        "debaters[1]",
        "'rôle': 'y'",
        "role, block, model",
    ),
    Case("an empty name", {"debaters": [Debater("", "x"), SIDES[1]]}, "debaters[0].name", "''", "not blank"),
    Case("a blank name", {"debaters": [SIDES[0], Debater(" \n", "x")]}, "debaters[1].name", "' \\n'", "not blank"),
    Case("an empty stance", {"debaters": [SIDES[0], Debater("b", "")]}, "debaters[1].stance", "''", "not blank"),
    Case("a blank stance", {"debaters": [SIDES[0], Debater("b", "\t")]}, "debaters[1].stance", "'\\t'", "not blank"),
    Case(
        "a name that is no string",
        {"debaters": [Debater(7, "x"), SIDES[1]]},  # type: ignore[arg-type]
        "debaters[0].name",
        "7",
        "a string",
    ),
    Case(
        "a role that is no string",
        {"debaters": [Debater("a", "x", role=7), SIDES[1]]},  # type: ignore[arg-type]
        "debaters[0].role",
        "7",
        "a string or None",
    ),
    Case("a block that is none", {"debaters": [Debater("a", "x", block="b"), SIDES[1]]}, "block", "'b'", "a block or"),
    Case(
        "the same name twice",
        {"debaters": [SIDES[0], Debater("anna", "other")]},
        "debaters[1].name",
        "'anna'",
        "different from that of debaters[0]",
    ),
    *[
        Case(
            f"the same name {how}",
            {"debaters": [SIDES[0], Debater(name, "other")]},
            "debaters[1].name",
            repr(name),
            "not by case or unseen characters alone",
        )
        for how, name in {
            "in capitals": "ANNA",
            "in full width": "\uff41\uff4e\uff4e\uff41",
            "with a zero-width space": "an\u200bna",
            "with white space": " anna ",
        }.items()
    ],
    Case("no rounds", {"max_rounds": 0}, "max_rounds", "0", "an int >= 1"),
    Case("negative rounds", {"max_rounds": -2}, "max_rounds", "-2", "an int >= 1"),
    Case("a bool is no int", {"max_rounds": True}, "max_rounds", "True", "an int >= 1"),
    Case("a float is no int", {"max_rounds": 2.0}, "max_rounds", "2.0", "an int >= 1"),
    Case("a str is no int", {"max_rounds": "2"}, "max_rounds", "'2'", "an int >= 1"),
    Case("None is no int", {"max_rounds": None}, "max_rounds", "None", "an int >= 1"),
    Case(
        "a schema and nobody to keep it",
        {"synthesizer": False, "output_schema": dict[str, int]},
        "output_schema",
        "dict[str, int]",
        "None with synthesizer=False",
    ),
    Case("no schema", {"output_schema": 3}, "output_schema", "3", "a pydantic model"),
    Case(
        "a broken JSON Schema", {"output_schema": {"type": "strange"}}, "output_schema", "strange", "valid JSON Schema"
    ),
    Case("moderator=0 is not False", {"moderator": 0}, "moderator", "0", "None or False, which leave it out"),
    Case("judge=False", {"judge": False}, "judge", "False", "None, which is the default block"),
    Case(
        "moderator=a name", {"moderator": "gpt"}, "moderator", "'gpt'", "True, the default one, a block, or a function"
    ),
    Case("judge=a name", {"judge": "gpt"}, "judge", "'gpt'", "a block, or a function"),
    Case("synthesizer=0 is not False", {"synthesizer": 0}, "synthesizer", "0", "False, which leaves it out"),
    Case("another roster", {"moderator": _other_roster()}, "moderator", "['anna', 'carl']", "['anna', 'ben']"),
    Case("a predicate that is none", {"terminate_when": True}, "terminate_when", "True", "function of (ctx)"),
    Case("a transcript that is none", {"transcript": []}, "transcript", "[]", "create_debate_transcript()"),
    Case(
        "a resource under another key",
        {"transcript": StateResource(key="notes", initial=dict)},
        "transcript",
        "StateResource(key='notes'",
        "create_debate_transcript()",
    ),
    Case("a blank collection id", {"collection_id": " "}, "collection_id", "' '", "not blank"),
    Case("a visibility that is none", {"judge_visibility": {"clients": True}}, "judge_visibility", "clients", "client"),
    Case("a blank name", {"name": "  "}, "name", "'  '", "not blank", where="debate"),
    Case("a name that is no string", {"name": None}, "name", "None", "a string", where="debate"),
]


@pytest.mark.parametrize("case", REJECTED, ids=lambda case: case.id)
def test_what_cannot_be_a_debate_is_refused_with_pattern_field_value_and_what_is_allowed(case: Case) -> None:
    """One ConfigurationError, a ValueError, says which pattern, which field, what was given and what is allowed."""
    options: dict[str, Any] = {"name": "rent", "debaters": SIDES, **case.options}
    with pytest.raises(ConfigurationError) as caught:
        debate(**options)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert message.startswith(f"{case.where}: ")
    assert case.named in message.split(" must be ", 1)[0]
    assert case.allowed in message
    assert case.got in message.split(", got ", 1)[1]


def test_options_are_keyword_only() -> None:
    """`debate()` takes no positional argument."""
    with pytest.raises(TypeError):
        debate("rent", SIDES)  # type: ignore[call-overload]


def test_nothing_is_built_of_a_refused_debate() -> None:
    """The overrides of a refused debate are not made blocks: no function of the application is looked at or called."""
    called: list[str] = []

    class Watched:
        @property
        def __signature__(self) -> Any:
            called.append("signature")
            raise AssertionError

        def __call__(self, value: object) -> str:
            called.append("call")
            return ""

    with pytest.raises(ConfigurationError):
        debate(name="rent", debaters=[Debater("a", "x", block=Watched()), SIDES[1]], max_rounds=0)
    assert called == []


def test_dicts_and_debaters_are_the_same() -> None:
    """A plain dict with a debater's keys works as well as a `Debater`."""
    rent = debate(
        name="rent",
        debaters=[{"name": "anna", "stance": "for"}, Debater("ben", "against")],
        max_rounds=1,
        synthesizer=False,
    )
    output = rent.run_sync(QUESTION, model=script("A", "B")).output
    assert [(entry.agent_name, entry.stance) for entry in output.transcript] == [("anna", "for"), ("ben", "against")]


def test_a_moderator_may_know_the_roster_in_another_order() -> None:
    """Only the names count, not their order."""
    transcript = create_debate_transcript()
    moderator = create_moderator(name="rent", roster_names=["ben", "anna"], transcript=transcript)
    assert debate(name="rent", debaters=SIDES, moderator=moderator, transcript=transcript).name == "rent"


@pytest.mark.parametrize("value", [None, 3, {"q": "?"}, {"question": 3}, ["?"]], ids=repr)
def test_what_is_no_question_is_refused(value: object) -> None:
    """A debate is asked a str, a dict with a question, or a DebateInput; anything else is refused before any call."""
    model = ScriptedModel()
    with pytest.raises(ConfigurationError, match=r"debate 'rent': `input` must be a question"):
        debate(name="rent", debaters=SIDES).run_sync(value, model=model)
    assert model.calls == []


def _warnings_of(**options: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        debate(name="rent", **{"debaters": SIDES, **options})
    return caught


def test_more_than_four_rounds_are_warned_of_at_every_call() -> None:
    """Five rounds warn once per call of the factory, in the project's category, at the caller's line; four do not."""
    for _ in range(2):
        (warning,) = _warnings_of(max_rounds=5)
        assert warning.category is FlowDebateWarning
        assert warning.filename == __file__
        assert "max_rounds=5" in str(warning.message)
        assert "use max_rounds <= 4" in str(warning.message)
    assert _warnings_of(max_rounds=4) == []


ONE, OTHER = FunctionModel(lambda _: "", name="one"), FunctionModel(lambda _: "", name="other")


def _with_models(first: Any, second: Any) -> list[Debater]:
    return [Debater("anna", "for", model=first), Debater("ben", "against", model=second)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, ["anna", "ben"]),
        ({"model": "openai/gpt-5-mini"}, ["anna", "ben"]),
        ({"model": "local", "debaters": _with_models("openai/x", None)}, ["ben"]),
        ({"model": ONE, "debaters": _with_models(OTHER, ONE)}, ["ben"]),
    ],
    ids=["no model named", "the debate's model", "one debater has its own", "objects"],
)
def test_a_named_judge_that_shares_a_model_with_a_debater_is_warned_of(
    options: dict[str, Any], named: list[str]
) -> None:
    """`anonymize_transcript=False` warns once, and names the debaters whose model the default judge has."""
    (warning,) = _warnings_of(anonymize_transcript=False, **options)
    assert warning.category is FlowDebateWarning
    assert warning.filename == __file__
    assert ", ".join(map(repr, named)) in str(warning.message)
    assert "keep anonymize_transcript=True" in str(warning.message)
    assert all(side.name in named or repr(side.name) not in str(warning.message) for side in SIDES)


@pytest.mark.parametrize(
    "options",
    [
        {"anonymize_transcript": True},
        {"anonymize_transcript": False, "judge": lambda value: value},
        {"anonymize_transcript": False, "model": ONE, "debaters": _with_models(OTHER, OTHER)},
        {
            "anonymize_transcript": False,
            "debaters": [Debater(side.name, side.stance, block=lambda value: "x") for side in SIDES],
        },
    ],
    ids=["anonymized", "a judge of one's own", "other models", "no default debater"],
)
def test_a_judge_that_cannot_know_its_own_arguments_is_not_warned_of(options: dict[str, Any]) -> None:
    """No warning for an anonymized transcript, for another judge, for another model, without a default debater."""
    assert _warnings_of(**options) == []


def test_both_warnings_are_given_together() -> None:
    """Each reason has its own warning."""
    assert len(_warnings_of(max_rounds=9, anonymize_transcript=False)) == 2


def test_a_run_does_not_warn_again() -> None:
    """The warnings are the factory's: running the debate adds none."""
    with pytest.warns(FlowDebateWarning):
        rent = debate(name="rent", debaters=SIDES, max_rounds=5, synthesizer=False)
    assert rent.run_sync(QUESTION, model=script(*"abcdefghij")).output.rounds == 5
