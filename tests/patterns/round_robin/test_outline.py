"""The pipelines that `round_robin()` makes, drawn."""

from __future__ import annotations

from inline_snapshot import snapshot

from flowdebate import outline, round_robin

from .panels import PANEL, bridge, refereed


def test_a_panel_is_a_loop_over_its_panelists() -> None:
    """Opening, a loop over the turns in declared order, the raw output; nobody finds anything."""
    assert str(outline(bridge())) == snapshot("""\
bridge
  → tap bridge-init-transcript
  → tap bridge-stamp-question
  → tap bridge-increment-round
  → tap bridge-turn-ada
    → bridge-panelist-ada
    → bridge-record-ada
  → tap bridge-turn-ben
    → bridge-panelist-ben
    → bridge-record-ben
  → loop_back (at most 2 passes) ↺ bridge-increment-round
  → bridge-build-output\
""")


def test_a_referee_stands_behind_the_turns_of_each_round() -> None:
    """Inside the loop, after all who speak: it can neither choose them nor end it."""
    assert str(outline(bridge(**refereed()))).splitlines()[4:-1] == snapshot(
        [
            "  → tap bridge-turn-ada",
            "    → bridge-panelist-ada",
            "    → bridge-record-ada",
            "  → tap bridge-turn-ben",
            "    → bridge-panelist-ben",
            "    → bridge-record-ben",
            "  → tap bridge-audit-round",
            "    → tap bridge-end-of-turns",
            "    → bridge-referee",
            "    → bridge-stash-audit",
            "  → loop_back (at most 2 passes) ↺ bridge-increment-round",
        ]
    )


def test_a_synthesizer_stands_at_the_end() -> None:
    """By default there is one; one of the application's own is held to the schema in a step of its own."""
    default = str(outline(round_robin(name="bridge", debaters=PANEL))).splitlines()
    assert default[-2:] == snapshot(["  → bridge-build-output", "  → bridge-synthesizer"])
    own = bridge(synthesizer=lambda raw: raw, output_schema=dict[str, int])
    assert str(outline(own)).splitlines()[-3:] == snapshot(
        ["  → bridge-build-output", "  → bridge-synthesizer", "  → bridge-validate-output"]
    )


def test_a_referee_is_the_default_one_with_true_and_absent_with_none_or_false() -> None:
    """`referee=True` is the block that `create_referee` makes; None and False leave it out."""
    assert str(outline(bridge(referee=False))) == str(outline(bridge()))
    assert str(outline(bridge(referee=True))) == str(outline(bridge(**refereed())))
