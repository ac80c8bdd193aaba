"""The example of a recount: every rule, and no call after the debate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate.testing import FunctionModel
from tests.test_examples import load

if TYPE_CHECKING:
    import pytest

    from flowdebate.testing import ModelRequest


def test_five_ballots_have_three_winners(capsys: pytest.CaptureFixture[str]) -> None:
    """By the rule; and the model that argues is asked once for each argument, as it is without deciding again."""
    asked = []

    def argue(request: ModelRequest) -> str:
        asked.append(request.block)
        return "An argument."

    found = asyncio.run(load("recount").main(FunctionModel(argue)))
    assert len(asked) == 3
    winners = {row.rule: row.winner for row in found.rows}
    assert winners["mean"] == winners["condorcet"] == winners["borda"] == "build homes"
    assert winners["plurality"] is None
    assert found.per_ballot[0].winner == "cap rents"
    assert not found.agree
    assert f"- {found.line}" in capsys.readouterr().out
