"""Handoffs as part of a pipeline, nested in other patterns, and in concurrent runs."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate import Debater, HandoffOutput, Persona, debate, sequencer
from flowdebate.errors import ResourceConflict
from flowdebate.patterns.handoff import create_handoff_transcript

from .speakers import PROPOSITION, in_turn, morals

pytestmark = pytest.mark.anyio


def last_word(output: HandoffOutput) -> str:
    """Return the last speaker."""
    return output.transcript[-1].agent_name


def test_handoffs_can_be_pipeline_steps() -> None:
    pipeline = (
        sequencer(name="both")
        .then(morals(name="first"))
        .map(last_word)
        .then(morals(name="second", max_turns=2))
        .map(lambda output: (output.proposition, output.turns))
    )
    result = pipeline.run_sync(PROPOSITION, model=in_turn())
    assert result.output == ("Neutral", 2)
    assert [trail.list()[0].id for trail in result.task_collections] == ["first-1", "second-1"]


def test_handoffs_and_other_patterns_can_be_nested() -> None:
    panel: Any = sequencer(name="panel").then(morals(name="inner", max_turns=2)).map(lambda o: o.transcript[-1].text)
    sides = [Debater("a", "for", block=panel), Debater("b", "against", block=lambda _: "No.")]
    verdict = {"verdict": "Yes.", "winner": "for", "reasoning": "-"}
    outer = debate(name="outer", debaters=sides, max_rounds=1, judge=lambda _: verdict, synthesizer=False)
    assert [entry.text for entry in outer.run_sync("?", model=in_turn()).output.transcript] == ["I am Con.", "No."]
    inner: Any = sequencer(name="case").then(outer).map(lambda raw: f"{raw.verdict.verdict} Transition to Con")
    debaters = [Persona("Pro", block=inner), Persona("Con", block=lambda _: "So? Transition to Pro")]
    output = morals(name="top", debaters=debaters, max_turns=3).run_sync(PROPOSITION, model=in_turn()).output
    assert [entry.text for entry in output.transcript] == ["Yes.", "So?", "Yes."]


def test_two_transcripts_in_one_pipeline_are_rejected() -> None:
    first, second = create_handoff_transcript(), create_handoff_transcript()
    with pytest.raises(ResourceConflict, match="transcript"):
        sequencer(name="both").then(morals(transcript=first)).then(morals(name="m2", transcript=second))
