"""The example of quotes that are looked up, and of a graph of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.testing import FunctionModel, forbid_real_models
from tests.test_examples import load

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest

SAID = {
    "walker": "It says “1.5 times as many people walk there”.",
    "driver": "It says “takings fell by 60 per cent”.",
}


def answer(request: ModelRequest) -> Any:
    """One side that quotes rightly, one that does not, and a judge."""
    if request.output_schema is not None:
        return {"reasoning": "It was quoted.", "winner": None, "verdict": "It depends."}
    return SAID[request.block.rpartition("-")[2]]


def test_quotes_change_what_an_argument_weighs(capsys: pytest.CaptureFixture[str]) -> None:
    """The side that quotes rightly starts higher; without the last word against it, it is stronger still."""
    example = load("argument_graph")
    with forbid_real_models():
        result = example.main(FunctionModel(answer))
    assert [claim.base for claim in result.graph.claims] == [0.7, 0.2, 0.7, 0.0]
    printed = capsys.readouterr().out
    assert """base 0.70, strength 0.56 (quotes: 1 verified in "the town's report")""" in printed
    assert 'base 0.20, strength 0.20 (quotes: 1 not found: "takings fell by 60 per cent")' in printed
    assert "attacks: 2 → 1, 3 → 2, 4 → 3\nsupports: 3 → 1, 4 → 2\n" in printed
    assert "Without argument 4:\n" in printed
    assert "   3: 0.56 → 0.70\n   4: 0.20 → 0.00\n" in printed
    assert {change.claim for change in result.changes} == {"1", "2", "3", "4"}
