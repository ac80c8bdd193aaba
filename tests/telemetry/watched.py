"""Telemetry fixtures: an observer with spans and metrics in memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowdebate import council
from flowdebate.models.base import Usage
from flowdebate.telemetry import OpenTelemetry
from flowdebate.testing import FunctionModel, ModelResponse
from tests.patterns.council.councils import reply
from tests.runs.durable.patterns import PATTERNS, QUESTION, answer_to

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from flowdebate.models.base import ModelRequest
    from flowdebate.telemetry.opentelemetry import Content

__all__ = (
    "PATTERNS_OF_ALL_KINDS",
    "QUESTION",
    "Watched",
    "answer",
    "answer_with_usage",
    "run_program",
    "small_model",
    "start_python",
)


_PREFIX = re.compile(r"^(gen_ai|flowdebate)\.")
_ROOT = Path(__file__).parents[2]


def start_python(*arguments: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the given arguments in a separate process."""
    return run_program(sys.executable, *arguments, check=check, **env)


def run_program(*command: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process and return the finished process."""
    environment = {**os.environ, **env}
    return subprocess.run(  # noqa: S603 - our own
        command, check=check, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=100
    )


def _council() -> Any:
    return council(name="ship", members=[{"name": name} for name in ("ann", "bob", "cy")])


PATTERNS_OF_ALL_KINDS = {**PATTERNS, "council": _council}


def small_model(**options: Any) -> FunctionModel:
    """Return a model that answers any request."""
    return FunctionModel(answer, name="openai/small", **options)


def answer(request: ModelRequest) -> Any:
    """Return an answer computed only from the request."""
    return reply(request) if request.block.startswith("ship-") else answer_to(request)


def answer_with_usage(request: ModelRequest) -> ModelResponse:
    """Answer like a server that reports 100 tokens per prompt and 10 per answer."""
    content, usage = answer(request), Usage(calls=1, prompt_tokens=100, completion_tokens=10)
    return (
        ModelResponse(text=content, usage=usage)
        if isinstance(content, str)
        else ModelResponse(data=content, usage=usage)
    )


class Watched:
    """Observer together with the data it exports."""

    def __init__(self, content: Content = "none") -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider(metric_readers=[self._reader])
        self.observe = OpenTelemetry(tracer_provider=self.tracers, meter_provider=meters, content=content)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Return the finished spans by start time."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, start: str) -> list[ReadableSpan]:
        """Return the spans whose names begin with `start`."""
        return [span for span in self.spans if span.name.startswith(start)]

    def tree(self) -> str:
        """Return the names of all spans as a tree. An only child without children is on its parent's line."""
        below: dict[int | None, list[ReadableSpan]] = {}
        for span in self.spans:
            below.setdefault(None if span.parent is None else span.parent.span_id, []).append(span)

        def lines(parent: int | None, depth: int) -> list[str]:
            texts: list[str] = []
            for span in below.get(parent, []):
                inner = lines(_id(span), depth + 1)
                head = "  " * depth + span.name
                texts += [f"{head} > {inner[0].strip()}"] if len(inner) == 1 else [head, *inner]
            return texts

        return "\n".join(lines(None, 0))

    def totals(self) -> dict[str, dict[str, float]]:
        """Return counter values, histogram sums and duration counts, keyed by metric and short attributes."""
        sums: dict[str, dict[str, float]] = {}
        data = self._reader.get_metrics_data()
        for metric in [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics:
            points = sums.setdefault(metric.name, {})
            for point in metric.data.data_points:
                attributes = sorted((point.attributes or {}).items())
                label = ", ".join(f"{_PREFIX.sub('', key)}={value!s}" for key, value in attributes)
                seconds = metric.unit == "s" and hasattr(point, "count")
                counted = point.count if seconds else getattr(point, "value", getattr(point, "sum", 0))  # type: ignore[union-attr]
                points[label] = counted
        return sums

    def bounds(self) -> dict[str, list[float]]:
        """Return the buckets of each histogram."""
        data = self._reader.get_metrics_data()
        metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
        return {
            metric.name: list(metric.data.data_points[0].explicit_bounds)
            for metric in metrics
            if hasattr(metric.data.data_points[0], "explicit_bounds")
        }

    def text(self) -> str:
        """Return all span data as text."""
        return "\n".join(span.to_json() for span in self.spans)


def _id(span: ReadableSpan) -> int:
    return span.get_span_context().span_id  # type: ignore[union-attr]
