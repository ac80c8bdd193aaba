"""The stub servers in `tests.vendors`, which are as strict as the vendors and emulate their caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowdebate import Debater, debate
from flowdebate.errors import AuthenticationFailed, ModelNotFound, RequestRejected
from flowdebate.models import ModelRequest, resolve_model
from flowdebate.models.call import ask
from flowdebate.models.resolve import environment_choice

from .vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .vendors import Vendor, VendorName

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:models of Anthropic"),  # if the Anthropic SDK is not installed
]

MODELS = ("openai/gpt-5-mini", "anthropic/claude-sonnet-4-6", "gemini/gemini-3-pro", "ollama/gemma3")


def make_request(end: str = "x") -> ModelRequest:
    """Create a request that begins with a long piece of text."""
    messages = [{"role": "system", "content": "rule " * 2_000}, {"role": "user", "content": end}]
    return ModelRequest(messages=messages, block="b")


@pytest.fixture
def vendor_stubs() -> Iterator[dict[VendorName, Vendor]]:
    """Start all four vendors."""
    with vendors() as running:
        yield running


def test_four_vendors_debate(vendor_stubs: dict[VendorName, Vendor]) -> None:
    sides = [Debater(name.split("/")[0], f"side {name}", model=name) for name in MODELS]
    block = debate(name="rent", debaters=sides, max_rounds=2, synthesizer=False)
    result = block.run_sync("Should rents be capped?", model={"synthesize": "openai/gpt-5.6-luna"})
    assert result.status == "complete"
    assert [entry.agent_name for entry in result.raw.transcript] == ["openai", "anthropic", "gemini", "ollama"] * 2
    assert {name: len(vendor.asked) for name, vendor in vendor_stubs.items()} == {
        "openai": 3, "anthropic": 2, "gemini": 2, "ollama": 2,
    }  # fmt: skip
    for name, vendor in vendor_stubs.items():
        headers = str([exchange.headers for exchange in vendor.asked])
        assert all((other.key in headers) is (other is vendor) for other in vendor_stubs.values() if other.key), name
        assert vendor.refused == 0


@pytest.mark.parametrize("model", MODELS[:3])
async def test_wrong_key_causes_the_vendor_specific_error(
    model: str, vendor_stubs: dict[VendorName, Vendor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gemini responds with status 400, and the other vendors respond with 401."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "wrong")
    refused = RequestRejected if model.startswith("gemini") else AuthenticationFailed
    with pytest.raises(refused, match=r"(?i)key"):
        await ask(resolve_model(model), make_request())
    assert sum(vendor.refused for vendor in vendor_stubs.values()) == 1


async def test_unknown_model_is_not_found(vendor_stubs: dict[VendorName, Vendor]) -> None:
    for name in vendor_stubs:
        with pytest.raises(ModelNotFound):
            await ask(
                resolve_model(f"{name}/none"), ModelRequest(messages=[{"role": "user", "content": "x"}], block="b")
            )


def test_environment_has_all_keys_and_ollama_responds(
    vendor_stubs: dict[VendorName, Vendor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All vendors are stubs. Removing one key after another shows which default model each key selects."""
    for variable, name in (
        ("OPENAI_API_KEY", "openai/gpt-5.6-luna"),
        ("ANTHROPIC_API_KEY", "anthropic/claude-haiku-5-5"),
        ("GEMINI_API_KEY", "gemini/gemini-flash-latest"),
    ):
        assert (environment_choice() or "")[0] == name
        monkeypatch.delenv(variable)
    assert (environment_choice() or "")[0] == f"ollama/{vendor_stubs['ollama'].models[0]}"


async def test_repeated_prefix_is_counted_as_cached(vendor_stubs: dict[VendorName, Vendor]) -> None:
    """OpenAI reports cached tokens in steps of 128, Gemini reports the exact number, and Ollama reports none."""
    for name, model in (
        ("openai", "openai/gpt-5-mini"),
        ("gemini", "gemini/gemini-3-pro"),
        ("ollama", "ollama/gemma3"),
    ):
        for end in ("first", "second"):
            messages = [{"role": "system", "content": "rule " * 2_000}, {"role": "user", "content": end}]
            response = await ask(resolve_model(model), ModelRequest(messages=messages, block="b"))
        cached = response.usage.cached_tokens
        if name == "ollama":
            assert cached is None
        else:
            assert cached is not None
            assert 2_300 < cached < 2_600
            assert cached == vendor_stubs[name].asked[-1].cached_tokens  # type: ignore[index]
            assert cached % 128 == 0 or name == "gemini"
