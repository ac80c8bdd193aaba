"""What following a run costs: the CPU of a debate that 0, 1 and 100 readers follow while it is written.

The debate has 13 calls. Each argument has 640 characters and is streamed in pieces of six, one every two milliseconds,
which is faster than models write.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate
from flowdebate.models.base import ModelResponse
from flowdebate.service import Service
from overhead import BRIEFING, NAMES, QUESTION, STANCES, VERDICT, distinct
from report import print_table

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import ModelRequest

READERS = (0, 1, 100)
REPEATS = 5
PIECE = 6
PAUSE = 0.002


class Writing:
    """A model that writes arguments piece by piece."""

    name = "writing"

    def __init__(self) -> None:
        self._arguments = distinct()

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer; an argument is streamed."""
        if request.block.endswith("moderator"):
            decision = {"nextSpeakers": list(NAMES), "briefing": BRIEFING, "newAngle": None, "done": False}
            return ModelResponse(data=decision)
        if request.output is not None:
            return ModelResponse(data=VERDICT)
        text = next(self._arguments)
        for start in range(0, len(text), PIECE):
            if request.on_text is not None:
                request.on_text(text[start : start + PIECE])
            await asyncio.sleep(PAUSE)
        return ModelResponse(text=text)


def power() -> Sequencer[Any, Any]:
    """Three debaters, three rounds, a moderator and a judge: 13 calls."""
    sides = [Debater(name, STANCES[name]) for name in NAMES]
    return debate(name="power", debaters=sides, max_rounds=3, moderator=True, synthesizer=False)


async def _read(service: Service, run_id: str) -> int:
    return sum([1 async for _ in service.follow(run_id)])


async def cpu_of(readers: int) -> tuple[float, int]:
    """Seconds of CPU of one debate, and the updates that a reader gets."""
    async with Service({"power": power()}, store="memory:", model=Writing()) as service:
        began = time.process_time()
        run = await service.begin("power", QUESTION, seed=1)
        updates = await asyncio.gather(*(_read(service, run.run_id) for _ in range(readers)))
        await service.wait(run.run_id)
        return time.process_time() - began, max(updates, default=0)


def main() -> None:
    """Print the table."""
    measured: dict[int, list[tuple[float, int]]] = {readers: [] for readers in READERS}
    for _ in range(REPEATS):
        for readers in READERS:
            measured[readers].append(asyncio.run(cpu_of(readers)))
    least = {readers: min(seconds for seconds, _ in found) for readers, found in measured.items()}
    rows = [
        [
            str(readers),
            f"{1000 * least[readers]:.0f} ms",
            f"{least[readers] / least[1]:.2f}",
            str(measured[readers][0][1]),
        ]
        for readers in READERS
    ]
    print_table("Readers of a run", ["readers", "CPU of the debate", "of one reader", "updates of each"], rows)


if __name__ == "__main__":
    main()
