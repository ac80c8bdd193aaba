"""CPU instructions per model call in the loop of 13 calls, for flowdebate and LangGraph; independent of machine load.

    python instructions.py

Needs valgrind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from overhead import calls_of, flowdebate_loop, langgraph_loop
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Callable

DEBATES, MORE = 5, 2
LOOPS: dict[str, Callable[..., Callable[[], object]]] = {
    "flowdebate": flowdebate_loop,
    "langgraph": langgraph_loop,
    "langgraph, a LangChain model": partial(langgraph_loop, langchain=True),
}


def count(name: str, times: int) -> int:
    """Count the instructions of a process that repeats a loop this many times."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = [*valgrind, sys.executable, __file__, name, str(times)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stderr  # noqa: S603
    line = next(text for text in output.splitlines() if "refs" in text)
    return int(line.rpartition(":")[2].replace(",", ""))


def main() -> None:
    if sys.argv[1:]:
        name, times = sys.argv[1:]
        work = LOOPS[name](debates=DEBATES)
        for _ in range(int(times)):
            work()
        return
    calls = MORE * DEBATES * calls_of(3, 3)
    counts = {name: (count(name, 2 + MORE) - count(name, 2)) / calls for name in LOOPS}
    rows = [
        [name, f"{instructions / 1e6:.2f}", f"{instructions / counts['langgraph']:.2f}"]
        for name, instructions in counts.items()
    ]
    print_table("Instructions of a call, 13 calls", ["", "millions", "to langgraph"], rows)


if __name__ == "__main__":
    main()
