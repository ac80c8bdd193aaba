from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.testing import FunctionModel
from tests.test_examples import load_script

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.testing import ModelRequest
    from flowdebate.testing.models import Reply


pytestmark = pytest.mark.anyio


async def test_better_system_wins_and_nothing_is_paid_for_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        prompt = str(request.messages[-1]["content"])
        prompts.append(prompt)
        scores = {
            label: dict.fromkeys(("correct", "clear"), 30 if f"[{label}] Great" in prompt else 90) for label in "AB"
        }
        return {"reasoning": "R.", "scores": scores, "verdict": "V."}

    monkeypatch.chdir(tmp_path)
    script: Any = load_script("compare_answers")
    model = FunctionModel(answer)
    await script.main(model)
    first = capsys.readouterr().out
    assert "terse: 2 of 2 rows" in first
    assert "correct 90, clear 90" in first
    await script.main(model)
    assert (capsys.readouterr().out, len(prompts)) == (first, 4)
