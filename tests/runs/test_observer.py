"""Observers, which wrap each call that is actually made, and nothing else."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import FailurePolicy, debate
from flowdebate.errors import ProviderFailed
from flowdebate.runs.events import CallStarted, ModelCalled
from flowdebate.runs.observer import Observer
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.runs.durable.patterns import PATTERNS, QUESTION, answer_to
from tests.service.test_service import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.models.base import ModelRequest

pytestmark = pytest.mark.anyio


class RecordingObserver(Observer):
    """An observer that records how each call begins and ends."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.open: set[str] = set()

    @contextmanager
    def call(self, started: CallStarted, request: ModelRequest, /) -> Iterator[None]:
        """Record the call."""
        self.open.add(started.path)
        end = "answered"
        try:
            yield
        except BaseException as error:
            end = type(error).__name__
            raise
        finally:
            self.open.remove(started.path)
            self.calls.append((started.path, end))


@pytest.mark.parametrize("name", PATTERNS)
async def test_each_call_of_every_pattern_is_observed_once(name: str) -> None:
    notes = RecordingObserver()
    result = await PATTERNS[name]().run(QUESTION, model=FunctionModel(answer_to), seed=1, observe=notes)
    assert sorted(path for path, _ in notes.calls) == sorted(
        event.path for event in result.events if isinstance(event, ModelCalled)
    )
    assert {end for _, end in notes.calls} == {"answered"}
    assert not notes.open


async def test_error_of_a_failed_call_passes_through_the_observer() -> None:
    def failing(request: ModelRequest) -> Any:
        if "bob" in request.block:
            raise ProviderFailed("overloaded", status=503)
        return answer_to(request)

    notes = RecordingObserver()
    pattern = debate(
        name="rent",
        debaters=SIDES,
        max_rounds=1,
        synthesizer=False,
        failures=FailurePolicy(on_failure="skip", quorum=1),
    )
    await pattern.run(QUESTION, model=FunctionModel(failing), observe=notes)
    assert {path.rpartition("/")[2]: end for path, end in notes.calls} == {
        "rent-debater-ann": "answered",
        "rent-debater-bob": "ProviderFailed",
        "rent-judge": "answered",
    }


async def test_replayed_and_reused_answers_are_not_observed() -> None:
    """A resumed run replays recorded answers and an unchanged fork reuses them, so no call is made."""
    store, notes = MemoryStore(), RecordingObserver()
    model = FunctionModel(answer_to)
    await PATTERNS["debate"]().run(QUESTION, model=model, store=store, run_id="r", observe=notes)
    assert len(notes.calls) == 6
    await PATTERNS["debate"]().resume("r", model=model, store=store, observe=notes)
    await PATTERNS["debate"]().fork("r", model=model, store=store, observe=notes)
    assert len(notes.calls) == 6
