"""Outlines of the pipelines that patterns build."""

from __future__ import annotations

from inline_snapshot import snapshot

from flowdebate import Persona, StandIn, debate, outline, round_robin
from flowdebate.patterns.consensus.agents import create_conclusive_judge
from flowdebate.testing import ScriptedModel
from tests.patterns.consensus.debates import plan
from tests.patterns.debates import SIDES, moderated
from tests.patterns.deliberation.deliberations import PERSONAS, deal
from tests.patterns.round_robin.panels import PANEL, bridge, refereed


def test_debate_outline_has_a_turn_per_debater_in_a_loop() -> None:
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


def test_synthesizer_is_the_last_step() -> None:
    lines = str(outline(debate(name="rent", debaters=SIDES))).splitlines()
    assert lines[-2:] == snapshot(["  → rent-build-raw-output", "  → rent-synthesizer"])


def test_custom_synthesizers_are_followed_by_a_validating_step() -> None:
    rent = debate(name="rent", debaters=SIDES, synthesizer=lambda raw: raw, output_schema=dict[str, int])
    assert str(outline(rent)).splitlines()[-3:] == snapshot(
        ["  → rent-build-raw-output", "  → rent-synthesizer", "  → rent-validate-output"]
    )


def test_moderator_opens_each_round_and_chooses_speakers() -> None:
    rent = debate(name="rent", debaters=SIDES, synthesizer=False, max_rounds=4, **moderated())
    assert str(outline(rent)) == snapshot("""\
rent
  → tap rent-init-transcript
  → tap rent-stamp-question
  → tap rent-increment-round
  → tap rent-open-round
    → rent-moderator
    → rent-stash-moderator-decision
  → tap rent-turns (declared)
    → rent-turn-anna
      → rent-debater-anna
      → rent-record-anna
    → rent-turn-ben
      → rent-debater-ben
      → rent-record-ben
  → loop_back (at most 4 passes) ↺ rent-increment-round, unless done (moderator)
  → rent-judge
  → rent-build-raw-output\
""")


def test_outlines_can_be_rendered_as_flowcharts() -> None:
    """The Mermaid flowchart includes the edge back to the start of the loop."""
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


def test_moderator_option_may_be_true_false_or_none() -> None:
    without = str(outline(debate(name="rent", debaters=SIDES)))
    assert str(outline(debate(name="rent", debaters=SIDES, moderator=False))) == without
    opened = str(outline(debate(name="rent", debaters=SIDES, moderator=True))).splitlines()
    assert opened[4:7] == snapshot(
        ["  → tap rent-open-round", "    → rent-moderator", "    → rent-stash-moderator-decision"]
    )


def test_personas_speak_concurrently_before_the_moderator() -> None:
    assert str(outline(deal())) == snapshot("""\
deal
  → tap deal-init-transcript
  → tap deal-stamp-question
  → tap deal-increment-round
  → tap deal-debate-round
    → parallel
      → bull: deal-turn-bull
        → deal-debater-bull
        → deal-hear-bull
      → bear: deal-turn-bear
        → deal-debater-bear
        → deal-hear-bear
    → deal-record-round
  → tap deal-end-of-turns
  → tap deal-close-round
    → deal-moderator
    → deal-stash-report
  → loop_back (at most 3 passes) ↺ deal-increment-round, unless settled (moderator)
  → deal-build-output\
""")


def test_failure_policies_do_not_change_the_outline() -> None:
    """Handling a failure is part of the role rather than a separate step."""
    guarded = deal(on_failure=StandIn(ScriptedModel()), quorum=1, turn_timeout=5, round_timeout=9)
    assert str(outline(guarded)) == str(outline(deal()))


def test_custom_blocks_can_fill_deliberation_roles() -> None:
    def speak(topic: object) -> str:
        return "said"

    lines = str(outline(deal(debaters=[Persona("owl", block=speak), *PERSONAS], moderator=speak, max_rounds=1)))
    assert "owl: deal-turn-owl\n        → deal-debater-owl\n" in lines
    assert "→ tap deal-close-round\n    → deal-moderator\n" in lines


def test_rounds_without_a_moderator_have_no_closing_step() -> None:
    """With `moderator=False`, the deliberation ends after the configured number of rounds and has no decision."""
    assert "deal-close-round" not in str(outline(deal(moderator=False)))
    model = ScriptedModel("In.", "Out.")
    output = deal(moderator=False, max_rounds=1).run_sync("Invest?", model=model).output
    assert (output.stop_reason, output.reports, output.final_decision, output.is_settled) == (
        "max_rounds",
        [],
        None,
        False,
    )


