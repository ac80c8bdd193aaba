"""One thing of a role is changed, and it keeps all else; a role's block that lacks a name is bound by its debate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import (
    Debater,
    DebaterOptions,
    DebateVerdict,
    FailurePolicy,
    JudgeOptions,
    ModeratorOptions,
    StandIn,
    SynthesizerOptions,
    create_debater,
    create_judge,
    create_moderator,
    create_synthesizer,
    debate,
    outline,
    sequencer,
)
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.jurors import JUDGE
from flowdebate.patterns.debate.moderator import MODERATOR
from flowdebate.patterns.debate.synthesizer import SYNTHESIZER
from flowdebate.runs.events import ModelCalled
from flowdebate.testing import FunctionModel, RecordedCall
from tests.patterns.debates import QUESTION, SIDES, by_role, decision, events

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.testing import ModelRequest

SOURCES = {"report": "Rents rose by 15 per cent."}
OPTIONS: dict[str, Any] = {"name": "rent", "debaters": SIDES, "max_rounds": 1, "sources": SOURCES, "moderator": True}


def asked(role: str, **options: Any) -> Any:
    """What the block of `role` is asked in a debate with `options`: its messages, its schema and its settings."""
    requests: list[Any] = []
    inner = by_role(decide=lambda _: decision("anna", "ben"))

    def answer(request: ModelRequest) -> Any:
        if request.block.endswith(role):
            schema = request.output_schema
            requests.append((request.block, request.messages, schema, [tool.name for tool in request.tools]))
            if schema is not None and "scores" in schema["properties"]:
                return {"reasoning": "So.", "scores": {"for": 60, "against": 40}, "verdict": "Cap."}
        return inner._function(request)

    debate(**{**OPTIONS, **options}).run_sync(QUESTION, model=FunctionModel(answer), seed=3)
    return requests


ROLES: dict[str, Callable[..., dict[str, Any]]] = {
    "judge": lambda **own: {"judge": JudgeOptions(**own)},
    "moderator": lambda **own: {"moderator": ModeratorOptions(**own)},
    "synthesizer": lambda **own: {"synthesizer": SynthesizerOptions(**own)},
    "anna": lambda **own: {"debaters": [replace(SIDES[0], options=DebaterOptions(**own)), SIDES[1]]},
}
UNBOUND: dict[str, Callable[..., dict[str, Any]]] = {
    "judge": lambda **own: {"judge": create_judge(**own)},
    "moderator": lambda **own: {"moderator": create_moderator(**own)},
    "synthesizer": lambda **own: {"synthesizer": create_synthesizer(**own)},
    "anna": lambda **own: {"debaters": [replace(SIDES[0], block=create_debater(**own)), SIDES[1]]},
}
WAYS = [pytest.param(role, way[role], id=f"{role}-{n}") for role in ROLES for n, way in enumerate((ROLES, UNBOUND))]


@pytest.mark.parametrize(("role", "given"), WAYS)
def test_options_that_say_nothing_change_nothing(role: str, given: Callable[..., dict[str, Any]]) -> None:
    """The same prompt, schema, tools and path as the debate's own block."""
    assert asked(role, **given()) == asked(role)
    assert outline(debate(**{**OPTIONS, **given()})) == outline(debate(**OPTIONS))


@pytest.mark.parametrize(("role", "given"), WAYS)
def test_instructions_of_a_role_are_its_own_and_all_else_stays(role: str, given: Callable[..., dict[str, Any]]) -> None:
    """They take the place of the debate's; the rest of the prompt, the schema and the path are as they were."""
    own, plain = (
        asked(role, **given(instructions="Be brief."), instructions="Be kind."),
        asked(role, instructions="Be kind."),
    )
    assert str(own).replace("Be brief.", "Be kind.") == str(plain)
    assert "Be brief." in str(own)


@pytest.mark.parametrize(("role", "given"), WAYS)
def test_a_role_s_model_is_asked_for_the_role_alone(role: str, given: Callable[..., dict[str, Any]]) -> None:
    """All others ask the debate's."""
    inner = by_role(decide=lambda _: decision("anna", "ben"))
    one, others = (FunctionModel(inner._function, name=name) for name in ("one", "others"))
    result = debate(**{**OPTIONS, **given(model=one), "model": others}).run_sync(QUESTION)
    assert {event.block.endswith(role) for event in events(result, ModelCalled) if event.model == "one"} == {True}
    assert {event.block.endswith(role) for event in events(result, ModelCalled) if event.model != "one"} == {False}


