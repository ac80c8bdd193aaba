"""Lists of stored runs, filtered by state and paged without reading the whole store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.service.runs import each_run, find_run, last_resumable, list_runs, state_of
from flowdebate.store import MemoryStore
from flowdebate.testing.store import header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.store import StoredRun

pytestmark = pytest.mark.anyio

STATES = ("running", "left_behind", "complete", "failed")


class CountingStore(MemoryStore):
    """Store that counts the runs it returns."""

    count = 0

    async def runs(self, **filters: Any) -> Sequence[StoredRun]:
        """Return a page of runs and count them."""
        page = await super().runs(**filters)
        self.count += len(page)
        return page


async def filled_store(states: Sequence[str]) -> CountingStore:
    """Create a store with one run in each of these states, the newest last."""
    store = CountingStore()
    for number, state in enumerate(states):
        run_id = f"run-{number:04}"
        await store.create(header(run_id, created_at=float(number // 2), plan={}, labels={"batch": f"b{number % 3}"}))
        if state == "left_behind":
            await store.release(run_id)
        elif state != "running":
            await store.finish(run_id, state, None)  # type: ignore[arg-type]  # one of STATES
    return store


@given(st.lists(st.sampled_from(STATES), max_size=130), st.sampled_from((None, *STATES)), st.integers(1, 60))
async def test_pages_filtered_by_state_list_all_matching_runs(states: list[str], state: str | None, size: int) -> None:
    """The store gives `running` and `left_behind` runs the same status.

    The status alone therefore does not tell them apart.
    """
    store = await filled_store(states)
    expected = [run for run in await store.runs() if state in (None, state_of(run))]
    assert list(await list_runs(store, state=state)) == expected
    paged: list[StoredRun] = []
    while page := await list_runs(store, state=state, limit=size, before=paged[-1].position if paged else None):
        paged += page
    assert paged == expected


async def test_filters_apply_to_all_pages() -> None:
    store = await filled_store(["running", "left_behind"] * 100)
    runs = await list_runs(store, state="left_behind", labels={"batch": "b1"}, search="cars", block="debate")
    assert [run.header.run_id for run in runs] == [f"run-{n:04}" for n in range(199, -1, -1) if n % 6 == 1]
    assert {state_of(run) for run in runs} == {"left_behind"}
    assert {run.header.labels["batch"] for run in runs} == {"b1"}
    behind = await list_runs(store, state="left_behind", labels={"batch": "b1"}, before=runs[10].position)
    assert list(behind) == list(runs[11:])
    assert list(await list_runs(store, limit=0)) == []


async def test_listing_reads_no_more_runs_than_needed() -> None:
    """Few runs are read for a page of 20 out of 1,000, for the newest resumable run, or for a loop that ends early."""
    store = await filled_store(["complete"] * 900 + ["left_behind"] * 30 + ["complete"] * 70)
    assert len(await list_runs(store, limit=20)) == 20
    assert store.count <= 50
    store.count = 0
    assert (await last_resumable(store)).header.run_id == "run-0928"
    assert store.count <= 100
    store.count = 0
    async for run in each_run(store, state="left_behind"):
        assert state_of(run) == "left_behind"
        break
    assert store.count <= 50


async def test_run_can_be_found_by_id_prefix_anywhere_in_the_store() -> None:
    """Even the oldest of many runs is found. For an ambiguous prefix, the error lists the first matches."""
    store = await filled_store(["complete"] * 120)
    await store.create(header("older-than-all", created_at=-1.0))
    assert (await find_run(store, "older")).header.run_id == "older-than-all"
    with pytest.raises(ConfigurationError, match="More than 5 run IDs begin with run-00: run-0098, run-0099"):
        await find_run(store, "run-00")
