"""Import time of flowdebate and of the libraries it depends on, byte-compiled and in fresh processes.

The first debate is measured from the import on, so that deferring work does not count as saving it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from report import print_table

BASE = "import pydantic, asyncio"  # pydantic loads lazily, so this only imports its name
NAMES = "from flowdebate import Debater, debate"
_DEBATE = """
from flowdebate.testing import ScriptedModel
sides = [Debater("ann", "build dams"), Debater("ben", "use less")]
pattern = debate(name="power", debaters=sides, max_rounds=1, synthesizer=False)
verdict = {"verdict": "Use less.", "winner": "use less", "reasoning": "It was answered least."}
pattern.run_sync("How should we make power?", model=ScriptedModel("Rivers run at night.", "Who needs it?", verdict))
"""
STATEMENTS = (
    BASE,
    "import asyncio; from pydantic import BaseModel",
    "import flowdebate",
    NAMES,
    NAMES + _DEBATE,
    "import langgraph.graph",
    "import openai",
)
REPEATS = 15
_PROBE = """
import resource, time
started = time.process_time()
{statement}
seconds = time.process_time() - started
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(statement: str) -> tuple[float, float]:
    """Return the CPU seconds that the statement takes, and the peak memory of its process in MB."""
    probe = _PROBE.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)  # noqa: S603
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def main() -> None:
    figures: dict[str, list[tuple[float, float]]] = {statement: [] for statement in STATEMENTS}
    for turn in range(REPEATS + 1):
        for statement in STATEMENTS:
            figure = measure(statement)
            if turn:  # the first turn warms the disk cache
                figures[statement].append(figure)
    medians = {name: statistics.median(seconds for seconds, _ in measured) for name, measured in figures.items()}
    print_table(
        "Import, in a fresh process",
        ["", "CPU ms", "more than the first", "peak MB"],
        [
            [
                statement.replace(_DEBATE, "; a debate of 3 calls"),
                f"{medians[statement] * 1e3:.0f}",
                f"{(medians[statement] - medians[BASE]) * 1e3:.0f}",
                f"{statistics.median(size for _, size in measured):.1f}",
            ]
            for statement, measured in figures.items()
        ],
        note=f"Medians of {REPEATS} processes each, in turn; memory is the whole process, interpreter included.",
    )


if __name__ == "__main__":
    main()
