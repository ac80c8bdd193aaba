"""Program for running a worker: `python -m flowdebate.workers MODULE:OBJECT [--patience SECONDS] [--health PORT] …`.

OBJECT is a `Workers` object, or a function that returns one. On SIGTERM or SIGINT, the worker waits for calls in
flight; a second signal ends the process immediately, and another worker then resumes its runs.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys

from flowdebate._util.importing import load_object
from flowdebate.errors import FlowDebateError
from flowdebate.telemetry import JsonLines
from flowdebate.workers.deployment import Workers


def load(spec: str) -> Workers:
    """Load the `Workers` object specified as "MODULE:OBJECT"; raise ConfigurationError if there is none."""
    return load_object(spec, Workers, location="flowdebate.workers")


async def _work(workers: Workers, patience: float, health: int | None) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    try:
        await workers.work(stop, patience=patience, health=health)
    finally:
        await workers.close()


def main(arguments: list[str] | None = None) -> int:
    """Run a worker until the process receives a signal, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flowdebate.workers", description="Execute runs from the queue.")
    parser.add_argument("workers", metavar="MODULE:OBJECT", help="a Workers, or a function that makes one")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds that calls have to end at SIGTERM")
    parser.add_argument("--log-json", action="store_true", help="log lines of JSON, without content")
    parser.add_argument("--health", type=int, metavar="PORT", help="answer GET /health and /ready on this port")
    options = parser.parse_args(arguments)
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines() if options.log_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("flowdebate").setLevel(logging.INFO)
    try:
        asyncio.run(_work(load(options.workers), options.patience, options.health))
    except (FlowDebateError, OSError) as error:  # for example, if the port is taken
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
