"""Telemetry of queued runs: one trace leads to the next, across processes and their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.telemetry import names
from tests.telemetry.watched import Watched
from tests.workers.test_workers import CALLS, over

if TYPE_CHECKING:
    from tests.workers.conftest import Fleet

pytestmark = pytest.mark.anyio


async def test_each_life_of_a_queued_run_links_to_the_span_that_put_it_on_the_queue(fleet: Fleet) -> None:
    """A worker stops in the middle, and another one resumes the run: each call has one span, in one of the lives."""
    watched = Watched()
    workers = fleet.workers(observe=watched.observe)
    fleet.models.answering.clear()
    run_id = await workers.submit("city", "How?", labels={"team": "a"})
    async with fleet.working(workers) as stop:
        await fleet.models.until(1)
        stop.set()
        fleet.models.answering.set()
    async with fleet.working(workers):
        await over(workers, run_id)
    (submitted,) = watched.named("submit")
    assert submitted.name == "submit city"
    lives = watched.named("invoke_workflow city")
    assert len(lives) == 2
    context: Any = submitted.get_span_context()
    for life in lives:
        (link,) = life.links
        assert (link.context.trace_id, link.context.span_id) == (context.trace_id, context.span_id)
        assert (life.attributes or {})[names.CONVERSATION] == run_id
    assert len(watched.named("chat")) == CALLS
    assert {(span.attributes or {})[names.CONVERSATION] for span in watched.spans} == {run_id}
    assert set((await workers.store.run(run_id)).header.labels) == {"team", "traceparent"}
