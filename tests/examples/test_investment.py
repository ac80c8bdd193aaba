from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.testing import ScriptedModel, forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest


def test_investment_is_settled_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(
        "AI is on a Moore's Law trajectory.",
        "The average AI startup burns $2M a month.",
        {"summary": "Bull sees growth. Bear sees burn.", "status": "CONTINUE", "decision": None},
        "I would agree to a tranche.",
        "So would I, with milestones.",
        {"summary": "Both want milestones.", "status": "SETTLED", "decision": "Allocate $500K now."},
    )
    example = load_script("investment")
    with forbid_real_models():
        output = example.main(model)
    model.assert_complete()
    assert (output.rounds, output.is_settled, output.final_decision) == (2, True, "Allocate $500K now.")
    assert output.topic == example.TOPIC
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.strip("=-. ")]
    assert lines == [
        "DEBATE PATTERN — Investment Decision",
        "  ROUND 1",
        "  [Bull  —  Optimistic investor]",
        "  AI is on a Moore's Law trajectory.",
        "  [Bear  —  Cautious risk analyst]",
        "  The average AI startup burns $2M a month.",
        "  MODERATOR SUMMARY",
        "  SUMMARY: Bull sees growth. Bear sees burn.",
        "  STATUS: CONTINUE",
        "  ROUND 2",
        "  [Bull  —  Optimistic investor]",
        "  I would agree to a tranche.",
        "  [Bear  —  Cautious risk analyst]",
        "  So would I, with milestones.",
        "  MODERATOR SUMMARY",
        "  SUMMARY: Both want milestones.",
        "  STATUS: SETTLED",
        "  DECISION: Allocate $500K now.",
        "  FINAL DECISION",
        "  Allocate $500K now.",
        "  Debate concluded after 2 round(s)",
        "  Settled by consensus: True",
    ]
    assert "You are Bull" in model.calls[0].prompt
