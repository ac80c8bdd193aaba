"""Outputs from custom blocks in every role of a debate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from flowdebate import Debater, DebateVerdict, FlowDebateWarning, debate, generator, handler, sequencer
from flowdebate.errors import OutputError
from flowdebate.testing import ScriptedModel
from flowdebate.testing.cases import Sabotage, Unprintable
from flowdebate.testing.strategies import _construct
from tests.patterns.debates import QUESTION, SIDES, VERDICT, by_role, script

if TYPE_CHECKING:
    from flowdebate import DebateInput, DebateRawOutput
    from flowdebate.runs.context import Context


def _debate_with(block: Any, **options: Any) -> Any:
    """Build a debate whose first debater is `block`."""
    sides = [Debater("anna", "for", block=block), SIDES[1]]
    return debate(**{"name": "rent", "debaters": sides, "max_rounds": 1, "synthesizer": False, **options})


def _argument_of(block: Any) -> str:
    text: str = _debate_with(block).run_sync(QUESTION, model=by_role()).output.transcript[0].text
    return text


class Spoken(BaseModel):
    """A pydantic model with a `text` field and one other field."""

    text: str
    confidence: float = 1.0


@dataclass
class Said:
    """An ordinary object with a `text` attribute."""

    text: str


@pytest.mark.parametrize(
    "value",
    ["Homes.", {"text": "Homes."}, {"text": "Homes.", "more": 1}, Spoken(text="Homes."), Said("Homes.")],
    ids=repr,
)
def test_debaters_can_return_text_in_several_forms(value: object) -> None:
    """Strings, dicts with a `text` key, and models or objects with a `text` attribute cause no warning."""
    assert _argument_of(lambda _: value) == "Homes."


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), ({"words": "x"}, "{'words': 'x'}"), (["x"], "['x']"), ({"text": 7}, "{'text': 7}")],
    ids=repr,
)
def test_other_values_are_converted_with_str_and_cause_a_warning(value: object, text: str) -> None:
    with pytest.warns(FlowDebateWarning, match=rf"'anna' returned a {type(value).__name__}") as caught:
        assert _argument_of(lambda _: value) == text
    assert len(caught) == 1


def test_each_debater_causes_only_one_warning_per_run() -> None:
    sides = [Debater(side.name, side.stance, block=lambda _: 7) for side in SIDES]
    rent = debate(name="rent", debaters=sides, max_rounds=3, synthesizer=False)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rent.run_sync(QUESTION, model=by_role())
        assert sorted(str(warning.message).split("'")[1] for warning in caught) == ["anna", "ben"]


def test_values_that_str_cannot_convert_raise_an_error_naming_the_block() -> None:
    """If `str()` itself raises an exception, that exception becomes the cause of the `OutputError`."""
    with pytest.raises(OutputError, match="Unprintable whose str\\(\\) raises Sabotage") as caught:
        _argument_of(lambda _: Unprintable())
    assert "anna" in caught.value.block
    assert isinstance(caught.value.__cause__, Sabotage)


def test_text_is_cleaned() -> None:
    output = _debate_with(lambda _: "a\ud800b\0c").run_sync(QUESTION, model=by_role()).output
    assert output.transcript[0].text == "a\ufffdbc"
    assert output.model_dump_json()


def _plain(value: DebateInput) -> str:
    return f"on {value.question}"


def _with_context(value: DebateInput, ctx: Context) -> str:
    return f"round {ctx.sequencer.state.round} on {value.question}"


async def _later(value: DebateInput, ctx: Context) -> dict[str, str]:
    return {"text": f"later, on {value.question}"}


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (_plain, f"on {QUESTION}"),
        (_with_context, f"round 1 on {QUESTION}"),
        (_later, f"later, on {QUESTION}"),
        (handler(_plain, name="own"), f"on {QUESTION}"),
        (sequencer(name="think").map(lambda value: value.question).then(str.upper), QUESTION.upper()),
    ],
    ids=["(input)", "(input, ctx)", "async", "handler", "sequencer"],
)
def test_any_block_or_function_can_act_as_a_debater(block: Any, text: str) -> None:
    """Sync and async functions with one or two parameters, handlers and sequencers are all accepted."""
    assert _argument_of(block) == text


def test_generators_can_act_as_debaters() -> None:
    custom = generator(name="own", prompt="Be brief.", user=lambda value: value.question)
    model = script("Brief.", "B")
    _debate_with(custom).run_sync(QUESTION, model=model)
    assert [message["content"] for message in model.calls[0].messages] == ["Be brief.", QUESTION]


def test_debates_can_act_as_debaters() -> None:
    """The output of the inner debate becomes the argument, and the two transcripts are kept separate."""
    inner = debate(name="inner", debaters=[Debater("x", "mild"), Debater("y", "bold")], max_rounds=1)
    model = ScriptedModel("X", "Y", {**VERDICT, "winner": "bold"}, "We argue boldly.", "B", VERDICT)
    result = _debate_with(inner).run_sync(QUESTION, model=model)
    assert [(entry.agent_name, entry.text) for entry in result.output.transcript] == [
        ("anna", "We argue boldly."),
        ("ben", "B"),
    ]
    assert "X" not in model.calls[4].prompt.split("[for] We argue boldly.")[1]
    trails = {trail.collection_id: [task.assignee for task in trail.list()] for trail in result.task_collections}
    assert trails == {"rent": ["anna", "ben"], "inner": ["x", "y"]}
    assert result.raw.question == QUESTION
    model.assert_complete()


def test_inner_debates_start_over_in_each_round() -> None:
    inner = debate(name="inner", debaters=[Debater("x", "mild"), Debater("y", "bold")], max_rounds=1)
    first: list[Any] = ["X1", "Y1", {**VERDICT, "winner": None}, "I1", "B1"]
    model = ScriptedModel(*first, "X2", "Y2", {**VERDICT, "winner": None}, "I2", "B2", VERDICT)
    result = _debate_with(inner, max_rounds=2).run_sync(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["I1", "B1", "I2", "B2"]
    assert "X1" not in model.calls[6].prompt
    assert "X1" not in model.calls[7].prompt


@pytest.mark.parametrize(
    "value",
    [VERDICT, DebateVerdict.model_validate(VERDICT), {**VERDICT, "winner": None}],
    ids=["dict", "model", "nobody"],
)
def test_judges_can_return_a_verdict_object_or_a_dict(value: Any) -> None:
    """A winner of `None` means that the verdict is a synthesis."""
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, judge=lambda _: value)
    verdict = rent.run_sync(QUESTION, model=by_role()).output.verdict
    assert verdict == DebateVerdict.model_validate(value)


class Finding(BaseModel):
    """A verdict as another library might define it."""

    verdict: str = "Cap them."
    winner: str | None = "for"
    reasoning: str = "It was not answered."


def test_judges_can_return_another_model_with_the_same_fields() -> None:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, judge=lambda _: Finding())
    assert rent.run_sync(QUESTION, model=by_role()).output.verdict == DebateVerdict.model_validate(VERDICT)


def test_custom_judges_get_the_question_and_the_transcript() -> None:
    inputs: list[tuple[str, list[str]]] = []

    async def judge(value: DebateInput, ctx: Context) -> dict[str, Any]:
        inputs.append((value.question, [entry.text for entry in ctx.resources.transcript.state.entries]))
        return VERDICT

    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, judge=judge)
    rent.run_sync(QUESTION, model=ScriptedModel("A", "B"))
    assert inputs == [(QUESTION, ["A", "B"])]


@dataclass(frozen=True)
class Unfit:
    """An invalid output from a block in the given role."""

    id: str
    role: str
    value: Any
    field: str
    also: str = ""


UNFIT = [
    Unfit("a judge without reasoning", "judge", {"verdict": "v", "winner": None}, "reasoning"),
    Unfit("a judge with a number", "judge", {**VERDICT, "verdict": 3}, "verdict", "got 3"),
    Unfit("a judge with more", "judge", {**VERDICT, "score": 3}, "score"),
    Unfit("a judge that says nothing", "judge", None, "", "got None"),
    Unfit("a judge that says a word", "judge", "for", "", "got 'for'"),
    Unfit("a judge whose model was constructed", "judge", _construct(DebateVerdict, verdict="v"), "winner"),
    Unfit("a moderator without speakers", "moderator", {"done": False}, "next"),
    Unfit("a moderator with a number", "moderator", {"nextSpeakers": 3}, "next", "got 3"),
    Unfit("a moderator with more", "moderator", {"next_speakers": ["anna"], "mood": 1}, "mood"),
    Unfit("a moderator that says nothing", "moderator", None, "", "got None"),
]


@pytest.mark.parametrize("case", UNFIT, ids=lambda case: case.id)
def test_invalid_outputs_raise_an_error_naming_the_block_and_field(case: Unfit) -> None:
    role: dict[str, Any] = {case.role: lambda _: case.value}
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, **role)
    with pytest.raises(OutputError) as caught:
        rent.run_sync(QUESTION, model=by_role())
    assert caught.value.block == f"rent-{case.role}"
    assert f"'rent-{case.role}'" in str(caught.value)
    assert any(field.startswith(case.field) for field, _ in caught.value.problems)
    assert case.also in str(caught.value)


def test_custom_blocks_keep_their_name() -> None:
    judge = handler(lambda _: None, name="the-jury")
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, judge=judge)
    with pytest.raises(OutputError, match="'the-jury'"):
        rent.run_sync(QUESTION, model=by_role())


def test_pipelines_can_act_as_judges() -> None:
    """A sequencer that runs several judges in parallel can serve as a voting panel."""

    def vote(votes: dict[str, str]) -> dict[str, Any]:
        return {**VERDICT, "winner": max(set(votes.values()), key=list(votes.values()).count)}

    panel = sequencer(name="panel").parallel(
        {"x": lambda _: "against", "y": lambda _: "against", "z": lambda _: "for"}
    ).map(vote)  # fmt: skip
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False, judge=panel)
    verdict = rent.run_sync(QUESTION, model=by_role()).raw.verdict
    assert verdict is not None
    assert verdict.winner == "against"


def test_custom_synthesizers_get_the_raw_output() -> None:
    def summarize(raw: DebateRawOutput) -> tuple[str, int]:
        return raw.found.verdict, len(raw.transcript)

    rent = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=summarize)
    result = rent.run_sync(QUESTION, model=by_role())
    assert result.output == ("Cap them.", 2)
    assert result.raw.rounds == 1


def test_custom_synthesizer_output_must_match_the_schema() -> None:
    rent = debate(
        name="rent", debaters=SIDES, max_rounds=1, synthesizer=lambda _: {"text": 3}, output_schema=Spoken
    )  # fmt: skip
    with pytest.raises(OutputError, match="'rent-synthesizer' must return Spoken: `text`"):
        rent.run_sync(QUESTION, model=by_role())


def test_custom_synthesizer_output_is_converted_to_the_schema_type() -> None:
    rent = debate(
        name="rent", debaters=SIDES, max_rounds=1, synthesizer=lambda _: {"text": "T"}, output_schema=Spoken
    )  # fmt: skip
    assert rent.run_sync(QUESTION, model=by_role()).output == Spoken(text="T")
