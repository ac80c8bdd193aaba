"""Costs of stored runs in every front end, computed from known prices."""

from __future__ import annotations

import re
from io import StringIO

import pytest

from flowdebate import Debater, debate
from flowdebate.cli.terminal.page import Page
from flowdebate.service.runs import document_of_run
from flowdebate.service.state import RunState
from flowdebate.store import MemoryStore
from flowdebate.ui.markdown import report
from flowdebate.web.report import document_html
from tests.vendors import vendors

pytestmark = pytest.mark.anyio
SIDES = [Debater("ann", "rents should be capped"), Debater("ben", "rents should be free")]
RENT = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)


async def test_stored_run_includes_its_cost() -> None:
    store = MemoryStore()
    with vendors():
        result = await RENT.run("Should rents be capped?", model="openai/gpt-5-mini", store=store)
    run = await store.run(result.run_id)
    assert result.cost is not None
    assert result.cost > 0
    document = await document_of_run(run, [])
    assert document.cost == pytest.approx(result.cost)
    state = RunState.of(run, pattern="debate", is_here=False)
    assert state.summary is not None
    assert state.summary.cost == pytest.approx(result.cost)
    assert document.prices == state.summary.prices == result.prices


async def test_displayed_costs_have_a_currency_and_price_date() -> None:
    """For a run stored before prices were recorded, only the number is displayed."""
    store = MemoryStore()
    with vendors():
        result = await RENT.run("Should rents be capped?", model="openai/gpt-5-mini", store=store)
    document = await document_of_run(await store.run(result.run_id), [])
    line = document.totals[-1]
    assert re.fullmatch(r"Cost: 0\.\d+ USD by genai-prices [\d.]+ of \d{4}-\d\d-\d\d", line)
    screen = StringIO()
    Page(screen, ()).ending(document)
    assert line in " ".join(screen.getvalue().split())
    assert f"- {line}" in report(document)
    assert line in document_html(document)
    assert document.to_data()["prices"] == result.prices
    before = document.model_copy(update={"prices": None})
    assert before.totals[-1] == " ".join(line.split()[:2])
    assert "prices" not in before.to_data()
    hostile = document.model_copy(update={"prices": "USD by\n# <b>me</b>\x1b[2J"})
    assert "\n# <b>" not in report(hostile)
    assert "<b>me" not in document_html(hostile)
