"""The large local model, for tests that need more than the nonsense written by the small one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from pydantic import BaseModel

from flowdebate.models import LocalModel, ModelRequest, ModelSettings, OutputSchema, ToolSpec, stop_local_servers
from flowdebate.models.call import ask
from flowdebate.models.local.gguf import local_model_installed

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.slow_model]

LOOKUP = ToolSpec(
    name="lookup",
    description="Look a fact up",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)


class Verdict(BaseModel):
    """A judge's answer."""

    reasoning: str
    winner: Literal["trams", "cars"]


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    """Return the model "local"."""
    if not local_model_installed():
        pytest.skip("the extras local and local-model are not installed")
    yield LocalModel()
    stop_local_servers()


def make_request(
    text: str,
    *,
    output: type[BaseModel] | None = None,
    tools: tuple[ToolSpec, ...] = (),
    temperature: float | None = None,
) -> ModelRequest:
    """Return a request like those in a debate."""
    return ModelRequest(
        messages=[
            {"role": "system", "content": "You debate whether a city needs trams."},
            {"role": "user", "content": text},
        ],
        block="b",
        output=None if output is None else OutputSchema.of(output),
        tools=tools,
        settings=ModelSettings(timeout=300, temperature=temperature),
    )


async def test_the_local_model_argues_in_a_few_sentences(model: LocalModel) -> None:
    answered = await ask(model, make_request("Say in two or three sentences why the city needs trams. Plain text."))
    assert 40 < len(answered.text) < 1200
    assert "tram" in answered.text.lower()


async def test_a_verdict_is_reasoned_and_valid(model: LocalModel) -> None:
    answered = await ask(model, make_request("Trams are quiet. Cars are fast. Which is better?", output=Verdict))
    assert isinstance(answered.data, Verdict)
    assert len(answered.data.reasoning) > 20


async def test_the_local_model_calls_a_tool(model: LocalModel) -> None:
    """The local model writes its tool calls as text."""
    answered = await ask(
        model, make_request("Use the lookup tool to find the price of a tram ticket.", tools=(LOOKUP,), temperature=0.0)
    )
    assert [call.name for call in answered.tool_calls] == ["lookup"]
