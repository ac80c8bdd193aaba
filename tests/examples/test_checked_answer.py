from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flowdebate.testing import forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import gallery


def test_only_claims_with_a_verified_quote_change_the_draft(capsys: pytest.CaptureFixture[str]) -> None:
    with forbid_real_models():
        output = load_script("checked_answer").main(*gallery.models_of("checked_answer"))
    assert [claim.ruling for claim in output.claims] == ["holds", "cannot_tell"]
    assert [claim.judged for claim in output.claims] == ["holds", "holds"]
    assert output.outcome == "revised"
    printed = capsys.readouterr().out
    assert "is in lease.md" in printed
    assert "is nowhere" in printed
    assert "its quotes do not exist" in printed
    assert "revised: 1 of 2 claims held up" in printed
