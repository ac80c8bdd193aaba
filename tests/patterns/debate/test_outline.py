"""The pipelines that `debate()` makes, drawn: what a reviewer would read."""

from __future__ import annotations

from inline_snapshot import snapshot

from flowdebate import debate, outline
from tests.patterns.debates import SIDES, moderated


def test_a_debate_without_a_moderator_has_a_turn_for_each_debater_in_a_loop() -> None:
    """Opening, a loop over the turns in declared order, the judge once, the raw output."""
    rent = debate(name="rent", debaters=SIDES, synthesizer=False)
    assert str(outline(rent)) == snapshot("""\
rent
  → tap rent-init-transcript
  → tap rent-stamp-question
  → tap rent-increment-round
  → tap rent-turn-anna
    → rent-debater-anna
    → rent-record-anna
  → tap rent-turn-ben
    → rent-debater-ben
    → rent-record-ben
  → loop_back (at most 2 passes) ↺ rent-increment-round
  → rent-judge
  → rent-build-raw-output\
""")


def test_a_synthesizer_stands_at_the_end() -> None:
    """With a synthesizer there is one more step, after the raw output."""
    lines = str(outline(debate(name="rent", debaters=SIDES))).splitlines()
    assert lines[-2:] == snapshot(["  → rent-build-raw-output", "  → rent-synthesizer"])


def test_a_synthesizer_of_ones_own_is_held_to_the_schema() -> None:
    """A custom synthesizer and an `output_schema`: its output is validated in a step of its own."""
    rent = debate(name="rent", debaters=SIDES, synthesizer=lambda raw: raw, output_schema=dict[str, int])
    assert str(outline(rent)).splitlines()[-3:] == snapshot(
        ["  → rent-build-raw-output", "  → rent-synthesizer", "  → rent-validate-output"]
    )


def test_a_moderator_opens_each_round_and_picks_who_speaks() -> None:
    """The moderator stands at the top of the loop; the speakers are dispatched by name, one after the other."""
    rent = debate(name="rent", debaters=SIDES, synthesizer=False, max_rounds=4, **moderated())
    assert str(outline(rent)) == snapshot("""\
rent
  → tap rent-init-transcript
  → tap rent-stamp-question
  → tap rent-increment-round
  → tap rent-open-round
    → rent-moderator
    → rent-stash-moderator-decision
  → tap_each (max_concurrency 1)
    → rent-dispatch (router)
      → anna:
        → rent-turn-anna
          → rent-debater-anna
          → rent-record-anna
      → ben:
        → rent-turn-ben
          → rent-debater-ben
          → rent-record-ben
  → loop_back (at most 4 passes) ↺ rent-increment-round, unless done (moderator)
  → rent-judge
  → rent-build-raw-output\
""")


def test_the_drawing_as_a_flowchart() -> None:
    """The same drawing as Mermaid, with the way back of the loop."""
    assert outline(debate(name="rent", debaters=SIDES)).mermaid() == snapshot("""\
flowchart TD
  subgraph n1 ["rent"]
    n2["tap rent-init-transcript"]
    n3["tap rent-stamp-question"]
    n4["tap rent-increment-round"]
    subgraph n5 ["tap rent-turn-anna"]
      n6["rent-debater-anna"]
      n7["rent-record-anna"]
    end
    n6 --> n7
    subgraph n8 ["tap rent-turn-ben"]
      n9["rent-debater-ben"]
      n10["rent-record-ben"]
    end
    n9 --> n10
    n11{{"loop_back (at most 2 passes)"}}
    n12["rent-judge"]
    n13["rent-build-raw-output"]
    n14["rent-synthesizer"]
  end
  n2 --> n3
  n3 --> n4
  n4 --> n5
  n5 --> n8
  n8 --> n11
  n11 --> n12
  n12 --> n13
  n13 --> n14
  n11 -. again .-> n4\
""")


def test_a_moderator_is_the_default_one_with_true_and_absent_with_none_or_false() -> None:
    """`moderator=True` is the block that `create_moderator` makes; None and False leave it out."""
    without = str(outline(debate(name="rent", debaters=SIDES)))
    assert str(outline(debate(name="rent", debaters=SIDES, moderator=False))) == without
    opened = str(outline(debate(name="rent", debaters=SIDES, moderator=True))).splitlines()
    assert opened[4:7] == snapshot(
        ["  → tap rent-open-round", "    → rent-moderator", "    → rent-stash-moderator-decision"]
    )
