"""A process that calls a model as fast as a shared limit allows: `python -m tests.workers.rate_client`."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from flowdebate.models.base import ModelRequest
from flowdebate.models.limits import SharedRateLimit
from tests.workers.fleet import RemoteModel

__all__ = ("make_requests",)


async def make_requests(port: int, number: int, **limit: Any) -> None:
    """Make `count` concurrent requests."""
    model = SharedRateLimit(RemoteModel(port), **limit)
    request = ModelRequest(messages=[{"role": "user", "content": "Well?"}], block="asker")
    await asyncio.gather(*(model.request(request) for _ in range(number)))
    await model.close()


if __name__ == "__main__":
    asyncio.run(make_requests(**json.loads(os.environ["CLIENT"])))
