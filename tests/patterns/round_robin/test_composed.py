"""Panels in larger pipelines and in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, Persona, debate, handler, sequencer
from flowdebate.errors import ResourceConflict
from flowdebate.patterns.round_robin import create_round_robin_transcript
from flowdebate.testing import ScriptedModel

from .panels import PANEL, QUESTION, REPORT, bridge, by_role, entries_of, refereed

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio

SIDES = (Debater("close", "close the bridge now"), Debater("wait", "keep it open"))
FOUND = {"reasoning": "It was not answered.", "winner": "keep it open", "verdict": "Keep it open."}


async def test_panels_can_act_as_debaters() -> None:
    """The panel's output becomes the argument. The panel discusses the debate's question but has its own transcript."""
    panel = bridge(max_rounds=1, synthesizer=None)
    sides = [Debater("close", "close the bridge now", block=panel), SIDES[1]]
    model = ScriptedModel("A", "B", "The panel's argument.", "No.", FOUND)
    result = await debate(name="outer", debaters=sides, max_rounds=1, synthesizer=False).run(QUESTION, model=model)
    assert [entry.text for entry in result.output.transcript] == ["The panel's argument.", "No."]
    assert f"Question: {QUESTION}" in model.calls[0].prompt
    assert "[ada, economist]" not in model.calls[3].prompt
    assert result.raw is result.output
    assert [trail.collection_id for trail in result.task_collections] == ["outer", "bridge"]


async def test_debates_can_act_as_panelists() -> None:
    """The debate is about the panel's question, and its output becomes the panelist's entry."""
    inner = debate(name="inner", debaters=SIDES, max_rounds=1)
    model = ScriptedModel("Close.", "Wait.", FOUND, "We debated: keep it open.", "B")
    result = await bridge(debaters=[Persona("team", "two minds", block=inner), PANEL[1]], max_rounds=1).run(
        QUESTION, model=model
    )
    assert entries_of(result.output) == [(1, "team", "We debated: keep it open."), (1, "ben", "B")]
    assert f"Question: {QUESTION}" in model.calls[0].prompt
    assert "[team, two minds] We debated: keep it open." in model.calls[4].prompt
    assert result.output.question == QUESTION


async def test_panels_can_feed_a_debate_in_a_pipeline() -> None:
    pipeline = sequencer(name="both").then(bridge(max_rounds=1, synthesizer=None))
    pipeline = pipeline.then(debate(name="then", debaters=SIDES, max_rounds=1, synthesizer=False))
    result = await pipeline.run(QUESTION, model=ScriptedModel("A", "B", "Close it?", "Yes.", "No.", FOUND))
    assert result.output.question == "Close it?"
    assert [trail.collection_id for trail in result.task_collections] == ["bridge", "then"]


async def test_next_step_reads_the_panel_transcript_by_reference() -> None:
    """The next step reads the panel's transcript object itself rather than a copy.

    A different transcript is rejected when the pipeline is built.
    """

    def reading(transcript: Any) -> Any:
        @handler(name="count", resources={"transcript": transcript})
        def count(_: object, ctx: Context) -> list[str]:
            return [entry.text for entry in ctx.resources.transcript.state.entries]

        return count

    transcript = create_round_robin_transcript()
    pattern = bridge(max_rounds=1, transcript=transcript)
    pipeline = sequencer(name="all").then(pattern).then(reading(transcript))
    assert (await pipeline.run(QUESTION, model=ScriptedModel("A", "B"))).output == ["A", "B"]
    with pytest.raises(ResourceConflict):
        sequencer(name="all").then(pattern).then(reading(create_round_robin_transcript()))


async def test_iterating_over_a_handle_yields_the_panel_events() -> None:
    handle = bridge(max_rounds=1, **refereed()).start(QUESTION, model=by_role())
    kinds = [event.kind async for event in handle if hasattr(event, "kind")]
    phases = [kind for kind in kinds if kind in {"turn_finished", "referee_reported", "rounds_ended"}]
    assert phases == ["turn_finished", "turn_finished", "referee_reported", "rounds_ended"]
    assert (await handle).output.audits[0].notes == REPORT["notes"]
