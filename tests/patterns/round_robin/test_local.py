"""Panels of real models: a small one that writes nonsense, and a large one that sticks to its roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel, Field

from flowdebate import Persona, round_robin
from flowdebate.models import LocalModel, ModelSettings, stop_local_servers
from flowdebate.models.local.gguf import local_model_installed
from flowdebate.patterns.round_robin import create_referee, create_round_robin_transcript
from tests.models.small_model import small_test_model

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

QUESTION = "How can our town make the way to school safer for children who walk?"
PANEL = (
    Persona("Ruth", "traffic engineer", "You think of what makes drivers slow down."),
    Persona("Omar", "town treasurer", "You count what each idea costs a year, and who is to pay for it."),
)


class Plan(BaseModel):
    """A deliverable."""

    plan: str = Field(max_length=600)
    first_step: str = Field(max_length=200)


class Word(BaseModel):
    """A deliverable whose schema keeps it short, whatever the model writes."""

    word: str = Field(max_length=20)


@pytest.fixture
def engines() -> Iterator[None]:
    """Stop the engines after each test."""
    yield
    stop_local_servers()


@pytest.mark.slow_model
@pytest.mark.usefixtures("engines")
async def test_small_model_completes_a_panel() -> None:
    """The turns and the deliverable are written by a real engine.

    Even if its text is nonsense, the deliverable follows the schema.
    """
    model = LocalModel(small_test_model())
    pattern = round_robin(
        name="school",
        debaters=PANEL,
        max_rounds=1,
        referee=lambda _: {"notes": "Give figures."},
        output_schema=Word,
        model=model,
        settings=ModelSettings(max_tokens=40, timeout=100),
    )
    result = await pattern.run(QUESTION, seed=3)
    assert [entry.agent_name for entry in result.raw.transcript] == ["Ruth", "Omar"]
    assert all(entry.text.strip() for entry in result.raw.transcript)
    assert isinstance(result.output, Word)
    flags = [entry.flag for entry in result.raw.transcript]  # with only 40 tokens, entries may be truncated
    assert result.status == ("degraded" if any(flags) else "complete")
    assert result.usage.calls in (3, 4)  # an answer that violates the schema is retried once


@pytest.mark.slow_model
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("engines")
async def test_large_model_answers_the_question() -> None:
    if not local_model_installed():
        pytest.skip("the extras local and local-model are not installed")
    model, transcript = LocalModel(), create_round_robin_transcript()
    referee = create_referee(
        name="school", roster_names=[panelist.name for panelist in PANEL], transcript=transcript, model=model
    )
    pattern = round_robin(
        name="school",
        debaters=PANEL,
        max_rounds=1,
        transcript=transcript,
        referee=referee,
        output_schema=Plan,
        model=model,
        settings=ModelSettings(timeout=600),
    )
    result = await pattern.run(QUESTION, seed=3)
    assert (result.status, isinstance(result.output, Plan)) == ("complete", True)
    first, second = (entry.text for entry in result.raw.transcript)
    assert first != second
    assert all(40 < len(text) < 1500 for text in (first, second))
    assert {assessment.agent_name for assessment in result.raw.audits[0].assessments} == {"Ruth", "Omar"}
    words = f"{first} {second} {result.output.plan}".lower()
    assert any(word in words for word in ("school", "child", "traffic", "cross", "speed"))
