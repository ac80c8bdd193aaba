"""Cost of telemetry: debates of 13 calls without an observer, with a no-op observer, and with OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowdebate.runs.observer import Observer, set_default_observer
from flowdebate.telemetry import OpenTelemetry
from overhead import DEBATES, calls_of, flowdebate_loop
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = calls_of(3, 3)
SPANS = 1 + 2 * CALLS


def observed(observer: Observer | None) -> Callable[[], object]:
    """Run the debates with an observer."""
    loop = flowdebate_loop()

    def work() -> None:
        set_default_observer(observer)
        try:
            loop()
        finally:
            set_default_observer(None)

    return work


def exported() -> Callable[[], object]:
    """Run the debates with the SDK exporting to memory."""

    def work() -> None:
        exporter, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        meters = MeterProvider(metric_readers=[InMemoryMetricReader()], shutdown_on_exit=False)
        observed(OpenTelemetry(tracer_provider=tracers, meter_provider=meters))()
        assert len(exporter.get_finished_spans()) == DEBATES * SPANS  # noqa: S101 - what the figure is for

    return work


def main() -> None:
    work = {
        "without": observed(None),
        "an Observer that does nothing": observed(Observer()),
        "OpenTelemetry, no SDK": observed(OpenTelemetry()),
        "OpenTelemetry, SDK, spans and metrics in memory": exported(),
    }
    medians = alternating(work, repeats=9)
    base = medians["without"]
    print_table(
        f"CPU of telemetry: debates of {CALLS} calls, {SPANS} spans",
        ("observe", "ms a debate", "µs a span more"),
        [
            (name, f"{1e3 * seconds / DEBATES:.2f}", f"{1e6 * (seconds - base) / DEBATES / SPANS:.0f}")
            for name, seconds in medians.items()
        ],
    )


if __name__ == "__main__":
    main()
