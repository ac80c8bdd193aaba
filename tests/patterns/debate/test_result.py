"""Results of a debate: the raw output, the wire format, and the synthesizer's output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel
from typing_extensions import TypedDict

from flowdebate import DebateRawOutput, debate
from flowdebate.errors import ConfigurationError, SchemaViolation
from flowdebate.testing import ScriptedModel
from flowdebate.testing.strategies import debates
from tests.patterns.debates import QUESTION, SIDES, VERDICT, by_role, decision, moderated, script, turn_of


def test_raw_output_is_returned_if_there_is_no_synthesizer() -> None:
    result = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False).run_sync(
        QUESTION, model=script("A", "B")
    )
    assert isinstance(result.output, DebateRawOutput)
    assert result.raw == result.output
    assert result.transcript.entries == result.output.transcript


def test_synthesizers_do_not_replace_the_raw_output() -> None:
    result = debate(name="rent", debaters=SIDES, max_rounds=1).run_sync(QUESTION, model=script("A", "B", after=("S",)))
    assert result.output == "S"
    assert (result.raw.question, result.raw.rounds, len(result.raw.transcript)) == (QUESTION, 1, 2)


def test_wire_format_has_camel_case_keys() -> None:
    model = ScriptedModel(decision("anna", "ben", briefing="Facts.", done=True), "A1", "B1", VERDICT)
    rent = debate(name="rent", debaters=SIDES, synthesizer=False, **moderated())
    output = rent.run_sync(QUESTION, model=model, seed=7).output
    assert output.to_wire() == snapshot(
        {
            "rounds": 1,
            "question": "Should rents be capped?",
            "transcript": [
                {"round": 1, "agentName": "anna", "stance": "for", "text": "A1"},
                {"round": 1, "agentName": "ben", "stance": "against", "text": "B1"},
            ],
            "verdict": {
                "verdict": "Cap them.",
                "winner": "for",
                "reasoning": "It was not answered.",
                "judging": {
                    "schedule": "single",
                    "decidedBy": "mean",
                    "ballots": [
                        {
                            "view": 0,
                            "order": ["for", "against"],
                            "labels": None,
                            "model": "scripted",
                            "scores": None,
                            "winner": "for",
                            "verdict": "",
                            "reasoning": "",
                            "problem": None,
                        }
                    ],
                    "planned": 1,
                    "scores": {"for": 1.0, "against": 0.0},
                    "flipped": False,
                    "onFlip": None,
                    "effectiveN": 1.0,
                },
            },
            "moderatorDecisions": [
                {
                    "nextSpeakers": ["anna", "ben"],
                    "briefing": "Facts.",
                    "newAngle": None,
                    "done": True,
                    "round": 1,
                    "fallback": False,
                }
            ],
            "stopReason": "moderator_done",
            "status": "complete",
            "losses": [],
            "seed": 7,
        }
    )


@given(debates(synthesizer=False))
def test_raw_output_survives_a_json_round_trip_in_either_key_style(case: Any) -> None:
    raw = case.run_sync().raw
    for by_alias in (True, False):
        assert DebateRawOutput.model_validate_json(raw.model_dump_json(by_alias=by_alias)) == raw
    assert DebateRawOutput.model_validate(json.loads(json.dumps(raw.to_wire()))) == raw


def test_output_from_flow_state_dev_can_be_parsed() -> None:
    """Output from flow-state-dev lacks the fields that this library has added, and may lack a briefing."""
    document = {
        "rounds": 1,
        "question": "Ship?",
        "transcript": [{"round": 1, "agentName": "a", "stance": "now", "text": "Yes."}],
        "verdict": {"verdict": "Ship.", "winner": None, "reasoning": "Both."},
        "moderatorDecisions": [{"round": 1, "nextSpeakers": ["a"], "newAngle": None, "done": True}],
    }
    parsed = DebateRawOutput.model_validate(document)
    assert parsed.transcript[0].agent_name == "a"
    assert parsed.moderator_decisions[0].briefing is None


class Ruling(BaseModel):
    """A pydantic model."""

    decision: str
    confidence: int


@dataclass
class RulingClass:
    """A dataclass."""

    decision: str
    confidence: int


class RulingDict(TypedDict):
    """A TypedDict."""

    decision: str
    confidence: int


RULING = {"decision": "cap", "confidence": 7}
JSON_SCHEMA = {
    "type": "object",
    "properties": {"decision": {"enum": ["cap", "free"]}, "confidence": {"type": "integer", "maximum": 10}},
    "required": ["decision", "confidence"],
    "additionalProperties": False,
}


def _run_synthesizer(schema: Any, reply: Any) -> Any:
    rent = debate(name="rent", debaters=SIDES, max_rounds=1, output_schema=schema)
    return rent.run_sync(QUESTION, model=script("A", "B", after=(reply,))).output


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (Ruling, Ruling(decision="cap", confidence=7)),
        (RulingClass, RulingClass("cap", 7)),
        (RulingDict, RULING),
        (JSON_SCHEMA, RULING),
    ],
    ids=["pydantic", "dataclass", "TypedDict", "JSON Schema"],
)
@pytest.mark.parametrize("reply", [RULING, json.dumps(RULING)], ids=["data", "text"])
def test_synthesizer_output_matches_the_schema(schema: Any, expected: object, reply: Any) -> None:
    """The schema may be a pydantic model, a dataclass, a TypedDict or a JSON Schema."""
    output = _run_synthesizer(schema, reply)
    assert output == expected
    assert type(output) is type(expected)


@pytest.mark.parametrize("schema", [Ruling, RulingClass, RulingDict, JSON_SCHEMA], ids=["m", "d", "t", "j"])
def test_invalid_syntheses_are_rejected(schema: Any) -> None:
    with pytest.raises(SchemaViolation) as caught:
        _run_synthesizer(schema, {"decision": "cap", "confidence": "very"})
    assert caught.value.block == "rent-synthesizer"
    assert "confidence" in str(caught.value)


def test_synthesizers_without_a_schema_return_text() -> None:
    assert _run_synthesizer(None, "Cap them,\nbut slowly.") == "Cap them,\nbut slowly."


def test_synthesizer_sees_the_results_of_the_debate() -> None:
    model = ScriptedModel(
        decision("anna", "ben", newAngle="Who pays?"), "A1", "B1", decision(done=True), VERDICT, "The end."
    )
    debate(name="rent", debaters=SIDES, max_rounds=3, **moderated()).run_sync(QUESTION, model=model)
    prompt = turn_of(model.calls[-1])
    for part in (QUESTION, "2", "Cap them.", "for", "It was not answered.", "Who pays?", "[for] A1", "[against] B1"):
        assert part in prompt
    assert "anna" not in prompt


def test_missing_winners_are_rendered_as_none() -> None:
    model = script("A", "B", verdict={**VERDICT, "winner": None}, after=("S",))
    debate(name="rent", debaters=SIDES, max_rounds=1).run_sync(QUESTION, model=model)
    assert "Winner: none" in turn_of(model.calls[-1])


@given(st.sampled_from([int, list[Ruling], str | None]))
def test_schemas_can_be_any_type(schema: Any) -> None:
    """Types other than objects are wrapped in an object for the model and unwrapped in the output."""
    values: dict[Any, Any] = {int: 7, list[Ruling]: [Ruling(decision="x", confidence=1)], str | None: None}
    plain: dict[Any, Any] = {int: 7, list[Ruling]: [{"decision": "x", "confidence": 1}], str | None: None}
    assert _run_synthesizer(schema, {"value": plain[schema]}) == values[schema]


def test_invalid_schemas_are_rejected_before_anything_runs() -> None:
    """The factory raises a `ConfigurationError` for a type that pydantic cannot validate."""
    with pytest.raises(ConfigurationError, match="`output_schema` must be"):
        debate(name="rent", debaters=SIDES, output_schema=object())


def test_repr_of_a_result_lists_its_fields() -> None:
    result = debate(name="rent", debaters=SIDES).run_sync(QUESTION, session={"user": 1}, model=by_role())
    assert result.run_id
    assert result.usage.calls == 6
    assert result.seconds > 0
    assert result.session.state == {"user": 1}
