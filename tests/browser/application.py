"""Application served by the tests.

Its model writes half of each answer, then waits for permission to finish. The file `calls` has one line per call, and
the file `allowed` contains the number of calls that may finish.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from flowdebate.service.service import Service
from flowdebate.testing import ModelResponse

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

_CALLS, _ALLOWED = Path("calls"), Path("allowed")


class _Halves:
    name = "halves"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        number = _record_call(request.block)
        halves = (f"👍 {request.block} begins, ", "and ends. 👎\nSo it is.")
        tell = request.on_text or (lambda _: None)
        tell(halves[0])
        while number > _read_allowed():  # noqa: ASYNC110 - another process decides
            await asyncio.sleep(0.01)
        if request.output is not None:
            return ModelResponse(data={"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."})
        tell(halves[1])
        return ModelResponse(text="".join(halves))


def _record_call(block: str) -> int:
    """Record a call and return its number."""
    with _CALLS.open("a") as calls:
        calls.write(f"{block}\n")
    return len(_CALLS.read_text().split())


def _read_allowed() -> int:
    return int(_ALLOWED.read_text())


def service() -> Service:
    """Create the service for `flowdebate serve --app`."""
    return Service(store="runs.sqlite3", model=_Halves(), recover=True)
