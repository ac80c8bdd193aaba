"""What `import flowdebate` takes, next to the libraries that it stands on; byte-compiled, in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys

from report import print_table

STATEMENTS = ("pass", "import flowdebate", "import pydantic, asyncio", "import langgraph.graph", "import openai")
REPEATS = 9
_PROBE = """
import resource, time
started = time.perf_counter()
{statement}
seconds = time.perf_counter() - started
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(statement: str) -> tuple[float, float]:
    """Seconds that the statement takes, and the peak memory of its process in MB."""
    probe = _PROBE.format(
        statement=statement.replace("import pydantic", "from pydantic import BaseModel; import pydantic")
    )
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)  # noqa: S603
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def main() -> None:
    figures: dict[str, list[tuple[float, float]]] = {statement: [] for statement in STATEMENTS}
    for turn in range(REPEATS + 1):
        for statement in STATEMENTS:
            figure = measure(statement)
            if turn:  # the first warms the disk
                figures[statement].append(figure)
    print_table(
        "Import, in a fresh process",
        ["", "s (median)", "s (max)", "peak MB"],
        [
            [
                statement,
                f"{statistics.median(seconds for seconds, _ in measured):.3f}",
                f"{max(seconds for seconds, _ in measured):.3f}",
                f"{statistics.median(size for _, size in measured):.1f}",
            ]
            for statement, measured in figures.items()
        ],
        note=f"{REPEATS} processes each, in turn; memory is the whole process, interpreter included.",
    )


if __name__ == "__main__":
    main()
