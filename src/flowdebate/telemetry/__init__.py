"""Telemetry: OpenTelemetry (the `otel` extra), and log records as JSON Lines.

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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
