from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.testing import ScriptedModel
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest


def test_each_role_has_its_own_model(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = {"reasoning": "It was measured.", "winner": None, "verdict": "Drop one a year."}
    keeper, mover = ScriptedModel("It costs little.", name="a/keep"), ScriptedModel("It costs much.", name="b/move")
    judge = ScriptedModel(verdict, name="c/judge")
    load_script("four_vendors").main({"keeper": keeper, "mover": mover, "judge": judge})
    lines = ["keeper: a/keep", "mover: b/move", "judge: c/judge", "", "Nobody: Drop one a year."]
    assert capsys.readouterr().out.splitlines() == lines
