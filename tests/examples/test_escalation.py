from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flowdebate.testing import forbid_real_models
from tests.test_examples import load_script

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import gallery

if TYPE_CHECKING:
    import pytest


def test_easy_questions_end_early_and_hard_ones_are_debated(capsys: pytest.CaptureFixture[str]) -> None:
    with forbid_real_models():
        easy, hard = load_script("escalation").main(*gallery.models_of("escalation"))
    assert (easy.decided_by, easy.calls, easy.skipped) == ("second", 4, ["check", "debate"])
    assert (hard.decided_by, hard.stop_reason) == ("debate", "last step")
    assert [step.calls for step in hard.steps] == [1, 1, 2, 4]
    assert hard.output.verdict.winner == "no"
    assert "not needed: check, debate" in capsys.readouterr().out
