from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel, forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest


def test_audience_decides_and_a_reader_asks_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    prompts: list[str] = []

    def reply(request: ModelRequest) -> Any:
        prompts.append(request.block)
        if "audience" in request.block:
            choice = "cars should stay" if "before" in request.block else "cars should be banned"
            return {"reason": "So it seems.", "choice": choice}
        return f"Said as number {len(prompts)}."

    with forbid_real_models():
        raw = asyncio.run(load_script("formats").main(FunctionModel(reply), MemoryStore()))
    printed = capsys.readouterr().out
    assert printed.count(" asks: Said as number ") == 2
    assert "a nurse: cars should stay -> cars should be banned" in printed
    assert "The audience moved most toward: cars should be banned (from 0 to 3 of 3 votes)." in printed
    assert raw.rounds == 5
    turns, votes = 4 * 2 + 4, 3 * 3  # a cross-examination has two turns per side
    assert len(prompts) == turns + votes
