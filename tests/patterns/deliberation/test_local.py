"""Deliberations by real models that run in the test process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate.models import LocalModel, ModelSettings, stop_local_servers
from flowdebate.models.local.gguf import local_model_installed
from flowdebate.patterns.deliberation import render_deliberation
from tests.models.small_model import small_test_model
from tests.test_examples import load_script

from .deliberations import TOPIC, deal

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def small() -> Iterator[LocalModel]:
    """Load a very small model, which writes nonsense."""
    yield LocalModel(small_test_model(), settings=ModelSettings(max_tokens=40))
    stop_local_servers()


@pytest.mark.slow_model
def test_small_model_produces_a_valid_report(small: LocalModel) -> None:
    output = deal(max_rounds=1, report="text").run_sync(TOPIC, model=small).output
    assert [entry.name for entry in output.history] == ["bull", "bear"]
    assert all(entry.text.strip() for entry in output.history)
    assert len(output.reports) == 1
    assert output.is_settled == (output.reports[0].status == "SETTLED")
    assert "ROUND 1" in render_deliberation(output)


@pytest.fixture
def large() -> Iterator[LocalModel]:
    """Load the model "local"."""
    if not local_model_installed():
        pytest.skip("the extras local and local-model are not installed")
    yield LocalModel()
    stop_local_servers()


@pytest.mark.slow_model
@pytest.mark.timeout(600)
def test_large_model_deliberates_on_the_investment(large: LocalModel, capsys: pytest.CaptureFixture[str]) -> None:
    output = load_script("investment").main(large)
    assert 1 <= output.rounds <= 3
    assert len(output.history) == 2 * output.rounds
    assert len({entry.text for entry in output.history if entry.round == 1}) == 2
    assert all(40 < len(entry.text) < 1500 for entry in output.history if entry.round == 1)
    assert all("invest" in text.lower() for text in (entry.text for entry in output.history if entry.round == 1))
    assert len([report for report in output.reports if report is not None and report.summary]) >= 1
    assert "  [Bull  —  Optimistic investor]" in capsys.readouterr().out
