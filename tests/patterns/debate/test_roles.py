"""Roles in which a single part is changed, and unbound blocks, which the debate completes with its own options."""

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


def requests_to_role(role: str, **options: Any) -> Any:
    """Run a debate with `options`; return the block, messages, schema and tools for each request that `role` makes."""
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
    "judge": lambda **options: {"judge": JudgeOptions(**options)},
    "moderator": lambda **options: {"moderator": ModeratorOptions(**options)},
    "synthesizer": lambda **options: {"synthesizer": SynthesizerOptions(**options)},
    "anna": lambda **options: {"debaters": [replace(SIDES[0], options=DebaterOptions(**options)), SIDES[1]]},
}
UNBOUND: dict[str, Callable[..., dict[str, Any]]] = {
    "judge": lambda **options: {"judge": create_judge(**options)},
    "moderator": lambda **options: {"moderator": create_moderator(**options)},
    "synthesizer": lambda **options: {"synthesizer": create_synthesizer(**options)},
    "anna": lambda **options: {"debaters": [replace(SIDES[0], block=create_debater(**options)), SIDES[1]]},
}
WAYS = [pytest.param(role, way[role], id=f"{role}-{n}") for role in ROLES for n, way in enumerate((ROLES, UNBOUND))]


@pytest.mark.parametrize(("role", "make_options"), WAYS)
def test_empty_options_change_nothing(role: str, make_options: Callable[..., dict[str, Any]]) -> None:
    assert requests_to_role(role, **make_options()) == requests_to_role(role)
    assert outline(debate(**{**OPTIONS, **make_options()})) == outline(debate(**OPTIONS))


@pytest.mark.parametrize(("role", "make_options"), WAYS)
def test_role_instructions_replace_only_the_instructions(
    role: str, make_options: Callable[..., dict[str, Any]]
) -> None:
    custom, plain = (
        requests_to_role(role, **make_options(instructions="Be brief."), instructions="Be kind."),
        requests_to_role(role, instructions="Be kind."),
    )
    assert str(custom).replace("Be brief.", "Be kind.") == str(plain)
    assert "Be brief." in str(custom)


@pytest.mark.parametrize(("role", "make_options"), WAYS)
def test_role_model_is_used_only_for_that_role(role: str, make_options: Callable[..., dict[str, Any]]) -> None:
    inner = by_role(decide=lambda _: decision("anna", "ben"))
    one, other = (FunctionModel(inner._function, name=name) for name in ("one", "others"))
    result = debate(**{**OPTIONS, **make_options(model=one), "model": other}).run_sync(QUESTION)
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
def test_role_template_can_be_changed_separately(role: str, template: Any) -> None:
    """A judge with a custom template still receives quotes and anonymous stances."""
    for makers in (ROLES, UNBOUND):
        ((_, messages, _, _),) = requests_to_role(role, **makers[role](template=template))
        assert messages[0]["content"].startswith(template.system.split("\n")[0])
        assert ("quote" in str(messages)) == (role == "judge")
        assert role != "judge" or "anna" not in str(messages)


def test_templates_for_a_different_role_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"template of moderator.*ModeratorTemplate"):
        debate(**{**OPTIONS, "moderator": ModeratorOptions(template=SYNTHESIZER)})


def test_unbound_judges_take_the_debate_options() -> None:
    """Passing an unbound judge block to a debate has the same effect as configuring the judge with `JudgeOptions`."""
    assert requests_to_role("judge", judge=create_judge(schedule="swap")) == requests_to_role("judge", judge="swap")
    assert "[anna" in str(requests_to_role("judge", judge=create_judge(), anonymize_transcript=False))
    assert "[anna" not in str(requests_to_role("judge", judge=create_judge()))


def test_judge_options_override_the_debate_options() -> None:
    assert "[anna" in str(requests_to_role("judge", judge=create_judge(anonymize_transcript=False)))


def test_synthesizers_without_a_schema_use_the_debate_schema() -> None:
    options: dict[str, Any] = {"name": "rent", "debaters": SIDES, "max_rounds": 1, "output_schema": DebateVerdict}
    pattern = debate(**options, synthesizer=create_synthesizer(instructions="Be brief."))
    verdict = {"verdict": "Cap.", "winner": "for", "reasoning": "So."}

    def answer(request: ModelRequest) -> Any:
        return "A." if request.output_schema is None else verdict

    assert isinstance(pattern.run_sync(QUESTION, model=FunctionModel(answer)).output, DebateVerdict)


def test_fallback_models_keep_the_debater_options() -> None:
    calls: list[RecordedCall] = []
    failing = FunctionModel(lambda _: (_ for _ in ()).throw(_provider_failure()), name="lost")
    spare = FunctionModel(lambda request: calls.append(request) or "A.", name="spare")  # type: ignore[func-returns-value,arg-type]
    sides = [Debater("anna", "for", options=DebaterOptions(model=failing, instructions="Be brief.")), SIDES[1]]
    policy = FailurePolicy(on_failure=StandIn(spare))
    debate(name="rent", debaters=sides, max_rounds=1, failures=policy, model=by_role()).run_sync(QUESTION)
    assert "Be brief." in str(calls[0].messages)


def _provider_failure() -> Exception:
    from flowdebate.errors import ProviderFailed

    return ProviderFailed("down", status=503)


MAKERS = [create_judge, create_moderator, create_synthesizer, create_debater]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_unbound_blocks_cannot_be_used_elsewhere(make: Any) -> None:
    """Unbound blocks cannot be used on their own, in a sequencer or in another role.

    The error is raised before any call and explains how to bind the block.
    """
    for use in (lambda: make().run_sync("?"), lambda: sequencer(name="all").then(make())):
        with pytest.raises(ConfigurationError, match=rf"{make.__name__}\(\): `name.*unless the pattern fills it in"):
            use()


def test_unbound_blocks_for_a_different_role_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"moderator.*must be created by create_moderator\(\)"):
        debate(name="rent", debaters=SIDES, moderator=create_judge())


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_unknown_options_for_an_unbound_block_raise_a_type_error(make: Any) -> None:
    with pytest.raises(TypeError):
        make(temperatur=0)
