"""A collector for OpenTelemetry data: a real HTTP server that decodes requests."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from typing import Self

__all__ = ("Collector",)


class Collector:
    """Collector for spans and metrics: `with Collector() as collector:`."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        """Each span, as it was sent."""
        self.counts: dict[tuple[str, str], float] = {}
        """By metric and attributes, the sum of what was sent: of values, of tokens, of the number of durations."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.receive(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def endpoint(self) -> str:
        """Return the collector's address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def receive(self, path: str, body: bytes) -> None:
        """Decode a request and store its data."""
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.spans += scope.spans
        if path == "/v1/metrics":
            for entry in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope_ in entry.scope_metrics:
                    for metric in scope_.metrics:
                        self._count(metric)

    def _count(self, metric: Any) -> None:
        for point in metric.sum.data_points or metric.histogram.data_points:
            attributes = ", ".join(sorted(f"{item.key}={_value(item.value)}" for item in point.attributes))
            value = point.as_int if metric.HasField("sum") else point.count if metric.unit == "s" else point.sum
            self.counts[metric.name, attributes] = self.counts.get((metric.name, attributes), 0) + value

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
