from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.testing import FunctionModel, forbid_real_models
from tests.service.test_review_page import reply
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest


def test_plan_is_reviewed_and_checked_by_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    with forbid_real_models():
        output = load_script("review").main(FunctionModel(reply))
    printed = capsys.readouterr().out
    assert "confirmed: major, plan.md:1: Nobody is <b>asked</b>" in printed
    assert "  Cleo: confirm. So it is." in printed
    assert "no confirmed blocker: holds" in printed
    assert output.gate is not None
