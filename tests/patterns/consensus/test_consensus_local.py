"""Consensus debates on real local models: a small one that writes nonsense, and a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate import ConvergenceOptions, Persona, VotingOptions
from flowdebate.models import LocalModel, ModelSettings, stop_local_servers
from flowdebate.models.local.gguf import local_model_installed
from tests.models.small_model import small_test_model

from .debates import check_emitted, plan, within

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

TASK = "How can our town make the way to school safer for children who walk?"
AGENTS = (
    Persona("Ruth", "traffic engineer", "You think of what makes drivers slow down."),
    Persona("Omar", "town treasurer", "You count what each idea costs a year, and who is to pay for it."),
)


@pytest.fixture
def engines() -> Iterator[None]:
    """Stop the engines after each test."""
    yield
    stop_local_servers()


@pytest.mark.slow_model
@pytest.mark.usefixtures("engines")
async def test_small_model_completes_a_debate() -> None:
    """A real engine writes the proposals and votes.

    It writes nonsense, so some answers may be invalid and count as failures. Critiques are left out, because a critique
    of nonsense is long and tests no more than a vote does.
    """
    model = LocalModel(small_test_model())
    pattern = plan(
        agents=[*AGENTS[:1]],
        max_rounds=1,
        model=model,
        settings=ModelSettings(max_tokens=30, timeout=100),
        voting=VotingOptions(min_votes=1),
    )
    result = await pattern.run(TASK, seed=1)
    check_emitted(result)
    output = result.output
    assert result.status in ("complete", "degraded", "no_verdict")
    (proposal,) = output.final_proposals
    assert proposal.text.strip()
    assert output.tally is not None
    assert output.tally.valid + output.tally.spoiled + output.tally.failed == 1
    assert all(failure.phase == "vote" or failure.instead == "cut_off" for failure in output.losses)


@pytest.mark.slow_model
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("engines")
async def test_large_model_proposes_criticizes_revises_and_votes() -> None:
    if not local_model_installed():
        pytest.skip("the extras local and local-model are not installed")
    pattern = plan(
        agents=AGENTS,
        max_rounds=1,
        model=LocalModel(),
        convergence=ConvergenceOptions(),
        failures=within(None),
        settings=ModelSettings(timeout=600),
    )
    result = await pattern.run(TASK, seed=2)
    check_emitted(result)
    output = result.output
    assert output.losses == []
    for proposal in (*output.proposals, *output.final_proposals):
        assert 60 < len(proposal.text) < 2500
    assert len({proposal.text for proposal in output.proposals}) == 2
    assert [(critique.critic, critique.target) for critique in output.rounds[0].critiques] == [
        ("Ruth", "Omar"),
        ("Omar", "Ruth"),
    ]
    assert all(critique.reasoning and critique.issues for critique in output.rounds[0].critiques)
    assert all(proposal.position for proposal in output.final_proposals)
    assert output.tally is not None
    assert (output.tally.valid, output.tally.spoiled, output.tally.failed) == (2, 0, 0)
    assert all(ballot.reasoning for ballot in output.ballots)
