"""Patterns, models and stores shared by an application's threads."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.models import CircuitBreaker, ConcurrencyLimit, Fallback, RateLimit, Retrying, Timeout
from flowdebate.store import MemoryStore, SqliteStore
from flowdebate.testing import FunctionModel, ModelRequest
from tests.cases import slow_but_first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTIONS = [f"Should city {number} build trams?" for number in range(24)]


def answer(request: ModelRequest) -> Any:
    """Compute the answer from the request alone."""
    if request.output is None:
        return f"{request.block} on {request.messages[-1]['content'][-40:]}"
    if request.block.endswith("moderator"):
        return {"nextSpeakers": ["ann", "bob"], "briefing": "Ann and Bob differ.", "newAngle": None, "done": False}
    return {"reasoning": "It was answered.", "winner": "build trams", "verdict": "Build them."}


@pytest.fixture
def fast_switching() -> Iterator[None]:
    """Make threads switch a thousand times as often as by default."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("fast_switching")
@pytest.mark.parametrize("place", slow_but_first(["path", "object", "memory", "nowhere"]))
def test_threads_share_a_pattern_a_model_and_a_store(place: str, tmp_path: Path) -> None:
    """Each run must have the same result as if it ran alone, with no trace of the others."""
    model = FunctionModel(answer)
    policies = Fallback(
        CircuitBreaker(RateLimit(ConcurrencyLimit(Retrying(Timeout(model, 30)), 2), requests=60_000)), model
    )
    trams = debate(
        name="trams",
        debaters=[Debater("ann", "build trams"), Debater("bob", "buy buses")],
        max_rounds=2,
        moderator=True,
    )
    path = tmp_path / "runs.sqlite3"
    store: Any = {"nowhere": False, "memory": MemoryStore(), "object": SqliteStore(path), "path": str(path)}[place]

    def run(question: str) -> Any:
        run_id = question.replace(" ", "-") if store else None
        return trams.run_sync(question, model=policies, seed=7, store=store, run_id=run_id)

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(run, QUESTIONS))
    for question, result in zip(QUESTIONS, together, strict=True):
        alone: Any = trams.run_sync(question, model=model, seed=7, store=False)
        assert (result.output, result.raw, event_paths(result)) == (alone.output, alone.raw, event_paths(alone))
        if store:
            again = trams.run_sync(question, model=model, seed=7, store=store, run_id=result.run_id, if_exists="resume")
            assert (again.output, again.usage.calls) == (result.output, alone.usage.calls)


def event_paths(result: Any) -> list[tuple[str, str]]:
    """Return the events together with their paths."""
    return [(event.kind, event.path) for event in result.events]