def test_panel_outline_is_a_loop_over_the_panelists() -> None:
    assert str(outline(bridge())) == snapshot("""\
bridge
  → tap bridge-init-transcript
  → tap bridge-stamp-question
  → tap bridge-increment-round
  → tap bridge-turn-ada
    → bridge-debater-ada
    → bridge-record-ada
  → tap bridge-turn-ben
    → bridge-debater-ben
    → bridge-record-ben
  → loop_back (at most 2 passes) ↺ bridge-increment-round
  → bridge-build-output\
""")


def test_referee_follows_the_turns_of_each_round() -> None:
    """The referee is inside the loop, but it can neither choose the speakers nor end the loop."""
    assert str(outline(bridge(**refereed()))).splitlines()[4:-1] == snapshot(
        [
            "  → tap bridge-turn-ada",
            "    → bridge-debater-ada",
            "    → bridge-record-ada",
            "  → tap bridge-turn-ben",
            "    → bridge-debater-ben",
            "    → bridge-record-ben",
            "  → tap bridge-audit-round",
            "    → tap bridge-end-of-turns",
            "    → bridge-referee",
            "    → bridge-stash-audit",
            "  → loop_back (at most 2 passes) ↺ bridge-increment-round",
        ]
    )


def test_panel_synthesizer_is_the_last_step() -> None:
    default = str(outline(round_robin(name="bridge", debaters=PANEL))).splitlines()
    assert default[-2:] == snapshot(["  → bridge-build-output", "  → bridge-synthesizer"])
    custom = bridge(synthesizer=lambda raw: raw, output_schema=dict[str, int])
    assert str(outline(custom)).splitlines()[-3:] == snapshot(
        ["  → bridge-build-output", "  → bridge-synthesizer", "  → then_if bridge-validate-output"]
    )


def test_referee_option_may_be_true_false_or_none() -> None:
    assert str(outline(bridge(referee=False))) == str(outline(bridge()))
    assert str(outline(bridge(referee=True))) == str(outline(bridge(**refereed())))


def test_consensus_outline_has_a_role_per_agent_and_phase() -> None:
    assert str(outline(plan(("ann", "bob")))) == snapshot("""\
plan
  → tap plan-stamp-question
  → plan-phases
    → tap plan-initializing
    → tap plan-context
    → tap plan-generating-proposals
    → tap_each
      → plan-proposal
        → ann:
          → plan-propose-ann
        → bob:
          → plan-propose-bob
    → tap plan-check-proposals
    → tap plan-open-round
    → tap_each
      → plan-critique
        → ann:
          → plan-criticize-ann
        → bob:
          → plan-criticize-bob
    → tap plan-round-n-revision
    → tap_each
      → plan-revision
        → ann:
          → plan-revise-ann
        → bob:
          → plan-revise-bob
    → tap plan-convergence
    → loop_back (at most 3 passes) ↺ plan-open-round
    → tap plan-voting
    → tap_each
      → plan-vote
        → ann:
          → plan-vote-ann
        → bob:
          → plan-vote-bob
    → tap plan-count-votes\
""")


def test_consensus_judge_is_at_the_end_of_the_loop() -> None:
    agents = [{"name": "ann", "block": lambda request: request}]
    drawing = outline(plan(agents=agents, max_rounds=5, judge=create_conclusive_judge(name="plan")))
    assert str(drawing) == snapshot("""\
plan
  → tap plan-stamp-question
  → plan-phases
    → tap plan-initializing
    → tap plan-context
    → tap plan-generating-proposals
    → tap_each
      → plan-proposal
        → ann:
          → plan-agent-ann
    → tap plan-check-proposals
    → tap plan-open-round
    → tap_each
      → plan-critique
        → ann:
          → plan-agent-ann
    → tap plan-round-n-revision
    → tap_each
      → plan-revision
        → ann:
          → plan-agent-ann
    → tap plan-convergence
    → tap plan-conclusive
    → loop_back (at most 5 passes) ↺ plan-open-round
    → tap plan-voting
    → tap_each
      → plan-vote
        → ann:
          → plan-agent-ann
    → tap plan-count-votes\
""")
