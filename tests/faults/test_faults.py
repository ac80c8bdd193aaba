"""Each row of the table, over both transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .rows import FAULTS
from .stage import play

if TYPE_CHECKING:
    from flowdebate.models.openai.clients import Transport

    from .fault import Fault

pytestmark = [pytest.mark.anyio, pytest.mark.fault]


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("transport", ["aiohttp", "httpx2"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_fault_ends_as_its_row_says(fault: Fault, transport: Transport) -> None:
    """The outcome, the requests, their errors and waits; no secret shown, nothing left behind, the model works on."""
    await play(fault, transport)
