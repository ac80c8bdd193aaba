from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

MAIN = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "stop_early.py"))["main"]
VERDICT = {"reasoning": "It held.", "winner": None, "verdict": "Both."}
WORDS = (
    *("alder", "birch", "cedar", "elm", "fir", "hazel", "juniper", "larch"),
    *("maple", "oak", "pine", "rowan", "sorrel", "thuja", "willow", "yew"),
)


@pytest.mark.parametrize(
    ("say", "session", "expected"),
    [
        (lambda _: "Always the same words.", {}, (2, "repeated(0.95)")),
        (lambda number: f"{WORDS[number % 16]} {number}", {}, (2, "rounds(2) & both name a figure")),
        (lambda number: WORDS[number % 16], {"enough": True}, (1, 'flag("enough")')),
        (lambda number: WORDS[number % 16] * 30_000, {}, (1, "tokens(30000)")),
        (lambda number: WORDS[number % 16], {}, (4, "max_rounds")),
    ],
    ids=["repetition", "own rule", "flag", "tokens", "rounds"],
)
def test_debate_can_end_for_each_reason(say: Any, session: dict[str, Any], expected: tuple[int, str]) -> None:
    turns = 0

    def answer(request: ModelRequest) -> Any:
        nonlocal turns
        if request.block.endswith("judge"):
            return VERDICT
        turns += 1
        return say(turns)

    raw = MAIN(FunctionModel(answer), session=session)
    assert (raw.rounds, raw.stop_reason) == expected
