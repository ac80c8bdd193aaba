"""Options for `debate()`, which affect only the default blocks, and visibility settings, which hide items."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from flowdebate import (
    Debater,
    DebateVerdict,
    FlowDebateWarning,
    create_debate_transcript,
    create_moderator,
    create_synthesizer,
    debate,
    generator,
    sequencer,
)
from flowdebate.errors import ConfigurationError
from flowdebate.runs.events import BlockAnswered, ModelCalled, TextDelta
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import QUESTION, SIDES, VERDICT, by_role, decision, events, moderated, script, system_of


def test_moderators_can_have_their_own_options() -> None:
    model = ScriptedModel(decision("anna", "ben", done=True), "A", "B", VERDICT)
    debate(
        name="rent", debaters=SIDES, synthesizer=False, instructions="Be polite.", **moderated(instructions="Be fair.")
    ).run_sync(QUESTION, model=model)
    first, second, _, third = (system_of(call) for call in model.calls)
    assert "Be fair." in first
    assert "Be polite." not in first
    assert "Be polite." in second
    assert "Be polite." in third


def _named_model(name: str) -> FunctionModel:
    inner = by_role()
    return FunctionModel(inner._function, name=name)


def test_blocks_without_a_model_use_the_debate_model() -> None:
    decide = by_role(decide=lambda _: decision("anna", "ben", done=True))
    rent = debate(
        name="rent",
        debaters=[Debater("anna", "for", block=_nested_debater()), SIDES[1]],
        max_rounds=1,
        judge=_generator_judge(),
        synthesizer=create_synthesizer(name="rent"),
        model={"chat": _named_model("debates"), "synthesize": FunctionModel(decide._function, name="thinks")},
        **moderated(),
    )
    result = rent.run_sync(QUESTION)
    assert [event.model for event in events(result, ModelCalled)] == [
        "thinks",
        "debates",
        "debates",
        "thinks",
        "thinks",
    ]


def _nested_debater() -> Any:
    """Build a debater inside a custom sequencer."""
    return sequencer(name="anna").then(generator(name="anna-speaks", prompt="You are Anna."))


def _generator_judge() -> Any:
    """Build a custom generator that acts as the judge."""
    return generator(name="own-judge", model="intent/synthesize", output_schema=DebateVerdict)


def test_nested_debates_use_the_nearest_model() -> None:
    """For each intent, a block uses the inner debate's model or, if none is set, the outer debate's."""
    inner = debate(name="inner", debaters=SIDES, max_rounds=1, synthesizer=False, model={"chat": _named_model("inner")})
    argue = sequencer(name="argue").map(lambda _: QUESTION).then(inner).map(lambda raw: raw.verdict.verdict)
    outer = debate(
        name="outer",
        debaters=[Debater("anna", "for", block=argue), SIDES[1]],
        max_rounds=1,
        synthesizer=False,
        model=_named_model("outer"),
    )
    result = outer.run_sync(QUESTION)
    assert [event.model for event in events(result, ModelCalled)] == ["inner", "inner", "outer", "outer", "outer"]


@pytest.mark.anyio
async def test_iterating_over_a_handle_omits_hidden_items() -> None:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, debater_visibility={"client": False})
    handle = rent.start(QUESTION, model=by_role())
    handle_events = [event async for event in handle]
    assert [event.block for event in handle_events if isinstance(event, BlockAnswered)] == [
        "rent-judge",
        "rent-synthesizer",
    ]
    assert {event.block for event in handle_events if isinstance(event, TextDelta)} == {"rent-synthesizer"}
    assert (await handle).output == "The end."


@pytest.mark.anyio
async def test_iterating_over_a_handle_streams_text() -> None:
    """Iterating yields `TextDelta` events, which are not stored in `result.events`."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    handle = rent.start(QUESTION, model=script("A1\nA2", "B"))
    pieces = [(event.block, event.text) async for event in handle if isinstance(event, TextDelta)]
    assert pieces == [("rent-debater-anna", "A1\n"), ("rent-debater-anna", "A2"), ("rent-debater-ben", "B")]
    assert events(await handle, TextDelta) == []


def test_moderators_must_be_built_for_the_same_debaters() -> None:
    """A moderator built for other debaters is rejected, although the order of the debaters does not matter."""
    transcript = create_debate_transcript()
    other = create_moderator(name="rent", roster_names=["anna", "carl"], transcript=transcript)
    with pytest.raises(ConfigurationError) as caught:
        debate(name="rent", debaters=SIDES, moderator=other, transcript=transcript)
    assert (caught.value.location, caught.value.field, caught.value.got) == (
        "debate 'rent'",
        "moderator",
        ["anna", "carl"],
    )
    assert "['anna', 'ben']" in caught.value.problem
    moderator = create_moderator(name="rent", roster_names=["ben", "anna"], transcript=transcript)
    assert debate(name="rent", debaters=SIDES, moderator=moderator, transcript=transcript).name == "rent"


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        debate("rent", SIDES)  # type: ignore[call-overload]


def test_rejected_debates_build_no_blocks() -> None:
    """A rejected debate must not convert, inspect or call anything that was passed to it."""
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


def test_dicts_and_debaters_are_equivalent() -> None:
    rent = debate(
        name="rent",
        debaters=[{"name": "anna", "stance": "for"}, Debater("ben", "against")],
        max_rounds=1,
        synthesizer=False,
    )
    output = rent.run_sync(QUESTION, model=script("A", "B")).output
    assert [(entry.agent_name, entry.stance) for entry in output.transcript] == [("anna", "for"), ("ben", "against")]


def _warnings_of(**options: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        debate(name="rent", **{"debaters": SIDES, **options})
    return caught


ONE, OTHER = FunctionModel(lambda _: "", name="one"), FunctionModel(lambda _: "", name="other")


def _with_models(first: Any, second: Any) -> list[Debater]:
    return [Debater("anna", "for", model=first), Debater("ben", "against", model=second)]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["anna", "ben"]),
        ({"model": "openai/gpt-5-mini"}, ["anna", "ben"]),
        ({"model": "local", "debaters": _with_models("openai/x", None)}, ["ben"]),
        ({"model": ONE, "debaters": _with_models(OTHER, ONE)}, ["ben"]),
    ],
    ids=["no model named", "the debate's model", "one debater has its own", "objects"],
)
def test_judges_that_see_names_and_share_a_model_with_a_debater_cause_a_warning(
    options: dict[str, Any], names: list[str]
) -> None:
    (warning,) = _warnings_of(anonymize_transcript=False, **options)
    assert warning.category is FlowDebateWarning
    assert warning.filename == __file__
    assert ", ".join(map(repr, names)) in str(warning.message)
    assert "keep anonymize_transcript=True" in str(warning.message)
    assert all(side.name in names or repr(side.name) not in str(warning.message) for side in SIDES)


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
def test_judges_that_cannot_recognize_a_debater_cause_no_warning(options: dict[str, Any]) -> None:
    assert _warnings_of(**options) == []


def test_both_warnings_are_issued_together() -> None:
    assert len(_warnings_of(max_rounds=9, anonymize_transcript=False)) == 2


def test_runs_do_not_repeat_the_warning() -> None:
    with pytest.warns(FlowDebateWarning):
        rent = debate(name="rent", debaters=SIDES, max_rounds=5, synthesizer=False)
    assert rent.run_sync(QUESTION, model=script(*"abcdefghij")).output.rounds == 5
