from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.errors import ProviderFailed
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel, forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest


def test_resumed_batch_pays_once_per_question(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("many_questions")
    down = True
    paid_calls = 0

    def answer(request: ModelRequest) -> Any:
        nonlocal paid_calls
        paid_calls += 1
        if down and "buses" in str(request.messages):
            raise ProviderFailed("down")
        if request.output_schema is None:
            return "An argument."
        return {"reasoning": "r", "winner": "it should be left as it is", "verdict": "v"}

    store = MemoryStore()
    with forbid_real_models():
        first = example.main(FunctionModel(answer), store)
        down = False
        calls = paid_calls
        second = example.main(FunctionModel(answer), store)
    printed = capsys.readouterr().out
    assert (first.statuses, second.statuses) == ({"complete": 3, "failed": 1}, {"complete": 4})
    assert (calls, paid_calls) == (3 * 3 + 1, 3 * 3 + 1 + 3)
    assert "A2: failed: down" in printed
    assert "B1, housing: it should be left as it is (from the store)" in printed
    assert "4 of 4 done, 13 calls: {'Omar': 4}" in printed
