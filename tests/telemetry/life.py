"""A durable debate that sends its telemetry to a collector: `python -m tests.telemetry.life …`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from flowdebate.telemetry import OpenTelemetry
from flowdebate.testing import FunctionModel
from tests.telemetry.watched import PATTERNS_OF_ALL_KINDS, QUESTION, answer_with_usage

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

_DELTA: dict[type, AggregationTemporality] = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)


async def run_life(endpoint: str, store: str, killed_at: int) -> None:
    """Start or resume the run, ending the process with SIGKILL at request number `killed_at`."""
    tracers, requests = TracerProvider(), 0
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
    exporter = OTLPMetricExporter(f"{endpoint}/v1/metrics", preferred_temporality=_DELTA)
    meters = MeterProvider(metric_readers=[PeriodicExportingMetricReader(exporter)])

    def model(request: ModelRequest) -> Any:
        nonlocal requests
        requests += 1
        if requests == killed_at:
            meters.force_flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer_with_usage(request)

    await PATTERNS_OF_ALL_KINDS["debate"]().run(
        QUESTION,
        model=FunctionModel(model, name="openai/small"),
        store=store,
        run_id="r",
        seed=1,
        if_exists="resume",
        observe=OpenTelemetry(tracer_provider=tracers, meter_provider=meters),
    )
    tracers.shutdown()
    meters.shutdown()


if __name__ == "__main__":
    asyncio.run(run_life(sys.argv[1], sys.argv[2], int(sys.argv[3])))
