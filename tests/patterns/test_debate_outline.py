"""The pipelines that `debate()` makes, drawn: what a reviewer would read."""

from __future__ import annotations

from inline_snapshot import snapshot

from flowdebate import debate, outline

from .debates import SIDES, moderated


def test_a_debate_without_a_moderator_has_a_turn_for_each_debater_in_a_loop() -> None:
    """Opening, a loop over the turns in declared order, the judge once, the raw output."""
    rent = debate(name="rent", debaters=SIDES, synthesizer=False)
    assert str(outline(rent)) == snapshot()


def test_a_synthesizer_stands_at_the_end() -> None:
    """With a synthesizer there is one more step, after the raw output."""
    lines = str(outline(debate(name="rent", debaters=SIDES))).splitlines()
    assert lines[-2:] == snapshot()


def test_a_synthesizer_of_ones_own_is_held_to_the_schema() -> None:
    """A custom synthesizer and an `output_schema`: its output is validated in a step of its own."""
    rent = debate(name="rent", debaters=SIDES, synthesizer=lambda raw: raw, output_schema=dict[str, int])
    assert str(outline(rent)).splitlines()[-3:] == snapshot()


def test_a_moderator_opens_each_round_and_picks_who_speaks() -> None:
    """The moderator stands at the top of the loop; the speakers are dispatched by name, one after the other."""
    rent = debate(name="rent", debaters=SIDES, synthesizer=False, max_rounds=4, **moderated())
    assert str(outline(rent)) == snapshot()


def test_the_drawing_as_a_flowchart() -> None:
    """The same drawing as Mermaid, with the way back of the loop."""
    assert outline(debate(name="rent", debaters=SIDES)).mermaid() == snapshot()
