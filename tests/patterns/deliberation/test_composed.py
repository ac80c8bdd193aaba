"""Deliberations in larger pipelines and in parallel, their records, and shared transcripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, Persona, debate, handler, sequencer
from flowdebate.patterns.deliberation import create_deliberation_transcript
from flowdebate.resources.tasks import TaskChanged
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import VERDICT, events

from .deliberations import PERSONAS, SETTLED, TOPIC, deal, entries_of, report

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


def test_deliberations_and_debates_can_be_nested() -> None:
    inner = sequencer(name="team").then(deal(name="inner")).map(lambda output: output.final_decision)
    outer = debate(
        name="outer",
        debaters=[Debater("team", "for", block=inner), Debater("lone", "against")],
        max_rounds=1,
        synthesizer=False,
    )
    result = outer.run_sync(TOPIC, model=ScriptedModel("A", "B", SETTLED, "No.", VERDICT))
    assert [entry.text for entry in result.output.transcript] == ["Invest half.", "No."]
    sides = [Debater("now", "now"), Debater("later", "later")]
    torn = debate(name="torn", debaters=sides, max_rounds=1, synthesizer=lambda raw: raw.verdict.verdict)

    def answer(request: ModelRequest) -> Any:
        if request.block == "torn-judge":
            return {**VERDICT, "winner": "now"}
        return SETTLED if request.block == "deal-moderator" else "said"

    result = deal(debaters=[Persona("team", block=torn), PERSONAS[0]]).run_sync(TOPIC, model=FunctionModel(answer))
    assert entries_of(result.output) == [(1, "team", "Cap them."), (1, "bull", "said")]
    assert result.raw == result.output
    assert [entry.name for entry in result.transcript.entries] == ["team", "bull"]
    assert [trail.collection_id for trail in result.task_collections] == ["deal", "torn"]


def test_other_blocks_can_read_a_shared_transcript() -> None:
    transcript = create_deliberation_transcript()

    @handler(name="count", resources={"transcript": transcript})
    def count(value: object, ctx: Context) -> list[str]:
        return [entry.text for entry in ctx.resources.transcript.state.entries]

    pipeline = sequencer(name="all").then(deal(transcript=transcript)).then(count)
    assert pipeline.run_sync(TOPIC, model=ScriptedModel("A", "B", SETTLED)).output == ["A", "B"]


def test_audit_trail_has_one_task_per_turn() -> None:
    model = ScriptedModel("A1", "B1", report(), "A2", "B2", SETTLED)
    result = deal(collection_id="audit-7").run_sync(TOPIC, model=model)
    assert result.tasks.collection_id == "audit-7"
    assert [(task.assignee, task.metadata, task.output, task.status) for task in result.tasks.list()] == [
        ("bull", {"round": 1}, "A1", "completed"),
        ("bear", {"round": 1}, "B1", "completed"),
        ("bull", {"round": 2}, "A2", "completed"),
        ("bear", {"round": 2}, "B2", "completed"),
    ]
    assert [change.change for change in events(result, TaskChanged)][:3] == ["added", "claimed", "completed"]


def test_wire_output_has_camel_case_keys() -> None:
    output = deal().run_sync(TOPIC, model=ScriptedModel("A", "B", SETTLED), seed=1).output
    wire = output.to_wire()
    assert {"finalDecision", "isSettled", "stopReason"} <= set(wire)
    assert wire["history"][0] == {"round": 1, "name": "bull", "role": "investor", "text": "A"}
    assert wire["reports"] == [SETTLED]
