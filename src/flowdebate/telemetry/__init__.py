"""Telemetry: OpenTelemetry (the extra `otel`), and log records as lines of JSON.

>>> import logging, sys
>>> from flowdebate import generator
>>> from flowdebate.telemetry import JsonLines
>>> from flowdebate.testing import ScriptedModel
>>> handler = logging.StreamHandler(sys.stdout)
>>> handler.setFormatter(JsonLines(times=False))
>>> logger = logging.getLogger("flowdebate")
>>> logger.addHandler(handler)
>>> logger.setLevel(logging.INFO)
>>> poet = generator(name="poet", prompt="Write a line.")
>>> _ = poet.run_sync("Rivers.", model=ScriptedModel("They run."), run_id="r1")  # doctest: +ELLIPSIS
{"level": "INFO", "logger": "flowdebate.runs", "message": "run r1 of poet: complete, 1 call in 0.0 s", ...}
>>> logger.removeHandler(handler)
>>> logger.setLevel(logging.NOTSET)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.telemetry.instrumentor import FlowDebateInstrumentor
    from flowdebate.telemetry.json_lines import JsonLines
    from flowdebate.telemetry.opentelemetry import OpenTelemetry

__all__ = ("FlowDebateInstrumentor", "JsonLines", "OpenTelemetry")

_LAZY = {
    "FlowDebateInstrumentor": "instrumentor",
    "JsonLines": "json_lines",
    "OpenTelemetry": "opentelemetry",
}
__getattr__: Callable[[str], object]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = lazy_names(__name__, _LAZY)
