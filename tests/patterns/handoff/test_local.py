"""Handoffs by real models: a small one that writes nonsense, and a large one that hands over properly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate.models import LocalModel, ModelSettings, stop_local_servers
from flowdebate.models.local.gguf import local_model_installed
from flowdebate.patterns.handoff import HandoffMade
from tests.models.small_model import small_test_model
from tests.patterns.debates import events

from .speakers import FORMS, NAMES, SPEAKERS, morals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.patterns.handoff.schemas import TransitionForm

pytestmark = pytest.mark.anyio

PROPOSITION = "Our town should close its center to cars."


@pytest.fixture(scope="module")
def engines() -> Iterator[None]:
    """Stop the engines after the tests that share them."""
    yield
    stop_local_servers()


@pytest.mark.slow_model
@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize("form", FORMS)
async def test_small_model_completes_a_handoff_in_every_form(form: TransitionForm) -> None:
    pattern = morals(
        debaters=SPEAKERS,
        transition=form,
        model=LocalModel(small_test_model(), retry=None),
        on_failure="skip",
        settings=ModelSettings(max_tokens=24, timeout=100),
        max_turns=2,
    )
    result = await pattern.run(PROPOSITION, seed=3)
    handovers = events(result, HandoffMade)
    assert (result.output.turns, result.output.stop_reason, len(handovers)) == (2, "max_turns", 2)
    assert [event.agent_name for event in handovers] == ["Pro", *(event.next_agent_name for event in handovers[:-1])]
    assert all(event.next_agent_name in NAMES and event.next_agent_name != event.agent_name for event in handovers)
    assert len(result.output.transcript) + len([x for x in result.output.losses if x.instead == "skipped"]) == 2


@pytest.mark.slow_model
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("engines")
async def test_large_model_always_hands_over_in_json() -> None:
    if not local_model_installed():
        pytest.skip("the extras local and local-model are not installed")
    result = await morals(model=LocalModel(), settings=ModelSettings(timeout=600)).run(PROPOSITION, seed=3)
    assert [entry.chosen_by for entry in result.output.transcript] == ["speaker"] * 3
    assert all(20 < len(entry.text) < 1500 for entry in result.output.transcript)
