"""Interrupted runs are resumed: nothing is paid for twice, and the result matches that of an uninterrupted run."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdebate import handler
from flowdebate.errors import FlowDebateError, ProviderFailed
from flowdebate.store.base import COMPLETE
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from tests.profiles import example_count

from .patterns import PATTERNS, QUESTION, answer_to

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.context import Context
    from flowdebate.runs.result import RunResult

pytestmark = pytest.mark.anyio

LAW = settings(max_examples=example_count(12), suppress_health_check=list(HealthCheck))
_TIMES = {"at", "seconds", "createdAt", "updatedAt", "startedAt", "finishedAt", "claimedAt", "completedAt"}


class Paid:
    """A model that counts its calls and cancels the run at a chosen call."""

    def __init__(self, *, failing: float = 0.0, stop: int | None = None) -> None:
        self.requests: list[str] = []
        self.failed = False
        self.task: asyncio.Task[Any] | None = None
        self._failing = failing
        self._stop = stop
        self.model = FunctionModel(self._answer)

    async def _answer(self, request: ModelRequest) -> Any:
        await asyncio.sleep(0)  # simultaneous calls are all made before any of them is answered
        if len(self.requests) == self._stop:
            assert self.task is not None
            self.task.cancel()
            await asyncio.sleep(60)
        self.requests.append(json.dumps([request.block, request.messages], default=str))
        try:
            return answer_to(request, failing=self._failing)
        except ProviderFailed:
            self.failed = True
            raise


def result_without_times(result: RunResult[Any]) -> Any:
    """Return the result of a run without its times."""
    trails = [trail.to_wire() for trail in result.task_collections]
    raw = None if result.raw is None else result.raw.model_dump(mode="json")
    output = result.output if isinstance(result.output, (str, type(None))) else result.output.model_dump(mode="json")
    return strip_times([result.status, output, raw, trails, str(result.usage)])


def strip_times(value: Any) -> Any:
    """Return `value` without times."""
    if isinstance(value, dict):
        return {key: strip_times(part) for key, part in value.items() if key not in _TIMES}
    return [strip_times(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", PATTERNS)
@LAW
@given(data=st.data(), failing=st.sampled_from([0.0, 0.0, 0.2]), seed=st.integers(0, 3))
async def test_run_interrupted_at_any_call_still_has_the_same_result(
    name: str, data: st.DataObject, failing: float, seed: int
) -> None:
    pattern = PATTERNS[name]()
    full = Paid(failing=failing)
    undisturbed = await run_outcome(pattern.run(QUESTION, model=full.model, seed=seed))
    store = MemoryStore()
    paid: list[str] = []
    cuts = data.draw(st.lists(st.integers(0, len(full.requests)), max_size=3))
    ended: Any = None
    for life, stop in enumerate([*cuts, None]):
        if life and (await store.run("it")).status in COMPLETE:  # if the judge failed, it would be called again
            break
        partial_run = Paid(failing=failing, stop=stop)
        if life:
            call = pattern.resume("it", model=partial_run.model, store=store)
        else:
            call = pattern.run(QUESTION, model=partial_run.model, seed=seed, store=store, run_id="it")
        partial_run.task = asyncio.ensure_future(run_outcome(call))
        ended = await partial_run.task
        paid += partial_run.requests
        assert ended is not None or (await store.run("it")).status == "interrupted"
    if full.failed:  # a failed call that was not abandoned before the interruption is made and counted again
        ended, undisturbed = ended[:-1], undisturbed[:-1]
    assert ended == undisturbed
    if full.failed:
        assert len(paid) - len(set(paid)) <= len(cuts)
        # if one half fails, the other half stops wherever it is, so the number of calls varies
        assert name == "mirrored" or set(paid) == set(full.requests)
    else:
        assert sorted(paid) == sorted(full.requests)


@pytest.mark.parametrize(
    ("name", "calls"),
    [("by letter", ["ballot"] * 4 + ["quote"] * 2), ("reasons and letter", ["reasons", "ballot"] * 2)],
)
async def test_letter_judge_interrupted_at_any_call_has_the_same_verdict(name: str, calls: list[str]) -> None:
    """Ballots, reasons and quotes are separate steps, so none of them has to be paid for again."""
    pattern = PATTERNS[name]()
    full = Paid()
    undisturbed = await run_outcome(pattern.run(QUESTION, model=full.model, seed=1))
    turns = 4
    assert len(full.requests) == turns + len(calls)
    for stop in range(turns, len(full.requests)):
        store, first, second = MemoryStore(), Paid(stop=stop), Paid()
        first.task = asyncio.ensure_future(
            run_outcome(pattern.run(QUESTION, model=first.model, seed=1, store=store, run_id="it"))
        )
        assert await first.task is None
        assert len(first.requests) == stop
        assert await run_outcome(pattern.resume("it", model=second.model, store=store)) == undisturbed
        assert sorted([*first.requests, *second.requests]) == sorted(full.requests)
        steps = [step.key for step in await store.steps("it") if "judge" in step.key]
        kinds = [
            kind for kind in ("ballot", "reasons", "quote") for key in steps if key.rsplit("/", 1)[-1].startswith(kind)
        ]
        assert sorted(kinds) == sorted(calls), steps


async def run_outcome(call: Awaitable[RunResult[Any]]) -> Any:
    """Return the result or the failure of a run, or `None` if it was cancelled."""
    try:
        return result_without_times(await call)
    except FlowDebateError as error:
        return [type(error).__name__, str(error)]
    except asyncio.CancelledError:
        return None


@pytest.mark.parametrize(
    ("options", "variable", "own_model", "open_"),
    [
        ({"model": "ollama/run"}, None, "ollama/own", "ollama/run"),
        ({"override_model": "ollama/run"}, None, "ollama/run", "ollama/run"),
        ({"model": {"chat": "ollama/run"}}, None, "ollama/own", "ollama/run"),
        ({}, "ollama/env", "ollama/own", "ollama/env"),
    ],
    ids=["a default", "an override", "by intent", "the environment's"],
)
async def test_resumed_run_uses_its_original_models(
    options: Any, variable: str | None, own_model: str, open_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment has changed when the run is resumed, but its models have not.

    Only an override takes precedence over a block's own model.
    """
    names: list[list[str]] = []

    @handler(name="asks")
    def asks(_: object, ctx: Context) -> None:
        names.append([ctx.model("ollama/own").name, ctx.model().name])

    monkeypatch.delenv("FLOWDEBATE_MODEL", raising=False)
    if variable is not None:
        monkeypatch.setenv("FLOWDEBATE_MODEL", variable)
    store = MemoryStore()
    result = await asks.run(None, store=store, **options)
    monkeypatch.setenv("FLOWDEBATE_MODEL", "ollama/other")
    await asks.resume(result.run_id, store=store)
    assert names == [[own_model, open_]] * 2
