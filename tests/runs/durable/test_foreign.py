"""Imported runs: their headers are untrusted input."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Limits, generator
from flowdebate.errors import ConfigurationError, FlowDebateError, StoreError
from flowdebate.store import MemoryStore, export_run, import_runs
from flowdebate.testing import FunctionModel

ASK: Any = generator(name="ask", history=True)
NAMES = ("state", "history", "unkept", "calls", "seconds", "cost", "prices", "all", "chat", "zz", "role", "content")
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
numbers = st.sampled_from([1, 0, -1, 2.5, 1e308, 10**400])


async def imported_store(**changes: Any) -> MemoryStore:
    """Return a store containing an imported run that has these header fields and no steps yet."""
    original, store = MemoryStore(), MemoryStore()
    await ASK.run("q", model=model(), store=original, run_id="it")
    run = await original.run("it")
    await store.add(replace(run, status="interrupted", steps=0, outcome=None), [])
    (line,) = [line async for line in export_run(store, "it")]
    text = json.loads(line)
    text["run"]["header"].update(changes)
    target = MemoryStore()
    await import_runs(target, [json.dumps(text)])
    return target


def model() -> FunctionModel:
    return FunctionModel(lambda _: "a")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("limits", {"zz": 1}, "map one or more of calls, tokens"),
        ("limits", {"calls": -1}, "map one or more of calls, tokens"),
        ("limits", {"seconds": 10**400}, "map one or more of calls, tokens"),
        ("session", {"state": 5}, "contain a `state` object and a `history` list of messages"),
        ("session", {"history": [5]}, "contain a `state` object and a `history` list of messages"),
        ("session", {"unkept": 5}, "contain a `state` object"),
        ("model", ["openai/gpt-5"], "be a model name, or a mapping of intents to model names"),
        ("model", {"chat": 5}, "be a model name, or a mapping of intents to model names"),
    ],
)
async def test_error_names_the_invalid_header_field(field: str, value: object, allowed: str) -> None:
    store = await imported_store(**{field: value})
    before = await store.run("it")
    with pytest.raises(StoreError, match=rf"run it: `{field}` of its header must {allowed}.* \(got "):
        await ASK.resume("it", store=store, model=None if field == "model" else model(), allow_changes=True)
    assert replace(await store.run("it"), updated_at=0) == replace(before, updated_at=0)


@given(
    limits=st.none() | st.dictionaries(st.sampled_from(NAMES), numbers, max_size=2),
    session=st.none() | st.dictionaries(st.sampled_from(NAMES), values, max_size=3),
    header_name=values,
)
def test_run_with_any_imported_header_is_resumed_or_rejected(limits: Any, session: Any, header_name: Any) -> None:
    """If a run is rejected, the exception must be one of the library's own."""

    async def resume() -> None:
        store = await imported_store(limits=limits, session=session, model=header_name)
        try:
            await ASK.resume("it", store=store, model=model(), allow_changes=True)
        except FlowDebateError:
            return

    asyncio.run(resume())


@pytest.mark.parametrize("seconds", [10**400, float("inf"), float("nan"), 0, True])
def test_limit_too_large_for_the_clock_is_rejected(seconds: Any) -> None:
    """An integer can be too large for a float, and waiting that long would overflow in the middle of a run."""
    with pytest.raises(ConfigurationError, match=r"`seconds` must be .*(greater than 0|finite)"):
        Limits(seconds=seconds)
