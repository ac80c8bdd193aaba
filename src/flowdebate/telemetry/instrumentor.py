"""Instrumentor for `opentelemetry-instrument`, which exports all of a process's runs without code changes."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from flowdebate.runs.observer import set_default_observer
from flowdebate.telemetry.opentelemetry import Content, OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_IN_SPANS = ("true", "span_only", "span_and_event")  # values that enable content on spans


class FlowDebateInstrumentor:
    """Entry point `opentelemetry_instrumentor`; programs may also call `FlowDebateInstrumentor().instrument()`.

    Runs with an `observe` option keep their observer. Content is exported only if the environment variable
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is `SPAN_ONLY` or `SPAN_AND_EVENT`.
    """

    def instrument(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None, **_: object
    ) -> None:
        """Start exporting all runs."""
        in_spans = os.environ.get(_CAPTURE, "").strip().lower() in _IN_SPANS
        content: Content = "spans" if in_spans else "none"
        set_default_observer(
            OpenTelemetry(tracer_provider=tracer_provider, meter_provider=meter_provider, content=content)
        )

    def uninstrument(self, **_: object) -> None:
        """Stop exporting runs."""
        set_default_observer(None)

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the packages that this instrumentor requires: none apart from flowdebate itself."""
        return ()