@pytest.mark.parametrize(
    ("role", "template"),
    [
        ("judge", replace(JUDGE, system="JUDGES\n{positions}")),
        ("moderator", replace(MODERATOR, system="OPENS")),
        ("synthesizer", replace(SYNTHESIZER, system="WRITES")),
    ],
)
def test_a_role_s_template_can_be_changed_by_itself(role: str, template: Any) -> None:
    """With what the debate gives it: a judge of its own words is still told of quotes, and shown stances alone."""
    for given in (ROLES, UNBOUND):
        ((_, messages, _, _),) = asked(role, **given[role](template=template))
        assert messages[0]["content"].startswith(template.system.split("\n")[0])
        assert ("quote" in str(messages)) == (role == "judge")
        assert role != "judge" or "anna" not in str(messages)


def test_a_template_of_another_role_is_refused() -> None:
    """Before anything runs."""
    with pytest.raises(ConfigurationError, match=r"template of moderator.*ModeratorTemplate"):
        debate(**{**OPTIONS, "moderator": ModeratorOptions(template=SYNTHESIZER)})


def test_a_judge_with_a_schedule_of_its_own_takes_the_debate_s_options() -> None:
    """Bound, it is what `JudgeOptions` makes."""
    assert asked("judge", judge=create_judge(schedule="swap")) == asked("judge", judge="swap")
    assert "[anna" in str(asked("judge", judge=create_judge(), anonymize_transcript=False))
    assert "[anna" not in str(asked("judge", judge=create_judge()))


def test_a_judge_that_says_otherwise_keeps_it() -> None:
    """What a maker is given wins over the debate's."""
    assert "[anna" in str(asked("judge", judge=create_judge(anonymize_transcript=False)))


def test_the_output_schema_reaches_a_synthesizer_that_has_none() -> None:
    """And the debate's output is of it."""
    given: dict[str, Any] = {"name": "rent", "debaters": SIDES, "max_rounds": 1, "output_schema": DebateVerdict}
    pattern = debate(**given, synthesizer=create_synthesizer(instructions="Be brief."))
    found = {"verdict": "Cap.", "winner": "for", "reasoning": "So."}

    def answer(request: ModelRequest) -> Any:
        return "A." if request.output_schema is None else found

    assert isinstance(pattern.run_sync(QUESTION, model=FunctionModel(answer)).output, DebateVerdict)


def test_a_stand_in_keeps_the_debater_s_options() -> None:
    """But not its model, which has failed."""
    calls: list[RecordedCall] = []
    lost = FunctionModel(lambda _: (_ for _ in ()).throw(_down()), name="lost")
    spare = FunctionModel(lambda request: calls.append(request) or "A.", name="spare")  # type: ignore[func-returns-value,arg-type]
    sides = [Debater("anna", "for", options=DebaterOptions(model=lost, instructions="Be brief.")), SIDES[1]]
    policy = FailurePolicy(on_failure=StandIn(spare))
    debate(name="rent", debaters=sides, max_rounds=1, failures=policy, model=by_role()).run_sync(QUESTION)
    assert "Be brief." in str(calls[0].messages)


def _down() -> Exception:
    from flowdebate.errors import ProviderFailed

    return ProviderFailed("down", status=503)


MAKERS = [create_judge, create_moderator, create_synthesizer, create_debater]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_an_unbound_block_elsewhere_says_what_is_missing_and_who_fills_it_in(make: Any) -> None:
    """Alone, in a sequencer, or in the place of another role: before anything is asked."""
    for use in (lambda: make().run_sync("?"), lambda: sequencer(name="all").then(make())):
        with pytest.raises(ConfigurationError, match=rf"{make.__name__}\(\): `name.*filled in by the pattern"):
            use()


def test_an_unbound_block_of_another_role_is_refused() -> None:
    """A judge does not moderate."""
    with pytest.raises(ConfigurationError, match=r"moderator.*made by create_moderator\(\)"):
        debate(name="rent", debaters=SIDES, moderator=create_judge())


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_an_unknown_option_of_an_unbound_block_is_python_s_own_error(make: Any) -> None:
    """At once, not when it is bound."""
    with pytest.raises(TypeError):
        make(temperatur=0)
