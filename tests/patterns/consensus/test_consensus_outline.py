"""The pipelines that `consensus()` makes, drawn: what a reviewer would read."""

from __future__ import annotations

from inline_snapshot import snapshot

from flowdebate import outline
from flowdebate.patterns.consensus.agents import create_conclusive_judge

from .debates import plan


def test_a_debate_has_a_role_for_each_agent_in_each_phase() -> None:
    """Context, proposals, a loop of critique and revision, the vote and its count."""
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
          → plan-criticise-ann
        → bob:
          → plan-criticise-bob
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


def test_a_judge_is_at_the_end_of_the_loop() -> None:
    """A judge of the rounds has a step of its own; an agent's own block has its role in every phase."""
    agents = [{"name": "ann", "block": lambda asked: asked}]
    drawn = outline(plan(agents=agents, max_rounds=5, judge=create_conclusive_judge(name="plan")))
    assert str(drawn) == snapshot("""\
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
