"""Mistakes in calls of patterns are refused, or warned of, before anything is paid for, and say what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    ConvergenceOptions,
    JudgeOptions,
    consensus,
    council,
    create_debater,
    create_judge,
    create_moderator,
    critique,
    debate,
    deliberation,
    generator,
    handoff,
    review,
    round_robin,
)
from flowdebate.errors import ConfigurationError, FlowDebateWarning
from flowdebate.measures import Jaccard
from flowdebate.models import ModelSettings
from flowdebate.testing import ScriptedModel
from tests.patterns.debates import QUESTION, by_role

if TYPE_CHECKING:
    from collections.abc import Callable

PEOPLE = [{"name": "anna"}, {"name": "ben"}]
SIDES = [{"name": "anna", "stance": "for"}, {"name": "ben", "stance": "against"}]
FACTORIES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "debate": (debate, {"debaters": SIDES}),
    "deliberation": (deliberation, {"debaters": PEOPLE}),
    "round_robin": (round_robin, {"debaters": PEOPLE}),
    "handoff": (handoff, {"debaters": PEOPLE}),
    "council": (council, {"members": PEOPLE}),
    "consensus": (consensus, {"agents": PEOPLE, "convergence": ConvergenceOptions(similarity=Jaccard())}),
    "critique": (critique, {"critics": PEOPLE}),
    "review": (review, {"reviewers": PEOPLE}),
}


def made(pattern: str, **options: Any) -> Any:
    """The pattern with these options over its least ones."""
    create, least = FACTORIES[pattern]
    return create(**{"name": "rent", **least, **options})


@pytest.mark.parametrize("pattern", FACTORIES)
@pytest.mark.parametrize("blank", ["", "  \n", "\u200b", "\u3164"], ids=ascii)
def test_a_blank_question_is_refused(pattern: str, blank: str) -> None:
    """Before a model is asked; the message names the field, and shows what was given."""
    model = ScriptedModel()
    with pytest.raises(ConfigurationError, match="must not be blank") as caught:
        made(pattern).run_sync(blank, model=model)
    assert caught.value.got == blank
    assert model.calls == []


UNSEEN = [
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\u00ad",
    "\ufe0f",
    "\u3164",
    "\u2800",
    "\u034f",
    "\u180e",
    "\U000e0100",
]


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
@pytest.mark.parametrize("field", ["stance", "name"])
def test_texts_that_look_the_same_are_refused(unseen: str, field: str) -> None:
    """Two stances, or names, that differ in invisible characters alone cannot be told apart by any reader."""
    sides = [dict(SIDES[0]), dict(SIDES[1])]
    sides[1][field] = sides[0][field] + unseen
    with pytest.raises(ConfigurationError, match="unseen characters alone") as caught:
        debate(name="rent", debaters=sides)
    assert caught.value.field == f"debaters[1].{field}"


def test_a_debate_has_two_stances() -> None:
    """Two debaters for the same side have nothing to argue about; a team of two against another side has."""
    same = [{"name": "anna", "stance": "for"}, {"name": "ben", "stance": "for"}]
    with pytest.raises(ConfigurationError, match="a debate needs two stances"):
        debate(name="rent", debaters=same)
    team = debate(name="rent", debaters=[*same, {"name": "cy", "stance": "against"}], synthesizer=False)
    assert team.run_sync(QUESTION, model=by_role()).status == "complete"


@pytest.mark.parametrize("pattern", FACTORIES)
def test_settings_are_model_settings(pattern: str) -> None:
    """A dict is refused when the pattern is built, with the way to write it."""
    with pytest.raises(ConfigurationError, match=r"Write settings=ModelSettings\(temperature=0\)"):
        made(pattern, settings={"temperature": 0})
    made(pattern, settings=ModelSettings(temperature=0))


def test_settings_of_a_role_are_model_settings() -> None:
    """So are those of a judge, and of a generator of one's own."""
    settings: Any = {"temperature": 0}
    with pytest.raises(ConfigurationError, match="settings"):
        debate(name="rent", debaters=SIDES, judge=JudgeOptions(settings=settings))
    with pytest.raises(ConfigurationError, match="settings"):
        generator(name="mine", settings=settings)


@pytest.mark.parametrize("pattern", FACTORIES)
@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("colection_id", "'collection_id'"),
        ("modle", "'model'"),
        ("temperature", "'settings=ModelSettings(temperature=…)'"),
        ("on_failure", "'failures=FailurePolicy(on_failure=…)'"),
    ],
)
def test_an_unknown_option_is_a_type_error_with_a_suggestion(pattern: str, option: str, meant: str) -> None:
    """It names the function, the option, and the one that is meant."""
    with pytest.raises(TypeError) as caught:
        made(pattern, **{option: 0})
    assert str(caught.value) == f"{pattern}() got an unexpected keyword argument {option!r}; did you mean {meant}?"


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("rounds", "max_rounds"),
        ("response_model", "output_schema"),
        ("judge_model", "judge=JudgeOptions(model=…)"),
        ("agents", "debaters"),
        ("profile", "prompts=PromptOptions(profile=…)"),
        ("length", "prompts=PromptOptions(length=…)"),
        ("template", "prompts=PromptOptions(template=…)"),
        ("history", "prompts=PromptOptions(history=…)"),
        ("hide_names", "prompts=PromptOptions(hide_names=…)"),
        ("source_tokens", "sources=Sources(…, tokens=…)"),
        ("equal", "baselines=BaselineOptions(equal=…)"),
    ],
)
def test_options_of_other_libraries_are_understood(option: str, meant: str) -> None:
    """What they are called here is in the message."""
    with pytest.raises(TypeError, match="did you mean") as caught:
        made("debate", **{option: 3})
    assert f"did you mean {meant!r}?" in str(caught.value)


def test_an_option_that_is_like_none_lists_them_all() -> None:
    """Without a guess, all options are named."""
    with pytest.raises(TypeError, match=r"'xyzzy'; it takes: name, debaters, max_rounds, judge"):
        made("debate", xyzzy=1)


@pytest.mark.parametrize("create", [create_judge, create_moderator, create_debater], ids=lambda one: one.__name__)
def test_makers_of_roles_suggest_as_well(create: Any) -> None:
    """Whether they are given a debate's parts or not."""
    with pytest.raises(TypeError, match=rf"{create.__name__}\(\) .* 'instruction'; did you mean 'instructions'"):
        create(instruction="Be brief.")


def test_a_type_error_of_the_callers_own_is_left_alone() -> None:
    """A missing option is Python's own message; an error inside is not taken for one of the call."""
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'debaters'"):
        debate(name="rent")  # type: ignore[call-overload]

    class Odd(list[Any]):
        def __iter__(self) -> Any:
            message = "no members"
            raise TypeError(message)

    with pytest.raises(TypeError, match="no members"):
        debate(name="rent", debaters=Odd(SIDES))


@pytest.mark.parametrize("pattern", FACTORIES)
def test_many_members_are_warned_of(pattern: str) -> None:
    """As many rounds are: the caller's line is shown, and how many to use."""
    field = {"council": "members", "consensus": "agents", "critique": "critics", "review": "reviewers"}.get(
        pattern, "debaters"
    )
    stance = {"stance": "for"} if pattern == "debate" else {}
    crowd: list[dict[str, str]] = [{"name": f"p{number}", **stance} for number in range(12)]
    if stance:
        crowd[0]["stance"] = "against"
    with pytest.warns(FlowDebateWarning, match=f"12 {field}: .* use at most 10") as caught:
        made(pattern, **{field: crowd})
    assert caught[0].filename == __file__
    made(pattern, **{field: crowd[:8]})
