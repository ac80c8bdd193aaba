"""Draining a store, which starts no new steps from then on."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import pytest

from flowdebate.errors import RunNotFound
from flowdebate.store.base import Store
from flowdebate.store.draining import Draining
from flowdebate.store.memory import MemoryStore
from flowdebate.testing.store import header

if TYPE_CHECKING:
    from flowdebate.store.base import StoredStatus

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("end", ["commit", "fail", "finish"])
async def test_store_is_quiet_once_every_step_has_ended(end: str) -> None:
    """A step ends when it is committed or fails, or when its run finishes.

    The store does not wait for requests to humans.
    """
    inner = MemoryStore()
    store = Draining(inner)
    await store.create(header("r"))
    await store.intend("r", "asked", "human", None)
    await asyncio.wait_for(store.quiet(), 5)
    await store.intend("r", "k", "call", None)
    quiet = asyncio.create_task(store.quiet())
    await asyncio.sleep(0)
    assert not quiet.done()
    if end == "commit":
        await store.commit("r", "k", "call", "1", 1.0)
    elif end == "fail":
        await store.fail("r", "k", "late")
    else:
        await store.finish("r", "failed", None)
        assert (await inner.run("r")).status == "failed"
    await asyncio.wait_for(quiet, 5)


async def test_unstarted_step_is_not_awaited() -> None:
    """If a run has been deleted, its next step raises `RunNotFound`, and the store does not wait for that step."""
    store = Draining(MemoryStore())
    with pytest.raises(RunNotFound):
        await store.intend("nowhere", "k", "call", None)
    await asyncio.wait_for(store.quiet(), 5)


@pytest.mark.parametrize(
    ("status", "given_up", "expected_status"),
    [
        ("interrupted", False, "queued"),
        ("interrupted", True, "interrupted"),
        ("complete", False, "complete"),
    ],
)
async def test_draining_store_starts_nothing_and_requeues_interrupted_runs(
    status: StoredStatus, *, given_up: bool, expected_status: str
) -> None:
    """Runs that had already been cancelled are not requeued, and completed runs stay complete."""
    inner = MemoryStore()
    store = Draining(inner)
    await store.create(header("r"))
    if given_up:
        store.given_up.add("r")
    store.stop()
    beginning = asyncio.create_task(store.intend("r", "k", "call", None))
    await asyncio.sleep(0)
    beginning.cancel()
    await asyncio.wait({beginning})
    assert beginning.cancelled()
    assert await inner.steps("r") == []
    await store.finish("r", status, None)
    assert (await inner.run("r")).status == expected_status


def test_draining_store_satisfies_the_protocol_in_every_python_version() -> None:
    """From Python 3.12 on, a protocol is checked without `__getattr__`, so each method must be defined."""
    store = Draining(MemoryStore())
    names = [name for name in dir(Store) if not name.startswith("_")]
    assert [name for name in names if inspect.getattr_static(store, name, None) is None] == []
    assert isinstance(store, Store)
