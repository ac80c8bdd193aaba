"""Mistakes in calls to patterns, each reported up front by an error or warning that suggests the correct spelling."""

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


def build(pattern: str, **options: Any) -> Any:
    """Build the pattern with these options in addition to the required ones."""
    create, required = FACTORIES[pattern]
    return create(**{"name": "rent", **required, **options})


@pytest.mark.parametrize("pattern", FACTORIES)
@pytest.mark.parametrize("blank", ["", "  \n", "\u200b", "\u3164"], ids=ascii)
def test_blank_questions_are_rejected(pattern: str, blank: str) -> None:
    model = ScriptedModel()
    with pytest.raises(ConfigurationError, match="must not be blank") as caught:
        build(pattern).run_sync(blank, model=model)
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
def test_visually_identical_texts_are_rejected(unseen: str, field: str) -> None:
    """Readers cannot tell apart stances or names that differ only in invisible characters."""
    sides = [dict(SIDES[0]), dict(SIDES[1])]
    sides[1][field] = sides[0][field] + unseen
    with pytest.raises(ConfigurationError, match="by more than case or invisible characters") as caught:
        debate(name="rent", debaters=sides)
    assert caught.value.field == f"debaters[1].{field}"


def test_debates_need_two_stances() -> None:
    """Debaters on the same side have nothing to argue about, but a team of two can oppose a single debater."""
    same = [{"name": "anna", "stance": "for"}, {"name": "ben", "stance": "for"}]
    with pytest.raises(ConfigurationError, match="a debate needs two stances"):
        debate(name="rent", debaters=same)
    team = debate(name="rent", debaters=[*same, {"name": "cy", "stance": "against"}], synthesizer=False)
    assert team.run_sync(QUESTION, model=by_role()).status == "complete"


@pytest.mark.parametrize("pattern", FACTORIES)
def test_settings_must_be_model_settings(pattern: str) -> None:
    """A dict is rejected when the debate is built, and the message shows the correct way to write the settings."""
    with pytest.raises(ConfigurationError, match=r"Write settings=ModelSettings\(temperature=0\)"):
        build(pattern, settings={"temperature": 0})
    build(pattern, settings=ModelSettings(temperature=0))


def test_role_settings_must_be_model_settings() -> None:
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
def test_unknown_options_raise_a_type_error_with_a_suggestion(pattern: str, option: str, meant: str) -> None:
    with pytest.raises(TypeError) as caught:
        build(pattern, **{option: 0})
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
def test_options_from_other_libraries_are_recognized(option: str, meant: str) -> None:
    """The message translates an option from another library into its counterpart in this library."""
    with pytest.raises(TypeError, match="did you mean") as caught:
        build("debate", **{option: 3})
    assert f"did you mean {meant!r}?" in str(caught.value)


def test_errors_for_options_without_a_close_match_list_all_options() -> None:
    """A far-fetched suggestion would be less helpful than the full list."""
    with pytest.raises(TypeError, match=r"'xyzzy'; it takes: name, debaters, max_rounds, judge"):
        build("debate", xyzzy=1)


@pytest.mark.parametrize("create", [create_judge, create_moderator, create_debater], ids=lambda one: one.__name__)
def test_role_factories_suggest_similar_options(create: Any) -> None:
    with pytest.raises(TypeError, match=rf"{create.__name__}\(\) .* 'instruction'; did you mean 'instructions'"):
        create(instruction="Be brief.")


def test_other_type_errors_are_raised_unchanged() -> None:
    """Python itself reports a missing option.

    An error raised inside the call must not be mistaken for an invalid option.
    """
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'debaters'"):
        debate(name="rent")  # type: ignore[call-overload]

    class Odd(list[Any]):
        def __iter__(self) -> Any:
            message = "no members"
            raise TypeError(message)

    with pytest.raises(TypeError, match="no members"):
        debate(name="rent", debaters=Odd(SIDES))


@pytest.mark.parametrize("pattern", FACTORIES)
def test_large_rosters_cause_a_warning(pattern: str) -> None:
    """The warning points to the caller's line and recommends a maximum, as the warning about many rounds does."""
    field = {"council": "members", "consensus": "agents", "critique": "critics", "review": "reviewers"}.get(
        pattern, "debaters"
    )
    stance = {"stance": "for"} if pattern == "debate" else {}
    crowd: list[dict[str, str]] = [{"name": f"p{number}", **stance} for number in range(12)]
    if stance:
        crowd[0]["stance"] = "against"
    with pytest.warns(FlowDebateWarning, match=f"12 {field} use many tokens: .* use at most 10") as caught:
        build(pattern, **{field: crowd})
    assert caught[0].filename == __file__
    build(pattern, **{field: crowd[:8]})
