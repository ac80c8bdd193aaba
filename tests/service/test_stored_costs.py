"""What a stored run cost, by known prices, wherever it is shown later."""

from __future__ import annotations

import pytest

from flowdebate import Debater, debate
from flowdebate.service.runs import document_of_run
from flowdebate.service.state import RunState
from flowdebate.store import MemoryStore
from tests.vendors import vendors

pytestmark = pytest.mark.anyio


async def test_a_stored_run_says_what_it_cost() -> None:
    """In its document and in the list, without a typed price."""
    sides = [Debater("ann", "rents should be capped"), Debater("ben", "rents should be free")]
    rent = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
    store = MemoryStore()
    with vendors():
        result = await rent.run("Should rents be capped?", model="openai/gpt-5-mini", store=store)
    run = await store.run(result.run_id)
    assert result.cost is not None
    assert result.cost > 0
    document = await document_of_run(run, [])
    assert document.cost == pytest.approx(result.cost)
    state = RunState.of(run, pattern="debate", here=False)
    assert state.summary is not None
    assert state.summary.cost == pytest.approx(result.cost)
