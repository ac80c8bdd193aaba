"""The pipelines that `deliberation()` makes, drawn: what a reviewer would read."""

from __future__ import annotations

from inline_snapshot import snapshot

from flowdebate import Persona, StandIn, outline
from flowdebate.testing import ScriptedModel

from .deliberations import PERSONAS, deal


def test_all_speak_at_once_and_the_moderator_closes_the_round() -> None:
    """A loop over the turns, which stand beside each other, what was said, and the report."""
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


def test_losses_and_deadlines_change_nothing_of_the_drawing() -> None:
    """What guards a role is no step."""
    guarded = deal(on_failure=StandIn(ScriptedModel()), quorum=1, turn_timeout=5, round_timeout=9)
    assert str(outline(guarded)) == str(outline(deal()))


def test_blocks_of_ones_own_take_the_roles() -> None:
    """A persona's and the moderator's, under the names of their roles."""

    def speak(topic: object) -> str:
        return "said"

    lines = str(outline(deal(debaters=[Persona("owl", block=speak), *PERSONAS], moderator=speak, max_rounds=1)))
    assert "owl: deal-turn-owl\n        → deal-debater-owl\n" in lines
    assert "→ tap deal-close-round\n    → deal-moderator\n" in lines


def test_without_a_moderator_nothing_closes_a_round() -> None:
    """`moderator=False` leaves the report out: the deliberation ends by its rounds, and without a decision."""
    assert "deal-close-round" not in str(outline(deal(moderator=False)))
    model = ScriptedModel("In.", "Out.")
    output = deal(moderator=False, max_rounds=1).run_sync("Invest?", model=model).output
    assert (output.stop_reason, output.reports, output.final_decision, output.is_settled) == (
        "max_rounds",
        [],
        None,
        False,
    )
