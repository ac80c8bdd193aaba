"""The warm-up of servers, MCP and notebooks."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import asyncio, sys
from flowdebate.service.lifetime import keep_warm

async def main():
    async with keep_warm():
        pass
    print(*({"flowdebate.models.openai.http", "flowdebate.patterns.debate.factory", "openai"} & set(sys.modules)))

asyncio.run(main())
"""


def test_warm_up_imports_what_a_first_run_needs_but_no_sdk() -> None:
    command = [sys.executable, "-c", _SCRIPT]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout  # noqa: S603
    assert set(output.split()) == {"flowdebate.models.openai.http", "flowdebate.patterns.debate.factory"}
