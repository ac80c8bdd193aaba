"""A worker as a program: `python -m flowdebate.workers MODULE:OBJECT [--patience SECONDS]`.

OBJECT is a `Workers`, or a function that makes one. On SIGTERM or SIGINT the worker waits for calls in flight; a second
signal ends the process at once, and another worker resumes its runs.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys

from flowdebate._util.importing import load_object
from flowdebate.errors import FlowDebateError
from flowdebate.workers.deployment import Workers


def load(spec: str) -> Workers:
    """The `Workers` that "MODULE:OBJECT" names; ConfigurationError if there is none."""
    return load_object(spec, Workers, where="flowdebate.workers")


async def _work(workers: Workers, patience: float) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    try:
        await workers.work(stop, patience=patience)
    finally:
        await workers.close()


def main(arguments: list[str] | None = None) -> int:
    """Run a worker until a signal arrives; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flowdebate.workers", description="Execute runs from the queue.")
    parser.add_argument("workers", metavar="MODULE:OBJECT", help="a Workers, or a function that makes one")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds that calls have to end at SIGTERM")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("flowdebate").setLevel(logging.INFO)
    try:
        asyncio.run(_work(load(given.workers), given.patience))
    except FlowDebateError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
