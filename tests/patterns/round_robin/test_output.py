"""The deliverable of a panel, written by a synthesizer from all entries and validated against the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from flowdebate import RoundRobinOutput, generator
from flowdebate.chassis.state import TranscriptState
from flowdebate.errors import OutputError, SchemaViolation
from flowdebate.testing import ScriptedModel
from tests.patterns.debates import system_of, turn_of

from .panels import PANEL, QUESTION, REPORT, bridge, by_role, refereed

if TYPE_CHECKING:
    from flowdebate.patterns.round_robin.schemas import RefereeAudit
    from flowdebate.runs.context import Context


class Plan(BaseModel):
    """A deliverable."""

    plan: str
    nights: int


@dataclass
class Note:
    """Another deliverable."""

    text: str


PLAN = {"plan": "Close it at night.", "nights": 3}
SCHEMA = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}


def test_deliverables_without_a_schema_are_text() -> None:
    result = bridge(synthesizer=None).run_sync(QUESTION, model=ScriptedModel("A1", "B1", "A2", "B2", "Close it."))
    assert result.output == "Close it."
    assert isinstance(result.raw, RoundRobinOutput)
    assert [entry.text for entry in result.raw.transcript] == ["A1", "B1", "A2", "B2"]


@pytest.mark.parametrize(
    ("schema", "answer", "output"),
    [(Plan, PLAN, Plan(**PLAN)), (Note, {"text": "x"}, Note("x")), (SCHEMA, {"nights": 3}, {"nights": 3})],
    ids=["model", "dataclass", "JSON Schema"],
)
def test_deliverables_match_the_schema(schema: Any, answer: Any, output: Any) -> None:
    result = bridge(synthesizer=None, output_schema=schema, max_rounds=1).run_sync(QUESTION, model=by_role(last=answer))
    assert result.output == output


def test_invalid_deliverables_count_as_provider_failures() -> None:
    options, last = {"synthesizer": None, "output_schema": Plan}, by_role(last={"plan": 3})
    with pytest.raises(SchemaViolation):
        bridge(on_failure="fail", **options).run_sync(QUESTION, model=last)
    result = bridge(**options).run_sync(QUESTION, model=by_role(last={"plan": 3}))
    assert (result.status, result.output, len(result.raw.transcript)) == ("degraded", None, 4)


def test_synthesizer_sees_all_entries_and_audits() -> None:
    model = ScriptedModel("A1", "B1", REPORT, "The answer.")
    bridge(synthesizer=None, max_rounds=1, **refereed()).run_sync(QUESTION, model=model)
    turn = turn_of(model.calls[-1])
    assert "[ada, economist] A1\n[ben, engineer] B1\nReferee: Give figures.\nReferee on [ada]: 40 of 100" in turn
    assert turn.startswith(f"Question: {QUESTION}")
    assert turn.endswith(f"Write the panel's answer to the question: {QUESTION}")
    assert "Give less weight" in turn


def test_synthesizer_prompts_without_audits_mention_no_referee() -> None:
    model = ScriptedModel("A1", "B1", "The answer.")
    bridge(synthesizer=None, max_rounds=1).run_sync(QUESTION, model=model)
    assert "referee" not in (system_of(model.calls[-1]) + turn_of(model.calls[-1])).casefold()


def test_custom_synthesizers_get_the_raw_output() -> None:
    def count(raw: RoundRobinOutput, ctx: Context) -> tuple[int, int]:
        return len(raw.transcript), ctx.usage.calls

    assert bridge(synthesizer=count).run_sync(QUESTION, model=by_role()).output == (4, 4)


def test_custom_synthesizer_output_must_match_the_schema() -> None:
    fits = bridge(synthesizer=lambda _: PLAN, output_schema=Plan)
    assert fits.run_sync(QUESTION, model=by_role()).output == Plan(**PLAN)
    with pytest.raises(OutputError) as caught:
        bridge(synthesizer=lambda _: {"plan": "x"}, output_schema=Plan).run_sync(QUESTION, model=by_role())
    assert caught.value.block == "bridge-synthesizer"
    assert [field for field, _ in caught.value.problems] == ["nights"]
    custom = generator(name="own-writer", prompt="Write.", user=lambda raw: raw.question)
    with pytest.raises(OutputError, match="own-writer"):
        bridge(synthesizer=custom, output_schema=Plan, max_rounds=1).run_sync(
            QUESTION, model=ScriptedModel(*"AB", "{}")
        )


def test_raw_output_survives_a_camel_case_round_trip() -> None:
    raw = bridge(max_rounds=1, **refereed()).run_sync(QUESTION, model=by_role(), seed=7).output
    wire = raw.to_wire()
    assert list(wire) == ["question", "rounds", "transcript", "audits", "stopReason", "status", "losses", "seed"]
    assert wire["transcript"][0] == {
        "round": 1,
        "agentName": "ada",
        "role": "economist",
        "text": "said by bridge-debater-ada",
    }
    assert wire["audits"][0]["assessments"] == [{"agentName": "ada", "issues": ["no figures"], "score": 40}]
    assert (wire["seed"], RoundRobinOutput.model_validate(wire)) == (7, raw)


def test_shared_transcripts_remain_available_after_the_panel() -> None:
    result = bridge(max_rounds=1).run_sync(QUESTION, model=by_role())
    assert isinstance(result.transcript, TranscriptState)
    assert result.transcript.entries == result.output.transcript


def test_state_contains_the_audit_of_the_current_round() -> None:
    """Before the referee has reported, `ctx.sequencer.state.audit` is `None`."""
    audits: list[RefereeAudit | None] = []

    def watch(_: object, ctx: Context) -> str:
        audits.append(ctx.sequencer.state.audit)
        return "said"

    def stop(ctx: Context) -> bool:
        audits.append(ctx.sequencer.state.audit)
        return False

    panelists = [{"name": "ada", "block": watch}, PANEL[1]]
    bridge(debaters=panelists, terminate_when=stop, **refereed()).run_sync(QUESTION, model=by_role())
    assert [audit.round if audit else None for audit in audits] == [None, 1, None]
