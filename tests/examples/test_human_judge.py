from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate.errors import OutputError
from flowdebate.testing import ScriptedModel, forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    from pathlib import Path


def test_mayor_decides_in_a_later_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example, store = load_script("human_judge"), tmp_path / "bridge.sqlite3"
    with forbid_real_models():
        run = example.begin(store, ScriptedModel("It is for people.", "Many live behind it."))
        assert run.status == "awaiting"
        with pytest.raises(OutputError, match='`winner` must be "close it" or "keep it open", or null'):
            example.judge(store, run.run_id, winner="walker", reasoning="Both.", verdict="Close it.")
        example.judge(store, run.run_id, winner="close it", reasoning="It answered.", verdict="On Sundays.")
        raw = example.go_on(store, run.run_id, ScriptedModel())
    assert [entry.text for entry in raw.transcript] == ["It is for people.", "Many live behind it."]
    printed = capsys.readouterr().out
    assert "waits for mayor:\n\nYou decide. Read both sides first.\n\nQuestion: Should the old bridge" in printed
    assert printed.endswith("close it: On Sundays.\n")
