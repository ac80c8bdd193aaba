from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.testing import FunctionModel, forbid_real_models
from tests.test_examples import load_script

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest

SAID = {
    "walker": "It says “1.5 times as many people walk there”.",
    "driver": "It says “takings fell by 60 per cent”.",
}


def answer(request: ModelRequest) -> Any:
    """Answer as a side that quotes accurately, a side that misquotes, and a judge."""
    if request.output_schema is not None:
        return {"reasoning": "It was quoted.", "winner": None, "verdict": "It depends."}
    return SAID[request.block.rpartition("-")[2]]


def test_each_argument_is_printed_with_the_status_of_its_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script("verified_quotes")
    with forbid_real_models():
        raw = example.main(FunctionModel(answer))
    assert [[quote.status for quote in quotes] for quotes in raw.quotes] == [["verified"], ["unverified"]] * 2
    printed = capsys.readouterr().out
    assert """(quotes: 1 verified in "the town's report")""" in printed
    assert '(quotes: 1 not found: "takings fell by 60 per cent")' in printed
