"""Telemetry of queued runs: traces are linked across processes and restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from opentelemetry.trace import SpanKind

from flowdebate.telemetry import names
from tests.telemetry.watched import Watched
from tests.workers.test_workers import CALLS, wait_for_end

if TYPE_CHECKING:
    from tests.workers.conftest import Fleet

pytestmark = pytest.mark.anyio


async def test_each_delivery_links_to_the_submitting_span(fleet: Fleet) -> None:
    """The two processes together record one span for each call.

    Each consumer's span records which worker took the run and how long the run had waited.
    """
    watched = Watched()
    workers = fleet.workers(observe=watched.observe)
    fleet.models.answering.clear()
    run_id = await workers.submit("city", "How?", labels={"team": "a"})
    async with fleet.working(workers) as stop:
        await fleet.models.until(1)
        stop.set()
        fleet.models.answering.set()
    async with fleet.working(workers):
        await wait_for_end(workers, run_id)
    (submitted,) = watched.named("submit")
    assert submitted.name == "submit city"
    context: Any = submitted.get_span_context()
    deliveries, lives = watched.named("process city"), watched.named("invoke_workflow city")
    for number, (delivery, life) in enumerate(zip(deliveries, lives, strict=True), start=1):
        attributes = dict(delivery.attributes or {})
        assert delivery.kind is SpanKind.CONSUMER
        assert (attributes[names.QUEUE], attributes[names.VERSION]) == (workers.name, workers.version)
        assert 0 <= cast("float", attributes[names.QUEUE_SECONDS]) < 60
        assert attributes[names.DELIVERY] == 1  # the worker returned the run and did not die
        assert life.parent is not None
        assert life.parent.span_id == delivery.context.span_id
        assert [dict(link.attributes or {}) for link in delivery.links] == [{names.LINK: names.SUBMITTED}]
        assert [dict(link.attributes or {}) for link in life.links] == [{names.LINK: names.RESUMED}][: number - 1]
        for link in (*delivery.links, *life.links):
            assert (link.context.trace_id, link.context.span_id) == (context.trace_id, context.span_id)
    assert len({(delivery_span.attributes or {})[names.WORKER] for delivery_span in deliveries}) == 2
    assert len(watched.named("chat")) == CALLS
    assert {(span.attributes or {})[names.CONVERSATION] for span in watched.spans} == {run_id}
    assert set((await workers.store.run(run_id)).header.labels) == {"team", "traceparent"}
