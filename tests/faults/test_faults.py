"""Every row of the table, tested over all transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate.models import AnthropicModel, OutputSchema
from flowdebate.models.openai.responses import instruction
from tests.cases import slow_but_first

from .rows import FAULTS
from .stage import play

if TYPE_CHECKING:
    from flowdebate.models.openai.clients import Transport

    from .fault import Fault

_BYTES = """
    27 27-late 22-stream 74-after 74-bom 74-crlf 74-bytes 74-json 74-utf8 74-ids 74-ping packing-gzip packing-deflate
    packing-stream headers-long headers-type headers-no-type headers-cookie 100 100-many http-1.0 bom keys-twice
"""
"""Answers in OpenAI's format that are sent byte by byte or compressed, to test the layer below both APIs."""
_FORMS = """
    33-choice 34-null 34-message 36-image 36-number 40-choices 57-json 57-two-json 58-json 58-md_json 58-none 58-other
    67-json 70 74-usage 74-choices 74-tools 74-refusal tools-shape tools-index
"""
"""Rows that only OpenAI's format can express, or whose output modes only its servers support."""
_OPENAI_S = frozenset(f"{_BYTES} {_FORMS}".split())
_ANTHROPIC = [fault for fault in FAULTS if fault.id not in _OPENAI_S]

pytestmark = [pytest.mark.anyio, pytest.mark.fault]


def catalog_number(fault: Fault) -> str:
    """Return the number common to all variants of a fault."""
    return fault.id.partition("-")[0]


@pytest.fixture(scope="module", autouse=True)
async def _import_first() -> None:
    """Import everything up front, since some deadlines are shorter than the imports.

    The fixture is async and module-scoped, so that all rows share one event loop instead of creating a thousand.
    """
    import anthropic

    anthropic.AsyncAnthropic(api_key="none")
    instruction(OutputSchema.of(dict), "json")


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
@pytest.mark.parametrize("fault", slow_but_first(FAULTS, catalog_number), ids=str)
async def test_each_fault_has_the_documented_outcome(fault: Fault, transport: Transport) -> None:
    await play(fault, transport)


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("fault", slow_but_first(_ANTHROPIC, catalog_number), ids=str)
async def test_each_fault_has_the_same_outcome_over_the_anthropic_api(fault: Fault) -> None:
    await play(fault, "aiohttp", AnthropicModel)
