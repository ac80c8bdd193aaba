from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.testing import FunctionModel, forbid_real_models
from tests.patterns.council.councils import reply
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest


def test_council_ranks_its_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with forbid_real_models():
        output = load_script("council").main(FunctionModel(reply))
    assert output.answer == "Wait a week."
    assert {rank.reviews for rank in output.ranking} == {3}
    printed = capsys.readouterr().out
    assert "self-preference" in printed
    assert "agreement W = " in printed
    assert "Still open: How long to wait." in printed
